"""One example in the terminal: question, answer, table, linked sentences and tokens."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from mate_cli.reports.format import plural
from mate_cli.tables.example import AGGREGATIONS, Answer, TableExample
from mate_cli.tables.table import Cell
from mate_cli.tables.text import table_matches

if TYPE_CHECKING:
    import numpy as np

IN_CELL, IN_PASSAGE, DROPPED = "bold black on green", "bold black on yellow", "dim strike"
MARKS = {
    "●": ("answer in the cell", IN_CELL),
    "○": ("answer in a linked passage", IN_PASSAGE),
    "◂": ("answer of the question before", "underline"),
    "✂": ("cut", DROPPED),
    "↗": ("has links", ""),
}
"""What stands behind a cell's text: what it means, and the cell's style."""
MOST_TEXTS = 12
"""So many texts of an answer are shown."""
MOST_ROWS = 40
"""So many rows of a table are shown, beside those that hold an answer."""
KIND_STYLES = {"question": "cyan", "header": "magenta", "body": "", "counts": "blue"}
TOKEN_FIELDS = {
    "segment": "segment_ids",
    "row": "row_ids",
    "column": "column_ids",
    "rank": "column_ranks",
    "inverse rank": "inverse_column_ranks",
    "relation": "numeric_relations",
    "label": "label_ids",
    "before": "previous_labels",
}
"""Columns of the table of tokens; the last one only where a question before has an answer."""
Coordinates = tuple[int, int]


def print_example(example: TableExample, kept: Collection[Coordinates], console: Console) -> None:
    """Print question, answer and table; cells that hold the answer stand out, cells that were cut are struck out.

    Rows are numbered from 1, as the row ids of tokens are.

    Args:
        example: the example.
        kept: (row, column) of the body cells that have tokens.
        console: where to print.
    """
    for name, text in _facts(example):
        console.print(Text.assemble((f"{name:<10}", "bold"), text), soft_wrap=True)
    view = _table_view(example, kept)
    console.print(view)
    shown = [text for column in view.columns for text in column.cells if isinstance(text, Text)]
    marks = [mark for mark in MARKS if any(f" {mark}" in text.plain for text in shown)]
    if marks:
        console.print(Text("  ").join(Text(f" {mark} {MARKS[mark][0]} ", style=MARKS[mark][1]) for mark in marks), "")


def _facts(example: TableExample) -> Iterator[tuple[str, str]]:
    """What is said above the table, with what each line is called."""
    answer, statement = example.answer, example.answer is not None and example.answer.label is not None
    yield "example", example.example_id + f"  ({', '.join(example.subsets)})" * bool(example.subsets)
    for place, question in enumerate(example.history, start=1):
        yield "before" if place == 1 else "", f"{place}. {question}"
    yield "statement" if statement else "question", example.question
    if answer is None:
        yield "answer", "not known"
        return
    said = " | ".join(answer.texts[:MOST_TEXTS]) or "none"
    more = len(answer.texts) - MOST_TEXTS
    yield "answer", said + f" and {more} more" * (more > 0) + f"  ({answer.source})" * bool(answer.source)
    if not statement and (learnt := _learnt(answer)):
        yield "learnt", learnt


def _learnt(answer: Answer) -> str:
    """What a network learns from: the cells, what is computed from them, and the number; "" for cells alone."""
    if answer.number is None and answer.aggregation in (None, AGGREGATIONS[0]):
        return ""
    cells = plural(len(answer.coordinates), "cell") if answer.coordinates else ""
    if cells and answer.aggregation not in (None, AGGREGATIONS[0]):
        cells = f"the {answer.aggregation} of {cells}"
    number = "" if answer.number is None else f"the number {answer.number:g}"
    joint = " = " if answer.aggregation else " or "  # an aggregation is known under full supervision only
    return joint.join(filter(None, (cells, number)))


def _table_view(example: TableExample, kept: Collection[Coordinates]) -> Table:
    table = example.table
    headings = (Column(Text(cell.text), overflow="fold") for cell in table.header)
    view = Table("row", *headings, title=Text(table.title) if table.title else None)
    found = _found(example)
    shown = _shown_rows(example)
    for before, r in zip((-1, *shown), shown, strict=False):
        row = table.rows[r]
        if r - before > 1:
            view.add_row(Text("…", style="dim"), Text(plural(r - before - 1, "more row"), style="dim"))
        marks = [
            [*found.get((r, c), ""), *("◂" * ((r, c) in example.previous_cells)), *("✂" * ((r, c) not in kept))]
            for c in range(len(row))
        ]
        cells = (_cell_view(cell, marks[c]) for c, cell in enumerate(row))
        view.add_row(Text(str(r + 1), style="dim"), *cells)
    return view


def _shown_rows(example: TableExample) -> list[int]:
    """All rows of a table that is not too long, else the first ones, those with answers, and the last one."""
    rows = range(len(example.table.rows))
    coordinates = (example.answer.coordinates if example.answer else ()) + example.previous_cells
    return sorted({*rows[:MOST_ROWS], *(row for row, _ in coordinates), *rows[-1:]})


def _found(example: TableExample) -> dict[Coordinates, str]:
    """The mark of each cell of the answer: whether it holds the answer itself, or links to a passage that does."""
    answer, table = example.answer, example.table
    if answer is None:
        return {}
    if not table.passages:
        return dict.fromkeys(answer.coordinates, "●")
    inside = {cell for text in answer.texts for cell in table_matches(table, text)}
    return {cell: "●" if cell in inside else "○" for cell in answer.coordinates}


def _cell_view(cell: Cell, marks: Sequence[str]) -> Text:
    """A cell with its marks, in their styles."""
    shown = [*("↗" * bool(cell.links)), *marks]
    return Text(" ".join((cell.text, *shown)), style=" ".join(MARKS[mark][1] for mark in shown).strip())


def print_cut(said: str, console: Console) -> None:
    """Print what was cut from the table, as it is said."""
    console.print(Text.assemble(("cut       ", "bold"), said), soft_wrap=True)
    console.print()


def print_sentences(
    example: TableExample,
    additions: Mapping[str, str],
    lengths: Mapping[Coordinates, tuple[int, int]],
    console: Console,
) -> None:
    """Print what linked passages add to cells, and how much of each such cell was kept.

    Args:
        example: the example.
        additions: the text appended for each link.
        lengths: (tokens kept, tokens before cutting) of each body cell.
        console: where to print.
    """
    view = Table(Column("row", justify="right"), Column("column", justify="right"), "cell", "added", "tokens kept")
    for r, c, cell in example.table.cells():
        added = " ".join(additions[link] for link in cell.links if link in additions)
        if added:
            kept, whole = lengths[r, c]
            share = Text(f"{kept} of {whole}", style="" if kept == whole else "red")
            view.add_row(str(r + 1), str(c + 1), Text(cell.text), Text(added), share)
    if view.row_count:
        console.print(Text("Linked text that is appended to cells", style="bold"), view, "")


def print_tokens(
    arrays: Mapping[str, np.ndarray], kinds: Sequence[str], pieces: Sequence[str], shown: int, console: Console
) -> None:
    """Print the first tokens of an encoding with all their ids; row 1 is the first body row, column 1 the first one.

    Args:
        arrays: the fields of the example's `TableEncoding`, each [T].
        kinds: of each token, one of `KIND_STYLES`.
        pieces: the text of each token.
        shown: how many tokens to print.
        console: where to print.
    """
    fields = {name: field for name, field in TOKEN_FIELDS.items() if name != "before" or arrays[field].any()}
    view = Table(Column("#", justify="right"), "token", *(Column(name, justify="right") for name in fields))
    for place, piece in enumerate(pieces[:shown]):
        values = {name: int(arrays[field][place]) for name, field in fields.items()}
        style = IN_CELL if values["label"] else KIND_STYLES[kinds[place]]
        shown_values = {**values, "row": "counts"} if kinds[place] == "counts" else values
        numbers = (Text(str(value), style="" if value else "dim") for value in shown_values.values())
        view.add_row(str(place), Text(piece, style=style), *numbers)
    console.print(Text(f"Tokens (the first {min(shown, len(pieces))} of {len(pieces)})", style="bold"), view)
