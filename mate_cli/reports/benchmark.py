"""Results of a benchmark: a terminal table per input, and figures of cost by input length."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from mate_cli.errors import RunError
from mate_cli.reports.format import plural
from mate_cli.reports.plots.style import INK, LEGEND, color_of, dash_of, literal_text, mark_of, new_panels, save_figure
from mate_cli.reports.runs.load import LoadedRun, clean, is_number, load_runs
from mate_cli.reports.terminal import print_views
from mate_cli.reports.view import Column, Mark, Row, View, ViewCell
from mate_cli.terminal.console import Console

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIRECTIONS = {"forward": "forward", "forward_backward": "forward+backward"}
KINDS = {"attention": "Attention", "encoder": "Encoder"}
Lines = Mapping[str, Mapping[int, float]]
"""Costs by input length in tokens, for each line of a panel by its name."""
NAME_PARTS = 7
"""Number of `/`-separated parts in the name of a measurement, see `parse_results`."""
NOT_RUN = "not_run"
REFERENCES = {
    "dense": "dense",
    "bucketed": "bucketed",
    "transformers_bert": "bert",
    "transformers_tapas": "tapas",
    "tapas": "dense",
}
"""Labels of reference variants, by variant name.

Other variants are compared with the first two reference variants that were measured.
"""


class BenchmarkCase(NamedTuple):
    """Key of a benchmarked input batch in results: benchmark type, table shape and sizes.

    Args:
        kind: type of the benchmark, a key of `KINDS`.
        shape: shape of the synthetic tables, or name of their dataset.
        tokens: length of the longest example in tokens.
        batch: number of examples, or "mixed" for examples of different lengths.
    """

    kind: str
    shape: str
    tokens: int
    batch: str

    @property
    def title(self) -> str:
        """Title of the result table: benchmark type, tables, length in tokens and batch size."""
        batch = "mixed batch" if self.batch == "mixed" else f"batch {self.batch.replace('_', ' ')}"
        return f"{KINDS[self.kind]}, {self.shape.replace('_', ' ')} tables, {self.tokens:,} tokens, {batch}"


@dataclass
class BenchmarkResults:
    """Measurements of a benchmark run by input batch, with reasons for missing measurements.

    Args:
        run: record and its folder.
        cases: measurements by variant and by `direction/figure`, for each case in the order of the record.
        reasons: reasons why a variant was not run, by variant and direction, for each case.
    """

    run: LoadedRun
    cases: dict[BenchmarkCase, dict[str, dict[str, float]]] = field(default_factory=dict)
    reasons: dict[BenchmarkCase, dict[str, dict[str, str]]] = field(default_factory=dict)

    @property
    def variants(self) -> list[str]:
        """Names of all measured implementations (variants), in the order of the record."""
        return list(dict.fromkeys(name for measurements in self.cases.values() for name in measurements))


def read_benchmark(folder: str | os.PathLike[str]) -> LoadedRun:
    """Read the measurements in the folder of a benchmark.

    Raises:
        RunError: the folder has no record, or the record has no benchmark results.
    """
    run = load_runs([folder]).runs[0]
    if run.record.get("command") != "benchmark" or not measured_figures(run):
        raise RunError("has no benchmark results", where=str(folder), remedy="Give a folder of outputs/benchmark")
    return run


def measured_figures(run: LoadedRun) -> dict[str, float]:
    """Return the measurements of a benchmark run, without facts about the machine."""
    return {name: value for name, value in run.metrics.items() if not name.startswith("machine/")}


def parse_results(run: LoadedRun) -> BenchmarkResults | None:
    """Group the measurements of a benchmark run by input batch, and add speedups to them.

    Speedups are relative to reference variants.

    Measurements are named `kind/variant/shape/tokens/batch/direction/figure`. Return None if no name has this form.
    """
    results = BenchmarkResults(run)
    figures: Mapping[str, Any] = {**run.metrics, **run.part("facts")}
    for name, value in figures.items():
        kind, *parts = name.split("/")
        if kind not in KINDS or len(parts) != NAME_PARTS - 1 or not parts[2].isdigit():
            continue
        variant, shape, tokens, batch, direction, figure = parts
        case = BenchmarkCase(kind, shape, int(tokens), batch)
        measurements = results.cases.setdefault(case, {})
        if figure == NOT_RUN:
            results.reasons.setdefault(case, {}).setdefault(variant, {})[direction] = clean(value)
        elif is_number(value):
            measurements.setdefault(variant, {})[f"{direction}/{figure}"] = float(value)
    for measurements in results.cases.values():
        add_ratios(measurements, run.metrics.get("machine/peak_gflops_per_second"))
    return results if results.cases else None


def add_ratios(measured: Mapping[str, dict[str, float]], peak: float | None) -> None:
    """Add each variant's speedup over reference variants, and its share of the peak speed.

    The peak speed is that of matrix products on the same machine.

    Args:
        measured: measurements by variant, modified in place.
        peak: peak speed of the machine in GFLOP per second, None if unknown.
    """
    references = [name for name in REFERENCES if name in measured][:2]
    for direction in DIRECTIONS:
        times = {name: ms for name, figures in measured.items() if (ms := figures.get(f"{direction}/ms"))}
        for name, ms in times.items():
            for reference in references:
                if name != reference and reference in times:
                    measured[name][f"{direction}/times {REFERENCES[reference]}"] = times[reference] / ms
            if peak and (gflop := measured[name].get(f"{direction}/gflop")):
                measured[name][f"{direction}/share_of_peak"] = gflop / ms * 1000 / peak


def time_text(value: float) -> str:
    """Format milliseconds with two or three significant digits, such as 3.27 or 866."""
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:,.{digits}f}"


def error_text(value: float) -> str:
    """Format a numerical error, such as 6e-07 or 1.1."""
    return f"{value:.0e}" if value < 0.001 else f"{value:.2g}"


class FigureColumn(NamedTuple):
    """A column of a benchmark table: one measurement, such as time, of all variants.

    Args:
        heading: heading in two lines.
        figure: name of the measurement, `direction/figure`.
        write: function that formats a value.
        minor: whether the column is omitted if the table is too wide.
    """

    heading: str
    figure: str
    write: Callable[[float], str]
    minor: bool = False


def timed_columns(direction: str, over: str) -> Iterator[FigureColumn]:
    """Yield the table columns of times and speedups for one direction, such as forward.

    Args:
        direction: key of `DIRECTIONS`.
        over: heading of the direction.
    """
    yield FigureColumn(f"{over}\nms", f"{direction}/ms", time_text)
    yield FigureColumn("\nCPU ms", f"{direction}/cpu_ms", time_text, minor=True)
    for name in dict.fromkeys(REFERENCES.values()):
        yield FigureColumn(f"times\n{name}", f"{direction}/times {name}", time_text)


COLUMNS = (
    *timed_columns("forward", "forward"),
    *timed_columns("forward_backward", "fwd+bwd"),
    FigureColumn("examples\nper s", "forward_backward/examples_per_second", time_text),
    FigureColumn("GFLOP\nfwd", "forward/gflop", time_text, minor=True),
    FigureColumn("of\npeak", "forward_backward/share_of_peak", "{:.0%}".format, minor=True),
    FigureColumn("peak\nMB", "forward_backward/peak_mb", "{:,.0f}".format),
    FigureColumn("plan\nms", "plan/ms", time_text, minor=True),
    FigureColumn("max\nerror", "forward/max_error", error_text),
)
TIMES = [f"{direction}/ms" for direction in DIRECTIONS]
"""Names of the measurements whose smallest value is marked in a table."""
NOTES = (
    "Medians of rounds in which the variants take turns in one process; wall time, and time on all CPU cores. Times "
    "bert, tapas: as BertModel (sdpa) and TapasModel of transformers. GFLOP: operations, counted; of peak: against "
    "those of matrix products. MB: peak memory of the call, above the memory in use before it. Plan: made once per "
    "batch, not part of the times. Max error: of an output, against float64."
)


def case_table(results: BenchmarkResults, case: BenchmarkCase) -> View:
    """Build the table of one benchmarked input batch, with a row per variant.

    Columns without any measurement are omitted.
    """
    measurements = {name: figures for name, figures in results.cases[case].items() if figures.keys() - {"plan/ms"}}
    columns = [column for column in COLUMNS if any(column.figure in figures for figures in measurements.values())]
    cells: dict[str, list[ViewCell]] = {name: [] for name in measurements}
    for column in columns:
        values = {name: figures[column.figure] for name, figures in measurements.items() if column.figure in figures}
        shortest = min(values.values()) if column.figure in TIMES else None
        for name, row in cells.items():
            value = values.get(name)
            mark: Mark = "best" if value == shortest and len(values) > 1 else ""
            row.append(ViewCell() if value is None else ViewCell(column.write(value), value, mark=mark))
    heads = tuple(Column(column.heading, stacked=column.heading, minor=column.minor) for column in columns)
    rows = tuple(Row(name, tuple(row)) for name, row in cells.items())
    return View(case.title, heads, rows, "variant", notes=tuple(list_skipped(results, case)))


def list_skipped(results: BenchmarkResults, case: BenchmarkCase) -> Iterator[str]:
    """Yield the reason for each implementation (variant) that was not measured, as a sentence.

    The direction (forward, or forward and backward) is named if the variant was run in the other direction.
    """
    for name, reasons in results.reasons.get(case, {}).items():
        directions = "" if len(reasons) == len(DIRECTIONS) else " ".join(["", *map(DIRECTIONS.__getitem__, reasons)])
        yield f"{name}{directions} not run: {'; '.join(dict.fromkeys(reasons.values()))}"


def print_benchmark(results: BenchmarkResults, console: Console) -> None:
    """Print the tables of all benchmarked inputs, the machine, and notes."""
    print_views([case_table(results, case) for case in results.cases], console)
    record_notes, numbers = results.run.part("facts"), results.run.metrics
    threads, peak = (int(numbers.get(f"machine/{name}", 0)) for name in ("threads", "peak_gflops_per_second"))
    gpu = "" if (device := clean(record_notes.get("machine/device", "cpu"))) == "cpu" else f"{device}, "
    machine = f"{gpu}{clean(record_notes.get('machine/cpu', ''))}, {plural(threads, 'thread')}, "
    machine += f"PyTorch {clean(record_notes.get('machine/torch', ''))}, peak {peak:,} GFLOP/s"
    console.print(Text(f"{machine}\n{NOTES}", style="dim"))


def print_figures(run: LoadedRun, console: Console) -> None:
    """Print the measurements of a benchmark of an unknown type, one measurement per line."""
    figures = measured_figures(run).items()
    rows = (Row(name, (ViewCell(f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"),)) for name, value in figures)
    print_views([View("", (Column("value"),), tuple(rows), "figure")], console)


COSTS = {
    "time": ("ms", "ms", ("forward", "forward_backward")),
    "flops": ("gflop", "GFLOP", ("forward",)),
    "memory": ("peak_mb", "MB", ("forward", "forward_backward")),
}
"""Figures by file name: measurement, unit, and directions with one row of panels each.

Source: Eisenschlos et al. 2021 (MATE), figures 4, 5 and 6.
"""


def write_benchmark_figures(results: BenchmarkResults, folder: Path) -> list[Path]:
    """Write figures of time, FLOPs and memory by input length to a folder.

    Returns:
        The written files. Empty if no table shape was measured at two lengths.
    """
    return [
        file for name in COSTS if (figure := draw_cost(results, name)) for file in save_figure(figure, folder, name)
    ]


def draw_cost(results: BenchmarkResults, name: str) -> Figure | None:
    """Draw a cost, such as time, by input length, with a panel per shape of the tables.

    Args:
        results: measurements of the benchmark.
        name: key of `COSTS`.

    Returns:
        The figure, None if no table shape was measured at two lengths.
    """
    cost, unit, directions = COSTS[name]
    series: dict[tuple[str, str], list[BenchmarkCase]] = {}
    for case in sorted(results.cases, key=lambda case: case.tokens):
        series.setdefault((case.shape, case.batch), []).append(case)
    rows = [
        {
            f"{shape.replace('_', ' ')} x {batch}, {DIRECTIONS[direction]}": {
                variant: {
                    case.tokens: value
                    for case in cases
                    if (value := results.cases[case].get(variant, {}).get(f"{direction}/{cost}"))
                }
                for variant in results.variants
            }
            for (shape, batch), cases in series.items()
            if len(cases) > 1
        }
        for direction in directions
    ]
    return scaling_figure(rows, unit) if rows[0] else None


def scaling_figure(rows: Sequence[Mapping[str, Lines]], unit: str, axis: str = "tokens") -> Figure:
    """Draw rows of panels with logarithmic axes, for a cost by input length.

    Lines with the same index in their panels have the same color.

    Args:
        rows: panels of each row, by title.
        unit: label of the y axes.
        axis: label of the x axes.
    """
    width, height = max(6.9, 3.35 * len(rows[0])), 0.8 + 2.75 * len(rows)
    figure, panels = new_panels(len(rows), len(rows[0]), width, height)
    for row, contents in zip(panels, rows, strict=True):
        row[0].set_ylabel(unit, color=INK)
        for axes, (title, lines) in zip(row, contents.items(), strict=True):
            axes.set_title(literal_text(title), loc="left", fontsize=9.5, fontweight="bold", color=INK)
            draw_lines(axes, lines)
    for axes in panels[-1]:
        axes.set_xlabel(axis, color=INK)
    legend_lines = {line.get_label(): line for row in panels for axes in row for line in axes.get_lines()}
    figure.legend(handles=list(legend_lines.values()), loc="outside lower center", ncols=4, **LEGEND)
    return figure


def draw_lines(axes: Axes, lines: Lines) -> None:
    """Draw measurements by input length as lines in one panel with logarithmic axes."""
    from matplotlib.ticker import NullFormatter, NullLocator, StrMethodFormatter

    for index, (name, points) in enumerate(lines.items()):
        if points:
            look: dict[str, Any] = {"color": color_of(index), "linestyle": dash_of(index), "marker": mark_of(index)}
            axes.plot(*zip(*points.items(), strict=True), linewidth=1.5, markersize=4, label=literal_text(name), **look)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    lengths = sorted({length for points in lines.values() for length in points})
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.6g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
