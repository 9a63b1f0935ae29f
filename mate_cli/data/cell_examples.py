"""Examples for span reading: one cell and its linked passages, as a table of one cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mate_cli.data.baselines import rank_cells
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table


def reading_example(example: TableExample, row: int, column: int, example_id: str | None = None) -> TableExample:
    """Build a reading comprehension example from one table cell and its linked passages.

    The new table contains only this cell and has an empty header.

    Args:
        example: example with the table.
        row: row of the cell, from 0.
        column: column of the cell, from 0.
        example_id: id of the new example. None uses the id of `example`.

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
    """Return up to `count` examples per question whose cell does not contain the answer.

    The examples train a span reader to reject such cells.

    Half of the cells are the most similar to the question by TF-IDF, which a selector most easily confuses with gold
    cells. The other half are sampled from the remaining cells, with a seed derived from the question id. Questions
    with an unknown answer have no entry.

    Returns:
        The examples by question id.
    """
    answered_examples = [example for example in examples if count and example.answer]
    rankings = rank_cells(answered_examples)
    return {example.example_id: _without(example, rankings[example.example_id], count) for example in answered_examples}


def _without(example: TableExample, ranking: Sequence[tuple[int, int]], count: int) -> list[TableExample]:
    answer = example.answer
    assert answer is not None
    negative_cells = [cell for cell in ranking if cell not in answer.coordinates]
    hard_count = -(-count // 2)
    generator = np.random.default_rng(list(example.example_id.encode()))
    sampled_indices = generator.permutation(len(negative_cells[hard_count:]))[: count - hard_count]
    cells = negative_cells[:hard_count] + [negative_cells[hard_count + index] for index in sorted(sampled_indices)]
    unanswered = replace(example, answer=replace(answer, texts=()))
    return [
        reading_example(unanswered, row, column, f"{example.example_id}/without/{index}")
        for index, (row, column) in enumerate(cells)
    ]
