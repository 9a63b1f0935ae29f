"""`mate benchmark`: run a benchmark, write its record, and print the results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mate_cli.cli.config.schema import Benchmark
    from mate_cli.reports.benchmark import BenchmarkResults
    from mate_cli.reports.runs.load import LoadedRun


def run(cfg: Benchmark) -> None:
    """Run the selected benchmark in a new run folder, or print a finished benchmark again.

    Raises:
        RunError: if the folder in `show` has no record of a benchmark.
    """
    from mate_cli.reports.benchmark import read_benchmark
    from mate_cli.reports.runs.load import load_runs

    if cfg.show is not None:
        show(read_benchmark(cfg.show), Path(cfg.show))
        return
    from hydra.core.hydra_config import HydraConfig

    from mate_cli.benchmark.measure import BenchmarkStopped, measure

    hydra = HydraConfig.get()
    name, overrides = str(hydra.runtime.choices["benchmark"]), list(hydra.overrides.task)
    try:
        folder = measure(name, cfg.model_dump(), Path(cfg.paths.outputs), seed=cfg.seed, overrides=overrides).path
    except BenchmarkStopped as stop:
        show_stopped(stop.folder.path)
        raise
    show(load_runs([folder]).runs[0], folder)


def show(benchmark: LoadedRun, folder: Path) -> None:
    """Print the results of a benchmark, and write plots of the results to its run folder."""
    from mate_cli.reports.benchmark import write_benchmark_figures
    from mate_cli.terminal.console import report_console

    console, results = report_console(), print_measured(benchmark)
    if results is None:
        return
    for file in write_benchmark_figures(results, folder):
        if file.suffix == ".png":
            console.print(f"figure: {file}", soft_wrap=True)


def print_measured(benchmark: LoadedRun) -> BenchmarkResults | None:
    """Print the results of a benchmark as tables.

    If the benchmark defines no tables, its measurements are printed as a list.

    Returns:
        The results in the tables, None if the benchmark defines no tables.
    """
    from mate_cli.reports.benchmark import parse_results, print_benchmark, print_figures
    from mate_cli.terminal.console import report_console

    results, console = parse_results(benchmark), report_console()
    if results is None:
        print_figures(benchmark, console)
    else:
        print_benchmark(results, console)
    return results


def show_stopped(folder: Path) -> None:
    """Print the results of an interrupted benchmark, and the command that prints them again."""
    from mate_cli.errors import RunError
    from mate_cli.quoting import format_setting
    from mate_cli.reports.benchmark import read_benchmark
    from mate_cli.terminal.console import report_console

    console = report_console()
    try:
        print_measured(read_benchmark(folder))
    except RunError:
        console.print("stopped before the first measurement")
        return
    console.print(f"stopped; results so far are saved: mate benchmark {format_setting('show', folder)}", soft_wrap=True)
