"""A benchmark as one self-contained HTML page."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from mate_cli.files.atomic import write_text
from mate_cli.reports.benchmark.figures import benchmark_figures
from mate_cli.reports.benchmark.results import DIRECTIONS, KINDS, BenchmarkResults
from mate_cli.reports.benchmark.tables import case_table, how_measured, overview_tables
from mate_cli.reports.format import duration_text, plural
from mate_cli.reports.html_elements import Markup, element, html_page
from mate_cli.reports.page.page import section
from mate_cli.reports.page.tables import page_table, summary_card
from mate_cli.reports.plots.style import as_svg
from mate_cli.reports.runs.load import clean

POINTS_PER_INCH = 110
"""How large figures are drawn on the page."""
WIDTH = 10.3
"""Inches of the page's own width at this size."""


def write_benchmark_page(results: BenchmarkResults, file: Path) -> Path:
    """Write the page in one step and return its place.

    Raises:
        RunError: the file cannot be written.
    """
    return write_text(file, render_benchmark(results))


def render_benchmark(results: BenchmarkResults) -> str:
    """The page: the machine, figures, overview, a table per case, how it was measured."""
    title = f"{KINDS[results.kind]} benchmark"
    header = element(
        "header",
        element("p", "MATE · benchmark", class_="eyebrow"),
        element("h1", title),
        element(
            "p",
            "Measured ",
            date_text(results.run.text("started")),
            " by ",
            element("code", benchmark_command(results)),
            class_="subtitle",
        ),
    )
    footer = element("footer", "This file needs no network.")
    return html_page(title, "compare.css", header, element("main", benchmark_sections(results)), footer)


def benchmark_sections(results: BenchmarkResults) -> list[Markup]:
    """The page's sections."""
    drawings = [
        element(
            "figure",
            element("h3", cost.title),
            Markup(as_svg(figure, cost.name)),
            style=f"max-width: {POINTS_PER_INCH * figure.get_figwidth():.0f}px",
        )
        for cost, figure in benchmark_figures(results, WIDTH)
    ]
    faster = [view for direction in DIRECTIONS for view in overview_tables(results, direction)]
    overview = [page_table(view, titled=True, sortable=False) for view in faster]
    cases = [page_table(case_table(results, case), titled=True, sortable=False) for case in results.cases]
    speed = [section("Speed", element("div", overview, class_="grid"), id_="speed")] if overview else []
    figures = [section("Cost against length", drawings, id_="figures")] if drawings else []
    return [
        machine_cards(results),
        *figures,
        *speed,
        section("All cases", cases, id_="cases"),
        section("How it was measured", element("p", how_measured(results), class_="note"), facts(results), id_="how"),
    ]


def date_text(written: str) -> str:
    """Write a time of a record as 3 May 2026, 12:30 UTC; what is no time stays as it is."""
    try:
        return f"{datetime.fromisoformat(written):%d %B %Y, %H:%M %Z}"
    except ValueError:
        return written


def benchmark_command(results: BenchmarkResults) -> str:
    """The command that measured this."""
    overrides = results.run.record.get("overrides")
    return " ".join(["mate", "benchmark", *map(clean, overrides if isinstance(overrides, list) else [])])


def machine_cards(results: BenchmarkResults) -> Markup:
    """What machine the figures come from."""
    seconds = results.run.number("wall_seconds")
    return element(
        "section",
        summary_card("Machine", plural(results.threads, "thread"), results.fact("cpu") or results.fact("device")),
        summary_card(
            "Peak",
            [results.fact("peak_gflops_per_second"), element("span", " GFLOP/s", class_="unit")],
            "matrix products, in the same run",
        ),
        summary_card("PyTorch", results.fact("torch"), f"on {results.fact('device')}"),
        summary_card("Measured", plural(len(results.cases), "case"), f"in {duration_text(seconds)}"),
        class_="cards",
    )


def facts(results: BenchmarkResults) -> Markup:
    """Versions and host of the run."""
    versions = {name: str(value) for name, value in results.run.part("versions").items()}
    lines = {"host": results.run.text("host"), "code": results.run.text("code_version"), **versions}
    rows = [element("tr", element("th", name, scope="row"), element("td", value)) for name, value in lines.items()]
    return element("table", element("tbody", rows), class_="facts")
