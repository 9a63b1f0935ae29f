"""A comparison of runs as JSON, CSV and Markdown."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from mate_cli.files.safe_load import to_json
from mate_cli.metrics.specs import SPLITS
from mate_cli.reports.all_sections import report_sections
from mate_cli.reports.compare.configuration import FIELDS, Configuration, join_folds
from mate_cli.reports.compare.report import Report, reason_text, state_text
from mate_cli.reports.compare.tables import units
from mate_cli.reports.format import NOTHING
from mate_cli.reports.runs.load import LoadedRun
from mate_cli.reports.sections.errors import wrong_answers
from mate_cli.reports.view import Mark, View, ViewCell, sentences
from mate_cli.terminal.streams import printable

CSV_FIELDS = ("run", "status", "reason", *FIELDS, "experiment", "seed", "parameters", "wall_seconds")

OF_THE_PLACE = ("paths.", "logger.", "seed")
"""Prefixes of configuration keys that are machine-specific, or have a separate CSV column."""

_BEGIN_FORMULAS = tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")
_SIGNED = re.compile(r"[-+\s]*(?:[$€£]?\s?\d[\d.,' \u00a0\u202f]*(?:[eE][-+]?\d+)?\s?[%$€£]?)?")


def report_json(report: Report) -> str:
    """Convert a comparison to JSON: all configurations, runs, settings, notes and warnings.

    Each metric of a configuration has median, mean, spreads and number of runs. NaN becomes null.
    """
    content = {
        "schema": 1,
        "created": report.created.isoformat(timespec="seconds"),
        "folders": report.folders,
        "metric": report.metric,
        "statistic": report.options.statistic,
        "configurations": [configuration_entry(group) for group in report.groups],
        "comparisons": [asdict(comparison) for comparison in report.comparisons],
        "published": list(map(vars, report.published)),
        "significance": report.significance and asdict(report.significance),
        "runs": [run_entry(run, report) for run in report.runs],
        "notes": report.notes,
        "warnings": report.warnings,
    }
    return to_json(content, indent=2)


def configuration_entry(group: Configuration) -> dict[str, Any]:
    """Convert a configuration with its summarized metrics to a JSON object."""
    names = sorted(group.names)
    return {
        "label": group.label,
        **group.fields,
        "differences": dict(group.differences),
        "runs": [run.name for run in group.runs],
        "n": len(join_folds(group.counted)),
        "metrics": {name: asdict(summary) for name in names if (summary := group.summary(name)) is not None},
    }


def run_entry(run: LoadedRun, report: Report) -> dict[str, Any]:
    """Convert a run with its status, settings and metrics to a JSON object."""
    entry = {key: run.record.get(key) for key in ("experiment", "seed", "parameters", "wall_seconds")}
    fields = {key: run.setting(key) for key in FIELDS}
    reason = None if run.status == "finished" else reason_text(run, report.created)
    return {"run": run.name, "status": run.status, "reason": reason} | entry | fields | {"metrics": run.metrics}


def report_csv(report: Report) -> str:
    """Format the runs as CSV, one line per run with its settings, throughput and metrics."""
    configs = [run_settings(run) for run in report.runs]
    keys = dict.fromkeys(key for config in configs for key in config)
    rates = sorted({f"throughput/{name}" for run in report.runs for name in run.part("throughput")})
    names = sorted({name for run in report.runs for name in run.metrics})
    fields = list(dict.fromkeys([*CSV_FIELDS, *keys, *rates, *names]))
    rows: list[list[Any]] = [fields]
    for run, settings in zip(report.runs, configs, strict=True):
        throughput = {f"throughput/{name}": value for name, value in run.part("throughput").items()}
        row = settings | run_entry(run, report) | throughput | run.metrics
        rows.append([row.get(name, "") for name in fields])
    return csv_text(rows)


def wrong_csv(report: Report) -> str:
    """Format the incorrect answers of a run as CSV, most confident answers first.

    Rows and columns of cells are numbered from 1.
    """
    (run,) = (run for run in report.runs if run.parent is None)
    rows: list[tuple[Any, ...]] = [
        ("split", "question_id", "question", "answer", "right_answer", "cells", "kind", "confidence")
    ]
    for split in SPLITS:
        for question, prediction, kind in wrong_answers(run, split):
            cells = " ".join(f"{row + 1}:{column + 1}" for row, column in prediction.chosen)
            gold = " | ".join(question.answers)
            confidence = "" if prediction.confidence is None else prediction.confidence
            rows.append((split, question.question_id, question.text, prediction.text, gold, cells, kind, confidence))
    return csv_text(rows)


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Format rows as CSV text, and escape each cell by `escape_csv_cell`."""
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(map(escape_csv_cell, row) for row in rows)
    return table.getvalue()


def run_settings(run: LoadedRun) -> dict[str, str]:
    """Return the configuration of a run as text by dotted key, without machine-specific keys.

    Machine-specific keys are, for example, paths and logger options.
    """
    return {key: str(value) for key, value in run.config.items() if not key.startswith(OF_THE_PLACE)}


def escape_csv_cell(value: object) -> object:
    """Escape a CSV cell against terminal control codes and spreadsheet formulas.

    A formula gets a leading apostrophe. Signs before a number, and text of only signs, are unchanged.
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(_BEGIN_FORMULAS) and not _SIGNED.fullmatch(text) else text


SPECIAL = str.maketrans({letter: f"\\{letter}" for letter in "\\`*_[]<>|#~"})
BEFORE: dict[Mark, str] = {"best": "**", "better": "**", "worse": "**"}
AFTER: dict[Mark, str] = {"best": "**", "close": "†", "better": "**", "worse": "**"}
MARK_NOTES: dict[Mark, str] = {
    "best": "Bold: best.",
    "close": "†: not clearly worse than the best, within ± or sampling noise.",
    "better": "Bold: p < 0.05.",
    "worse": "Bold: p < 0.05.",
}


def report_markdown(report: Report) -> str:
    """Convert a comparison to Markdown: tables of every section, settings and explanations."""
    parts: list[str] = []
    for section in report_sections(report, wide=True):
        parts += [*map(view_markdown, section.tables), escape(sentences(section.visible_notes))]
    return "\n\n".join(filter(None, [*parts, settings_text(report), reading_text(report)])) + "\n"


def view_markdown(view: View) -> str:
    """Convert a report table to Markdown, with its title and an explanation of its marks.

    Text is left-aligned, numbers are right-aligned.
    """
    heads = [view.head, *(column.title.replace("\n", " ") for column in view.columns)]
    sides = ["---", *("---:" if column.is_number else "---" for column in view.columns)]
    names = (escape(row.label) + " (published)" * (row.kind == "published") for row in view.rows)
    lines = [[name, *map(cell_text, row.cells)] for name, row in zip(names, view.rows, strict=True)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, sides, *lines))
    legend = " ".join(dict.fromkeys(note for mark, note in MARK_NOTES.items() if mark in view.marks))
    return "\n\n".join(filter(None, [f"### {escape(view.heading)}", table, legend, *map(escape, view.notes)]))


def cell_text(cell: ViewCell) -> str:
    """Format a table cell as Markdown, as in `**62.8** ±0.4` for the best value of a column."""
    spread = f" ±{cell.spread}" if cell.spread else ""
    return f"{BEFORE.get(cell.mark, '')}{escape(cell.text)}{AFTER.get(cell.mark, '')}{spread}"


def settings_text(report: Report) -> str:
    """Format the common and the differing settings of configurations as Markdown lists."""
    lines = ["### Settings", ""]
    for comparison in report.comparisons:
        lines.append(f"- {escape(comparison.title)}: {escape(', '.join(comparison.common)) or NOTHING}")
        lines += [f"  - `{difference.key}` {escape(difference.text)}" for difference in comparison.differences]
    return "\n".join(lines)


def reading_text(report: Report) -> str:
    """Return the Markdown text below the result tables: run statuses, unit and notes."""
    lines = [f"{state_text(report.runs).capitalize()}.", sentences(list(filter(None, [units(report.tables)])))]
    return " ".join(filter(None, [*lines, *(escape(sentences([note])) for note in report.notes)]))


def escape(text: str) -> str:
    """Escape the special characters of Markdown in a text."""
    return text.translate(SPECIAL)
