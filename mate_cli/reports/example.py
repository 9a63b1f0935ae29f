"""Terminal view of one example: question, answer, table, linked sentences and tokens."""

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
"""Maximum number of answer texts that are printed."""
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
"""Columns of the printed table of tokens, with their fields of `TableEncoding`.

`before` is printed only if a previous question has an answer.
"""


Place = tuple[int, int]


def print_example(example: TableExample, encoded_cells: Collection[Place], console: Console) -> None:
    """Print the question, the answer and the table of an example.

    Answer cells are highlighted, and truncated cells are struck out. Rows are numbered from 1, like the row ids of
    tokens.

    Args:
        example: example to print.
        encoded_cells: (row, column) of the body cells that are not truncated.
        console: console to print to.
    """
    for name, text in _facts(example):
        console.print(Text.assemble((f"{name:<10}", "bold"), text), soft_wrap=True)
    console.print(*table_views(example, encoded_cells, console.width), sep="\n")
    legend_text = legend(example, encoded_cells)
    if legend_text is not None:
        console.print(legend_text, "")


def _facts(example: TableExample) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of the lines shown about an example: id, question, answer and more."""
    answer, statement = example.answer, example.answer is not None and example.answer.label is not None
    yield "example", example.example_id + f"  ({', '.join(example.subsets)})" * bool(example.subsets)
    for number, question in enumerate(example.history, start=1):
        yield "before" if number == 1 else "", f"{number}. {question}"
    yield "statement" if statement else "question", example.question
    if answer is None:
        yield "answer", "not known"
        return
    text = " | ".join(answer.texts[:MAX_TEXTS]) or "none"
    more = len(answer.texts) - MAX_TEXTS
    yield "answer", text + f" and {more} more" * (more > 0) + f"  ({answer.source})" * bool(answer.source)
    if not statement and (target := _describe_target(answer)):
        yield "learnt", target


def _describe_target(answer: Answer) -> str:
    """Describe the training target of an example: table cells, aggregation and number.

    The result is empty for cells only.
    """
    if answer.number is None and answer.aggregation in (None, AGGREGATIONS[0]):
        return ""
    cells = plural(len(answer.coordinates), "cell") if answer.coordinates else ""
    if cells and answer.aggregation not in (None, AGGREGATIONS[0]):
        cells = f"the {answer.aggregation} of {cells}"
    number = "" if answer.number is None else f"the number {answer.number:g}"
    # An aggregation is known only under full supervision.
    separator = " = " if answer.aggregation else " or "
    return separator.join(filter(None, (cells, number)))


def print_cut(text: str, console: Console) -> None:
    """Print how many cells, rows and columns of a table were truncated."""
    console.print(Text.assemble(("cut       ", "bold"), text), soft_wrap=True)
    console.print()


def print_sentences(
    example: TableExample, additions: Mapping[str, str], lengths: Mapping[Place, tuple[int, int]], console: Console
) -> None:
    """Print the linked text that is appended to table cells, and how much of it is encoded.

    Args:
        example: example to print.
        additions: appended text, by link.
        lengths: (kept tokens, tokens before truncation) of each body cell, by (row, column).
        console: console to print to.
    """
    view = Table(Column("row", justify="right"), Column("column", justify="right"), "cell", "added", "tokens kept")
    for r, c, cell in example.table.cells():
        added_text = " ".join(additions[link] for link in cell.links if link in additions)
        if added_text:
            part, total = lengths[r, c]
            share = Text(f"{part} of {total}", style="" if part == total else "red")
            view.add_row(str(r + 1), str(c + 1), Text(cell.text), Text(added_text), share)
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
    """Print the first tokens of an encoded example with row ids, column ids and other ids.

    Body rows and columns are numbered from 1.

    Args:
        arrays: fields of the `TableEncoding` by name, each [T].
        kinds: category of each token, a key of `KIND_STYLES`.
        pieces: text of each token.
        shown: number of tokens to print.
        console: console to print to.
        kept_tokens: decision of a pruning network for each token, None if the network keeps all tokens.
    """
    fields = {name: field for name, field in TOKEN_FIELDS.items() if name != "before" or arrays[field].any()}
    names = [*fields, *(("kept" if kept_tokens.scores is None else "score",) if kept_tokens else ())]
    view = Table(Column("#", justify="right"), "token", *(Column(name, justify="right") for name in names))
    for index, token in enumerate(pieces[:shown]):
        values = {name: int(arrays[field][index]) for name, field in fields.items()}
        style = IN_CELL if values["label"] else KIND_STYLES[kinds[index]]
        shown_values = {**values, "row": "counts"} if kinds[index] == "counts" else values
        numbers = (Text(str(value), style="" if value else "dim") for value in shown_values.values())
        scores = [score_text(kept_tokens, index)] if kept_tokens else []
        view.add_row(str(index), Text(token, style=style), *numbers, *scores)
    console.print(Text(f"Tokens (the first {min(shown, len(pieces))} of {len(pieces)})", style="bold"), view)


def score_text(tokens: KeptTokens, token: int) -> Text:
    """Format a token's relevance score, or without a score the decision of pruning as text."""
    text = "kept" if tokens.kept[token] else "left out"
    if tokens.scores is not None and (tokens.in_table[token] or not tokens.kept[token]):
        text = f"{tokens.scores[token]:.2f}"
    return Text(text, style=tokens.style(token))


IN_CELL, IN_PASSAGE, DROPPED = "bold black on green", "bold black on yellow", "dim strike"
MARKS = {
    "●": ("answer in the cell", IN_CELL),
    "○": ("answer in a linked passage", IN_PASSAGE),
    "◂": ("answer of the previous question", "underline"),
    "✂": ("cut", DROPPED),
    "↗": ("has links", ""),
}
"""Marks printed after the text of a cell, with their meaning and the style of the cell."""
MIN_COLUMN_WIDTH = 9
"""Minimum width of a column with its border, in characters.

Tables with more columns than fit are split.
"""


def table_views(example: TableExample, encoded_cells: Collection[Place], width: int) -> Iterator[Table]:
    """Yield the table of an example as terminal tables that each show some of the columns.

    Args:
        example: example to show.
        encoded_cells: (row, column) of the body cells that have tokens.
        width: width of the terminal in characters.
    """
    table, cell_marks = example.table, _marks(example, encoded_cells)
    max_columns = max(2, (width - MIN_COLUMN_WIDTH) // MIN_COLUMN_WIDTH)
    parts = range(0, len(table.header), max_columns)
    for start in parts:
        columns = range(len(table.header))[start : start + max_columns]
        range_text = f"columns {columns[0] + 1} to {columns[-1] + 1} of {len(table.header)}" if len(parts) > 1 else ""
        title = Text(", ".join(filter(None, (table.title, range_text))))
        yield _part(example, columns, title if title.plain else None, cell_marks)


def legend(example: TableExample, encoded_cells: Collection[Place]) -> Text | None:
    """Explain the marks that are printed in the table of an example.

    Return None if there are no marks.
    """
    present_marks = {mark for signs in _marks(example, encoded_cells).values() for mark in signs}
    entries = [
        Text(f" {mark} {meaning} ", style=style) for mark, (meaning, style) in MARKS.items() if mark in present_marks
    ]
    return Text("  ").join(entries) if entries else None


def _part(
    example: TableExample, columns: Sequence[int], title: Text | None, cell_marks: Mapping[Place, Sequence[str]]
) -> Table:
    table = example.table
    headings = (Column(Text(table.header[column].text), overflow="fold") for column in columns)
    view = Table(Column("row", no_wrap=True), *headings, title=title)
    shown_rows = _shown_rows(example)
    for previous, r in zip((-1, *shown_rows), shown_rows, strict=False):
        if r - previous > 1:
            view.add_row(Text("…", style="dim"), Text(plural(r - previous - 1, "more row"), style="dim"))
        cells = (_mark_cell(table.rows[r][c], cell_marks[r, c]) for c in columns)
        view.add_row(Text(str(r + 1), style="dim"), *cells)
    return view


def _shown_rows(example: TableExample) -> list[int]:
    """Return the indices of the table rows to print: first rows, answer rows and last row."""
    rows = range(len(example.table.rows))
    coordinates: Coordinates = (example.answer.coordinates if example.answer else ()) + example.previous_cells
    return sorted({*rows[:MAX_ROWS], *(row for row, _ in coordinates), *rows[-1:]})


def _marks(example: TableExample, encoded_cells: Collection[Place]) -> dict[Place, list[str]]:
    """Return symbols to show in each table cell, such as "✂" if the cell was truncated."""
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
    """Return {cell: "●"} for cells that contain the answer, and "○" if they only link to it."""
    answer = example.answer
    if answer is None:
        return {}
    linking = linking_cells(example.table, answer.texts, answer.coordinates)
    return {cell: "○" if cell in linking else "●" for cell in answer.coordinates}


def _mark_cell(cell: Cell, signs: Sequence[str]) -> Text:
    return Text(" ".join((cell.text, *signs)), style=" ".join(MARKS[mark][1] for mark in signs).strip())


MAX_ROWS = 40
"""Maximum number of printed table rows, in addition to rows that contain an answer."""
PALE, STRONG = (255, 246, 229), (244, 140, 36)
"""Background colors (RGB) of the tokens with the lowest and the highest relevance score.

The text of tokens is black.
"""
LEFT_OUT = "dim strike"
IN_ANSWER = "bold underline"
SWATCHES = 5
BETWEEN = " │ "


@dataclass(frozen=True)
class KeptTokens:
    """Tokens of an example, with the decisions and scores of a network that prunes tokens.

    Args:
        kinds: category of each token: "question", "header", "body" or "counts".
        rows: row of each token [T], 1 for the first body row.
        cells: index of the cell of each token [T], in reading order.
        kept: whether the network keeps the token to answer the question, Bool [T].
        scores: log probability that each token is relevant [T], None if the network does not score tokens.
        in_table: whether the token is scored, Bool [T]. Question tokens are always kept.
        in_answer: whether the token belongs to the answer, Bool [T].
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
        """Lowest and highest relevance score of a table token, None without scores."""
        if self.scores is None or not self.in_table.any():
            return None
        table_scores = self.scores[self.in_table]
        return float(table_scores.min()), float(table_scores.max())

    def style(self, token: int) -> Style:
        """Return the text style that shows a token's relevance score, or that it was pruned.

        The background is stronger for higher scores.

        Args:
            token: index of the token.
        """
        style = Style.parse(IN_ANSWER) if self.in_answer[token] else Style()
        if not self.kept[token]:
            return style + Style.parse(LEFT_OUT)
        if self.bounds is None or self.scores is None or not self.in_table[token]:
            return style
        low, high = self.bounds
        return style + shade((float(self.scores[token]) - low) / ((high - low) or 1.0))

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield (name, text) of the lines shown about pruning: token counts and score ranges."""
        text = f"{self.kept.sum():,} of {plural(len(self.kept), 'token')}"
        if self.in_answer.any():
            text += f"; of the answer {(self.kept & self.in_answer).sum():,} of {self.in_answer.sum():,}"
        yield "kept", text
        if self.bounds is None or self.scores is None:
            return
        remain, dropped = self.in_table & self.kept, self.in_table & ~self.kept
        text = "log P in the table {:.2f} to {:.2f}".format(*self.bounds)
        if remain.any() and dropped.any():
            text += (
                f"; mean of kept tokens {self.scores[remain].mean():.2f}, of the rest {self.scores[dropped].mean():.2f}"
            )
        yield "scores", text


def shade(share: float) -> Style:
    """Return a text style whose background color represents a relevance score.

    Args:
        share: relative score: 0 for the lowest score of an example, 1 for the highest.
    """
    red, green, blue = (round(pale + share * (full - pale)) for pale, full in zip(PALE, STRONG, strict=True))
    return Style(color="#000000", bgcolor=f"#{red:02x}{green:02x}{blue:02x}")


def print_kept(tokens: KeptTokens, pieces: Sequence[str], console: Console) -> None:
    """Print the tokens of an example by table row, with pruned tokens struck out.

    If the output is not a terminal, pruned tokens are in [-brackets-].

    Args:
        tokens: tokens with the decisions of the network.
        pieces: text of each token.
        console: console to print to.
    """
    for name, text in tokens.facts():
        console.print(Text.assemble((f"{name:<10}", "bold"), text), soft_wrap=True)
    console.print()
    view, hidden = Table.grid(padding=(0, 2)), 0
    for name, row, positions in _lines(tokens):
        if row > MAX_ROWS and not tokens.in_answer[positions].any():
            hidden += 1
            continue
        view.add_row(Text(name, style="dim"), _line(tokens, pieces, positions, plain=not console.is_terminal))
    console.print(view)
    if hidden:
        console.print(Text(f"{plural(hidden, 'more row')}", style="dim"))
    if console.is_terminal:
        console.print("", _legend(tokens.bounds), sep="\n")
    console.print()


def _lines(tokens: KeptTokens) -> Iterator[tuple[str, int, list[int]]]:
    """Yield (name, row number, token positions) of each table row, to print it on a line.

    Question and header also have a line each.
    """
    for (kind, row), positions in groupby(
        range(len(tokens.kept)), lambda position: (tokens.kinds[position], int(tokens.rows[position]))
    ):
        yield (f"row {row}" if kind == "body" else kind), (row if kind == "body" else 0), list(positions)


def _line(tokens: KeptTokens, pieces: Sequence[str], positions: Sequence[int], *, plain: bool) -> Text:
    """Format the tokens of one printed line, with a bar between table cells."""
    line, cells, is_kept = Text(), tokens.cells, tokens.kept
    for position in positions:
        follows = position > positions[0]
        begins_cell = follows and cells[position] != cells[position - 1]
        if plain and follows and not is_kept[position - 1] and (is_kept[position] or begins_cell):
            line.append("-]")
        if follows and not pieces[position].startswith("##"):
            line.append(BETWEEN if begins_cell else " ", style="dim" if begins_cell else "")
        if plain and not is_kept[position] and (not follows or is_kept[position - 1] or begins_cell):
            line.append("[-")
        line.append(pieces[position].removeprefix("##"), style=tokens.style(position))
    return line.append("-]") if plain and not is_kept[positions[-1]] else line


def _legend(bounds: tuple[float, float] | None) -> Text:
    parts = [Text("left out", LEFT_OUT), Text("of the answer", IN_ANSWER)]
    if bounds is not None:
        low, high = bounds
        steps = [step_index / (SWATCHES - 1) for step_index in range(SWATCHES)]
        parts.insert(0, Text.assemble(*((f" {low + step * (high - low):.2f} ", shade(step)) for step in steps)))
    return Text("  ").join(parts)
