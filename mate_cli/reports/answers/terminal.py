"""Answers to questions about user tables as text, with the part of the table around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import JustifyMethod, OverflowMethod
from rich.table import Table
from rich.text import Text

from mate_cli.reports.format import plural, rate_text
from mate_cli.tables.example import UNANSWERABLE
from mate_cli.tables.formats.cell_text import list_names
from mate_cli.tables.questions import Session, TableAnswerResult
from mate_cli.tables.table import find_table_formats
from mate_cli.terminal.console import Console

MAX_ROWS, MIN_COLUMN_WIDTH, MAX_CELL_WIDTH, GAP = 12, 14, 40, 3
ROWS_WITHOUT_CELLS = 5
"""Number of printed rows if the model selected no cell of the table."""
MAX_PRINTED = 10
"""Maximum number of answers to print if the answers are written to a file, too.

Only a summary is printed for more answers.
"""
CHOSEN, WEAK, WARNING = "bold black on green", "dim", "yellow"


def print_session(session: Session, console: Console) -> None:
    """Print all answers of `mate predict`, grouped by table file, then the speed."""
    for reason in session.skipped.values():
        console.print(Text(f"skipped: {reason}", style=WARNING), soft_wrap=True)
    for source, answers in groupby(session.answers, key=lambda item: item.source):
        console.print(Text(source, style="bold cyan"), soft_wrap=True)
        for note in session.notes.get(source, ()):
            console.print(Text(f"  {note}", style=WEAK), soft_wrap=True)
        console.print()
        for item in answers:
            print_answered(item, console)
    console.print(Text(speed_text(session), style=WEAK))


def summary_text(session: Session) -> str:
    """Summarize a `mate predict` session: numbers of answered and unsure questions, and speed.

    A line per skipped file precedes these two lines.
    """
    counts = Counter(map(rate_certainty, session.answers))
    counts_text = f"{plural(len(session.answers), 'question')}: {counts['given'] + counts['unsure']} answered"
    counts_text += f" ({counts['unsure']} unsure)" if counts["unsure"] else ""
    counts_text += f", {counts['none']} without an answer" if counts["none"] else ""
    skipped = [f"skipped: {reason}" for reason in session.skipped.values()]
    return "\n".join([*skipped, counts_text, speed_text(session)])


def print_answered(answered: TableAnswerResult, console: Console) -> None:
    """Print a question, its answer, and the part of the table around the selected cells."""
    style = "bold green" if rate_certainty(answered) == "given" else WARNING
    _print_line("question", Text(answered.question, style="bold"), console)
    _print_line("answer", Text(answer_text(answered), style=style), console)
    for name, text in (("computed", computed_text(answered)), ("confidence", confidence_text(answered))):
        if text:
            _print_line(name, Text(text), console)
    for name, sentences, style in (("beware", answered.warnings, WARNING), ("cut", answered.cut, WEAK)):
        if sentences:
            _print_line(name, Text(" ".join(sentences), style=style), console)
    console.print()
    rows = MAX_ROWS if answered.cells else ROWS_WITHOUT_CELLS
    shown_part = window(answered, rows, max(2, (console.width - 8) // MIN_COLUMN_WIDTH))
    console.print(answered_table_view(answered, shown_part, console))
    if hidden := hidden_text(shown_part):
        console.print(Text(f"  {hidden}", style=WEAK))
    console.print()


def _print_line(name: str, text: Text, console: Console) -> None:
    console.print(Text.assemble((f"{name:<12}", WEAK), text), soft_wrap=not console.is_terminal)


def answered_table_view(answered: TableAnswerResult, shown: TableWindow, console: Console) -> Table:
    """Build the terminal table of an answer, in which the answer's cells are marked.

    Args:
        answered: answer with its table.
        shown: rows and columns to print.
        console: console that determines the width, and whether Unicode marks are possible.
    """
    unicode = console.encoding.lower().startswith("utf")
    mark, gap_text = ("● ", "⋯") if unicode else ("* ", "...")
    header, selected_cells = answered.table.header, frozenset(answered.cells)
    names = [gap_text if column is None else single_line(header[column].text) for column in shown.columns]
    lines = []

    def text_at(row: int | None, column: int | None) -> str:
        if column is None:
            return gap_text
        return "" if row is None else single_line(answered.table.rows[row][column].text)

    for row in shown.rows:
        texts = [text_at(row, column) for column in shown.columns]
        hits = [(row, column) in selected_cells for column in shown.columns]
        lines.append([Text(mark + text, style=CHOSEN) if hit else text for text, hit in zip(texts, hits, strict=True)])
    numbers = [gap_text if row is None else f"{answered.row_numbers[row]:,}" for row in shown.rows]
    natural = [max(map(cell_len, map(str, column))) for column in zip(names, *lines, strict=True)]
    widths = fitting_widths(natural, console.width - max(map(len, ["row", *numbers])) - GAP * len(names))
    view = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    view.add_column("row", justify="right", style=WEAK, no_wrap=True)
    overflow: OverflowMethod = "ellipsis" if unicode else "crop"
    for name, width, is_number in zip(names, widths, numeric_columns(answered, shown), strict=True):
        justify: JustifyMethod = "right" if is_number else "left"
        view.add_column(Text(name), width=width, no_wrap=True, justify=justify, overflow=overflow)
    for number, line in zip(numbers, lines, strict=True):
        view.add_row(number, *line)
    return view


def fitting_widths(natural: Sequence[int], room: int) -> list[int]:
    """Compute table column widths that fit the terminal, by limiting the widest columns.

    Args:
        natural: width in characters that each column needs for its content.
        room: available width of all columns together.
    """
    max_width = MAX_CELL_WIDTH
    while max_width > 1 and sum(min(width, max_width) for width in natural) > room:
        max_width -= 1
    return [min(width, max_width) for width in natural]


def single_line(text: str) -> str:
    """Return the text of a table cell on one line, truncated to four times `MAX_CELL_WIDTH`."""
    return " ".join(text[: 4 * MAX_CELL_WIDTH].split())


def hidden_text(shown: TableWindow, cell: str = "chosen cell") -> str:
    """Describe how much of a table is hidden, as in `3 rows and 1 column not shown`.

    The result is empty if nothing is hidden.

    Args:
        shown: shown rows and columns, with the numbers of hidden ones.
        cell: name of an important cell, whose hidden number is added.
    """
    rows = f"more than {plural(shown.hidden_rows, 'row')}" if shown.hidden_rows else "more rows"
    counts = {
        rows if shown.more else plural(shown.hidden_rows, "row"): shown.hidden_rows or shown.more,
        plural(shown.hidden_columns, "column"): shown.hidden_columns,
    }
    parts = [part for part, count in counts.items() if count]
    cells = f", {plural(shown.hidden_cells, cell)} among them" if shown.hidden_cells else ""
    return f"{' and '.join(parts)} not shown{cells}" if parts else ""


def speed_text(session: Session) -> str:
    """Format the speed of a series of answers: numbers of questions and tables, and times."""
    tables = len({item.source for item in session.answers})
    counts = f"{plural(len(session.answers), 'question')} on {plural(tables, 'table')}"
    steps = {"tables": "reading tables", "model": "loading the model", "rows": "choosing rows"}
    other_times = ", ".join(f"{step} {session.seconds.get(name, 0):.1f} s" for name, step in steps.items())
    rate = f"{rate_text(session.per_second)} questions per second"
    return f"{counts}: {rate} ({other_times}). Answered by {session.model}"


MAX_TEXTS = 10
EVEN = 0.5
"""Confidence below which an answer is more likely incorrect than correct."""
COMPUTED = {"sum": "sum of", "average": "average of", "count": "count of"}


@dataclass(frozen=True)
class TableWindow:
    """The rows and columns to show of a table that is too large to be shown completely.

    Args:
        rows: indices of the shown rows, None for a gap between them.
        columns: indices of the shown columns, None for a gap between them.
        hidden_rows: number of rows that are not shown.
        hidden_columns: number of columns that are not shown.
        hidden_cells: number of selected cells that are not shown.
        more: whether the table has further rows whose number is unknown.
    """

    rows: tuple[int | None, ...]
    columns: tuple[int | None, ...]
    hidden_rows: int
    hidden_columns: int
    hidden_cells: int
    more: bool = False


def window(answered: TableAnswerResult, most_rows: int, most_columns: int) -> TableWindow:
    """Select the table rows and columns to print around the cells of an answer.

    Cells with the highest probabilities are the most important.

    Args:
        answered: answer with its table.
        most_rows: maximum number of shown rows.
        most_columns: maximum number of shown columns.
    """
    shape = len(answered.table.rows), len(answered.table.header)
    pairs = sorted(zip(answered.cells, answered.probabilities, strict=True), key=lambda pair: -pair[1])
    shown_part = cell_window([cell for cell, _ in pairs], shape, most_rows, most_columns)
    if answered.result is None:
        return shown_part
    hidden_result_rows = answered.rows_in_file - len(answered.result)
    return replace(shown_part, hidden_rows=shown_part.hidden_rows + hidden_result_rows, more=answered.more_rows)


def cell_window(
    cells: Sequence[tuple[int, int]], shape: tuple[int, int], most_rows: int, most_columns: int
) -> TableWindow:
    """Select the table rows and columns to show around the given cells.

    The first column is included if possible, because it often names the rows.

    Args:
        cells: (row, column) of each cell, the most important first.
        shape: numbers of rows and columns of the table.
        most_rows: maximum number of shown rows.
        most_columns: maximum number of shown columns.
    """
    height, width = shape
    rows = pick_neighbours(list(dict.fromkeys(row for row, _ in cells)), height, most_rows)
    columns = pick_neighbours([*dict.fromkeys(column for _, column in cells), 0], width, most_columns)
    shown_rows, shown_columns = _with_gaps(rows, height), _with_gaps(columns, width)
    hidden = sum(row not in shown_rows or column not in shown_columns for row, column in cells)
    hidden_rows, hidden_columns = height - _count(shown_rows), width - _count(shown_columns)
    return TableWindow(shown_rows, shown_columns, hidden_rows, hidden_columns, hidden)


def _count(indices: Sequence[int | None]) -> int:
    return sum(index is not None for index in indices)


def numeric_columns(answered: TableAnswerResult, shown: TableWindow) -> list[bool]:
    """Return for each printed column whether it has only numbers, to align numbers in print.

    A column without text, and a gap between columns, is not numeric.
    """
    table = answered.table
    formats = table.formats or find_table_formats(table)
    texts = [
        [table.rows[row][column].text for row in shown.rows if row is not None] if column is not None else []
        for column in shown.columns
    ]
    return [
        column is not None
        and any(cells)
        and all(formats[column].read_number(text) is not None for text in cells if text)
        for column, cells in zip(shown.columns, texts, strict=True)
    ]


def pick_neighbours(wanted: Sequence[int], size: int, most: int) -> list[int]:
    """Select at most `most` row or column indices to show: the wanted indices and neighbors.

    If no index is wanted, or all indices fit, the first `most` indices are selected.

    Args:
        wanted: important indices, the most important first.
        size: number of indices, which range from 0 to `size` - 1.
        most: maximum number of selected indices.
    """
    if size <= most or not wanted:
        return list(range(min(size, most)))
    indices = dict.fromkeys(wanted[:most])
    for distance in range(1, size):
        for index in wanted[:most]:
            for neighbor in (index - distance, index + distance):
                if 0 <= neighbor < size and len(indices) < most:
                    indices.setdefault(neighbor)
    return sorted(indices)


def _with_gaps(indices: Sequence[int], size: int) -> tuple[int | None, ...]:
    """Insert None where increasing indices have a gap, to mark hidden rows or columns.

    If only a single index is missing, insert that index.
    """
    indices_with_gaps: list[int | None] = []
    for previous, index in zip([-1, *indices], [*indices, size], strict=True):
        if index - previous == 2:
            indices_with_gaps.append(index - 1)
        elif index - previous > 2:
            indices_with_gaps.append(None)
        if index < size:
            indices_with_gaps.append(index)
    return tuple(indices_with_gaps)


def answer_text(answered: TableAnswerResult) -> str:
    """Format the answer to a question as text, or the reason for a missing answer."""
    if answered.failure:
        return answered.failure if answered.failure == UNANSWERABLE else f"no answer: {answered.failure}"
    if answered.abstained:
        return f"abstained: {answered.confidence or 0:.2f} < {answered.threshold:g}"
    if answered.verdict:
        return answered.answer
    if answered.cells and answered.value is None and answered.aggregation == "none":
        texts = dict.fromkeys(answered.table.rows[row][column].text for row, column in answered.cells)
        return list_names((shorten(text) or "(an empty cell)" for text in texts), MAX_TEXTS)
    return answered.answer or "(an empty cell)"


def shorten(text: str, most: int = 200) -> str:
    """Truncate a text to one line of at most `most` characters, which ends with an ellipsis."""
    line = " ".join(text[: 2 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def rate_certainty(answered: TableAnswerResult) -> Literal["none", "unsure", "given"]:
    """Classify an answer as missing ("none"), low in confidence ("unsure") or "given".

    A confidence is low if it is below `EVEN`.
    """
    if answered.failure or answered.abstained or not (answered.cells or answered.verdict or answered.answer):
        return "none"
    return "unsure" if answered.confidence is not None and answered.confidence < EVEN else "given"


def computed_text(answered: TableAnswerResult) -> str:
    """Describe how the answer was computed from cells: `sum of 3 cells = 1,204`.

    The result is empty if the answer was not computed.
    """
    if answered.aggregation == "none" or not answered.cells or answered.abstained:
        return ""
    count = len(answered.cells)
    result = "" if answered.value is None else f" = {answered.answer}"
    return f"{COMPUTED[answered.aggregation]} {plural(count, 'cell')}{result}"


def confidence_text(answered: TableAnswerResult) -> str:
    """Format the confidence of an answer, and mark it if it is uncalibrated.

    The result is empty if the confidence is unknown.
    """
    if answered.confidence is None or answered.failure:
        return ""
    return f"{answered.confidence:.2f}{'' if answered.calibrated else ' (uncalibrated)'}"
