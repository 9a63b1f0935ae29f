"""A benchmark as one self-contained HTML page."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from rich.text import Text

from mate_cli.files.atomic import write_text
from mate_cli.reports.benchmark.figures import benchmark_figures
from mate_cli.reports.benchmark.results import DIRECTIONS, KINDS, BenchmarkResults, measured_figures
from mate_cli.reports.benchmark.tables import case_table, describe_measurement, overview_tables
from mate_cli.reports.format import duration_text, plural
from mate_cli.reports.html_page import render_template
from mate_cli.reports.page.page import Card
from mate_cli.reports.runs.load import LoadedRun, clean
from mate_cli.reports.terminal.views import print_views
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell
from mate_cli.terminal.console import Console

POINTS_PER_INCH = 110
"""Scale of figures on the page."""
WIDTH = 10.3
"""Inches of the page's own width at this size."""


def write_benchmark_page(results: BenchmarkResults, file: Path) -> Path:
    """Write the page in one step and return its place.

    Raises:
        RunError: the file cannot be written.
    """
    return write_text(file, render_benchmark(results))


def render_benchmark(results: BenchmarkResults) -> str:
    """Render the page: the machine, figures, overview, a table per case, how it was measured."""
    drawn = benchmark_figures(results, WIDTH)
    return render_template(
        "benchmark.html",
        title=f"{KINDS[results.kind]} benchmark",
        style="compare.css",
        scripts=(),
        date=date_text(results.run.text("started")),
        command=benchmark_command(results),
        cards=machine_cards(results),
        figures=[(cost, figure, f"{POINTS_PER_INCH * figure.get_figwidth():.0f}") for cost, figure in drawn],
        overview=[view for direction in DIRECTIONS for view in overview_tables(results, direction)],
        cases=[case_table(results, case) for case in results.cases],
        section=ReportSection("how", "How it was measured", "", notes=(describe_measurement(results),)),
        content={"rows": list(run_facts(results).items())},
    )


def date_text(written: str) -> str:
    """Write a time of a record as 3 May 2026, 12:30 UTC; what is no time stays as it is."""
    try:
        return f"{datetime.fromisoformat(written):%d %B %Y, %H:%M %Z}"
    except ValueError:
        return written


def benchmark_command(results: BenchmarkResults) -> str:
    """Return the command that measured this."""
    overrides = results.run.record.get("overrides")
    return " ".join(["mate", "benchmark", *map(clean, overrides if isinstance(overrides, list) else [])])


def machine_cards(results: BenchmarkResults) -> list[Card]:
    """Return the machine that the figures come from."""
    seconds = results.run.number("wall_seconds")
    peak = results.fact("peak_gflops_per_second")
    return [
        Card("Machine", plural(results.threads, "thread"), results.fact("cpu") or results.fact("device")),
        Card("Peak", peak, "matrix products, in the same run", unit="GFLOP/s"),
        Card("PyTorch", results.fact("torch"), f"on {results.fact('device')}"),
        Card("Measured", plural(len(results.cases), "case"), f"in {duration_text(seconds)}"),
    ]


def run_facts(results: BenchmarkResults) -> dict[str, str]:
    """Return versions and host of the run."""
    versions = {name: str(value) for name, value in results.run.part("versions").items()}
    return {"host": results.run.text("host"), "code": results.run.text("code_version"), **versions}


def print_benchmark(results: BenchmarkResults, console: Console) -> None:
    """Print all tables."""
    cases = [case_table(results, case) for case in results.cases]
    print_views([*cases, *overview_tables(results)], console)
    console.print(Text(f"{machine_text(results)}\n{describe_measurement(results)}", style="dim"))


def print_figures(run: LoadedRun, console: Console) -> None:
    """Print the figures of a benchmark that has no tables, one a line."""
    figures = measured_figures(run).items()
    rows = (Row(name, (ViewCell(f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"),)) for name, value in figures)
    print_views([View("", (Column("value"),), tuple(rows), "figure")], console)


def machine_text(results: BenchmarkResults) -> str:
    """Return the machine in one line."""
    threads, peak = plural(results.threads, "thread"), results.fact("peak_gflops_per_second")
    return f"{results.fact('cpu')}, {threads}, PyTorch {results.fact('torch')}, peak {peak} GFLOP/s"
