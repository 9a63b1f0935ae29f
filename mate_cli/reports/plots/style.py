"""Style of all figures: plain axes, and colors that fit light and dark backgrounds."""

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

# Eight colors that are distinguishable with color blindness and in print. `compare.css` defines them as --c0 to --c7,
# with variants for dark pages.
COLORS = ("#2928fd", "#c78500", "#0ca48f", "#a41179", "#9674e0", "#5e2d26", "#676d00", "#0a0813")
DASHES = ("-", "--", ":", "-.")
MARKS = ("o", "s", "^", "D", "v", "P", "*", ">")
"""Shapes of points. If colors repeat, the shape differs."""
# On the page, ink and grid become CSS variables, so that one figure serves light and dark mode.
INK, GRID = "#3b4150", "#d9dce3"
LEGEND: Mapping[str, Any] = {"frameon": False, "fontsize": 8, "labelcolor": INK}
"""Options of every legend, except its location."""
FONT = {"font.family": "sans-serif", "font.size": 9, "svg.fonttype": "none", "path.simplify": False}


def literal_text(text: str) -> str:
    """Escape dollar signs, so that matplotlib does not interpret the text as a formula."""
    return text.replace("$", r"\$")


def color_of(index: int) -> str:
    """Return the color that represents the configuration with an index in all figures.

    If there are more configurations than colors, the line style differs.
    """
    return COLORS[index % len(COLORS)]


def dash_of(index: int) -> str:
    """Return the line style of a configuration in figures, by its index.

    Configurations with equal colors have different styles.
    """
    return DASHES[index // len(COLORS) % len(DASHES)]


def mark_of(index: int) -> str:
    """Return the marker shape of a configuration in figures, to identify it without color."""
    return MARKS[(index + index // len(COLORS)) % len(MARKS)]


def paint_of(index: int) -> str:
    """Return the CSS color of the configuration with an index, for light and dark mode."""
    return f"var(--c{index % len(COLORS)})"


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """Create an empty figure with a single plain axes, without pyplot.

    Args:
        width: width in inches.
        height: height in inches.
    """
    figure, panels = new_panels(1, 1, width, height)
    return figure, panels[0][0]


def new_panels(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[list[Axes]]]:
    """Create an empty figure with rows of plain axes, without pyplot.

    The axes of a row share their y axis.

    Args:
        rows: number of rows.
        columns: number of columns.
        width: width in inches.
        height: height in inches.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(FONT):
        figure = Figure(figsize=(width, height), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False, sharey="row")
    if columns > 1:
        figure.set_layout_engine("constrained", wspace=0.05)
    for axes in panels.flat:
        for edge in ("top", "right", "left", "bottom"):
            axes.spines[edge].set_visible(False)
        axes.tick_params(length=0, which="both", colors=INK, labelsize=8.5)
        axes.grid(color=GRID, linewidth=0.7)
        axes.set_axisbelow(True)
    return figure, panels.tolist()


def add_legend(figure: Figure, labels: Sequence[str]) -> None:
    """Add a legend with the labels of all lines below the axes.

    The legend has two columns if all `labels` are short.

    Args:
        figure: figure with labeled lines.
        labels: names that determine the number of columns.
    """
    handles, shown_labels = figure.axes[0].get_legend_handles_labels()
    if shown_labels:
        figure.legend(
            handles, shown_labels, loc="outside lower left", ncols=1 + (max(map(len, labels)) <= 40), **LEGEND
        )


def as_svg(figure: Figure, salt: str) -> str:
    """Render a figure as an SVG element, with text as text and colors as CSS variables.

    Args:
        figure: figure to render.
        salt: prefix of all ids, which makes them unique on the page.
    """
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
    """Write a figure as PNG (200 dpi), SVG and PDF, and create the folder if necessary.

    Args:
        figure: figure to write.
        folder: target folder.
        name: file name without suffix.

    Returns:
        The written files.
    """
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.{suffix}" for suffix in ("png", "svg", "pdf")]
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with rc_context({**FONT, "svg.hashsalt": name, "pdf.fonttype": 42}):
        for file in files:
            with replace_file(file) as temporary:
                figure.savefig(temporary, dpi=200, facecolor="white", metadata=undated.get(file.suffix))
    return files
