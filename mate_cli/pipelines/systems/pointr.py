"""PointR: select a cell, then read the answer in the cell and its linked passages.

Source: MATE paper, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from mate_cli.data.cell_examples import reading_example
from mate_cli.lit_modules.cell_selection import CellRanking, CellSelection
from mate_cli.lit_modules.span_reading import SpanPrediction, SpanReading
from mate_cli.metrics.exact_match import f1, normalize_answer
from mate_cli.pipelines.systems.base import System, SystemAnswers, TrainedStage
from mate_cli.tables.example import TableExample

SELECT, READ = "cell_selection", "span_reading"
WEIGHTS = tuple(step / 20 for step in range(21))
"""Candidate weights of the reader."""
MIN_PROBABILITY = 1e-30
"""Lower bound of probabilities, so that their logarithm is finite."""


@dataclass(frozen=True)
class ReadCell:
    """A table cell, with the answer that the span reader has found in the cell.

    Args:
        cell: (row, column), both from 0.
        selected: log probability of the cell among the cells of the table.
        read: log probability of the best span among the spans of the cell, and "no answer" if the reader predicts it.
        text: answer read from the cell.
    """

    cell: tuple[int, int]
    selected: float
    read: float
    text: str

    def score(self, weight: float) -> float:
        """Average the log probability of the cell and that of its best span, by `weight`.

        Args:
            weight: weight of the span (the reader), 0 to 1.
        """
        return (1 - weight) * self.selected + weight * self.read


class PointR(System):
    """PointR, a system that selects table cells and extracts the answer from these cells.

    Described in section 4 of the MATE paper.

    Args:
        compared_by: see `System`.
        cells: number of top-ranked cells to read; the paper reads one. With several cells, the answer is taken from
            the cell with the highest weighted average of the log probabilities of the cell and of its best span.
        weight: weight of the reader in this average, 0 to 1; None for the weight with the best F1 on the dev split,
            or 0 if no weight was fitted.
        whole_cells: replace the span by the full text of the cell if the cell text contains the span.
    """

    stages = (SELECT, READ)

    def __init__(
        self,
        compared_by: str | None = None,
        cells: Annotated[int, Field(gt=0)] = 1,
        weight: Annotated[float, Field(ge=0, le=1)] | None = None,
        whole_cells: bool = False,
    ) -> None:
        super().__init__(compared_by)
        self.cells, self.weight, self.whole_cells = cells, weight, whole_cells

    @property
    def parameters(self) -> Mapping[str, float]:
        """Weight of the span reader as a dict, to be saved with the run.

        Empty if a single cell is read or no weight is set.
        """
        return {} if self.weight is None or self.cells == 1 else {"weight": self.weight}

    def with_parameters(self, parameters: Mapping[str, float]) -> PointR:
        """Return a copy of the system with the fitted weight of the span reader, if fitted."""
        return PointR(self.compared_by, self.cells, parameters.get("weight", self.weight), self.whole_cells)

    def learn(
        self, stages: Mapping[str, TrainedStage], examples: Sequence[TableExample], name: str
    ) -> tuple[System, SystemAnswers]:
        """Tune the weight of the span reader on the dev split, then answer the dev questions.

        The weight is not fitted if it is configured or if a single cell is read.

        If several weights have the best F1, the smallest is used, because it relies most on the selector.

        Args:
            stages: trained stages by name.
            examples: examples of the dev split.
            name: label of the examples in the progress bar.

        Returns:
            The system with the fitted weight, and its answers.
        """
        if self.cells == 1 or self.weight is not None:
            return self, self.answer(stages, examples, name)
        by_id, hits = self._read(stages, examples, name)
        system = self.with_parameters({"weight": best_weight(by_id, examples)})
        return system, system._choose_answers(by_id, hits)

    def answer(self, stages: Mapping[str, TrainedStage], examples: Sequence[TableExample], name: str) -> SystemAnswers:
        """Answer each question: select table cells, then extract a span from the cells.

        Args:
            stages: trained stages by name.
            examples: examples with the questions.
            name: label of the examples in the progress bar.
        """
        return self._choose_answers(*self._read(stages, examples, name))

    def _choose_answers(self, by_id: Mapping[str, Sequence[ReadCell]], hits: Mapping[str, float]) -> SystemAnswers:
        weight = self.weight or 0.0
        best_cells = {key: max(cells, key=lambda cell: cell.score(weight)) for key, cells in by_id.items() if cells}
        other_cells = {
            key: tuple(cell.cell for cell in by_id[key] if cell is not best_cells[key]) for key in best_cells
        }
        cells = {key: (cell.cell, *other_cells[key]) for key, cell in best_cells.items()}
        return SystemAnswers({key: cell.text for key, cell in best_cells.items()}, hits, cells)

    def _read(
        self, stages: Mapping[str, TrainedStage], examples: Sequence[TableExample], name: str
    ) -> tuple[dict[str, list[ReadCell]], Mapping[str, float]]:
        """Select the top cells of each example, and read an answer from each of these cells.

        Returns:
            The cells of each example, best cell first, and Hits@k of the cell selector.
        """
        by_name = {example.example_id: example for example in examples}
        rankings = stages[SELECT].predict(examples, name)
        labeled = {key: example for key, example in by_name.items() if example.answer}
        hits = stages[SELECT].task_of(CellSelection).score(rankings, labeled) if labeled else {}
        by_id = read_cells(stages[READ], rankings, by_name, self.cells)
        if self.whole_cells:
            by_id = {key: [_widened(cell, by_name[key]) for cell in cells] for key, cells in by_id.items()}
        return by_id, hits


def read_cells(
    reader: TrainedStage, rankings: Sequence[CellRanking], examples: Mapping[str, TableExample], count: int
) -> dict[str, list[ReadCell]]:
    """Extract an answer from each of the top-ranked table cells of every question.

    Args:
        reader: trained reader.
        rankings: ranked cells of each question.
        examples: examples by id.
        count: maximum number of cells to read per question.

    Returns:
        The cells read, by example id, in the order of the ranking. Cells that cannot be encoded are omitted.
    """
    pairs = {
        f"{ranking.example_id}#{rank}": (ranking, rank)
        for ranking in rankings
        for rank in range(min(count, len(ranking.cells)))
    }
    inputs = {key: reading_example(examples[r.example_id], *r.cells[rank], key) for key, (r, rank) in pairs.items()}
    predictions: dict[str, SpanPrediction] = {
        prediction.example_id: prediction for prediction in reader.predict(list(inputs.values()), "cells")
    }
    # Assume that some cell contains the answer, so never predict "no answer".
    spans = [replace(prediction, no_answer=0.0) for prediction in predictions.values()]
    texts = reader.task_of(SpanReading).answers(spans, inputs)
    by_id: dict[str, list[ReadCell]] = {}
    for key, (ranking, rank) in pairs.items():
        if key in predictions:
            cell_score, span = _log(ranking.probabilities[rank]), _log(predictions[key].probability)
            cell = ReadCell(ranking.cells[rank], cell_score, span, texts[key])
            by_id.setdefault(ranking.example_id, []).append(cell)
    return by_id


def _widened(cell: ReadCell, example: TableExample) -> ReadCell:
    row, column = cell.cell
    text = example.table.rows[row][column].text
    is_inside = f" {normalize_answer(cell.text)} " in f" {normalize_answer(text)} "
    return replace(cell, text=text) if is_inside else cell


def _log(probability: float) -> float:
    return math.log(max(probability, MIN_PROBABILITY))


def best_weight(read: Mapping[str, Sequence[ReadCell]], examples: Sequence[TableExample]) -> float:
    """Return the reader weight in `WEIGHTS` with the best answer F1.

    Of equally good weights, the smallest is returned.

    Args:
        read: cells that were read, by example id.
        examples: questions. Questions without a gold answer are ignored.
    """
    labeled = [example for example in examples if example.answer and read.get(example.example_id)]
    overlaps = {
        (example.example_id, cell): f1(cell.text, " ".join(example.answer.texts))
        for example in labeled
        if example.answer
        for cell in read[example.example_id]
    }

    def total(weight: float) -> float:
        pairs = ((e.example_id, max(read[e.example_id], key=lambda cell: cell.score(weight))) for e in labeled)
        return sum(overlaps[pair] for pair in pairs)

    return max(WEIGHTS, key=lambda weight: (round(total(weight), 9), -weight))
