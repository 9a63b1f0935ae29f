"""A benchmark in the terminal: a table per case, an overview, the machine."""

from __future__ import annotations

from rich import box
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from mate_cli.reports.benchmark.results import BOUND, BenchmarkResults, measured_figures
from mate_cli.reports.benchmark.tables import BenchmarkTable, case_table, how_measured, overview_tables
from mate_cli.reports.format import plural
from mate_cli.reports.runs.load import LoadedRun
from mate_cli.terminal.console import Console


def print_benchmark(results: BenchmarkResults, console: Console) -> None:
    """Print all tables."""
    wide = [case_table(results, case) for case in results.cases]
    narrow = [case_table(results, case, narrow=True) for case in results.cases]
    cases = wide if all(width(table, console) <= console.width for table in wide) else narrow
    for table in [*cases, *overview_tables(results)]:
        console.print(
            Text(table.title, style="bold"), table_view(table), Text("\n".join([*table.notes, ""]), style="dim")
        )
    console.print(Text(f"{machine_text(results)}\n{how_measured(results)}", style="dim"))


def print_figures(run: LoadedRun, console: Console) -> None:
    """Print the figures of a benchmark that has no tables, one a line."""
    view = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    view.add_column("figure", overflow="fold")
    view.add_column("value", justify="right", no_wrap=True)
    for name, value in measured_figures(run).items():
        view.add_row(Text(name), f"{value:,.4g}" if value < 1000 else f"{value:,.0f}")
    console.print(view)


def width(table: BenchmarkTable, console: Console) -> int:
    """The columns of the terminal that a table needs."""
    return Measurement.get(console, console.options.update(max_width=1000), table_view(table)).maximum


def machine_text(results: BenchmarkResults) -> str:
    """The machine in one line."""
    threads, peak = plural(results.threads, "thread"), results.fact("peak_gflops_per_second")
    return f"{results.fact('cpu')}, {threads}, PyTorch {results.fact('torch')}, peak {peak} GFLOP/s"


def table_view(table: BenchmarkTable) -> Table:
    """Draw a table: the best in bold, the bound dim."""
    view = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
        header_style="dim",
    )
    view.add_column("\nvariant", overflow="fold")
    for over, under in table.heads:
        view.add_column(f"{over}\n{under}", justify="right", no_wrap=True)
    for name, cells, best in table.rows:
        texts = [Text(cell, style="bold green" if wins else "") for cell, wins in zip(cells, best, strict=True)]
        view.add_row(Text(name), *texts, style="dim" if name == BOUND else "")
    return view
