"""A comparison as one self-contained HTML page: no network, no other file, readable for years."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from mate_cli.reports.export import write_text
from mate_cli.reports.figures import MOST_BARS, MOST_CURVES, MOST_FIGURES, curve_frames, draw_bars
from mate_cli.reports.format import plural
from mate_cli.reports.html_elements import Markup, element
from mate_cli.reports.html_runs import environment, runs_section, settings_section
from mate_cli.reports.html_tables import cards, cost_table, result_table
from mate_cli.reports.metric_names import MetricName
from mate_cli.reports.plots.learning_curves import CurveFrame, learning_curves
from mate_cli.reports.plots.style import as_svg, color_of, dash_of, plot_area
from mate_cli.reports.report import Report

LINKS = ("results", "chart", "curves", "cost", "settings", "runs", "environment")
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
    body = element("body", page_header(report, parts), element("main", parts), page_footer(report))
    script = element("script", asset("compare.js"))
    return f'<!DOCTYPE html>\n<html lang="en">{head}{body}{script}</html>\n'


def asset(name: str) -> Markup:
    """Reads a style sheet or script that is part of the package."""
    return Markup(resources.files("mate_cli.reports").joinpath("assets", name).read_text(encoding="utf-8"))


def sections(report: Report, folder: Path) -> list[Markup | None]:
    """Returns the page's sections from the summary down to the details."""
    return [
        cards(report),
        warnings(report),
        section("Results", *[result_table(table) for table in report.tables], notes(report), id_="results"),
        bars_section(report),
        curves_section(report),
        section("Cost and status", cost_table(report), id_="cost"),
        settings_section(report),
        runs_section(report, folder),
        environment(report),
    ]


def section(title: str, *children: object, id_: str, hint: str = "") -> Markup:
    """Returns a titled section."""
    heading = element("h2", title, element("small", hint) if hint else None)
    return element("section", heading, *children, id=id_)


def page_header(report: Report, parts: list[Markup | None]) -> Markup:
    """Returns the title, where the runs came from, and links to the sections."""
    places = [element("code", folder) for folder in report.folders]
    starts = "".join(part[:40] for part in parts if part)
    links = [name for name in LINKS if f'id="{name}"' in starts]
    return element(
        "header",
        element("p", "MATE · comparison", class_="eyebrow"),
        element("h1", title(report)),
        element("p", "Runs below ", places, f", read {report.created:%d %B %Y, %H:%M %Z}", class_="subtitle"),
        element("nav", [element("a", link.capitalize(), href=f"#{link}") for link in links]),
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


def notes(report: Report) -> Markup:
    """Says how to read the tables."""
    lines = ["Scores in percent; the best of each column in bold.", *(f"{n[0].upper()}{n[1:]}." for n in report.notes)]
    if not report.tables:
        lines = ["No run has recorded a metric yet.", *lines[1:]]
    return element("p", " ".join(lines), class_="note")


def bars_section(report: Report) -> Markup | None:
    """Draws the main metric."""
    if report.metric is None or (figure := draw_bars(report)) is None:
        return None
    hint = f"best {MOST_BARS} of {len(report.groups)}" if len(report.groups) > MOST_BARS else ""
    drawing = element("figure", Markup(as_svg(figure, "bars")), class_="bars")
    note = "Whiskers: sample standard deviation. Dots: single runs."
    return section(
        MetricName.parse(report.metric).title, drawing, element("p", note, class_="note"), id_="chart", hint=hint
    )


def curves_section(report: Report) -> Markup | None:
    """Draws the learning curves, a chart per logged metric with one legend for all."""
    frames = curve_frames(report)
    if not frames:
        return None
    charts = [curve_chart(frame, f"curve{number}") for number, frame in enumerate(frames)]
    hint = f"best {MOST_CURVES} of {len(report.groups)} configurations" if len(report.groups) > MOST_CURVES else ""
    note = f"A line per run, at most {MOST_FIGURES} metrics. Click a name to hide its lines."
    grid = element("div", charts, class_="grid")
    return section(
        "Learning curves", legend(frames[0]), grid, element("p", note, class_="note"), id_="curves", hint=hint
    )


def curve_chart(frame: CurveFrame, name: str) -> Markup:
    """Returns one chart; `data-plot` says where its axes lie, for the numbers shown on hover."""
    figure = learning_curves(frame, legend=False)
    drawing = Markup(as_svg(figure, name))
    scale = "%" if frame.metric.is_fraction else ""
    return element("figure", drawing, class_="curve", data_plot=plot_area(figure), data_unit=scale)


def legend(frame: CurveFrame) -> Markup:
    """Returns the legend as buttons that hide and show a configuration's lines."""
    kinds = {"-": "solid", "--": "dashed", ":": "dotted", "-.": "dashed"}
    buttons = [
        element(
            "button",
            element("i", style=f"border-top: 3px {kinds[dash_of(index)]} {color_of(index)}"),
            label,
            type="button",
            data_group=index,
            aria_pressed="true",
        )
        for index, label in enumerate(frame.labels)
    ]
    return element("div", buttons, class_="legend")
