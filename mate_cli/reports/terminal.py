"""A comparison of runs in the terminal: tables, with explanations below them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from rich import box
from rich.cells import cell_len
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from mate_cli.errors import ConfigError
from mate_cli.reports.all_sections import BRIEF, report_sections
from mate_cli.reports.compare.report import Report, published_notes, reason_text, state_text
from mate_cli.reports.compare.tables import units
from mate_cli.reports.format import NOTHING, plural
from mate_cli.reports.sections.errors import wrong_section
from mate_cli.reports.view import Column, Mark, ReportSection, Row, View, ViewCell, sentences
from mate_cli.terminal.console import Console

MAX_PAPERS, MAX_BRIEF = 5, 5
"""Maximum numbers of published rows and of unfinished runs in the brief report."""
UNRANKED = "Not ranked, as no run has a score on dev"


def print_report(report: Report, console: Console, *, brief: bool = False) -> None:
    """Print a comparison of runs to the terminal.

    Args:
        report: comparison to print.
        console: console to print to.
        brief: whether to print only one table of scores per dataset, requested significance tests, and costs.
    """
    print_warnings(report.warnings, console)
    mark_set: set[Mark] = set()
    for section in report_sections(report, among=BRIEF if brief else ()):
        views = [brief_view(view, report) for view in main_views(section, report)] if brief else section.tables
        print_views(views, console, section.visible_notes)
        mark_set.update(*(view.marks for view in views))
    if not brief:
        print_views([settings_view(report)], console)
    if report.unfinished:
        print_views([unfinished_view(report, MAX_BRIEF if brief else MAX_ROWS)], console)
    console.print(Text("\n".join(footer(report, console, mark_set, brief=brief)), style="dim"))


def print_wrong_answers(report: Report, console: Console) -> None:
    """Print the questions that a single run answers incorrectly.

    Raises:
        ConfigError: the comparison has several runs, or the run has no predictions.
    """
    print_warnings(report.warnings, console)
    section = wrong_section(report, wide=False)
    if section is None:
        count = sum(run.parent is None for run in report.runs)
        problem = "needs one run" if count > 1 else "needs predictions, and this run has none"
        hint = f"Give one run folder, not {count}" if count > 1 else "Run mate evaluate run=FOLDER split=dev"
        raise ConfigError(problem, where="sections=wrong", remedy=hint)
    print_views(section.tables, console, section.notes)


def print_warnings(warnings: Sequence[str], console: Console) -> None:
    """Print a warning for each file that could not be read."""
    for warning in warnings:
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)


def main_views(section: ReportSection, report: Report) -> Sequence[View]:
    """Select the tables of a report section for the brief report in the terminal.

    If the section is "results", the tables with the main metric are selected, one per block. Configurations that these
    tables lack, such as systems scored only on test, get the first table that contains them. All tables of other
    sections are selected.
    """
    if section.name != "results":
        return section.tables
    selected_views: dict[int, View] = {}
    shown_labels: set[str] = set()
    tables = [*zip(report.tables, section.views, strict=True)]
    for table, view in sorted(tables, key=lambda pair: report.metric not in [c.full for c in pair[0].columns]):
        if labels := {row.label for row in table.rows} - shown_labels:
            selected_views[report.tables.index(table)] = view
            shown_labels |= labels
    return [selected_views[index] for index in sorted(selected_views)]


def brief_view(view: View, report: Report) -> View:
    """Remove published results from a table, except the best result of each compared network.

    The brief report in the terminal shows the remaining rows.
    """
    models = {run.setting("model") for run in report.runs}
    papers = [row for row in view.rows if row.kind == "published"]
    model_by_label = {row.label: row.model for row in reversed(report.published) if row.model in models}
    # The files list the best result of each model first.
    first = {model: label for label, model in model_by_label.items()}.values()
    selection = [row for row in papers if row.label in first][:MAX_PAPERS] or papers[:1]
    return replace(view, rows=tuple(row for row in view.rows if row.kind != "published" or row in selection))


def footer(report: Report, console: Console, marks: Collection[Mark], *, brief: bool) -> list[str]:
    """Return the lines that explain the printed tables: runs, ranking metric, marks and notes.

    Args:
        report: printed comparison.
        console: console that determines the explanation of marks.
        marks: marks that occur in the tables.
        brief: whether only the brief report was printed.
    """
    counts = f"{plural(len(report.groups), 'configuration')}, {plural(len(report.runs), 'run')}"
    lines = [". ".join(filter(None, [f"{counts}: {state_text(report.runs)}", units(report.tables)])) + "."]
    if report.metric:
        ranking_text = f"Ranked by {report.names[report.ranked_by].title}" if report.ranked_by else UNRANKED
        lines[0] += f" {ranking_text}."
    if "best" in marks:
        lines.append(f"Best of each column {'in bold' if console.is_terminal else 'with a star (*)'}.")
    if "close" in marks:
        style = "Underlined" if console.is_terminal else "With a dagger (†)"
        lines[-1] += f" {style}: not clearly worse, within ± or sampling noise."
    papers = published_notes(report.tables, report.published, report.options.statistic) if brief else []
    lines += [sentences([note]) for note in report.notes if note not in papers]
    more = "Test figures, settings" if any(table.is_test for table in report.tables) else "Settings"
    return [*lines, *[f"{more} and more: sections=all, or the page."] * brief]


MAX_ROWS = 40
MAX_DIFFERENCES, MAX_WORD = 8, 40
STATE_STYLES = {"failed": "red", "interrupted": "yellow", "running": "cyan", "finished": "green"}
NARROW = 110
LABEL, WORDS = 20, 10
"""Minimum widths in characters of long row labels and of text columns.

A table that does not fit at these widths is split.
"""
STYLES: dict[Mark, str] = {"best": "bold green", "close": "underline", "better": "green", "worse": "red", "": ""}
SIGNS: dict[Mark, str] = {"best": "*", "close": "†", "better": "*", "worse": "*", "": ""}


def print_views(views: Sequence[View], console: Console, notes: Sequence[str] = ()) -> None:
    """Print tables with their notes, split by columns if they are wider than the terminal.

    Args:
        views: tables to print.
        console: console to print to.
        notes: sentences below the tables.
    """
    for view in fit_views(views, console):
        console.print(terminal_table(view, console))
        if view.notes:
            console.print(Text("\n".join(view.notes), style="dim"))
        console.print()
    tested = any({"better", "worse"} & view.marks for view in views)
    lines = [*notes, *(["a star (*) marks p < 0.05"] if tested and not console.is_terminal else [])]
    if lines:
        console.print(Text(sentences(lines), style="dim"), "", sep="\n")


def fit_views(views: Sequence[View], console: Console) -> list[View]:
    """Split tables by columns to fit the terminal, or return all unchanged if all of them fit.

    Minor columns are omitted before tables are split.
    """
    if all(natural_width(terminal_table(view, console), console) <= console.width for view in views):
        return list(views)
    major = (view.only([index for index, column in enumerate(view.columns) if not column.minor]) for view in views)
    return [part for view in major for part in split_view(view, console)]


def split_view(view: View, console: Console) -> Iterator[View]:
    """Split a table of numbers by columns into parts of equal size that fit the terminal."""
    indices = range(len(view.columns))
    tables = ((n, terminal_table(view.only(indices[:n]), console, folded=True)) for n in range(len(indices), 1, -1))
    count = next((n for n, table in tables if natural_width(table, console) <= console.width), 1)
    if count >= len(indices):
        yield view
        return
    parts = -(-len(indices) // count)
    count = -(-len(indices) // parts)  # an equal number of columns per part
    yield replace(view.only(indices[:count]), notes=())
    yield from split_view(view.only(indices[count:]), console)


def name_width(view: View, share: int) -> int:
    """Return the width of the first column, which contains row labels, in characters.

    Args:
        view: table with the labels.
        share: preferred width in characters.
    """
    names = [view.head, *(row.label for row in view.rows)]
    longest = max(cell_len(word) for name in names for word in name.split())
    return min(max(map(cell_len, names)), max(share, min(longest, MAX_WORD)))


def natural_width(table: Table, console: Console) -> int:
    """Return the width in characters that a table needs without line breaks in cells."""
    return Measurement.get(console, console.options.update(max_width=1000), table).maximum


def terminal_table(view: View, console: Console, *, folded: bool = False) -> Table:
    """Convert a report table to a `rich` table for the terminal.

    Row labels are wrapped by explicit widths, because `rich` wraps them only if no other column contains text.

    Args:
        view: table to convert.
        console: console that determines width and styles.
        folded: whether row labels and text are as narrow as possible.
    """
    has_words = any(not column.is_number for column in view.columns)
    names_width = name_width(view, LABEL if folded else console.width // 3) if folded or has_words else None
    narrow, unstyled = console.width < NARROW, not console.is_terminal
    table = frame(view.heading, narrow=narrow)
    heads = [stacked_heading(column) for column in view.columns]
    stacked = any(not head.startswith("\n") for head in heads)
    names = f"\n{view.head}" if stacked else view.head
    min_width = name_width(view, LABEL) if names_width else min(13, len(view.head))
    # Set a fixed width, because rich would shrink labels and text equally and break words.
    if names_width and not folded:
        room = console.width - natural_width(terminal_table(view, console, folded=True), console)
        names_width = min(names_width, min_width + max(0, room))
    table.add_column(names, overflow="fold", min_width=min_width, width=names_width)
    for index, (column, head) in enumerate(zip(view.columns, heads, strict=True)):
        text = head if stacked else head.strip()
        if column.is_number:
            table.add_column(text, justify="right", no_wrap=True)
        else:
            lines = (line for row in view.rows for line in (*text.split("\n"), row.cells[index].text))
            min_width = min(WORDS, max(map(cell_len, lines), default=WORDS))
            table.add_column(text, overflow="fold", min_width=min_width, max_width=WORDS if folded else None)
    previous_kind = ""
    for row in [row for row in view.rows if not row.kind][:MAX_ROWS] + [row for row in view.rows if row.kind]:
        if row.kind not in (previous_kind, "bound"):
            table.add_section()
            if row.kind == "published":
                table.add_row(Text(row.kind, style="italic"), style="dim")
        cells = (style_cell(cell, plain=unstyled, narrow=narrow) for cell in row.cells)
        table.add_row(Text(row.label), *cells, style="dim" if row.kind else "")
        previous_kind = row.kind
    if (more := sum(not row.kind for row in view.rows) - MAX_ROWS) > 0:
        table.caption = f"{more} more on the page"
    return table


def stacked_heading(column: Column) -> str:
    """Return a column heading of two lines: names of column groups, then column title."""
    return column.stacked or f"{' '.join(column.groups)}\n{column.heading}"


def style_cell(cell: ViewCell, *, plain: bool, narrow: bool) -> Text:
    """Format a table cell as `62.8 ±0.4`, in the text style of its mark.

    Args:
        cell: cell to format.
        plain: whether the console has no styles. Marks are then signs, such as a star.
        narrow: whether to omit the space before ±.
    """
    if cell.states:
        return Text(", ").join(Text(state, style=STATE_STYLES.get(state.split()[-1], "")) for state in cell.states)
    if cell.text == NOTHING:
        return Text(NOTHING, style="dim")
    text = Text().append((SIGNS[cell.mark] if plain else "") + cell.text, style=STYLES[cell.mark])
    return text.append(f"{'' if narrow else ' '}±{cell.spread}", style="dim") if cell.spread else text


def frame(title: str, *, narrow: bool = False) -> Table:
    """Create an empty `rich` table in the style of mate's reports."""
    return Table(
        title=Text(title, style="bold"),
        title_justify="left",
        min_width=len(title),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 0) if narrow else (0, 1, 0, 0),
        header_style="dim",
    )


def settings_view(report: Report) -> View:
    """Build a table of the common and the differing settings of configurations.

    The settings are compared separately for each dataset and task.
    """
    lines: list[tuple[str, str]] = []
    for comparison in report.comparisons:
        differences = comparison.differences
        lines.append((comparison.title, " · ".join(comparison.common) or NOTHING))
        lines += [(f"  {difference.key}", difference.text) for difference in differences[:MAX_DIFFERENCES]]
        if len(differences) > MAX_DIFFERENCES:
            lines.append((f"  {len(differences) - MAX_DIFFERENCES} more", "on the page"))
    rows = tuple(Row(name, (ViewCell(text),)) for name, text in lines)
    return View("Settings", (Column("Shared settings, then differences", is_number=False),), rows, "Dataset and task")


def unfinished_view(report: Report, most: int = MAX_ROWS) -> View:
    """Build a table of the first unfinished runs, with the reason for each."""
    words = (Column(name, is_number=False) for name in ("Network", "Status", "Reason"))
    columns = (Column("Seed"), *words)
    rows = tuple(
        Row(
            run.name,
            (
                ViewCell(run.text("seed") or NOTHING),
                ViewCell(run.setting("model") or NOTHING),
                ViewCell(run.status, states=(run.status,)),
                ViewCell(reason_text(run, report.created)),
            ),
        )
        for run in report.unfinished[:most]
    )
    more = len(report.unfinished) - most
    return View("Not finished", columns, rows, "Run", notes=(f"{more} more on the page",) * (more > 0))
