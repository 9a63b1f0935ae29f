"""A comparison of runs as one HTML page, without network access or other files.

Everything that a template inserts, except markup, is escaped and stripped of control characters.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from mate_cli.files.atomic import write_text
from mate_cli.reports.all_sections import report_sections
from mate_cli.reports.compare.configuration import Configuration
from mate_cli.reports.compare.report import Report, state_text
from mate_cli.reports.compare.statistics import Summary
from mate_cli.reports.format import NOTHING, duration_text, plural, rate_text
from mate_cli.reports.plots.style import as_svg, paint_of
from mate_cli.reports.runs.load import LoadedRuns
from mate_cli.reports.view import ReportSection, Row
from mate_cli.terminal.streams import printable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup
    from matplotlib.figure import Figure

WORD_ENDS = re.compile(r"(?<=[_=./,])(?=\w)|(?<=[a-z])(?=[A-Z])")


class Card(NamedTuple):
    """A summary card at the top of an HTML page: a large number with its name and details."""

    name: str
    value: str
    detail: str
    small: str = ""
    unit: str = ""


def render_template(name: str, **values: object) -> str:
    """Render a Jinja template to a self-contained HTML page that cannot load other files.

    Args:
        name: file name of the template.
        **values: variables of the template.
    """
    return environment().get_template(name).render(values)


@cache
def environment() -> Environment:
    """Build the Jinja environment of all templates, with their filters and global functions."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("mate_cli.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=clean_output,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":"), "allow_nan": False}
    templates.globals |= {"asset": asset, "paint": paint_of, "along": along_track}
    templates.filters |= {"svg": svg_markup, "breakable": breakable, "compact": compact_row}
    return templates


def clean_output(value: object) -> object:
    """Convert the value of a Jinja expression to safe printable text, without changing markup.

    The output for None is empty.
    """
    if value is None:
        return ""
    return value if hasattr(value, "__html__") else printable(str(value))


def asset(name: str) -> Markup:
    """Return the text of a CSS or JavaScript file of the package, for inlining into a page."""
    from markupsafe import Markup

    return Markup(resources.files("mate_cli.reports").joinpath("assets", name).read_text(encoding="utf-8"))


def svg_markup(figure: Figure, salt: str) -> Markup:
    """Render a figure as inline SVG. The prefix `salt` makes its ids unique on the page."""
    from markupsafe import Markup

    return Markup(as_svg(figure, salt))


def breakable(text: str) -> Markup:
    """Allow line breaks in a long name, such as `limit_train=12000`, on an HTML page."""
    from markupsafe import Markup

    return Markup("<wbr>").join(printable(word) for word in WORD_ENDS.split(text))


def compact_row(row: Row) -> list[Any]:
    """Convert a table row to a short JSON list [label, CSS class, cells] for page scripts.

    Trailing empty values of a cell are omitted.
    """
    cells = []
    for cell in row.cells:
        text = cell.text.replace("-", "\N{MINUS SIGN}") if cell.has_minus else cell.text
        value = None if cell.value is None else float(f"{cell.value:.8g}")
        parts = [text, value, cell.spread, cell.mark, cell.detail, list(cell.states)]
        while parts and not parts[-1]:
            parts.pop()
        cells.append(parts)
    return [row.label, row.style, cells]


def along_track(value: float, top: float) -> str:
    """Return a position on an axis from 0 to `top` as a CSS percentage, such as "25.00%"."""
    return f"{max(0.0, min(100.0, 100 * value / top)):.2f}%"


CHARTS = ("chart.js", "curve_lines.js", "curve_chart.js", "curves.js", "cost.js")
SCRIPTS = ("memory.js", "later.js", "sort.js", "page.js", "runs.js", *CHARTS)


def write_page(report: Report, file: Path) -> Path:
    """Write the HTML page of a comparison to `file`, and return the path of the page.

    Raises:
        RunError: the file cannot be written.
    """
    return write_text(file, render_page(report, file.parent))


def render_page(report: Report, folder: Path) -> str:
    """Return the HTML page of a comparison as text.

    Args:
        report: comparison to render.
        folder: folder that will contain the page. Links to run folders are relative to it.
    """
    return render_sections(
        list(report_sections(report)),
        LoadedRuns(report.runs, report.warnings, tuple(map(Path, report.folders))),
        folder,
        report.created,
        title=f"{plural(len(report.runs), 'run')} compared",
        eyebrow="MATE · comparison",
        heading=page_title(report),
        cards=summary_cards(report),
        command="mate compare",
    )


def write_difference(section: ReportSection, loaded: LoadedRuns, file: Path) -> Path:
    """Write the HTML page that compares two runs atomically, and return its path.

    Args:
        section: section with the differences between the runs.
        loaded: both runs.
        file: file to write.

    Raises:
        RunError: the file cannot be written.
    """
    created = datetime.now(timezone.utc)
    words: dict[str, Any] = {"title": "Two runs", "eyebrow": "MATE · difference", "heading": section.title, "cards": ()}
    return write_text(file, render_sections([section], loaded, file.parent, created, command="mate diff", **words))


def render_sections(
    sections: Sequence[ReportSection],
    loaded: LoadedRuns,
    folder: Path,
    created: datetime,
    *,
    command: str,
    **words: object,
) -> str:
    """Render report sections to an HTML page, except empty sections.

    Args:
        sections: sections in display order.
        loaded: runs that the sections show.
        folder: folder that will contain the page.
        created: time at which the runs were read.
        command: command that writes the page, such as `mate compare`.
        **words: title, eyebrow, heading and cards above the sections.
    """
    parts = [(section, content) for section in sections if (content := section.content()) is not None]
    return render_template(
        "compare.html",
        parts=[(section, {"note": "", **content}) for section, content in parts],
        folders=loaded.folders,
        created=f"{created:%d %B %Y, %H:%M %Z}",
        warnings=loaded.warnings,
        footer=f"Written by {command} on {created:%Y-%m-%d}.",
        style="compare.css",
        scripts=SCRIPTS,
        link=partial(run_link, folder=folder),
        **words,
    )


def page_title(report: Report) -> str:
    """Return the heading of a comparison page, with counts of configurations and runs.

    The heading also names the datasets.

    More than three datasets are not named.
    """
    datasets = list_datasets(report)
    location = f" on {' and '.join(datasets)}" if 0 < len(datasets) < 4 else ""
    return f"{plural(len(report.groups), 'configuration')}, {plural(len(report.runs), 'run')}{location}"


def list_datasets(report: Report) -> list[str]:
    """Return the sorted names of the datasets that the compared runs use."""
    return sorted({run.setting("dataset") for run in report.runs} - {""})


def run_link(target: Path, folder: Path) -> str:
    """Return the link from a page to a run folder: relative, or absolute on another drive.

    Args:
        target: run folder.
        folder: folder that contains the page.
    """
    try:
        return quote(Path(os.path.relpath(target.resolve(), folder.resolve())).as_posix()) + "/"
    except ValueError:
        return target.resolve().as_uri() + "/"


def summary_cards(report: Report) -> list[Card]:
    """Build the summary cards of a comparison, such as best score and highest speed.

    The other cards show the runs and the compute time.
    """
    seconds = [value for run in report.runs if (value := run.number("wall_seconds")) is not None and run.parent is None]
    return [
        Card("Runs", str(len(report.runs)), state_text(report.runs)),
        best_card(report),
        fastest_card(report),
        Card("Compute time", duration_text(sum(seconds)) if seconds else NOTHING, "wall time of all runs"),
    ]


def find_best(report: Report) -> tuple[Configuration, Summary | None]:
    """Return the configuration that is best by the ranking metric, and its score.

    If no configuration has the metric, the first configuration and None are returned.
    """
    ranked_groups = ((group, summary) for group in report.groups if (summary := group.summary(report.ranked_by or "")))
    return next(ranked_groups, (report.groups[0], None))


def best_card(report: Report) -> Card:
    """Build the summary card of the best score by the ranking metric."""
    best_group, summary = find_best(report)
    if summary is None:
        return Card("Best", NOTHING, "no finished run has a score on dev")
    metric = report.names[report.ranked_by or ""]
    has_several_blocks = len({group.block for group in report.groups}) > 1
    location = f" on {best_group.block}" if has_several_blocks and best_group.block else ""
    spread = "" if summary.spread is None else f" ±{metric.spec.spread_text(summary.spread)}"
    return Card(f"Best {metric.title}{location}", metric.spec.text(summary.center), best_group.label, spread)


def fastest_card(report: Report) -> Card:
    """Build the summary card of the highest training speed in examples per second."""
    rates = ((group.cost("examples_per_second", "throughput"), group.label) for group in report.groups)
    speeds = [(speed.center, label) for speed, label in rates if speed is not None]
    if not speeds:
        return Card("Fastest", NOTHING, "no speed recorded")
    fastest, label = max(speeds)
    return Card("Fastest", rate_text(fastest), label, unit="examples/s")
