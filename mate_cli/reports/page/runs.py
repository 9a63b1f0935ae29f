"""The page's details: single runs with their commands, hardware and versions."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.report import Report, reason_text
from mate_cli.reports.compare.statistics import summarize
from mate_cli.reports.format import NOTHING, center_text, duration_text
from mate_cli.reports.html_elements import Markup, element
from mate_cli.reports.page.tables import pill
from mate_cli.reports.runs.load import LoadedRun, clean


def runs_section(report: Report, folder: Path) -> Markup:
    """Returns every run: its folder, status, seed, main metric, time and command."""
    metric = MetricName.parse(report.metric) if report.metric else None
    names = ["Run", "Status", "Seed", metric.title if metric else "Metric", "Wall time", "Started", "Command"]
    numeric = {2, 3, 4}
    heads = [
        element("th", name, class_="number" if i in numeric else None, scope="col") for i, name in enumerate(names)
    ]
    rows = [run_row(run, report, metric, folder) for run in report.runs]
    table = element(
        "table", element("thead", element("tr", heads, class_="sort")), element("tbody", rows), class_="runs"
    )
    return element("section", element("h2", "Runs"), element("div", table, class_="scroll"), id="runs")


def run_row(run: LoadedRun, report: Report, metric: MetricName | None, folder: Path) -> Markup:
    """Returns the line of one run."""
    score = run.metrics.get(metric.full) if metric else None
    seconds = run.number("wall_seconds") or None
    reason = None if run.status == "finished" else element("div", reason_text(run, report.created), class_="reason")
    return element(
        "tr",
        element("th", run_link(run, report, folder), scope="row"),
        element("td", pill(run.status, run.status), reason),
        element("td", run.text("seed") or NOTHING, class_="number", data_value=run.text("seed")),
        score_cell(score, metric),
        element("td", duration_text(seconds), class_="number", data_value=seconds),
        element("td", run.text("started")[:16].replace("T", " ") or NOTHING, class_="date"),
        element("td", command_view(run)),
    )


def run_link(run: LoadedRun, report: Report, folder: Path) -> list[Markup]:
    """Returns a run's folder as a link, the folders above it in small."""
    above, _, name = shown_name(run, report).rpartition("/")
    return [element("a", name, href=link(run.folder, folder)), element("small", above)]


def score_cell(score: float | None, metric: MetricName | None) -> Markup:
    """Returns a run's main metric."""
    if score is None or metric is None:
        return element("td", NOTHING, class_="number nothing")
    shown = center_text(summarize([score]), metric)
    return element("td", shown, class_="number", data_value=f"{score:.8g}")


def shown_name(run: LoadedRun, report: Report) -> str:
    """Returns a run's folder without the folder that was asked for."""
    for root in report.folders:
        if run.folder.is_relative_to(root) and run.folder != Path(root):
            return clean(run.folder.relative_to(root))
    return run.name


def link(target: Path, folder: Path) -> str:
    """Returns a relative link to a run folder, or an absolute file address across drives."""
    try:
        return quote(Path(os.path.relpath(target.resolve(), folder.resolve())).as_posix()) + "/"
    except ValueError:
        return target.resolve().as_uri() + "/"


def command_view(run: LoadedRun) -> Markup | str:
    """Returns the command line that started a run, with a button that copies it."""
    argv = run.record.get("argv")
    if not isinstance(argv, list) or not argv:
        return NOTHING
    program = Path(str(argv[0])).name.replace("__main__.py", "mate")
    command = clean(shlex.join([program, *map(str, argv[1:])]))
    button = element("button", "Copy", type="button", class_="copy", data_text=command)
    return element("span", element("code", command, title=command), button, class_="command")


def run_environment(report: Report) -> Markup:
    """Returns where the runs ran and with which versions, each value with the number of runs."""
    facts: dict[str, Counter[str]] = {}
    for run in report.runs:
        for name, value in environment_facts(run).items():
            facts.setdefault(name, Counter())[value] += 1
    total = len(report.runs)
    rows = [
        element("tr", element("th", name, scope="row"), element("td", environment_text(counts, total)))
        for name, counts in facts.items()
    ]
    table = element("table", element("tbody", rows), class_="facts")
    return element(
        "section", element("h2", "Hardware and versions"), element("div", table, class_="scroll"), id="environment"
    )


def environment_facts(run: LoadedRun) -> dict[str, str]:
    """Returns what a run recorded of its surroundings."""
    own = {"Device": run.text("device"), "Host": run.text("host"), "Code version": run.text("code_version")}
    versions = {clean(name): clean(version) for name, version in run.part("versions").items()}
    return {name: value for name, value in (own | versions).items() if value}


def environment_text(counts: Counter[str], total: int) -> str:
    """Writes the values of one fact, with how many runs had each unless all agree."""
    if len(counts) == 1 and counts.total() == total:
        return next(iter(counts))
    return ", ".join(f"{value} ({count} of {total} runs)" for value, count in counts.most_common())
