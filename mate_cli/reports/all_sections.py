"""The sections of a comparison in their order: a file each, shown by every renderer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from mate_cli.reports.compare.report import Report
from mate_cli.reports.page import bars, curves, environment, questions, runs, settings, sweep
from mate_cli.reports.sections import (
    attention_flow,
    cost,
    difference,
    efficiency,
    errors,
    results,
    significance,
    subsets,
    wrong,
)
from mate_cli.reports.view import ReportSection


class BuildSection(Protocol):
    """Makes a section of a comparison; `wide` puts all splits beside each other, as papers do."""

    def __call__(self, report: Report, *, wide: bool) -> ReportSection | None:
        """Return the section, None where there is nothing to show."""


SECTIONS: tuple[BuildSection, ...] = (
    results.report_section,
    significance.report_section,
    difference.report_section,
    bars.report_section,
    subsets.report_section,
    errors.report_section,
    wrong.report_section,
    attention_flow.report_section,
    curves.report_section,
    cost.report_section,
    efficiency.report_section,
    settings.report_section,
    sweep.report_section,
    questions.report_section,
    runs.report_section,
    environment.report_section,
)


BRIEF = (results.report_section, significance.report_section, cost.report_section)
"""Sections that are printed by default."""
WRONG = (wrong.report_section,)
"""The section that `sections=wrong` prints."""


def report_sections(
    report: Report, *, wide: bool = False, among: Sequence[BuildSection] = ()
) -> Iterator[ReportSection]:
    """Yield the sections of a comparison that have something to show, in order.

    Args:
        report: the comparison.
        wide: put all splits beside each other, as papers do.
        among: only these; all where there are none.
    """
    place = SECTIONS.index(errors.report_section) + 1
    for build in among or (*SECTIONS[:place], *report.added_sections, *SECTIONS[place:]):
        if (section := build(report, wide=wide)) is not None:
            yield section
