"""What is wrong with wrong answers, beside the shares that the MATE paper found in its own."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from mate_cli.metrics.answer_errors import KINDS, PAPER, PLACES
from mate_cli.reports.compare.errors import ErrorRow, error_rows, error_shares, paper_text
from mate_cli.reports.compare.report import Report
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell

MOST_ROWS = 30
SHORT = ("near\nmisses", "numbers\n% of near", "words\n% of near", "right type\n% of others")
HEADINGS = dict(zip(PAPER, SHORT, strict=True))
NARROW = 12
NOTES = (
    "percent of the wrong answers, all seeds together",
    "a near miss is within the answer or holds it, or is the same number; % of near: of the near misses; % of others: "
    "of all other wrong answers",
    "cells are those that were read, of questions of which some cell has the answer",
    "the paper sorted its errors by hand (section 7), here rules do it",
)


def report_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Returns the shares of each kind of error, None where no run answers with texts."""
    rows = error_rows(report)[:MOST_ROWS]
    if not rows:
        return None
    names = {name: error_column(name) for name in (*PAPER, *PLACES.values(), *KINDS.values())}
    lines = [Row(row.label, (ViewCell(f"{row.counts.wrong:,}", row.counts.wrong), *shares(row, names))) for row in rows]
    theirs = [ViewCell(paper_text(name)) if name in PAPER else ViewCell() for name in names]
    columns = (Column("Wrong"), *names.values())
    view = View("Wrong answers", columns, (*lines, Row("MATE paper", (ViewCell(), *theirs), "published")))
    return ReportSection("errors", "Wrong answers", "Errors", (view,), NOTES, hint=rows[0].split)


def error_column(name: str) -> Column:
    """Return the column of a kind, its heading in lines that are no longer than they must be."""
    heading = HEADINGS.get(name) or "\n".join(textwrap.wrap(name, NARROW))
    return Column(name, short=heading, stacked=heading, minor=name not in PAPER)


def shares(row: ErrorRow, names: Iterable[str]) -> list[ViewCell]:
    """Returns the share of each kind."""
    known = error_shares(row.counts)
    return [ViewCell(known[name], float(known[name])) if name in known else ViewCell() for name in names]
