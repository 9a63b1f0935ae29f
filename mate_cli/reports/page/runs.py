"""Single runs with their commands: to filter, pick and group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mate_cli.metrics.specs import MetricName
from mate_cli.quoting import format_command
from mate_cli.reports.compare.grouping import FIELDS, TARGET
from mate_cli.reports.compare.report import Report, reason_text
from mate_cli.reports.compare.run_settings import settings
from mate_cli.reports.compare.statistics import summarize
from mate_cli.reports.format import NOTHING, center_text, duration_text, plural
from mate_cli.reports.runs.load import LoadedRun, clean
from mate_cli.reports.view import ReportSection
from mate_cli.runs.identity import REPEATED, differing_keys

MAX_SETTINGS, FIRST = 20, 100
"""Settings to group by; rows that stand in the page itself, the others are built where a reader asks for them."""
FILES = (("config", "config.yaml"), ("record", "record.json"), ("predictions", "predictions/"))


def report_section(report: Report, *, wide: bool) -> ReportSection:
    """Return every run: its folder, status, seed, main metric, time and command."""

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
