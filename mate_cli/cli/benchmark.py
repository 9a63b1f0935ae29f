"""`mate benchmark`: measure, leave a record like a run's, and show it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from mate_cli.reports.benchmark_results import BenchmarkResults

CONFIG = "benchmark"


def run(cfg: DictConfig) -> float | None:
    """Run the benchmark that was chosen and write its figures to a new run folder, or show a finished one again."""
    from mate_cli.reports.benchmark_results import read_results, show_results

    if cfg.show is not None:
        show(show_results(cfg.show))
        return None
    from mate_cli.benchmark.measure import measure

    results = read_results(measure(cfg).path)
    if results is not None:
        show(results)
    return None


def show(results: BenchmarkResults) -> None:
    """Print the tables; write figures and page into the folder of the record."""
    from mate_cli.reports.benchmark_figures import write_benchmark_figures
    from mate_cli.reports.benchmark_page import write_benchmark_page
    from mate_cli.reports.benchmark_terminal import print_benchmark
    from mate_cli.reports.terminal import report_console

    console, folder = report_console(), Path(results.run.folder)
    print_benchmark(results, console)
    for file in write_benchmark_figures(results, folder):
        if file.suffix == ".png":
            console.print(f"figure: {file}", soft_wrap=True)
    console.print(f"page: {write_benchmark_page(results, folder / 'benchmark.html')}", soft_wrap=True)
