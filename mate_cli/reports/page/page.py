"""A comparison as one self-contained HTML page: no network, no other file, readable for years."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.tables import units
from mate_cli.reports.export.data_files import write_text
from mate_cli.reports.format import plural
from mate_cli.reports.html_elements import Markup, element
from mate_cli.reports.page.attention_flow import flow_section
from mate_cli.reports.page.bars import bars_section
from mate_cli.reports.page.charts import cost_section, curves_section
from mate_cli.reports.page.errors import errors_section
from mate_cli.reports.page.growth import growth_section
from mate_cli.reports.page.pruning import pruning_section
from mate_cli.reports.page.questions import questions_section
from mate_cli.reports.page.runs import run_environment, runs_section
from mate_cli.reports.page.settings import settings_section
from mate_cli.reports.page.significance import significance_section
from mate_cli.reports.page.subsets import subsets_section
from mate_cli.reports.page.sweep import sweep_section
from mate_cli.reports.page.tables import cards, cost_table, result_table

LINKS = {
    "results": "Results",
    "significance": "Significance",
    "chart": "Scores",
    "subsets": "Parts",
    "growth": "Growth",
    "errors": "Errors",
    "pruning": "Pruning",
    "flow": "Attention",
    "curves": "Curves",
    "cost": "Cost",
    "settings": "Settings",
    "sweep": "Sweep",
    "questions": "Questions",
    "runs": "Runs",
    "environment": "Environment",
}
"""The sections that have a link at the top, in the order of the page."""
START = '"use strict";\ndocument.documentElement.classList.add("js");\n'
CHARTS = ("chart.js", "curve_lines.js", "curve_chart.js", "curves.js", "cost.js")
SCRIPTS = ("memory.js", "sort.js", "page.js", "runs.js", *CHARTS)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def write_page(report: Report, file: Path, refresh_seconds: float | None = None) -> Path:
    """Writes the page in one step and returns its place.

    Args:
        report: what it shows.
        file: where it goes.
        refresh_seconds: after how long a page that follows running jobs loads itself again; None: never.

    Raises:
        RunError: the file cannot be written.
    """
    return write_text(file, render_page(report, file.parent, refresh_seconds))


def render_page(report: Report, folder: Path, refresh_seconds: float | None = None) -> str:
    """Returns the page; links to the runs are relative to the folder it will lie in."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", http_equiv="refresh", content=f"{refresh_seconds:.0f}") if refresh_seconds else None,
        element("title", f"{plural(len(report.runs), 'run')} compared · MATE"),
        element("style", asset("compare.css")),
    )
    parts = sections(report, folder)
    script = element("script", Markup(START), [asset(name) for name in SCRIPTS])
    body = element("body", page_header(report, parts), element("main", parts), page_footer(report), script)
    return f'<!DOCTYPE html>\n<html lang="en">{head}{body}</html>\n'


def asset(name: str) -> Markup:
    """Reads a style sheet or script that is part of the package."""
    return Markup(resources.files("mate_cli.reports").joinpath("assets", name).read_text(encoding="utf-8"))


def sections(report: Report, folder: Path) -> list[Markup | None]:
    """Returns the page's sections from the summary down to the details."""
    return [
        cards(report),
        warnings(report),
        section("Results", *[result_table(table) for table in report.tables], reading_notes(report), id_="results"),
        significance_section(report),
        bars_section(report),
        subsets_section(report),
        growth_section(report),
        errors_section(report),
        pruning_section(report),
        flow_section(report),
        curves_section(report),
        cost_section(report, cost_table(report)),
        settings_section(report),
        sweep_section(report),
        questions_section(report),
        runs_section(report, folder),
        run_environment(report),
    ]


def section(title: str, *children: object, id_: str, hint: str = "") -> Markup:
    """Returns a titled section."""
    heading = element("h2", title, element("small", hint) if hint else None)
    return element("section", heading, *children, id=id_)


def page_header(report: Report, parts: list[Markup | None]) -> Markup:
    """Returns the title, where the runs came from, and links to the sections."""
    places = [element("code", folder) for folder in report.folders]
    starts = "".join(part[:40] for part in parts if part)
    links = [element("a", text, href=f"#{name}") for name, text in LINKS.items() if f'id="{name}"' in starts]
    return element(
        "header",
        element("p", "MATE · comparison", class_="eyebrow"),
        element("h1", title(report)),
        element("p", "Runs below ", places, f", read {report.created:%d %B %Y, %H:%M %Z}", class_="subtitle"),
        element("nav", links, aria_label="Sections"),
    )


def title(report: Report) -> str:
    """Says how many runs and configurations are compared, and on what."""
    datasets = sorted({run.setting("dataset") for run in report.runs} - {""})
    place = f" on {' and '.join(datasets)}" if 0 < len(datasets) < 4 else ""
    return f"{plural(len(report.groups), 'configuration')}, {plural(len(report.runs), 'run')}{place}"


def page_footer(report: Report) -> Markup:
    """Returns the last line of the page."""
    return element("footer", f"Written by mate compare on {report.created:%Y-%m-%d}. This file needs no network.")


def warnings(report: Report) -> Markup | None:
    """Lists what could not be read."""
    if not report.warnings:
        return None
    return element("ul", [element("li", line) for line in report.warnings], class_="warnings")


def reading_notes(report: Report) -> Markup:
    """Says how to read the tables."""
    how = (units(report.tables), "the best of each column in bold, what is within its error underlined.")
    marks = "; ".join(filter(None, how)).capitalize()
    lines = [marks, *(f"{note[0].upper()}{note[1:]}." for note in report.notes)]
    if not report.tables:
        lines = ["No run has recorded a metric yet.", *lines[1:]]
    return element("p", " ".join(lines), class_="note")
