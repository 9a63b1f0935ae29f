"""PointR: select a cell, then read the answer in it and its passages.

Source: MATE paper, section 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mate_cli.data.reading import reading_example
from mate_cli.lit_modules.cell_selection import CellRanking, CellSelection
from mate_cli.lit_modules.span_reading import SpanReading
from mate_cli.pipelines.systems.base import Answered, System, Trained
from mate_cli.tables.example import TableExample

SELECT, READ = "cell_selection", "span_reading"


class PointR(System):
    """A selector of cells and a reader."""

    stages = (SELECT, READ)

    def answer(self, stages: Mapping[str, Trained], examples: Sequence[TableExample], name: str) -> Answered:
        """Select a cell per question and read it; Hits@k are those of the selection."""
        by_name = {example.example_id: example for example in examples}
        rankings = stages[SELECT].predict(examples, name)
        known = {key: example for key, example in by_name.items() if example.answer}
        hits = stages[SELECT].task_of(CellSelection).score(rankings, known) if known else {}
        return Answered(read_best_cells(stages[READ], rankings, by_name), hits)


def read_best_cells(
    reader: Trained, rankings: Sequence[CellRanking], examples: Mapping[str, TableExample]
) -> dict[str, str]:
    """Read the answer in the best cell of each ranking.

    Args:
        reader: the second stage.
        rankings: of the first stage; a question without one gets no answer.
        examples: the questions, by name.

    Returns:
        Answer text by question.
    """
    chosen = {r.example_id: reading_example(examples[r.example_id], *r.cells[0]) for r in rankings if r.cells}
    return reader.task_of(SpanReading).answers(reader.predict(list(chosen.values()), "selected cells"), chosen)
