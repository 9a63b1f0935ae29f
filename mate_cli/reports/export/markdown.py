"""A comparison as Markdown, for notes, issues and README files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.costs import recorded_costs
from mate_cli.reports.compare.report import Report, state_text
from mate_cli.reports.compare.statistics import Summary
from mate_cli.reports.compare.tables import Mark, ResultRow, ResultTable, result_tables, units
from mate_cli.reports.format import NOTHING, center_text, spread_text

SPECIAL = str.maketrans({letter: f"\\{letter}" for letter in "\\`*_[]<>|#~"})
BEFORE: dict[Mark, str] = {"best": "**", "close": "", "": ""}
AFTER: dict[Mark, str] = {"best": "**", "close": "†", "": ""}


def report_markdown(report: Report) -> str:
    """Writes the results, the costs and how to read them."""
    tables = result_tables(report.groups, report.metric, published=bool(report.published), wide=True)
    parts = [result_text(table) for table in tables]
    parts += [cost_text(report), settings_text(report), reading_text(report, tables)]
    return "\n\n".join(parts) + "\n"


def result_text(table: ResultTable) -> str:
    """Writes one table of results under its title."""
    rows = [
        row_texts(row, table, [table.mark(index, cell) for index, cell in enumerate(row.cells)]) for row in table.rows
    ]
    plain: list[Mark] = [""] * len(table.columns)
    rows += [row_texts(row, table, plain) for row in table.baselines]
    rows += [row_texts(row, table, plain, " (published)") for row in table.published]
    heads = ["Configuration", *(column.title for column in table.columns), "n"]
    return f"### {escaped(table.title)}\n\n{grid(heads, rows)}"


def row_texts(row: ResultRow, table: ResultTable, marks: Sequence[Mark], suffix: str = "") -> list[str]:
    """Writes the cells of one row."""
    columns = zip(row.cells, table.columns, marks, strict=True)
    cells = [cell_text(cell, metric, mark) for cell, metric, mark in columns]
    return [escaped(row.short or row.label) + suffix, *cells, str(row.repeats or "")]


def cell_text(cell: Summary | None, metric: MetricName, mark: Mark) -> str:
    """Writes `**62.8** ±0.4`, or a dagger behind what is within the error of the best."""
    if cell is None:
        return NOTHING
    spread = spread_text(cell, metric)
    return f"{BEFORE[mark]}{center_text(cell, metric)}{AFTER[mark]}" + (f" ±{spread}" if spread else "")


def cost_text(report: Report) -> str:
    """Writes what each configuration cost and what became of its runs."""
    costs = recorded_costs(report.groups)
    rows = [
        [escaped(group.label), *(cost.text(group) for cost in costs), state_text(group.runs)] for group in report.groups
    ]
    return "### Cost and status\n\n" + grid(["Configuration", *(cost.name for cost in costs), "Status"], rows)


def settings_text(report: Report) -> str:
    """Writes what configurations have in common, and the settings in which they differ."""
    lines = ["### Settings", ""]
    for comparison in report.comparisons:
        lines.append(f"- {escaped(comparison.title)}: {escaped(', '.join(comparison.common)) or NOTHING}")
        lines += [f"  - `{difference.key}` {escaped(difference.text)}" for difference in comparison.differences]
    return "\n".join(lines)


def reading_text(report: Report, tables: Sequence[ResultTable]) -> str:
    """Says how to read the tables."""
    how = "; ".join(filter(None, [units(tables), "best of each column in bold"]))
    lines = [f"{state_text(report.runs).capitalize()}. {how[0].upper()}{how[1:]}."]
    if any("close" in table.marks for table in tables):
        lines.append("†: no further from the best than the best's own ±.")
    return " ".join([*lines, *(f"{escaped(note[0].upper() + note[1:])}." for note in report.notes)])


def grid(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Writes a table, words to the left and numbers to the right."""
    lines = [heads, ["---" if head in ("Configuration", "Status") else "---:" for head in heads], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def escaped(text: str) -> str:
    """Returns a text that Markdown shows as it is."""
    return text.translate(SPECIAL)
