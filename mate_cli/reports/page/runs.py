"""Single runs with their commands, where they ran, and the settings that they share or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mate_cli.metrics.specs import MetricName
from mate_cli.quoting import format_command
from mate_cli.reports.compare.configuration import FIELDS, settings
from mate_cli.reports.compare.names import TARGET, Comparison, Difference
from mate_cli.reports.compare.report import Report, reason_text
from mate_cli.reports.compare.statistics import summarize
from mate_cli.reports.format import NOTHING, center_text, duration_text, plural
from mate_cli.reports.runs.load import LoadedRun, clean
from mate_cli.reports.view import ReportSection
from mate_cli.runs.identity import ABSENT, REPEATED, differing_keys

MAX_SETTINGS, FIRST = 20, 100
"""Settings to group by; rows that stand in the page itself, the others are built where a reader asks for them."""
FILES = (("config", "config.yaml"), ("record", "record.json"), ("predictions", "predictions/"))


def runs_section(report: Report, *, wide: bool) -> ReportSection:
    """Return single runs with their commands, to filter, pick and group."""

    def content() -> Mapping[str, Any]:
        metric = MetricName.parse(report.metric) if report.metric else None
        keys = list_varying_settings(report)
        every = [{key: run.setting(key) for key in FIELDS} | settings(run) for run in report.runs]
        differing = [key for key in keys if len({values.get(key, "") for values in every}) > 1]
        rows = [run_row(run, values, report, keys) for run, values in zip(report.runs, every, strict=True)]
        return {
            "rows": rows[:FIRST],
            "later": partial(later_runs, rows[FIRST:]),
            "groups": [("", "nothing"), *((key, key) for key in differing)],
            "count": plural(len(report.runs), "run"),
            "metric": metric.title if metric else "Metric",
            "metric_with_unit": metric.title_with_unit if metric else "",
        }

    return ReportSection("runs", "Runs", "Runs", template="runs.html", content=content)


def later_runs(rows: Sequence[Mapping[str, Any]], link: Callable[[Path], str]) -> Mapping[str, Any]:
    """Return rows as compact values: what many of them have stands once in `texts`, and its place in their stead."""
    texts: dict[str, int] = {}

    def place(text: str) -> int:
        return texts.setdefault(text, len(texts))

    def compact(row: Mapping[str, Any]) -> list[Any]:
        home, name = link(row["run"].folder), row["name"]
        above, ends = (home[: -len(name) - 1], 1) if home.endswith(f"{name}/") else (home, 0)
        files = [place(f"{text}\n{file}") for text, file in row["files"]]
        settings = [place(f"{key}\n{value}") for key, value in row["settings"].items()]
        command = [place(word) for word in row["command"].split(" ")] if row["command"] else []
        told = [place(row[key]) for key in ("above", "network", "reason", "started")]
        numbers = [row["seed"], *(row["score"] or ("", "")), row["seconds"] or 0, row["time"]]
        return [name, place(above), ends, place(row["run"].status), *told, *numbers, files, settings, command]

    return {"rows": [compact(row) for row in rows], "texts": list(texts)}  # in this order: the rows fill the texts


def list_varying_settings(report: Report) -> list[str]:
    """Return the settings by which runs are told apart here: what was compared, then what else differs."""
    others = differing_keys([settings(run, (*REPEATED, *FIELDS)) for run in report.runs])
    return [*FIELDS, *[key for key in others if not key.endswith(TARGET)][:MAX_SETTINGS]]


def run_row(run: LoadedRun, values: Mapping[str, str], report: Report, keys: Sequence[str]) -> Mapping[str, Any]:
    """Return the line of one run."""
    above, _, name = shown_name(run, report).rpartition("/")
    seconds = run.number("wall_seconds") or None
    return {
        "run": run,
        "network": run.setting("model"),
        "name": name,
        "above": above,
        "files": [(text, file) for text, file in FILES if (run.folder / file).exists()],
        "settings": {key: values[key] for key in keys if values.get(key)},
        "reason": "" if run.status == "finished" else reason_text(run, report.created),
        "seed": run.text("seed"),
        "score": score_texts(run, report.metric),
        "seconds": seconds,
        "time": duration_text(seconds),
        "started": run.text("started")[:16].replace("T", " ") or NOTHING,
        "command": command_text(run),
    }


def score_texts(run: LoadedRun, metric: str | None) -> tuple[str, str] | None:
    """Return a run's main metric in full and as printed."""
    score = run.metrics.get(metric) if metric else None
    if score is None or metric is None:
        return None
    return f"{score:.8g}", center_text(summarize([score]), MetricName.parse(metric))


def shown_name(run: LoadedRun, report: Report) -> str:
    """Return a run's folder without the folder that was searched."""
    for root in report.folders:
        if run.folder.is_relative_to(root) and run.folder != Path(root):
            return clean(run.folder.relative_to(root))
    return run.name


def command_text(run: LoadedRun) -> str:
    """Return the command line that started a run, empty where it is not known."""
    argv = run.record.get("argv")
    if not isinstance(argv, list) or not argv:
        return ""
    program = Path(str(argv[0])).name.replace("__main__.py", "mate")
    return clean(format_command(*program.split(), *map(str, argv[1:])))


def environment_section(report: Report, *, wide: bool) -> ReportSection:
    """Return hardware and versions of the runs."""

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


MAX_COLUMNS, MAX_DIFFERENCES, MAX_COMMON = 10, 60, 200


def settings_section(report: Report, *, wide: bool) -> ReportSection:
    """Return settings that configurations share, and those that differ."""

    def content() -> Mapping[str, Any] | None:
        parts = [comparison_content(part) for part in report.comparisons if part.common or part.differences]
        shared = shared_settings(report)
        title = f"{plural(len(shared), 'setting')} that all runs share"
        section = {"parts": parts, "shared": list(shared.items())[:MAX_COMMON], "shared_title": title}
        return section if parts or shared else None

    return ReportSection("settings", "Settings that differ", "Settings", template="settings.html", content=content)


def comparison_content(comparison: Comparison) -> Mapping[str, Any]:
    """Return one dataset and task: what its configurations share in words, then a row per setting they do not."""
    labels = comparison.labels[:MAX_COLUMNS]
    hints = [
        count_line(len(comparison.labels), "configuration", MAX_COLUMNS),
        count_line(len(comparison.differences), "setting", MAX_DIFFERENCES),
    ]
    shown = comparison.differences[:MAX_DIFFERENCES]
    return {
        "title": comparison.title,
        "hint": ", ".join(filter(None, hints)),
        "common": comparison.common,
        "several": len(comparison.labels) > 1,
        "labels": labels,
        "rows": [(difference.key, [value_of(difference, label) for label in labels]) for difference in shown],
    }


def value_of(difference: Difference, label: str) -> tuple[str | None, bool]:
    """Return the value of one configuration, None where it has none, and whether no other of several has it."""
    pair = next(((value, labels) for value, labels in difference.values.items() if label in labels), None)
    if pair is None or pair[0] == ABSENT:
        return None, False
    value, labels = pair
    return value, len(labels) == 1 and sum(map(len, difference.values.values())) > 2


def shared_settings(report: Report) -> dict[str, str]:
    """Return every setting that is the same in all runs."""
    every = [settings(run) for run in report.runs]
    first = every[0] if every else {}
    return {key: value for key, value in first.items() if all(values.get(key) == value for values in every)}


def count_line(count: int, noun: str, most: int) -> str:
    """Say how much is shown of how much, empty when everything is."""
    return f"first {most} of {plural(count, noun)}" if count > most else ""
