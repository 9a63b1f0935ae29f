"""Answers about one's own tables in the terminal: question, answer, and the table around the chosen cells."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import JustifyMethod, OverflowMethod
from rich.table import Table
from rich.text import Text

from mate_cli.reports.answers.window import (
    TableWindow,
    answer_text,
    computed_text,
    confidence_text,
    numeric_columns,
    rate_certainty,
    window,
)
from mate_cli.reports.format import plural, rate_text
from mate_cli.tables.questions import Session, TableAnswerResult
from mate_cli.terminal.console import Console

MAX_ROWS, MIN_COLUMN_WIDTH, MAX_CELL_WIDTH, GAP = 12, 14, 40, 3
ROWS_WITHOUT_CELLS = 5
"""So much of the table is shown where no cell of it was chosen."""
CHOSEN, WEAK, WARNING = "bold black on green", "dim", "yellow"


def print_session(session: Session, console: Console) -> None:
    """Print all answers, table by table, then how long they took."""
    for reason in session.skipped.values():
        console.print(Text(f"skipped: {reason}", style=WARNING), soft_wrap=True)
    for source, answers in groupby(session.answers, key=lambda answered: answered.source):
        console.print(Text(source, style="bold cyan"), soft_wrap=True)
        for note in session.notes.get(source, ()):
            console.print(Text(f"  {note}", style=WEAK), soft_wrap=True)
        console.print()
        for answered in answers:
            print_answered(answered, console)
    console.print(Text(speed_text(session), style=WEAK))


def print_answered(answered: TableAnswerResult, console: Console) -> None:
    """Print one question with its answer and the table around the chosen cells."""
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
    shown = window(answered, rows, max(2, (console.width - 8) // MIN_COLUMN_WIDTH))
    console.print(answered_table_view(answered, shown, console))
    if hidden := hidden_text(shown):
        console.print(Text(f"  {hidden}", style=WEAK))
    console.print()


def _print_line(name: str, text: Text, console: Console) -> None:
    console.print(Text.assemble((f"{name:<12}", WEAK), text), soft_wrap=not console.is_terminal)


def answered_table_view(answered: TableAnswerResult, shown: TableWindow, console: Console) -> Table:
    """Build the part of the table; chosen cells have a colour and a mark."""
    unicode = console.encoding.lower().startswith("utf")
    mark, gap = ("● ", "⋯") if unicode else ("* ", "...")
    header, chosen = answered.table.header, frozenset(answered.cells)
    names = [gap if column is None else single_line(header[column].text) for column in shown.columns]
    lines = []
    for row in shown.rows:
        texts = [
            gap if column is None else single_line(answered.table.rows[row][column].text) if row is not None else ""
            for column in shown.columns
        ]
        marks = [(row, column) in chosen for column in shown.columns]
        lines.append([Text(mark + text, style=CHOSEN) if hit else text for text, hit in zip(texts, marks, strict=True)])
    numbers = [gap if row is None else f"{answered.row_numbers[row]:,}" for row in shown.rows]
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
    """Return widths of columns: as they would be, but none wider than what lets all have room.

    Args:
        natural: the widths that the columns would have.
        room: for all of them.
    """
    widest = MAX_CELL_WIDTH
    while widest > 1 and sum(min(width, widest) for width in natural) > room:
        widest -= 1
    return [min(width, widest) for width in natural]


def single_line(text: str) -> str:
    """Return a cell's text without line breaks, cut to what can ever be shown."""
    return " ".join(text[: 4 * MAX_CELL_WIDTH].split())


def hidden_text(shown: TableWindow, cell: str = "chosen cell") -> str:
    """Write how much of a table, or of the result of a query, is not shown, and how many cells that matter."""
    rows = f"more than {plural(shown.hidden_rows, 'row')}" if shown.hidden_rows else "more rows"
    counted = {
        rows if shown.more else plural(shown.hidden_rows, "row"): shown.hidden_rows or shown.more,
        plural(shown.hidden_columns, "column"): shown.hidden_columns,
    }
    parts = [part for part, count in counted.items() if count]
    cells = f", {plural(shown.hidden_cells, cell)} among them" if shown.hidden_cells else ""
    return f"{' and '.join(parts)} not shown{cells}" if parts else ""


def speed_text(session: Session) -> str:
    """Return how many questions were answered, and how fast."""
    tables = len({answered.source for answered in session.answers})
    counts = f"{plural(len(session.answers), 'question')} on {plural(tables, 'table')}"
    steps = {"tables": "reading tables", "model": "loading the model", "rows": "choosing rows"}
    before = ", ".join(f"{step} {session.seconds.get(name, 0):.1f} s" for name, step in steps.items())
    rate = f"{rate_text(session.per_second)} questions per second"
    return f"{counts}: {rate} ({before}). Answered by {session.model}"
