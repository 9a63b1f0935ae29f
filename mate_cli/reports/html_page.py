"""Pages from the templates in `templates/`: all that is not markup is escaped and rid of control characters."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from mate_cli.reports.plots.style import as_svg, paint_of
from mate_cli.reports.view import Row
from mate_cli.terminal.streams import printable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup
    from matplotlib.figure import Figure

WORD_ENDS = re.compile(r"(?<=[_=./,])(?=\w)|(?<=[a-z])(?=[A-Z])")


class Card(NamedTuple):
    """A number in large print, with what it is above and below."""

    name: str
    value: str
    detail: str
    small: str = ""
    unit: str = ""


def render_template(name: str, **values: object) -> str:
    """Render a template to a page that needs no other file and may load none."""
    return environment().get_template(name).render(values)


@cache
def environment() -> Environment:
    """Build the environment of all templates."""
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
    """Return what a template writes for a value: markup as it is, nothing for None, else printable text."""
    if value is None:
        return ""
    return value if hasattr(value, "__html__") else printable(str(value))


def asset(name: str) -> Markup:
    """Read a style sheet or script that is part of the package."""
    from markupsafe import Markup

    return Markup(resources.files("mate_cli.reports").joinpath("assets", name).read_text(encoding="utf-8"))


def svg_markup(figure: Figure, salt: str) -> Markup:
    """Draw a figure into the page; `salt` makes its ids unique."""
    from markupsafe import Markup

    return Markup(as_svg(figure, salt))


def breakable(text: str) -> Markup:
    """Let a browser break `limit_train=12000` and `TapasSerializer` between their words."""
    from markupsafe import Markup

    return Markup("<wbr>").join(printable(word) for word in WORD_ENDS.split(text))


def compact_row(row: Row) -> list[Any]:
    """Return a row of a table for a script to build: label, class, and of each cell what it has up to the last."""
    cells = []
    for cell in row.cells:
        text = cell.text.replace("-", "\N{MINUS SIGN}") if cell.has_minus else cell.text
        value = None if cell.value is None else float(f"{cell.value:.8g}")
        parts = [text, value, cell.spread, cell.mark, cell.detail, list(cell.states)]
        while parts and not parts[-1]:
            parts.pop()
        cells.append(parts)
    return [row.short or row.label, row.style, cells]


def along_track(value: float, top: float) -> str:
    """Write how far along a track from 0 to `top` a value lies, in percent."""
    return f"{max(0.0, min(100.0, 100 * value / top)):.2f}%"
