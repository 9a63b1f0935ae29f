"""A benchmark in the terminal: a table per case, an overview, the machine."""

from __future__ import annotations

from rich.text import Text

from mate_cli.reports.benchmark.results import BenchmarkResults, measured_figures
from mate_cli.reports.benchmark.tables import case_table, how_measured, overview_tables
from mate_cli.reports.format import plural
from mate_cli.reports.runs.load import LoadedRun
from mate_cli.reports.terminal.views import print_views
from mate_cli.reports.view import Column, Row, View, ViewCell
from mate_cli.terminal.console import Console


def print_benchmark(results: BenchmarkResults, console: Console) -> None:
    """Print all tables."""
    cases = [case_table(results, case) for case in results.cases]
    print_views([*cases, *overview_tables(results)], console)
    console.print(Text(f"{machine_text(results)}\n{how_measured(results)}", style="dim"))


def print_figures(run: LoadedRun, console: Console) -> None:
    """Print the figures of a benchmark that has no tables, one a line."""
    figures = measured_figures(run).items()
    rows = (Row(name, (ViewCell(f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"),)) for name, value in figures)
    print_views([View("", (Column("value"),), tuple(rows), "figure")], console)


def machine_text(results: BenchmarkResults) -> str:
    """The machine in one line."""
    threads, peak = plural(results.threads, "thread"), results.fact("peak_gflops_per_second")
    return f"{results.fact('cpu')}, {threads}, PyTorch {results.fact('torch')}, peak {peak} GFLOP/s"
