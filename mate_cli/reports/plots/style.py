"""The look of every figure: quiet axes, colours that hold on white and on black."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mate_cli.files.atomic import replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Eight colours that stay apart for colour-blind eyes and on paper; `compare.css` has them as --c0 to --c7, with their
# counterparts for dark pages.
COLORS = ("#2928fd", "#c78500", "#0ca48f", "#a41179", "#9674e0", "#5e2d26", "#676d00", "#0a0813")
DASHES = ("-", "--", ":", "-.")
MARKS = ("o", "s", "^", "D", "v", "P", "*", ">")
"""Shapes of points; a colour that comes again has the next one."""
# On the page these two become CSS variables, so that one figure serves light and dark.
INK, GRID = "#3b4150", "#d9dce3"
LEGEND: Mapping[str, Any] = {"frameon": False, "fontsize": 8, "labelcolor": INK}
"""Of every legend, beside its place."""
FONT = {"font.family": "sans-serif", "font.size": 9, "svg.fonttype": "none", "path.simplify": False}


def literal_text(text: str) -> str:
    """Return text that matplotlib draws as it is, dollar signs included, never as a formula."""
    return text.replace("$", r"\$")


def color_of(index: int) -> str:
    """Return the colour of the index-th configuration; colours repeat with another dash."""
    return COLORS[index % len(COLORS)]


def dash_of(index: int) -> str:
    """Return the line style that tells configurations of one colour apart."""
    return DASHES[index // len(COLORS) % len(DASHES)]


def mark_of(index: int) -> str:
    """Return the shape of the points that tells configurations apart without any colour."""
    return MARKS[(index + index // len(COLORS)) % len(MARKS)]


def paint_of(index: int) -> str:
    """Return the colour of the index-th configuration on a page, which follows the reader's light or dark mode."""
    return f"var(--c{index % len(COLORS)})"


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """Return an empty figure (inches) with one quiet axes, made without pyplot and so without a display."""
    figure, panels = new_panels(1, 1, width, height)
    return figure, panels[0][0]


def new_panels(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[list[Axes]]]:
    """Return an empty figure (inches) with rows of quiet axes; those of a row share what they measure."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(FONT):
        figure = Figure(figsize=(width, height), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False, sharey="row")
    if columns > 1:
        figure.set_layout_engine("constrained", wspace=0.05)
    for axes in panels.flat:
        for side in ("top", "right", "left", "bottom"):
            axes.spines[side].set_visible(False)
        axes.tick_params(length=0, which="both", colors=INK, labelsize=8.5)
        axes.grid(color=GRID, linewidth=0.7)
        axes.set_axisbelow(True)
    return figure, panels.tolist()


def add_legend(figure: Figure, labels: Sequence[str]) -> None:
    """Put the names of lines below the axes, side by side where they are short."""
    handles, shown = figure.axes[0].get_legend_handles_labels()
    if shown:
        figure.legend(handles, shown, loc="outside lower left", ncols=1 + (max(map(len, labels)) <= 40), **LEGEND)


def as_svg(figure: Figure, salt: str) -> str:
    """Draw a figure as an SVG element for a page: text as text, colours as CSS variables, ids made unique by salt."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({**FONT, "svg.hashsalt": salt}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    drawing = buffer.getvalue()[buffer.getvalue().index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", drawing, count=1)
    drawing = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", drawing, count=1)
    drawing = re.sub(
        r'\bid="(figure_|axes_|patch_|text_|matplotlib|xtick_|ytick_|line2d_|LineC|QuadMesh_|legend_)',
        rf'id="{salt}-\1',
        drawing,
    )
    for index, color in enumerate(COLORS):
        drawing = drawing.replace(color, paint_of(index))
    return drawing.replace(INK, "var(--ink)").replace(GRID, "var(--grid)")


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG (200 dots per inch), SVG and PDF into a folder, which is made if need be."""
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.{kind}" for kind in ("png", "svg", "pdf")]
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with rc_context({**FONT, "svg.hashsalt": name, "pdf.fonttype": 42}):
        for file in files:
            with replace_file(file) as draft:
                figure.savefig(draft, dpi=200, facecolor="white", metadata=undated.get(file.suffix))
    return files
