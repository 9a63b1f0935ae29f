"""A benchmark as figures, as one self-contained HTML page, and in the terminal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from mate_cli.files.atomic import write_text
from mate_cli.quoting import format_command
from mate_cli.reports.benchmark.results import (
    BOTH,
    BOUND,
    DIRECTIONS,
    FORWARD,
    KINDS,
    BenchmarkResults,
    MeasuredCase,
    measured_figures,
    shape_title,
)
from mate_cli.reports.benchmark.tables import case_table, describe_measurement, overview_tables
from mate_cli.reports.format import duration_text, plural
from mate_cli.reports.html_page import Card, render_template
from mate_cli.reports.plots.scaling import MIN_WIDTH, Panel, ScalingFrame, scaling_figure
from mate_cli.reports.plots.style import save_figure
from mate_cli.reports.runs.load import LoadedRun, clean
from mate_cli.reports.terminal.views import print_views
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell
from mate_cli.terminal.console import Console

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
        section=ReportSection(
            "how", "How it was measured", "", notes=(describe_measurement(results).removesuffix("."),)
        ),
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
    return clean(format_command("mate", "benchmark", *map(str, overrides if isinstance(overrides, list) else [])))


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


class CostFigure(NamedTuple):
    """One figure.

    Args:
        name: of its files.
        title: on the page.
        figure: which figures of the record it shows.
        unit: on the axis.
        directions: a row of panels for each.
    """

    name: str
    title: str
    figure: str
    unit: str
    directions: tuple[str, ...]


COSTS = (
    CostFigure("time", "Time", "ms", "ms", (FORWARD, BOTH)),
    CostFigure("flops", "Operations, counted", "gflop", "GFLOP", (FORWARD,)),
    CostFigure("memory", "Peak memory", "peak_mb", "MB", (FORWARD, BOTH)),
)
"""As in figures 4, 5 and 6 of the MATE paper."""


def benchmark_figures(results: BenchmarkResults, least: float = MIN_WIDTH) -> list[tuple[CostFigure, Figure]]:
    """Draw what was measured at several lengths, at least so many inches wide."""
    frames = ((cost, scaling_frame(results, cost)) for cost in COSTS)
    return [(cost, scaling_figure(frame, least)) for cost, frame in frames if frame is not None]


def scaling_frame(results: BenchmarkResults, cost: CostFigure) -> ScalingFrame | None:
    """Return what a figure shows; None when no kind of tables was measured at two lengths."""
    series = long_series(results)
    rows = [
        [Panel(f"{shape}, {DIRECTIONS[way]}", lines(results, cases, way, cost)) for shape, cases in series]
        for way in cost.directions
    ]
    rows = [row for row in rows if any(panel.lines for panel in row)]
    if len(series) == 1:  # side by side, when there is room
        rows = [[panel for row in rows for panel in row]] if rows else []
    if not rows:
        return None
    labels = shared_labels(results.variants, [panel for row in rows for panel in row], results.title)
    panels = tuple(
        tuple(Panel(panel.title, {labels[n]: line for n, line in panel.lines.items() if n in labels}) for panel in row)
        for row in rows
    )
    return ScalingFrame(cost.name, cost.unit, tuple(labels.get(name, "") for name in results.variants), panels)


def shared_labels(variants: list[str], panels: list[Panel], title: Callable[[str], str]) -> dict[str, str]:
    """Return the label of each variant to draw; one whose points all lie on those of another one only adds its name."""
    points = {
        name: {(panel.title, *point) for panel in panels for point in panel.lines.get(name, ())} for name in variants
    }
    names: dict[str, list[str]] = {}
    for name in sorted(variants, key=lambda name: -len(points[name])):
        same = next((other for other in names if points[name] <= points[other]), name)
        if points[name]:
            names.setdefault(same, []).append(name)
    return {name: " = ".join(map(title, together)) for name, together in names.items()}


def long_series(results: BenchmarkResults) -> list[tuple[str, list[MeasuredCase]]]:
    """Return the cases that differ in length only, where there are two or more: the name of their tables, and they."""
    series: dict[tuple[str, str], list[MeasuredCase]] = {}
    for case in results.cases:
        series.setdefault((case.shape, case.batch), []).append(case)
    several = len({batch for (_, batch), cases in series.items() if len(cases) > 1}) > 1
    return [
        (shape_title(shape) + (f" x {batch}" if several else ""), sorted(cases, key=lambda case: case.tokens))
        for (shape, batch), cases in series.items()
        if len({case.tokens for case in cases}) > 1
    ]


def lines(
    results: BenchmarkResults, cases: list[MeasuredCase], direction: str, cost: CostFigure
) -> dict[str, list[tuple[int, float]]]:
    """Return the (length, cost) points of every variant; a cost of nothing cannot stand on a logarithmic axis."""
    points = {
        name: [(case.tokens, value) for case in cases if (value := results.figure(case, name, direction, cost.figure))]
        for name in results.variants
        if name != BOUND or cost.figure == "gflop"
    }
    return {name: line for name, line in points.items() if line}


def write_benchmark_figures(results: BenchmarkResults, folder: Path) -> list[Path]:
    """Write every figure as PNG, SVG and PDF."""
    return [file for cost, figure in benchmark_figures(results) for file in save_figure(figure, folder, cost.name)]
