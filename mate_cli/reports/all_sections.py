"""The sections of a comparison in their order, shown by every renderer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from mate_cli.reports.attention_flow import flow_section
from mate_cli.reports.compare.report import Report
from mate_cli.reports.sections.cost_and_sweep import cost_section, speed_section, sweep_section
from mate_cli.reports.sections.curves import curves_section
from mate_cli.reports.sections.errors import errors_section, wrong_section
from mate_cli.reports.sections.questions import questions_section
from mate_cli.reports.sections.results import parts_section, results_section, scores_section, significance_section
from mate_cli.reports.sections.runs import environment_section, runs_section, settings_section
from mate_cli.reports.view import ReportSection


class BuildSection(Protocol):
    """Makes a section of a comparison; `wide` puts all splits beside each other, as papers do."""

    __name__: str

    def __call__(self, report: Report, *, wide: bool) -> ReportSection | None:
        """Return the section, None where there is nothing to show."""


SECTIONS: tuple[BuildSection, ...] = (
    results_section,
    significance_section,
    scores_section,
    parts_section,
    errors_section,
    wrong_section,
    flow_section,
    curves_section,
    cost_section,
    speed_section,
    settings_section,
    sweep_section,
    questions_section,
    runs_section,
    environment_section,
)


BRIEF = (results_section, significance_section, cost_section)
"""Sections that are printed by default."""


def report_sections(
    report: Report, *, wide: bool = False, among: Sequence[BuildSection] = ()
) -> Iterator[ReportSection]:
    """Yield the sections of a comparison that have something to show, in order.

    Args:
        report: the comparison.
        wide: put all splits beside each other, as papers do.
        among: only these; all where there are none.
    """
    place = SECTIONS.index(errors_section) + 1
    for build in among or (*SECTIONS[:place], *report.options.added_sections, *SECTIONS[place:]):
        if (section := build(report, wide=wide)) is not None:
            yield section
