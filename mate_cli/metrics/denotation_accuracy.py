"""Denotation accuracy: the aggregated cells equal the gold answer.

Source: google-research/tapas, `scripts/calc_metrics_utils.py`, with one difference. There, a question without a
prediction is treated as a selection of no cell, which is correct if the gold answer is empty. Here it is wrong.
"""

from collections.abc import Mapping
from typing import Protocol

from mate_cli.metrics.accuracy import ACCURACIES
from mate_cli.metrics.specs import MetricSpec, Score
from mate_cli.tables.denotation import denotation_of, normal_form
from mate_cli.tables.example import Answer, Coordinates, TableExample
from mate_cli.tables.table import Table

DENOTATION_ACCURACY = MetricSpec(
    "denotation_accuracy", "Denotation accuracy", 1, order=50, importance=3, table=ACCURACIES, hub_name="accuracy"
)
STRUCTURE = (
    MetricSpec("aggregation_accuracy", "Aggregation", 1, order=90),
    MetricSpec("cell_accuracy", "Cells", 1, order=91),
    MetricSpec("joint_accuracy", "Cells and aggregation", 1, order=92),
)


class SelectedCells(Protocol):
    """Protocol of a predicted answer that consists of selected cells and their aggregation."""

    @property
    def cells(self) -> Coordinates:
        """Selected body cells of the table, as (row, column) pairs from 0."""

    @property
    def aggregation(self) -> str:
        """Aggregation of the values in the selected cells, such as "sum", one of `AGGREGATIONS`."""


def true_denotation(answer: Answer, table: Table) -> tuple[str, ...] | None:
    """Return the gold answer in the normal form to which predictions are compared.

    See `normal_form`.

    It is the number of the answer if it has one, else the denotation of its cells. Return None if the answer has
    neither cells nor a number, so that no prediction can be correct.
    """
    if answer.number is not None:
        return normal_form((answer.number,))
    if answer.texts and not answer.coordinates and answer.aggregation in (None, "none"):
        return None
    return normal_form(denotation_of(answer.aggregation or "none", answer.coordinates, table))


def denotation_is_right(selection: SelectedCells, example: TableExample) -> bool:
    """Return whether the predicted cells and aggregation result in the gold answer."""
    if example.answer is None:
        return False
    predicted = normal_form(denotation_of(selection.aggregation, selection.cells, example.table))
    return predicted == true_denotation(example.answer, example.table)


def right_denotations(
    predictions: Mapping[str, SelectedCells], examples: Mapping[str, TableExample]
) -> dict[str, bool]:
    """Check, for each question, whether the prediction results in the gold answer.

    Args:
        predictions: predicted cells and aggregation by question id. A missing prediction is wrong.
        examples: questions by id.

    Returns:
        Whether the prediction is correct, by question id.
    """
    return {
        name: name in predictions and denotation_is_right(predictions[name], example)
        for name, example in examples.items()
        if example.answer
    }


def structure_accuracy(
    predictions: Mapping[str, SelectedCells], examples: Mapping[str, TableExample]
) -> dict[str, float]:
    """Compute how often predicted cells, aggregation, and both equal the gold annotation.

    An answer without an aggregation has the aggregation "none". The fractions are not meaningful if the gold cells were
    found by matching text, as for WikiTableQuestions.

    Args:
        predictions: predicted cells and aggregation by question id.
        examples: questions by id.

    Returns:
        aggregation_accuracy, cell_accuracy and joint_accuracy, empty without questions.
    """
    answers = {name: example.answer for name, example in examples.items() if example.answer}
    pairs = {name: (predictions[name], answer) for name, answer in answers.items() if name in predictions}
    aggregation = {
        n for n, (prediction, answer) in pairs.items() if prediction.aggregation == (answer.aggregation or "none")
    }
    cells = {name for name, (prediction, answer) in pairs.items() if {*prediction.cells} == {*answer.coordinates}}
    scores = zip(STRUCTURE, (aggregation, cells, aggregation & cells), strict=True)
    return {spec.name: Score(len(correct) / len(answers), len(answers)) for spec, correct in scores if answers}
