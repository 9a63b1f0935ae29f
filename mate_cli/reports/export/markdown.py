"""A comparison as Markdown, for notes, issues and README files."""

from __future__ import annotations

from collections.abc import Iterator

from mate_cli.reports.all_sections import report_sections
from mate_cli.reports.compare.report import Report, state_text
from mate_cli.reports.compare.tables import units
from mate_cli.reports.format import NOTHING
from mate_cli.reports.view import Mark, ReportSection, View, ViewCell, sentences

SPECIAL = str.maketrans({letter: f"\\{letter}" for letter in "\\`*_[]<>|#~"})
BEFORE: dict[Mark, str] = {"best": "**", "better": "**", "worse": "**"}
AFTER: dict[Mark, str] = {"best": "**", "close": "†", "better": "**", "worse": "**"}
MARK_NOTES: dict[Mark, str] = {
    "best": "Bold: best.",
    "close": "†: within the ± of the best, or no further than chance among so many questions explains.",
    "better": "Bold: p < 0.05.",
    "worse": "Bold: p < 0.05.",
}


def report_markdown(report: Report) -> str:
    """Write the tables of every section, the settings, and how to read them."""
    parts = [part for section in report_sections(report, wide=True) for part in section_parts(section)]
    return "\n\n".join([*parts, settings_text(report), reading_text(report)]) + "\n"


def section_parts(section: ReportSection) -> Iterator[str]:
    """Yield the tables of a section, and what must be known to read them."""
    yield from map(view_markdown, section.tables)
    if section.visible_notes:
        yield escape(sentences(section.visible_notes))


def view_markdown(view: View) -> str:
    """Write one table under its title, words to the left and numbers to the right, and what its marks say."""
    heads = [view.head, *(column.title.replace("\n", " ") for column in view.columns)]
    sides = ["---", *("---:" if column.is_number else "---" for column in view.columns)]
    names = (escape(row.short or row.label) + " (published)" * (row.kind == "published") for row in view.rows)
    lines = [[name, *map(cell_text, row.cells)] for name, row in zip(names, view.rows, strict=True)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, sides, *lines))
    legend = " ".join(dict.fromkeys(note for mark, note in MARK_NOTES.items() if mark in view.marks))
    return "\n\n".join(filter(None, [f"### {escape(view.heading)}", table, legend, *map(escape, view.notes)]))


def cell_text(cell: ViewCell) -> str:
    """Write `**62.8** ±0.4`, or a dagger behind what is within the error of the best."""
    spread = f" ±{cell.spread}" if cell.spread else ""
    return f"{BEFORE.get(cell.mark, '')}{escape(cell.text)}{AFTER.get(cell.mark, '')}{spread}"


def settings_text(report: Report) -> str:
    """Write what configurations have in common, and the settings in which they differ."""
    lines = ["### Settings", ""]
    for comparison in report.comparisons:
        lines.append(f"- {escape(comparison.title)}: {escape(', '.join(comparison.common)) or NOTHING}")
        lines += [f"  - `{difference.key}` {escape(difference.text)}" for difference in comparison.differences]
    return "\n".join(lines)


def reading_text(report: Report) -> str:
    """Say how to read the tables."""
    lines = [f"{state_text(report.runs).capitalize()}.", sentences(list(filter(None, [units(report.tables)])))]
    return " ".join(filter(None, [*lines, *(escape(sentences([note])) for note in report.notes)]))


def escape(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return text.translate(SPECIAL)
