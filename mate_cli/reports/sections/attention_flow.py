"""Attention flow of the configurations analysed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mate_cli.reports.attention_flow import NOTE, flow_views, read_flows
from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.report import Report
from mate_cli.reports.view import ReportSection, View

MAX_SHOWN = 6


def report_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return what was observed of the best configurations, None where no run was analysed."""
    flows = [views for group in report.groups if (views := list(first_flows(group)))]
    if not flows:
        return None
    more = len(flows) - MAX_SHOWN
    notes: tuple[str, ...] = (NOTE, "written by mate evaluate run=FOLDER split=dev analysis=attention_flow")
    notes += (f"{more} more configurations have been analysed",) if more > 0 else ()
    shown = tuple(view for views in flows[:MAX_SHOWN] for view in views)
    return ReportSection("flow", "Attention flow", "Attention", shown, notes)


def first_flows(group: Configuration) -> Iterator[View]:
    """Yield what was found of the first run of a configuration that was analysed."""
    for network in next((flows for run in group.runs if (flows := read_flows(run.folder))), ()):
        for view in flow_views(network):
            yield replace(view, title=f"{group.label}: {view.title[0].lower()}{view.title[1:]}")
