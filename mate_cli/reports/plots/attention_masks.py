"""Figure of the attention masks of several attention heads, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from mate_cli.reports.plots.style import COLORS, FONT, INK

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("question", "header", "body", "counts")
KIND_COLORS = dict(zip(KINDS, (COLORS[1], COLORS[4], COLORS[0], COLORS[2]), strict=True))
MAX_TICKS = 28


def attention_masks_figure(
    masks: Mapping[str, np.ndarray], kinds: Sequence[str], rows: Sequence[int], title: str
) -> Figure:
    """Draw boolean attention masks side by side. Rows are query tokens, columns key tokens.

    Pairs in which the query attends to the key are colored by the category of the key.

    Args:
        masks: Bool [T, T] masks by the name of the attention heads.
        kinds: category of each token, one of `KINDS`. The category of the key determines the color.
        rows: table row of each token, 0 for the question and the header.
        title: title of the figure.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    with rc_context(FONT):
        figure = Figure(figsize=(5.6 * len(masks) + 0.4, 6.6), layout="constrained")
        panels = figure.subplots(1, len(masks), squeeze=False)[0]
        for axes, (name, mask) in zip(panels, masks.items(), strict=True):
            _draw(axes, name, mask, kinds, rows)
        shown_kinds = [kind for kind in KINDS if kind in kinds]
        handles = [Patch(color=KIND_COLORS[kind], label=f"{kind} token is seen") for kind in shown_kinds]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(shown_kinds), frameon=False)
        figure.suptitle(title, color=INK, fontsize=10.5)
    return figure


def _draw(axes: Axes, name: str, mask: np.ndarray, kinds: Sequence[str], rows: Sequence[int]) -> None:
    import numpy as np
    from matplotlib.colors import to_rgb

    colors = np.array([to_rgb(KIND_COLORS[kind]) for kind in kinds])
    image = np.where(mask[:, :, None], colors[None, :, :], 1.0)
    size = len(kinds)
    axes.imshow(image, interpolation="nearest", extent=(0, size, size, 0))
    axes.set_title(f"{name}: {mask.mean():.0%} of all pairs", color=INK, fontsize=9.5)
    axes.set_xlabel("key: the token attended to", color=INK)
    axes.set_ylabel("query: the token that attends", color=INK)
    borders, labels = _parts(kinds, rows)
    for border in borders[1:-1]:
        axes.axhline(border, color=INK, linewidth=0.35, alpha=0.45)
        axes.axvline(border, color=INK, linewidth=0.35, alpha=0.45)
    step = -(-len(labels) // MAX_TICKS)
    ticks = [(low + high) / 2 for low, high in pairwise(borders)]
    axes.set_yticks(ticks[::step], labels[::step])
    axes.set_xticks(ticks[::step], labels[::step], rotation=90)
    axes.tick_params(length=0, colors=INK, labelsize=7)


def _parts(kinds: Sequence[str], rows: Sequence[int]) -> tuple[list[int], list[str]]:
    """Return the borders and names of the token groups on the axes of an attention mask.

    Groups are the question, the header and each table row. The number of borders exceeds the number of names by one.
    """
    borders, labels = [0], []
    for (kind, row), tokens in groupby(zip(kinds, rows, strict=True)):
        borders.append(borders[-1] + len(list(tokens)))
        labels.append(f"row {row}" if kind == "body" else kind)
    return borders, labels
