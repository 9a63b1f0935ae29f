"""Answers about one's own tables in the terminal: question, answer, and the table around the chosen cells."""

from __future__ import annotations

from itertools import groupby

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from mate_cli.reports.answers_window import Window, answer_text, computed_text, confidence_text, window
from mate_cli.reports.format import plural, rate_text
from mate_cli.tables.answered import Answered, Session

MOST_ROWS, NARROWEST, WIDEST_CELL = 12, 12, 32
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


def print_answered(answered: Answered, console: Console) -> None:
    """Print one question with its answer and the table around the chosen cells."""
    good = not (answered.failure or answered.abstained) and (answered.cells or answered.verdict or answered.text)
    _print_line("question", Text(answered.question, style="bold"), console)
    _print_line("answer", Text(answer_text(answered), style="bold green" if good else WARNING), console)
    for name, text in (("computed", computed_text(answered)), ("confidence", confidence_text(answered))):
        if text:
            _print_line(name, Text(text), console)
    for name, sentences, style in (("beware", answered.warnings, WARNING), ("cut", answered.cut, WEAK)):
        if sentences:
            _print_line(name, Text(" ".join(sentences), style=style), console)
    console.print()
    shown = window(answered, MOST_ROWS, max(2, (console.width - 8) // NARROWEST))
    console.print(table_view(answered, shown, console))
    if hidden := hidden_text(shown):
        console.print(Text(f"  {hidden}", style=WEAK))
    console.print()


def _print_line(name: str, text: Text, console: Console) -> None:
    console.print(Text.assemble((f"{name:<12}", WEAK), text), soft_wrap=not console.is_terminal)


def table_view(answered: Answered, shown: Window, console: Console) -> Table:
    """Build the part of the table; chosen cells have a colour and a mark."""
    unicode = console.encoding.lower().startswith("utf")
    mark, gap = ("● ", "⋯") if unicode else ("* ", "...")
    header = answered.table.header
    columns = [gap if column is None else one_line(header[column].text) for column in shown.columns]
    style = {"no_wrap": True, "overflow": "ellipsis" if unicode else "crop"}
    view = Table(
        Column("row", justify="right", style=WEAK),
        *(Column(Text(name), max_width=WIDEST_CELL, **style) for name in columns),  # type: ignore[arg-type]
        box=SIMPLE_HEAD,
        header_style="bold",
        pad_edge=False,
        show_edge=False,
    )
    chosen = frozenset(answered.cells)
    for row in shown.rows:
        if row is None:
            view.add_row(*[Text(gap, style=WEAK)] * (len(columns) + 1))
            continue
        cells = [
            Text(gap, style=WEAK)
            if column is None
            else Text(
                (mark if (row, column) in chosen else "") + one_line(answered.table.rows[row][column].text),
                style=CHOSEN if (row, column) in chosen else "",
            )
            for column in shown.columns
        ]
        view.add_row(f"{answered.row_numbers[row]:,}", *cells)
    return view


def one_line(text: str) -> str:
    """A cell's text without line breaks, cut to what can ever be shown."""
    return " ".join(text[: 4 * WIDEST_CELL].split())


def hidden_text(shown: Window) -> str:
    """How much of what was looked at is not shown."""
    parts = [plural(shown.hidden_rows, "row"), plural(shown.hidden_columns, "column")]
    kept = [part for part, count in zip(parts, (shown.hidden_rows, shown.hidden_columns), strict=True) if count]
    cells = f", {plural(shown.hidden_cells, 'chosen cell')} among them" if shown.hidden_cells else ""
    return f"{' and '.join(kept)} not shown{cells}" if kept else ""


def speed_text(session: Session) -> str:
    """How many questions were answered, and how fast."""
    tables = len({answered.source for answered in session.answers})
    counts = f"{plural(len(session.answers), 'question')} on {plural(tables, 'table')}"
    steps = {"tables": "reading tables", "model": "loading the model", "rows": "choosing rows"}
    before = ", ".join(f"{said} {session.seconds.get(name, 0):.1f} s" for name, said in steps.items())
    rate = f"{rate_text(session.per_second)} questions per second"
    return f"{counts}: {rate} ({before}). Answered by {session.model}"
