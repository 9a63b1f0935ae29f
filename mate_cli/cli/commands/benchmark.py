"""`mate benchmark`: measure, leave a record like a run's, and show it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mate_cli.cli.config.schema import Benchmark
    from mate_cli.reports.benchmark.results import BenchmarkResults

CONFIG = "benchmark"


def run(cfg: Benchmark) -> None:
    """Run the benchmark that was chosen and write its figures to a new run folder, or show a finished one again."""
    from mate_cli.reports.benchmark.results import read_results

    if cfg.show is not None:
        show(cfg.show)
        return
    from hydra.core.hydra_config import HydraConfig

    from mate_cli.benchmark.measure import BenchmarkStopped, measure

    hydra = HydraConfig.get()
    name, overrides = str(hydra.runtime.choices["benchmark"]), list(hydra.overrides.task)
    try:
        folder = measure(name, cfg.model_dump(), Path(cfg.paths.outputs), seed=cfg.seed, overrides=overrides)
        results = read_results(folder.path)
        show_depth(folder.path)
    except BenchmarkStopped as stop:
        show_stopped(stop.folder.path)
        raise
    if results is not None:
        show_results(results)


def show(folder: str | Path) -> None:
    """Show a benchmark's record again: tables, figures and page, or the figures as they are.

    Raises:
        RunError: there is no record, or it is none of a benchmark, or it has no figures.
    """
    from mate_cli.reports.benchmark.results import parse_results, read_benchmark
    from mate_cli.reports.benchmark.terminal import print_figures
    from mate_cli.reports.terminal.comparison import report_console

    benchmark = read_benchmark(folder)
    results = parse_results(benchmark)
    if results is None:
        print_figures(benchmark, report_console())
        show_depth(Path(folder))
    else:
        show_results(results)


def show_depth(folder: Path) -> None:
    """Write the figure of a benchmark of depths into its folder; nothing for another one."""
    from mate_cli.reports.benchmark.depth import write_depth_figure
    from mate_cli.reports.runs.load import load_runs
    from mate_cli.reports.terminal.comparison import report_console

    for file in write_depth_figure(load_runs([folder]).runs[0], folder):
        if file.suffix == ".png":
            report_console().print(f"figure: {file}", soft_wrap=True)


def show_stopped(folder: Path) -> None:
    """Print what a benchmark had measured when it was stopped, and how to see it again."""
    from mate_cli.errors import RunError
    from mate_cli.reports.benchmark.results import parse_results, read_benchmark
    from mate_cli.reports.benchmark.terminal import print_benchmark, print_figures
    from mate_cli.reports.terminal.comparison import report_console

    console = report_console()
    try:
        benchmark = read_benchmark(folder)
    except RunError:
        console.print("stopped before anything was measured")
        return
    results = parse_results(benchmark)
    if results is None:
        print_figures(benchmark, console)
    else:
        print_benchmark(results, console)
    word = shlex.quote(f"show={folder}")
    console.print(f"stopped; what was measured is kept: mate benchmark {word}", soft_wrap=True)


def show_results(results: BenchmarkResults) -> None:
    """Print the tables; write figures and page into the folder of the record."""
    from mate_cli.reports.benchmark.figures import write_benchmark_figures
    from mate_cli.reports.benchmark.page import write_benchmark_page
    from mate_cli.reports.benchmark.terminal import print_benchmark
    from mate_cli.reports.terminal.comparison import report_console

    console, folder = report_console(), Path(results.run.folder)
    print_benchmark(results, console)
    for file in write_benchmark_figures(results, folder):
        if file.suffix == ".png":
            console.print(f"figure: {file}", soft_wrap=True)
    console.print(f"page: {write_benchmark_page(results, folder / 'benchmark.html')}", soft_wrap=True)
