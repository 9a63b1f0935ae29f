"""Examples for readers: a cell with its linked passages as a table of one cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mate_cli.data.baselines import rank_cells
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table


def reading_example(example: TableExample, row: int, column: int, example_id: str | None = None) -> TableExample:
    """Cut one body cell out of an example's table, with its passages and without its header.

    Rows and columns count from 0. The example keeps the question's name where it is given no other.

    Source: google-research/tapas, `utils/hybridqa_rc_utils.py`.
    """
    cell = example.table.rows[row][column]
    table = Table(
        table_id=f"{example.table.table_id}/{row}/{column}",
        header=(Cell(""),),
        rows=((cell,),),
        passages={link: example.table.passages[link] for link in cell.links if link in example.table.passages},
    )
    answer = example.answer and Answer(example.answer.texts, ((0, 0),), example.answer.source)
    return TableExample(example_id or example.example_id, example.question, table, answer)


def negatives(examples: Sequence[TableExample], count: int) -> Mapping[str, list[TableExample]]:
    """Return cells that do not hold the answer, each as an example that nothing answers, by the name of the question.

    Half of them are those nearest to the question by TF-IDF, which a selector mistakes for the right ones most easily;
    the others are drawn of all cells, by the name of the question.
    There are fewer than `count` where the table has not as many, and none without a known answer.
    """
    asked = [example for example in examples if count and example.answer]
    rankings = rank_cells(asked)
    return {example.example_id: _without(example, rankings[example.example_id], count) for example in asked}


def _without(example: TableExample, ranking: Sequence[tuple[int, int]], count: int) -> list[TableExample]:
    answer = example.answer
    assert answer is not None
    wrong = [cell for cell in ranking if cell not in answer.coordinates]
    nearest = -(-count // 2)
    generator = np.random.default_rng(list(example.example_id.encode()))
    drawn = generator.permutation(len(wrong[nearest:]))[: count - nearest]
    cells = wrong[:nearest] + [wrong[nearest + place] for place in sorted(drawn)]
    nothing = replace(example, answer=replace(answer, texts=()))
    return [
        reading_example(nothing, row, column, f"{example.example_id}/without/{place}")
        for place, (row, column) in enumerate(cells)
    ]
