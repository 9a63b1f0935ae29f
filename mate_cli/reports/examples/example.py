"""One example in the terminal: question, answer, table, linked sentences and tokens."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Column, Table
from rich.text import Text

from mate_cli.reports.examples.example_table import IN_CELL, legend, table_views
from mate_cli.reports.format import plural
from mate_cli.tables.example import AGGREGATIONS, Answer, TableExample
from mate_cli.terminal.console import Console

if TYPE_CHECKING:
    import numpy as np

    from mate_cli.reports.examples.kept_tokens import KeptTokens

MAX_TEXTS = 12
"""So many texts of an answer are shown."""
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


def print_example(example: TableExample, encoded_cells: Collection[Coordinates], console: Console) -> None:
    """Print question, answer and table; cells that hold the answer stand out, cells that were cut are struck out.

    Rows are numbered from 1, as the row ids of tokens are.

    Args:
        example: the example.
        encoded_cells: (row, column) of the body cells that have tokens.
        console: where to print.
    """
    for name, text in _facts(example):
        console.print(Text.assemble((f"{name:<10}", "bold"), text), soft_wrap=True)
    console.print(*table_views(example, encoded_cells, console.width), sep="\n")
    marks = legend(example, encoded_cells)
    if marks is not None:
        console.print(marks, "")


def _facts(example: TableExample) -> Iterator[tuple[str, str]]:
    """Yield what is said above the table, with what each line is called."""
    answer, statement = example.answer, example.answer is not None and example.answer.label is not None
    yield "example", example.example_id + f"  ({', '.join(example.subsets)})" * bool(example.subsets)
    for place, question in enumerate(example.history, start=1):
        yield "before" if place == 1 else "", f"{place}. {question}"
    yield "statement" if statement else "question", example.question
    if answer is None:
        yield "answer", "not known"
        return
    text = " | ".join(answer.texts[:MAX_TEXTS]) or "none"
    more = len(answer.texts) - MAX_TEXTS
    yield "answer", text + f" and {more} more" * (more > 0) + f"  ({answer.source})" * bool(answer.source)
    if not statement and (learnt := _describe_target(answer)):
        yield "learnt", learnt


def _describe_target(answer: Answer) -> str:
    """Return what a network learns from: the cells, what is computed from them, and the number; "" for cells alone."""
    if answer.number is None and answer.aggregation in (None, AGGREGATIONS[0]):
        return ""
    cells = plural(len(answer.coordinates), "cell") if answer.coordinates else ""
    if cells and answer.aggregation not in (None, AGGREGATIONS[0]):
        cells = f"the {answer.aggregation} of {cells}"
    number = "" if answer.number is None else f"the number {answer.number:g}"
    joint = " = " if answer.aggregation else " or "  # an aggregation is known under full supervision only
    return joint.join(filter(None, (cells, number)))


def print_cut(text: str, console: Console) -> None:
    """Print what was cut from the table, as it is said."""
    console.print(Text.assemble(("cut       ", "bold"), text), soft_wrap=True)
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
            part, whole = lengths[r, c]
            share = Text(f"{part} of {whole}", style="" if part == whole else "red")
            view.add_row(str(r + 1), str(c + 1), Text(cell.text), Text(added), share)
    if view.row_count:
        console.print(Text("Linked text that is appended to cells", style="bold"), view, "")


def print_tokens(
    arrays: Mapping[str, np.ndarray],
    kinds: Sequence[str],
    pieces: Sequence[str],
    shown: int,
    console: Console,
    kept_tokens: KeptTokens | None = None,
) -> None:
    """Print the first tokens of an encoding with all their ids; row 1 is the first body row, column 1 the first one.

    Args:
        arrays: the fields of the example's `TableEncoding`, each [T].
        kinds: of each token, one of `KIND_STYLES`.
        pieces: the text of each token.
        shown: how many tokens to print.
        console: where to print.
        kept_tokens: which of them the network keeps, where it does not keep all.
    """
    fields = {name: field for name, field in TOKEN_FIELDS.items() if name != "before" or arrays[field].any()}
    names = [*fields, *(("kept" if kept_tokens.scores is None else "score",) if kept_tokens else ())]
    view = Table(Column("#", justify="right"), "token", *(Column(name, justify="right") for name in names))
    for place, piece in enumerate(pieces[:shown]):
        values = {name: int(arrays[field][place]) for name, field in fields.items()}
        style = IN_CELL if values["label"] else KIND_STYLES[kinds[place]]
        shown_values = {**values, "row": "counts"} if kinds[place] == "counts" else values
        numbers = (Text(str(value), style="" if value else "dim") for value in shown_values.values())
        scores = [score_text(kept_tokens, place)] if kept_tokens else []
        view.add_row(str(place), Text(piece, style=style), *numbers, *scores)
    console.print(Text(f"Tokens (the first {min(shown, len(pieces))} of {len(pieces)})", style="bold"), view)


def score_text(tokens: KeptTokens, token: int) -> Text:
    """Return the score of a token, or whether it is kept where it has none."""
    style = tokens.style(token)
    if not tokens.kept[token]:
        return Text("left out" if tokens.scores is None else f"{tokens.scores[token]:.2f}", style=style)
    return Text(
        "kept" if tokens.scores is None or not tokens.in_table[token] else f"{tokens.scores[token]:.2f}", style=style
    )
