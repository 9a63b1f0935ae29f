"""All sections of a comparison of runs, in the order in which every renderer shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mate_cli.reports.attention_flow import flow_section
from mate_cli.reports.compare.report import Report
from mate_cli.reports.sections.cost_and_sweep import cost_section, speed_section, sweep_section
from mate_cli.reports.sections.curves import curves_section
from mate_cli.reports.sections.errors import errors_section, wrong_section
from mate_cli.reports.sections.questions import questions_section
from mate_cli.reports.sections.results import parts_section, results_section, scores_section
from mate_cli.reports.sections.robustness import robustness_section
from mate_cli.reports.sections.runs import environment_section, runs_section, settings_section
from mate_cli.reports.sections.significance import significance_section
from mate_cli.reports.view import ReportSection

BuildSection = Callable[..., ReportSection | None]
"""Function `build(report, *, wide)` of one section of a comparison. It returns None if the section would be empty.

Args:
    report: comparison of runs to show.
    wide: whether all splits are columns of one table, as in papers, instead of separate tables.
"""
SECTIONS: tuple[BuildSection, ...] = (
    results_section,
    significance_section,
    robustness_section,
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


BRIEF = (results_section, significance_section, robustness_section, cost_section)
"""Functions of the sections that `mate compare` prints by default."""


def report_sections(
    report: Report, *, wide: bool = False, among: Sequence[BuildSection] = ()
) -> Iterator[ReportSection]:
    """Build the sections of a comparison in display order, without empty sections.

    Args:
        report: comparison of runs to show.
        wide: whether all splits are columns of one table, as in papers, instead of separate tables.
        among: functions of the sections to build. Empty means all, including `report.options.added_sections`.
    """
    index = SECTIONS.index(errors_section) + 1
    for build in among or (*SECTIONS[:index], *report.options.added_sections, *SECTIONS[index:]):
        if (section := build(report, wide=wide)) is not None:
            yield section
