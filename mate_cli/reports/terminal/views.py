"""Tables in the terminal, in the house style; signs stand for marks where there are no styles."""

from __future__ import annotations

from collections.abc import Sequence

from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from mate_cli.reports.format import NOTHING
from mate_cli.reports.terminal.details import MOST_ROWS, STATE_STYLES, frame
from mate_cli.reports.view import Column, Mark, View, ViewCell, sentences
from mate_cli.terminal.console import Console

NARROW = 110
STYLES: dict[Mark, str] = {"best": "bold green", "close": "underline", "better": "green", "worse": "red", "": ""}
SIGNS: dict[Mark, str] = {"best": "*", "close": "†", "better": "*", "worse": "*", "": ""}


def print_views(views: Sequence[View], console: Console, notes: Sequence[str] = ()) -> None:
    """Prints tables, their minor columns only where all of them have room, and sentences below them."""
    tables = [terminal_table(view, console) for view in views]
    if any(natural_width(table, console) > console.width for table in tables):
        tables = [terminal_table(view, console, minor=False) for view in views]
    for view, table in zip(views, tables, strict=True):
        console.print(table)
        if view.notes:
            console.print(Text("\n".join(view.notes), style="dim"))
        console.print()
    tested = any({"better", "worse"} & view.marks for view in views)
    said = [*notes, *(["a star (*) marks p < 0.05"] if tested and not console.is_terminal else [])]
    if said:
        console.print(Text(sentences(said), style="dim"), "", sep="\n")


def natural_width(table: Table, console: Console) -> int:
    """Returns the columns of the terminal that a table would like to have."""
    return Measurement.get(console, console.options.update(max_width=1000), table).maximum


def terminal_table(view: View, console: Console, *, minor: bool = True) -> Table:
    """Draws a table.

    Args:
        view: what it shows.
        console: what it is for.
        minor: with the columns that can be left out.
    """
    narrow, plain = console.width < NARROW, not console.is_terminal
    kept = [place for place, column in enumerate(view.columns) if minor or not column.minor]
    table = frame(view.title, narrow=narrow)
    heads = [stacked_heading(view.columns[place]) for place in kept]
    stacked = any(not head.startswith("\n") for head in heads)
    table.add_column(f"\n{view.head}" if stacked else view.head, overflow="fold", min_width=min(13, len(view.head)))
    for place, head in zip(kept, heads, strict=True):
        text = head if stacked else head.strip()
        if view.columns[place].is_number:
            table.add_column(text, justify="right", no_wrap=True)
        else:
            table.add_column(text, overflow="fold", min_width=10)
    before = ""
    for row in [row for row in view.rows if not row.kind][:MOST_ROWS] + [row for row in view.rows if row.kind]:
        if row.kind not in (before, "bound"):
            table.add_section()
            if row.kind == "published":
                table.add_row(Text(row.kind, style="italic"), style="dim")
        cells = (styled(row.cells[place], plain=plain, narrow=narrow) for place in kept)
        table.add_row(Text(row.label), *cells, style="dim" if row.kind else "")
        before = row.kind
    if (more := sum(not row.kind for row in view.rows) - MOST_ROWS) > 0:
        table.caption = f"{more} more on the page"
    return table


def stacked_heading(column: Column) -> str:
    """Writes a heading in two lines: its groups, then what is left to say."""
    return column.stacked or f"{' '.join(column.groups)}\n{column.heading}"


def styled(cell: ViewCell, *, plain: bool, narrow: bool) -> Text:
    """Writes `62.8 ±0.4`, marked by its style, or by a sign where there are no styles."""
    if cell.states:
        return Text(", ").join(Text(state, style=STATE_STYLES.get(state.split()[-1], "")) for state in cell.states)
    if cell.text == NOTHING:
        return Text(NOTHING, style="dim")
    text = Text().append((SIGNS[cell.mark] if plain else "") + cell.text, style=STYLES[cell.mark])
    return text.append(f"{'' if narrow else ' '}±{cell.spread}", style="dim") if cell.spread else text
