"""Denotation accuracy: the share of questions for which the selected cells, aggregated, give the true answer.

Source: google-research/tapas, `scripts/calc_metrics_utils.py`. One thing differs: there a question without a
prediction counts as if no cell had been selected, which is right where the true answer is empty; here it is wrong.
"""

from collections.abc import Mapping
from typing import Protocol

from mate_cli.metrics.accuracy import ACCURACIES
from mate_cli.metrics.specs import MetricSpec, Score
from mate_cli.tables.denotation import denotation_of, normal_form
from mate_cli.tables.example import Answer, Coordinates, TableExample
from mate_cli.tables.table import Table

DENOTATION_ACCURACY = MetricSpec(
    "denotation_accuracy",
    "Denotation accuracy",
    1,
    order=50,
    importance=3,
    table=ACCURACIES,
    hub_name="accuracy",
)
STRUCTURE = (
    MetricSpec("aggregation_accuracy", "Aggregation", 1, order=90),
    MetricSpec("cell_accuracy", "Cells", 1, order=91),
    MetricSpec("joint_accuracy", "Cells and aggregation", 1, order=92),
)


class SelectedCells(Protocol):
    """Cells and what is done with them; `Selection` is one."""

    @property
    def cells(self) -> Coordinates:
        """(row, column) of body cells, both from 0."""

    @property
    def aggregation(self) -> str:
        """One of `AGGREGATIONS`."""


def true_denotation(answer: Answer, table: Table) -> tuple[str, ...] | None:
    """Return the normal form of the true answer: its number where it has one, else what its cells give.

    None where the answer was found neither as cells nor as a number: no prediction can be right then.
    """
    if answer.number is not None:
        return normal_form((answer.number,))
    if answer.texts and not answer.coordinates and answer.aggregation in (None, "none"):
        return None
    return normal_form(denotation_of(answer.aggregation or "none", answer.coordinates, table))


def denotation_is_right(selected: SelectedCells, example: TableExample) -> bool:
    """Tell whether the denotation of a selection is the true one."""
    if example.answer is None:
        return False
    predicted = normal_form(denotation_of(selected.aggregation, selected.cells, example.table))
    return predicted == true_denotation(example.answer, example.table)


def right_denotations(
    predictions: Mapping[str, SelectedCells], examples: Mapping[str, TableExample]
) -> dict[str, bool]:
    """Tell whether each question with an answer is right, by name; without a prediction it is not."""
    return {
        name: name in predictions and denotation_is_right(predictions[name], example)
        for name, example in examples.items()
        if example.answer
    }


def structure_accuracy(
    predictions: Mapping[str, SelectedCells], examples: Mapping[str, TableExample]
) -> dict[str, float]:
    """Return the shares of questions whose aggregation, whose cells, and whose both are exactly the true ones.

    An answer that names no aggregation has none. Where the answers were found by text alone, as for
    WikiTableQuestions, these say little.

    Returns:
        aggregation_accuracy, cell_accuracy and joint_accuracy; nothing without questions.
    """
    known = {name: example.answer for name, example in examples.items() if example.answer}
    pairs = {name: (predictions[name], answer) for name, answer in known.items() if name in predictions}
    aggregation = {n for n, (chosen, answer) in pairs.items() if chosen.aggregation == (answer.aggregation or "none")}
    cells = {name for name, (chosen, answer) in pairs.items() if {*chosen.cells} == {*answer.coordinates}}
    scores = zip(STRUCTURE, (aggregation, cells, aggregation & cells), strict=True)
    return {spec.name: Score(len(right) / len(known), len(known)) for spec, right in scores if known}
