"""A benchmark in the terminal and as figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from mate_cli.reports.benchmark.results import (
    BOTH,
    BOUND,
    DIRECTIONS,
    FORWARD,
    BenchmarkResults,
    MeasuredCase,
    measured_figures,
    shape_title,
)
from mate_cli.reports.benchmark.tables import case_table, describe_measurement, overview_tables
from mate_cli.reports.format import plural
from mate_cli.reports.plots.scaling import Panel, ScalingFrame, scaling_figure
from mate_cli.reports.plots.style import save_figure
from mate_cli.reports.runs.load import LoadedRun
from mate_cli.reports.terminal.views import print_views
from mate_cli.reports.view import Column, Row, View, ViewCell
from mate_cli.terminal.console import Console

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        title: of the cost.
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


def benchmark_figures(results: BenchmarkResults) -> list[tuple[CostFigure, Figure]]:
    """Draw what was measured at several lengths."""
    frames = ((cost, scaling_frame(results, cost)) for cost in COSTS)
    return [(cost, scaling_figure(frame)) for cost, frame in frames if frame is not None]


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
