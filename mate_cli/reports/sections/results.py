"""The scores of every configuration, by dataset and metric."""

from __future__ import annotations

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.statistics import Summary
from mate_cli.reports.compare.tables import ResultRow, ResultTable, result_tables, units
from mate_cli.reports.format import center_text, plural, spread_text
from mate_cli.reports.view import Column, Kind, Mark, ReportSection, Row, View, ViewCell, sentences

UNDERLINED = "underlined: within the ± of the best, or no further from it than chance among so many questions explains"


def report_section(report: Report, *, wide: bool) -> ReportSection:
    """Return the tables; without any, a section that says nothing yet."""
    tables = report.tables
    if wide:
        tables = tuple(result_tables(report.groups, published=bool(report.published), wide=True))
    views = tuple(result_view(table, wide=wide) for table in tables)
    return ReportSection("results", "Results", "Results", views, content=lambda: {"note": reading_notes(report)})


def reading_notes(report: Report) -> str:
    """Say how to read the tables."""
    how = (units(report.tables), "the best of each column in bold, where another is clearly worse", UNDERLINED)
    lines = [sentences(["; ".join(filter(None, how))])] if report.tables else ["No run has recorded a metric yet."]
    return " ".join([*lines, sentences(report.notes)]).strip()


def result_view(table: ResultTable, *, wide: bool = False) -> View:
    """Return one table; what is no configuration stands below the others and is never marked."""
    kinds: tuple[tuple[Kind, tuple[ResultRow, ...]], ...] = (
        ("", table.rows),
        ("baseline", table.baselines),
        ("published", table.published),
    )
    rows = [
        Row(row.label, (*row_cells(row, table, kind), ViewCell(str(row.repeats or ""), row.repeats)), kind, row.short)
        for kind, members in kinds
        for row in members
    ]
    columns = [column_of(metric, table, wide=wide) for metric in table.columns]
    count = Column("n", minor=all(column.part for column in table.columns))  # stands in the table of all questions
    notes = (chance,) if (chance := chance_note(table)) else ()
    return View(table.title, (*columns, count), tuple(rows), unit=table.unit, notes=notes, detail=table.questions)


def chance_note(table: ResultTable) -> str:
    """Say within what the number of questions leaves the first score of each split; empty for what is no share."""
    told = []
    for split in dict.fromkeys(column.split for column in table.columns):
        places = [place for place, column in enumerate(table.columns) if column.split == split and not column.part]
        cells = (row.cells[place] for place in places for row in table.rows)
        if first := next((cell for cell in cells if cell and cell.interval), None):
            score, low, high = map(table.columns[places[0]].spec.text, (first.center, *(first.interval or ())))
            told.append(f"{low} to {high} for {score} on {plural(first.questions or 0, f'{split} question')}")
    return f"95 % interval by the number of questions (Wilson's binomial): {'; '.join(told)}" if told else ""


def column_of(metric: MetricName, table: ResultTable, *, wide: bool) -> Column:
    """Return a column below its split and the part of the questions; what the table's title says is left out."""
    parted = any(column.part for column in table.columns)
    part = metric.part_title if parted and (wide or not table.one_part) else ""
    short, groups = metric.short, (metric.split.capitalize(), *([part] if wide and parted else []))
    if table.one_score and not wide:
        short, groups = metric.part_title, ()
    elif not wide:
        above = part if part and table.one_split else f"{metric.split.capitalize()} {part if metric.part else ''}"
        groups = (above.strip(),)
    return Column(metric.title, groups, short, less_is_better=metric.direction < 0)


def row_cells(row: ResultRow, table: ResultTable, kind: Kind) -> list[ViewCell]:
    """Return a cell per metric."""
    return [
        result_cell(metric, cell, "" if kind else table.mark(place, cell))
        for place, (metric, cell) in enumerate(zip(table.columns, row.cells, strict=True))
    ]


def result_cell(metric: MetricName, cell: Summary | None, mark: Mark) -> ViewCell:
    """Return one number with its spread, its exact values on hover."""
    if cell is None:
        return ViewCell()
    middle = f"median {cell.median:.5g}, mean {cell.mean:.5g}"
    hover = f"{middle}, lowest {cell.low:.5g}, highest {cell.high:.5g}, n = {cell.count}"
    spread = None if cell.spread is None else metric.scale * cell.spread
    return ViewCell(
        center_text(cell, metric), metric.scale * cell.center, spread_text(cell, metric), spread, mark, hover=hover
    )
