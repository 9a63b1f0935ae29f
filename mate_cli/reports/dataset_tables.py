"""Terminal output of `mate data check` and of the list of datasets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.table import Column, Table
from rich.text import Text

from mate_cli.data.check import ALL, EXCLUDED, LEVELS, MEAN, CheckReport
from mate_cli.data.datasets.catalogue import DatasetInfo, all_datasets
from mate_cli.reports.format import NOTHING
from mate_cli.tables.example import UNANSWERABLE, UNUSABLE
from mate_cli.terminal.console import Console

SHOWN_PROBLEMS = 20
NAMES = {
    "table": "answer in the table",
    "passage": "answer in a passage",
    "missing": "answer not found",
    "not given": "answer not given",
    "cells": "- cells",
    "number": "- a number",
    "cells or number": "- cells or a number",
    "entailed": "- entailed",
    "refuted": "- refuted",
    UNANSWERABLE: f"- {UNANSWERABLE}",
}
"""Row titles of counts in the report of a dataset check."""
WRAPPED = 20
"""Number of characters from which a heading may be wrapped."""


def print_check(report: CheckReport, title: str, console: Console) -> None:
    """Print the counts, sizes and first problems of a checked dataset.

    Args:
        report: result of the dataset check.
        title: heading.
        console: console to print to.
    """
    console.print(Text(title, style="bold"))
    published = {"published": report.published} if report.published else {}
    console.print(_count_table("", dict(report.counts) | published, report.counts.values()))
    for paper in (paper for paper in report.papers if "counts" in paper):
        console.print(_count_table(paper["source"], paper["counts"]))
    if report.percentiles:
        console.print(_sizes(report))
    if report.shares:
        console.print(_shares(report.shares))
    for note in report.notes:
        console.print(Text(f"note: {note}", style="yellow"), soft_wrap=True)
    if not report.problems:
        console.print(_no_problems(report))
        return
    shown_count = min(SHOWN_PROBLEMS, len(report.problems))
    console.print(Text(f"Problems: {len(report.problems)}, the first {shown_count}:", style="bold red"))
    for problem in report.problems[:shown_count]:
        console.print(Text(f"  {problem}"), soft_wrap=True)


def _no_problems(report: CheckReport) -> Text:
    """Return the sentence for a dataset without problems, with the count of unused questions."""
    splits = [row for split, row in report.counts.items() if split != ALL]
    unused_count = sum(
        number for row in splits for name, number in row.items() if name.startswith((EXCLUDED, UNUSABLE))
    )
    questions = sum(row.get("questions", 0) for row in splits)
    if not unused_count:
        return Text("No problems.", style="green")
    sentence = f"No problems in the files; {unused_count:,} of {questions:,} questions are excluded or unusable."
    return Text(sentence, style="yellow" if 2 * unused_count > questions else "green")


def _count_table(
    head: str, columns: Mapping[str, Mapping[str, int]], relevant: Iterable[Mapping[str, int]] | None = None
) -> Table:
    """Build a table of counts, with a column per split or source and a row per count.

    Counts that are 0 everywhere in `relevant` (default: in `columns`) are omitted.
    """
    names = dict.fromkeys(name for row in relevant or columns.values() for name, number in row.items() if number)
    rows = {NAMES.get(name, name): [row.get(name) or None for row in columns.values()] for name in names}
    return _number_table(head, columns, rows, ",")


def _sizes(report: CheckReport) -> Table:
    """Build the table of input sizes of a dataset, with percentiles and means by measure.

    Means that papers report are added.
    """
    heads = [*({50: "median", 100: "largest"}.get(level, f"{level} %") for level in LEVELS), MEAN]
    rows = {name: [row[level] for level in (*LEVELS, MEAN)] for name, row in report.percentiles.items()}
    for paper in (paper for paper in report.papers if "means" in paper):
        heads.append(f"{MEAN}: {paper['source']}")
        rows = {name: [*row, paper["means"].get(name)] for name, row in rows.items()}
    return _number_table("size", heads, rows, ",")


def _shares(shares: Mapping[str, Mapping[str, float]]) -> Table:
    names = dict.fromkeys(name for row in shares.values() for name in row)
    rows = {name: [100 * row[name] if name in row else None for row in shares.values()] for name in names}
    return _number_table("inputs, in percent", shares, rows, ".1f")


def _number_table(head: str, columns: Iterable[str], rows: Mapping[str, Sequence[float | None]], form: str) -> Table:
    """Build a `rich` table of numbers. A missing number (None) is shown as a dash."""
    table = Table(head, *(Column(name, justify="right", no_wrap=len(name) < WRAPPED) for name in columns))
    for name, numbers in rows.items():
        table.add_row(name, *(NOTHING if number is None else f"{number:{form}}" for number in numbers))
    return table


def print_datasets(root: Path, console: Console) -> None:
    """Print the name, title, number of questions, license and location of every dataset.

    Args:
        root: folder that contains a subfolder per dataset.
        console: console to print to.
    """
    table = Table("data=", "dataset", Column("questions", justify="right"), "licence", "files")
    for info in all_datasets():
        questions = info.published.get("questions")
        size = f"{questions:,}" if questions else NOTHING
        table.add_row(info.name, info.title, size, info.licence, describe_location(info, root))
    console.print(table)
    console.print("Download a public release with: mate data download data=<name>", markup=False)


def describe_location(info: DatasetInfo, root: Path) -> str:
    """Describe the location of a dataset: its folder, or whether it can be downloaded."""
    if info.shipped:
        return "with the package"
    if (root / info.name).is_dir():
        return str(root / info.name)
    return "public" if info.files else "not public"
