"""The page's details: single runs with their commands, hardware and versions."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.grouping import FIELDS, IGNORED, TARGET, differing_settings, settings
from mate_cli.reports.compare.report import Report, reason_text
from mate_cli.reports.compare.statistics import summarize
from mate_cli.reports.format import NOTHING, center_text, duration_text, plural
from mate_cli.reports.html_elements import Markup, element, options
from mate_cli.reports.page.tables import pill
from mate_cli.reports.runs.load import LoadedRun, clean

MOST_SETTINGS = 20


def runs_section(report: Report, folder: Path) -> Markup:
    """Returns every run: its folder, status, seed, main metric, time and command; to filter, pick and group."""
    metric = MetricName.parse(report.metric) if report.metric else None
    names = ["Run", "Status", "Seed", metric.title if metric else "Metric", "Wall time", "Started", "Command"]
    numeric = {2, 3, 4}
    heads = [
        element("th", name, class_="number" if i in numeric else None, scope="col") for i, name in enumerate(names)
    ]
    chosen = telling_settings(report)
    rows = [run_row(run, report, metric, folder, chosen) for run in report.runs]
    table = element(
        "table", element("thead", element("tr", heads, class_="sort")), element("tbody", rows), class_="runs"
    )
    return element(
        "section",
        element("h2", "Runs"),
        run_controls(report, metric, chosen),
        element("div", table, class_="scroll"),
        id="runs",
    )


def telling_settings(report: Report) -> list[str]:
    """Returns the settings by which runs are told apart here: what was compared, then what else differs."""
    others = differing_settings([settings(run, (*IGNORED, *FIELDS)) for run in report.runs])
    return [*FIELDS, *[key for key in others if not key.endswith(TARGET)][:MOST_SETTINGS]]


def named_settings(run: LoadedRun) -> dict[str, str]:
    """Returns a run's settings by key, the names of its parts among them."""
    return {name: run.setting(name) for name in FIELDS} | settings(run, IGNORED)


def run_controls(report: Report, metric: MetricName | None, keys: Sequence[str]) -> Markup:
    """Returns what chooses among the runs, and where the chosen ones are summed up."""
    every = [named_settings(run) for run in report.runs]
    differing = [key for key in keys if len({one.get(key, "") for one in every}) > 1]
    words = element("input", type="search", id="run-filter", placeholder="words: mate, seed 2, lr=1e-4")
    grouped = element("select", options([("", "nothing"), *((key, key) for key in differing)]), id="run-group")
    picked = element("input", type="checkbox", id="run-picked")
    shown = element("output", plural(len(report.runs), "run"), id="run-count", role="status")
    controls = element(
        "div",
        element("label", "Filter ", words, class_="control"),
        element("label", "Group by ", grouped, class_="control"),
        element("label", picked, " only those that are ticked", class_="control"),
        shown,
        class_="controls script",
    )
    name = metric.title_with_unit if metric else ""
    return Markup(controls + element("div", id="run-groups", class_="scroll", hidden=True, data_metric_title=name))


def run_row(run: LoadedRun, report: Report, metric: MetricName | None, folder: Path, keys: Sequence[str]) -> Markup:
    """Returns the line of one run."""
    own = named_settings(run)
    told = json.dumps({key: own[key] for key in keys if own.get(key)}, ensure_ascii=False)
    tick = element("input", type="checkbox", class_="script pick", aria_label="pick this run")
    score = run.metrics.get(metric.full) if metric else None
    seconds = run.number("wall_seconds") or None
    reason = None if run.status == "finished" else element("div", reason_text(run, report.created), class_="reason")
    return element(
        "tr",
        element("th", tick, run_link(run, report, folder), scope="row"),
        element("td", pill(run.status, run.status), reason),
        element("td", run.text("seed") or NOTHING, class_="number", data_value=run.text("seed")),
        score_cell(score, metric),
        element("td", duration_text(seconds), class_="number", data_value=seconds),
        element("td", run.text("started")[:16].replace("T", " ") or NOTHING, class_="date"),
        element("td", command_view(run)),
        data_settings=told,
    )


def run_link(run: LoadedRun, report: Report, folder: Path) -> list[Markup]:
    """Returns a run's folder as a link, the folders above it in small, and links to what is in it."""
    above, _, name = shown_name(run, report).rpartition("/")
    home = link(run.folder, folder)
    files = [("config", "config.yaml"), ("record", "record.json"), ("predictions", "predictions/")]
    there = [element("a", text, href=home + file) for text, file in files if (run.folder / file).exists()]
    return [element("a", name, href=home), element("small", above), element("small", there, class_="files")]


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
