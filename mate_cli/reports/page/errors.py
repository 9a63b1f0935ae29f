"""What is wrong with wrong answers, as a table of the page."""

from __future__ import annotations

from collections.abc import Sequence

from mate_cli.metrics.answer_errors import KINDS, PAPER, PLACES
from mate_cli.reports.compare.errors import ErrorRow, error_row, error_rows, paper_text
from mate_cli.reports.compare.report import Report
from mate_cli.reports.format import NOTHING
from mate_cli.reports.html_elements import Markup, element

MOST_ROWS = 30


def errors_section(report: Report) -> Markup | None:
    """Returns the shares of each kind of error, None where no run answers with texts."""
    rows = error_rows(report)[:MOST_ROWS]
    if not rows:
        return None
    note = (
        "Percent. A near miss is within the answer or holds it, or is the same number; the next two are shares of the "
    )
    note += "near misses, then of all others. Cells are those that were read, of questions of which some cell has the "
    note += "answer. All seeds together. The paper sorted its errors by hand (section 7), here rules do it."
    heading = element("h2", "Wrong answers", element("small", rows[0].split))
    return element("section", heading, error_table(rows), element("p", note, class_="note"), id="errors")


def error_table(rows: Sequence[ErrorRow]) -> Markup:
    """Returns a line per configuration, and one of the paper."""
    names = ("Configuration", "Wrong", *PAPER, *PLACES.values(), *KINDS.values())
    heads = [element("th", name, class_="number" if place else None, scope="col") for place, name in enumerate(names)]
    lines = [_line(row.label, [*error_row(row.counts), *(_share(row, kind) for kind in KINDS)]) for row in rows]
    theirs = [NOTHING, *map(paper_text, PAPER), *(NOTHING for _ in (*PLACES, *KINDS))]
    body = element("tbody", lines, _line("MATE paper", theirs))
    return element("div", element("table", element("thead", element("tr", heads)), body), class_="scroll")


def _line(label: str, texts: Sequence[str]) -> Markup:
    return element("tr", element("th", label, scope="row"), [element("td", text, class_="number") for text in texts])


def _share(row: ErrorRow, kind: str) -> str:
    return f"{100 * row.counts.kinds[kind] / row.counts.wrong:.1f}"  # type: ignore[index]
