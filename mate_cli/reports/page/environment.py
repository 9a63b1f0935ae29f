"""Hardware and versions of the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from mate_cli.reports.compare.report import Report
from mate_cli.reports.runs.load import LoadedRun, clean
from mate_cli.reports.view import ReportSection


def report_section(report: Report, *, wide: bool) -> ReportSection:
    """Return where the runs ran and with which versions."""

    def content() -> Mapping[str, Any]:
        facts: dict[str, Counter[str]] = {}
        for run in report.runs:
            for name, value in environment_facts(run).items():
                facts.setdefault(name, Counter())[value] += 1
        return {"rows": [(name, environment_text(counts, len(report.runs))) for name, counts in facts.items()]}

    return ReportSection("environment", "Hardware and versions", "Environment", template="facts.html", content=content)


def environment_facts(run: LoadedRun) -> dict[str, str]:
    """Return what a run recorded of its surroundings."""
    facts = {"Device": run.text("device"), "Host": run.text("host"), "Code version": run.text("code_version")}
    versions = {clean(name): clean(version) for name, version in run.part("versions").items()}
    return {name: value for name, value in (facts | versions).items() if value}


def environment_text(counts: Counter[str], total: int) -> str:
    """Write the values of one fact, with how many runs had each unless all agree."""
    if len(counts) == 1 and counts.total() == total:
        return next(iter(counts))
    return ", ".join(f"{value} ({count} of {total} runs)" for value, count in counts.most_common())
