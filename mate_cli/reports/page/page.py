"""A comparison as one self-contained HTML page: no network, no other file, readable for years."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from mate_cli.files.atomic import write_text
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.tables import units
from mate_cli.reports.format import plural
from mate_cli.reports.html_elements import Markup, asset, element, html_page
from mate_cli.reports.page.bars import bars_section
from mate_cli.reports.page.charts import cost_chart, curves_section
from mate_cli.reports.page.questions import questions_section
from mate_cli.reports.page.runs import run_environment, runs_section
from mate_cli.reports.page.settings import settings_section
from mate_cli.reports.page.sweep import sweep_section
from mate_cli.reports.page.tables import cards, view_elements
from mate_cli.reports.view import ReportSection, report_sections, sentences

Draw = Callable[[Report], Markup | None]
DRAWN: tuple[tuple[int, str, Draw], ...] = (
    (30, "Scores", bars_section),
    (90, "Curves", curves_section),
    (110, "Settings", settings_section),
    (120, "Sweep", sweep_section),
    (130, "Questions", questions_section),
    (150, "Environment", run_environment),
)
"""What only a page can show: its place among the sections, what leads to it, and what draws it."""
START = '"use strict";\ndocument.documentElement.classList.add("js");\n'
CHARTS = ("chart.js", "curve_lines.js", "curve_chart.js", "curves.js", "cost.js")
SCRIPTS = ("memory.js", "sort.js", "page.js", "runs.js", *CHARTS)


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
    parts = dict(page_sections(report, folder))
    main = element("main", cards(report), warnings(report), parts.values())
    return html_page(
        f"{plural(len(report.runs), 'run')} compared",
        "compare.css",
        (page_header(report, parts), main, page_footer(report)),
        scripts=START + "".join(map(asset, SCRIPTS)),
        refresh_seconds=refresh_seconds,
    )


def page_sections(report: Report, folder: Path) -> Iterator[tuple[str, Markup]]:
    """Yields what leads to each section and the section, from the results down to the details."""
    drawn: list[tuple[int, str, Draw]] = [*DRAWN, (140, "Runs", partial(runs_section, folder=folder))]
    made = [(place, link, draw(report)) for place, link, draw in drawn]
    made += [(place, one.link, section_element(one, report)) for place, one in report_sections(report)]
    yield from ((link, markup) for _, link, markup in sorted(made, key=lambda one: one[0]) if markup is not None)


def section_element(one: ReportSection, report: Report) -> Markup:
    """Returns a section: what the page adds to it, its tables and figures, and what must be known to read them."""
    added = cost_chart(report) if one.name == "cost" else None
    alone = len(one.views) == 1 and one.views[0].title == one.title
    views = [view_elements(view, f"{one.name}-{place}", titled=not alone) for place, view in enumerate(one.views)]
    notes = reading_notes(report) if one.name == "results" else sentences(one.notes)
    note = element("p", notes, class_="note") if notes else None
    return section("Accuracy against cost" if added else one.title, added, views, note, id_=one.name, hint=one.hint)


def section(title: str, *children: object, id_: str, hint: str = "") -> Markup:
    """Returns a titled section."""
    heading = element("h2", title, element("small", hint) if hint else None)
    return element("section", heading, *children, id=id_)


def page_header(report: Report, parts: dict[str, Markup]) -> Markup:
    """Returns the title, where the runs came from, and links to the sections."""
    places = [element("code", folder) for folder in report.folders]
    ids = {link: markup.partition(' id="')[2].partition('"')[0] for link, markup in parts.items()}
    links = [element("a", link, href=f"#{name}") for link, name in ids.items()]
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


def reading_notes(report: Report) -> str:
    """Says how to read the tables."""
    how = (units(report.tables), "the best of each column in bold, what is within its error underlined")
    lines = [sentences(["; ".join(filter(None, how))])] if report.tables else ["No run has recorded a metric yet."]
    return " ".join([*lines, sentences(report.notes)]).strip()
