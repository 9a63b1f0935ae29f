"""One example in the terminal: question, answer, table, linked sentences, and the tokens that a network keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from rich.style import Style
from rich.table import Column, Table
from rich.text import Text

from mate_cli.reports.format import plural
from mate_cli.tables.example import AGGREGATIONS, Answer, Coordinates, TableExample
from mate_cli.tables.table import Cell
from mate_cli.tables.text import linking_cells
from mate_cli.terminal.console import Console

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


Place = tuple[int, int]


def print_example(example: TableExample, encoded_cells: Collection[Place], console: Console) -> None:
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
    lengths: Mapping[Place, tuple[int, int]],
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
    text = "kept" if tokens.kept[token] else "left out"
    if tokens.scores is not None and (tokens.in_table[token] or not tokens.kept[token]):
        text = f"{tokens.scores[token]:.2f}"
    return Text(text, style=tokens.style(token))


IN_CELL, IN_PASSAGE, DROPPED = "bold black on green", "bold black on yellow", "dim strike"
MARKS = {
    "●": ("answer in the cell", IN_CELL),
    "○": ("answer in a linked passage", IN_PASSAGE),
    "◂": ("answer of the question before", "underline"),
    "✂": ("cut", DROPPED),
    "↗": ("has links", ""),
}
"""Marks behind a cell's text: their meaning, and the cell's style."""
MIN_COLUMN_WIDTH = 9
"""A column with its border is at least so wide; a table with more columns is shown in parts."""


def table_views(example: TableExample, encoded_cells: Collection[Place], width: int) -> Iterator[Table]:
    """Yield the table in one part, or in several of fewer columns where it is too wide.

    Rows are numbered from 1, as the row ids of tokens are.

    Args:
        example: the example.
        encoded_cells: (row, column) of the body cells that have tokens.
        width: of the terminal, in characters.
    """
    table, marks = example.table, _marks(example, encoded_cells)
    most = max(2, (width - MIN_COLUMN_WIDTH) // MIN_COLUMN_WIDTH)
    parts = range(0, len(table.header), most)
    for start in parts:
        columns = range(len(table.header))[start : start + most]
        where = f"columns {columns[0] + 1} to {columns[-1] + 1} of {len(table.header)}" if len(parts) > 1 else ""
        title = Text(", ".join(filter(None, (table.title, where))))
        yield _part(example, columns, title if title.plain else None, marks)


def legend(example: TableExample, encoded_cells: Collection[Place]) -> Text | None:
    """Return what the marks mean that stand behind cells; None without any."""
    used = {mark for marks in _marks(example, encoded_cells).values() for mark in marks}
    named = [Text(f" {mark} {meaning} ", style=style) for mark, (meaning, style) in MARKS.items() if mark in used]
    return Text("  ").join(named) if named else None


def _part(
    example: TableExample, columns: Sequence[int], title: Text | None, marks: Mapping[Place, Sequence[str]]
) -> Table:
    table = example.table
    headings = (Column(Text(table.header[column].text), overflow="fold") for column in columns)
    view = Table(Column("row", no_wrap=True), *headings, title=title)
    shown = _shown_rows(example)
    for before, r in zip((-1, *shown), shown, strict=False):
        if r - before > 1:
            view.add_row(Text("…", style="dim"), Text(plural(r - before - 1, "more row"), style="dim"))
        cells = (_mark_cell(table.rows[r][c], marks[r, c]) for c in columns)
        view.add_row(Text(str(r + 1), style="dim"), *cells)
    return view


def _shown_rows(example: TableExample) -> list[int]:
    """Return all rows of a table that is not too long, else the first ones, those with answers, and the last one."""
    rows = range(len(example.table.rows))
    coordinates: Coordinates = (example.answer.coordinates if example.answer else ()) + example.previous_cells
    return sorted({*rows[:MAX_ROWS], *(row for row, _ in coordinates), *rows[-1:]})


def _marks(example: TableExample, encoded_cells: Collection[Place]) -> dict[Place, list[str]]:
    """Return the marks of each body cell that is shown."""
    answer_marks, table = _found(example), example.table
    return {
        (r, c): [
            *("↗" * bool(table.rows[r][c].links)),
            *answer_marks.get((r, c), ""),
            *("◂" * ((r, c) in example.previous_cells)),
            *("✂" * ((r, c) not in encoded_cells)),
        ]
        for r in _shown_rows(example)
        for c in range(len(table.header))
    }


def _found(example: TableExample) -> dict[Place, str]:
    """Give the mark of each cell of the answer: whether it holds the answer itself, or links to a passage that does."""
    answer = example.answer
    if answer is None:
        return {}
    linking = linking_cells(example.table, answer.texts, answer.coordinates)
    return {cell: "○" if cell in linking else "●" for cell in answer.coordinates}


def _mark_cell(cell: Cell, marks: Sequence[str]) -> Text:
    return Text(" ".join((cell.text, *marks)), style=" ".join(MARKS[mark][1] for mark in marks).strip())


MAX_ROWS = 40
"""So many rows of a table are shown, beside those that hold an answer."""
PALE, STRONG = (255, 246, 229), (244, 140, 36)
"""Behind tokens with the lowest and the highest score, in red, green and blue; the letters are black."""
LEFT_OUT = "dim strike"
IN_ANSWER = "bold underline"
SWATCHES = 5
BETWEEN = " │ "


@dataclass(frozen=True)
class KeptTokens:
    """The tokens of one example, those that a network keeps, and their scores.

    Args:
        kinds: of each, "question", "header", "body" or "counts".
        rows: of each, [T]; 1 is the first of the body.
        cells: the number of the cell that each is in, in their order, [T].
        kept: which of them it answers from, Bool [T].
        scores: the logarithm of the probability that each matters [T]; None where none are scored.
        in_table: which are scored, Bool [T]; those of the question always stay.
        in_answer: which are of the answer, Bool [T].
    """

    kinds: Sequence[str]
    rows: np.ndarray
    cells: np.ndarray
    kept: np.ndarray
    scores: np.ndarray | None
    in_table: np.ndarray
    in_answer: np.ndarray

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The lowest and the highest score in the table; None without any."""
        if self.scores is None or not self.in_table.any():
            return None
        known = self.scores[self.in_table]
        return float(known.min()), float(known.max())

    def style(self, token: int) -> Style:
        """Return how a token looks: the stronger the colour behind it, the higher its score."""
        style = Style.parse(IN_ANSWER) if self.in_answer[token] else Style()
        if not self.kept[token]:
            return style + Style.parse(LEFT_OUT)
        if self.bounds is None or self.scores is None or not self.in_table[token]:
            return style
        low, high = self.bounds
        return style + shade((float(self.scores[token]) - low) / ((high - low) or 1.0))

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield what is said above them, with what each line is called."""
        text = f"{self.kept.sum():,} of {plural(len(self.kept), 'token')}"
        if self.in_answer.any():
            text += f"; of the answer {(self.kept & self.in_answer).sum():,} of {self.in_answer.sum():,}"
        yield "kept", text
        if self.bounds is None or self.scores is None:
            return
        left, gone = self.in_table & self.kept, self.in_table & ~self.kept
        text = "log P in the table {:.2f} to {:.2f}".format(*self.bounds)
        if left.any() and gone.any():
            text += f"; mean of kept tokens {self.scores[left].mean():.2f}, of the rest {self.scores[gone].mean():.2f}"
        yield "scores", text


def shade(share: float) -> Style:
    """Return the colour of a score: 0 the lowest of an example, 1 the highest."""
    red, green, blue = (round(pale + share * (full - pale)) for pale, full in zip(PALE, STRONG, strict=True))
    return Style(color="#000000", bgcolor=f"#{red:02x}{green:02x}{blue:02x}")


def print_kept(tokens: KeptTokens, pieces: Sequence[str], console: Console) -> None:
    """Print the input as it is read, row by row; what is left out is struck out, without a terminal in [-brackets-].

    Args:
        tokens: what the network makes of them.
        pieces: the text of each.
        console: where to print.
    """
    for name, text in tokens.facts():
        console.print(Text.assemble((f"{name:<10}", "bold"), text), soft_wrap=True)
    console.print()
    view, hidden = Table.grid(padding=(0, 2)), 0
    for name, row, places in _lines(tokens):
        if row > MAX_ROWS and not tokens.in_answer[places].any():
            hidden += 1
            continue
        view.add_row(Text(name, style="dim"), _line(tokens, pieces, places, plain=not console.is_terminal))
    console.print(view)
    if hidden:
        console.print(Text(f"{plural(hidden, 'more row')}", style="dim"))
    if console.is_terminal:
        console.print("", _legend(tokens.bounds), sep="\n")
    console.print()


def _lines(tokens: KeptTokens) -> Iterator[tuple[str, int, list[int]]]:
    """Yield the lines of an input in its order: their names, rows, and the places of their tokens."""
    for (kind, row), places in groupby(range(len(tokens.kept)), lambda at: (tokens.kinds[at], int(tokens.rows[at]))):
        yield (f"row {row}" if kind == "body" else kind), (row if kind == "body" else 0), list(places)


def _line(tokens: KeptTokens, pieces: Sequence[str], places: Sequence[int], *, plain: bool) -> Text:
    """Return the tokens of a line, a bar between its cells."""
    line, cells, is_kept = Text(), tokens.cells, tokens.kept
    for place in places:
        follows = place > places[0]
        begins_cell = follows and cells[place] != cells[place - 1]
        if plain and follows and not is_kept[place - 1] and (is_kept[place] or begins_cell):
            line.append("-]")
        if follows and not pieces[place].startswith("##"):
            line.append(BETWEEN if begins_cell else " ", style="dim" if begins_cell else "")
        if plain and not is_kept[place] and (not follows or is_kept[place - 1] or begins_cell):
            line.append("[-")
        line.append(pieces[place].removeprefix("##"), style=tokens.style(place))
    return line.append("-]") if plain and not is_kept[places[-1]] else line


def _legend(bounds: tuple[float, float] | None) -> Text:
    parts = [Text("left out", LEFT_OUT), Text("of the answer", IN_ANSWER)]
    if bounds is not None:
        low, high = bounds
        steps = [place / (SWATCHES - 1) for place in range(SWATCHES)]
        parts.insert(0, Text.assemble(*((f" {low + step * (high - low):.2f} ", shade(step)) for step in steps)))
    return Text("  ").join(parts)
