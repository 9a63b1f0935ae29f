"""One example in the terminal: question, answer, table, linked sentences and tokens."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Cell
from mate_cli.tables.text import table_matches

if TYPE_CHECKING:
    import numpy as np

IN_CELL, IN_PASSAGE, DROPPED = "bold black on green", "bold black on yellow", "dim strike"
KIND_STYLES = {"question": "cyan", "header": "magenta", "body": "", "counts": "blue"}
TOKEN_FIELDS = {
    "segment": "segment_ids",
    "row": "row_ids",
    "column": "column_ids",
    "rank": "column_ranks",
    "inverse rank": "inverse_column_ranks",
    "relation": "numeric_relations",
    "label": "label_ids",
}
Coordinates = tuple[int, int]


def print_example(example: TableExample, kept: Collection[Coordinates], console: Console) -> None:
    """Print question, answer and table; cells that hold the answer stand out, cells that were cut are struck out.

    Rows are numbered from 1, as the row ids of tokens are.

    Args:
        example: the example.
        kept: (row, column) of the body cells that have tokens.
        console: where to print.
    """
    answer = example.answer
    said = "not known" if answer is None else " | ".join(answer.texts) or "none"
    source = f"  ({answer.source})" if answer and answer.source else ""
    for name, text in (("example ", example.example_id), ("question", example.question), ("answer  ", said + source)):
        console.print(Text.assemble((f"{name}  ", "bold"), text), soft_wrap=True)
    console.print(_table_view(example, kept))
    legend = (("● answer in the cell", IN_CELL), ("○ answer in a linked passage", IN_PASSAGE), ("✂ cut", DROPPED))
    console.print(
        Text("  ").join([*(Text(f" {text} ", style=style) for text, style in legend), Text("↗ has links")]), ""
    )


def _table_view(example: TableExample, kept: Collection[Coordinates]) -> Table:
    table, answer = example.table, example.answer
    inside = {cell for text in (answer.texts if answer else ()) for cell in table_matches(table, text)}
    headings = (Column(cell.text, overflow="fold") for cell in table.header)
    view = Table("row", *headings, title=table.title)
    for r, row in enumerate(table.rows):
        candidates = [answer is not None and (r, c) in answer.coordinates for c in range(len(row))]
        found = [((r, c) in inside) + 1 if candidate else 0 for c, candidate in enumerate(candidates)]
        cells = (_cell_view(cell, found[c], cut=(r, c) not in kept) for c, cell in enumerate(row))
        view.add_row(Text(str(r + 1), style="dim"), *cells)
    return view


def _cell_view(cell: Cell, found: int, *, cut: bool) -> Text:
    """A cell with its marks; `found` is 2 with the answer in its text, 1 with the answer in a passage, else 0."""
    marks = " ↗" * bool(cell.links) + ("", " ○", " ●")[found] + " ✂" * cut
    style = f"{('', IN_PASSAGE, IN_CELL)[found]} {DROPPED if cut else ''}"
    return Text(cell.text + marks, style=style.strip())


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
    view = Table(Column("#", justify="right"), "token", *(Column(name, justify="right") for name in TOKEN_FIELDS))
    for place, piece in enumerate(pieces[:shown]):
        values = {name: int(arrays[field][place]) for name, field in TOKEN_FIELDS.items()}
        style = IN_CELL if values["label"] else KIND_STYLES[kinds[place]]
        shown_values = {**values, "row": "counts"} if kinds[place] == "counts" else values
        numbers = (Text(str(value), style="" if value else "dim") for value in shown_values.values())
        view.add_row(str(place), Text(piece, style=style), *numbers)
    console.print(Text(f"Tokens (the first {min(shown, len(pieces))} of {len(pieces)})", style="bold"), view)
