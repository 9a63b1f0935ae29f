"""The sections of a comparison in display order, shown by every renderer."""

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
    """A function that builds a section of a comparison."""

    __name__: str

    def __call__(self, report: Report, *, wide: bool) -> ReportSection | None:
        """Return the section, or None if it has no content.

        Args:
            report: comparison to show.
            wide: show all splits next to each other, as papers do.
        """


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
    """Yield the sections of a comparison that have content, in display order.

    Args:
        report: comparison to show.
        wide: show all splits next to each other, as papers do.
        among: sections to build. Empty: all sections, including `report.options.added_sections`.
    """
    index = SECTIONS.index(errors_section) + 1
    for build in among or (*SECTIONS[:index], *report.options.added_sections, *SECTIONS[index:]):
        if (section := build(report, wide=wide)) is not None:
            yield section
