"""Examples for the reader: one cell with all its linked passages, as a table of one cell."""

from __future__ import annotations

from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table


def reading_example(example: TableExample, row: int, column: int, example_id: str | None = None) -> TableExample:
    """Cut one body cell out of an example's table, with its passages and without its header.

    Args:
        example: the question about the whole table.
        row: body row, from 0.
        column: column, from 0.
        example_id: the new example's name; the question's own when it is None.

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
