"""PointR: select a cell, then read the answer in it and its passages.

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
"""Among which the weight of the reader is chosen."""
MIN_PROBABILITY = 1e-30
"""Lower bound of a probability, before its logarithm is taken."""


@dataclass(frozen=True)
class ReadCell:
    """A cell that was read for a question.

    Args:
        cell: (row, column), both from 0.
        selected: its log probability among the cells of the table.
        read: the log probability of the best span among those of the cell, with no answer where the reader may say so.
    """

    cell: tuple[int, int]
    selected: float
    read: float
    text: str

    def score(self, weight: float) -> float:
        """Return both log probabilities mixed."""
        return (1 - weight) * self.selected + weight * self.read


class PointR(System):
    """A selector of cells and a reader.

    Args:
        compared_by: see `System`.
        cells: how many of the best cells are read; the paper reads one. Of more, the answer is from the cell with the
            best mixture of the logarithms of two probabilities, its own and that of its best span.
        weight: of the reader in that mixture, 0 to 1; None for the one with the best F1 on the development split, or 0
            where none was learnt.
        whole_cells: answer with all of a cell's own text where the span's words stand in it.
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
        """The weight of the reader, where several cells are read."""
        return {} if self.weight is None or self.cells == 1 else {"weight": self.weight}

    def with_parameters(self, parameters: Mapping[str, float]) -> PointR:
        """Return the same with the weight that was learnt."""
        return PointR(self.compared_by, self.cells, parameters.get("weight", self.weight), self.whole_cells)

    def learn(
        self, stages: Mapping[str, TrainedStage], examples: Sequence[TableExample], name: str
    ) -> tuple[System, SystemAnswers]:
        """Choose the weight with the best F1 on these questions; of equal ones the least, which trusts the selector."""
        if self.cells == 1 or self.weight is not None:
            return self, self.answer(stages, examples, name)
        read, hits = self._read(stages, examples, name)
        system = self.with_parameters({"weight": best_weight(read, examples)})
        return system, system._choose_answers(read, hits)

    def answer(self, stages: Mapping[str, TrainedStage], examples: Sequence[TableExample], name: str) -> SystemAnswers:
        """Select cells of each question and read them; Hits@k are those of the selection."""
        return self._choose_answers(*self._read(stages, examples, name))

    def _choose_answers(self, read: Mapping[str, Sequence[ReadCell]], hits: Mapping[str, float]) -> SystemAnswers:
        weight = self.weight or 0.0
        best = {key: max(cells, key=lambda cell: cell.score(weight)) for key, cells in read.items() if cells}
        others = {key: tuple(cell.cell for cell in read[key] if cell is not best[key]) for key in best}
        cells = {key: (cell.cell, *others[key]) for key, cell in best.items()}
        return SystemAnswers({key: cell.text for key, cell in best.items()}, hits, cells)

    def _read(
        self, stages: Mapping[str, TrainedStage], examples: Sequence[TableExample], name: str
    ) -> tuple[dict[str, list[ReadCell]], Mapping[str, float]]:
        """Read cells for each question, the best first; return them and the hits of the selection."""
        by_name = {example.example_id: example for example in examples}
        rankings = stages[SELECT].predict(examples, name)
        known = {key: example for key, example in by_name.items() if example.answer}
        hits = stages[SELECT].task_of(CellSelection).score(rankings, known) if known else {}
        read = read_cells(stages[READ], rankings, by_name, self.cells)
        if self.whole_cells:
            read = {key: [_widened(cell, by_name[key]) for cell in cells] for key, cells in read.items()}
        return read, hits


def read_cells(
    reader: TrainedStage, rankings: Sequence[CellRanking], examples: Mapping[str, TableExample], count: int
) -> dict[str, list[ReadCell]]:
    """Read the best cells of each ranking.

    Returns:
        What was read, by question, in the order of the ranking; cells that cannot be encoded are left out.
    """
    chosen = {
        f"{ranking.example_id}#{place}": (ranking, place)
        for ranking in rankings
        for place in range(min(count, len(ranking.cells)))
    }
    asked = {key: reading_example(examples[r.example_id], *r.cells[place], key) for key, (r, place) in chosen.items()}
    predictions: dict[str, SpanPrediction] = {
        prediction.example_id: prediction for prediction in reader.predict(list(asked.values()), "cells")
    }
    spans = [replace(prediction, no_answer=0.0) for prediction in predictions.values()]  # some cell has the answer
    texts = reader.task_of(SpanReading).answers(spans, asked)
    read: dict[str, list[ReadCell]] = {}
    for key, (ranking, place) in chosen.items():
        if key in predictions:
            selected, span = _log(ranking.probabilities[place]), _log(predictions[key].probability)
            cell = ReadCell(ranking.cells[place], selected, span, texts[key])
            read.setdefault(ranking.example_id, []).append(cell)
    return read


def _widened(read: ReadCell, example: TableExample) -> ReadCell:
    row, column = read.cell
    text = example.table.rows[row][column].text
    inside = f" {normalize_answer(read.text)} " in f" {normalize_answer(text)} "
    return replace(read, text=text) if inside else read


def _log(probability: float) -> float:
    return math.log(max(probability, MIN_PROBABILITY))


def best_weight(read: Mapping[str, Sequence[ReadCell]], examples: Sequence[TableExample]) -> float:
    """Return the weight of `WEIGHTS` with which the answers have the best F1; the least of equal ones."""
    known = [example for example in examples if example.answer and read.get(example.example_id)]
    overlaps = {
        (example.example_id, cell): f1(cell.text, " ".join(example.answer.texts))
        for example in known
        if example.answer
        for cell in read[example.example_id]
    }

    def total(weight: float) -> float:
        best = ((e.example_id, max(read[e.example_id], key=lambda cell: cell.score(weight))) for e in known)
        return sum(overlaps[pair] for pair in best)

    return max(WEIGHTS, key=lambda weight: (round(total(weight), 9), -weight))
