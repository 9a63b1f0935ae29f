"""The report of a dataset's check, in the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from mate_cli.data.check import LEVELS, CheckReport

SHOWN_PROBLEMS = 20


def print_check(report: CheckReport, title: str, console: Console) -> None:
    """Print counts, sizes and the first problems of a checked dataset."""
    console.print(Text(title, style="bold"))
    console.print(_counts(report.counts))
    if report.percentiles:
        console.print(_sizes(report.percentiles))
    for note in report.notes:
        console.print(Text(f"note: {note}", style="yellow"), soft_wrap=True)
    if not report.problems:
        console.print(Text("No problems.", style="green"))
        return
    shown = min(SHOWN_PROBLEMS, len(report.problems))
    console.print(Text(f"Problems: {len(report.problems)}, the first {shown}:", style="bold red"))
    for problem in report.problems[:shown]:
        console.print(Text(f"  {problem}"), soft_wrap=True)


def _counts(counts: Mapping[str, Mapping[str, int]]) -> Table:
    columns = list(dict.fromkeys(name for row in counts.values() for name, number in row.items() if number))
    named = {"table": "answer in table", "passage": "in passage", "missing": "not found", "not given": "not given"}
    table = Table("split", *(Column(named.get(name, name), justify="right") for name in columns))
    for split, row in counts.items():
        table.add_row(split, *(f"{row.get(name, 0):,}" for name in columns))
    return table


def _sizes(percentiles: Mapping[str, Mapping[int, int]]) -> Table:
    names = {50: "median", 100: "largest"}
    table = Table("size", *(Column(names.get(level, f"{level} %"), justify="right") for level in LEVELS))
    for measure, values in percentiles.items():
        table.add_row(measure, *(f"{values[level]:,}" for level in LEVELS))
    return table
