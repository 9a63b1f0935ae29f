"""The view of `mate inspect` on texts that are read side by side: the nodes, and a picture of their graph."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.table import Column, Table
from rich.text import Text

from mate_cli.reports.example import IN_CELL, print_cut
from mate_cli.reports.plots.style import COLORS, GRID, INK, literal_text, new_panels
from mate_cli.tables.example import TableExample
from mate_cli.terminal.console import Console

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class NodeView:
    """One text as it is shown.

    Args:
        cell: (row, column) that it is of, from 0.
        tokens: their number.
        text: what it says.
        sees: what each of its relations to others is called.
        right: whether it holds the answer.
    """

    cell: tuple[int, int]
    tokens: int
    text: str
    sees: Sequence[str]
    right: bool


def print_nodes(example: TableExample, nodes: Sequence[NodeView], cut: str, console: Console) -> None:
    """Print the question, and every node with its place, its text and the nodes that it sees.

    Args:
        example: the example.
        nodes: its texts, in the order of the encoding.
        cut: what was left out, in words.
        console: where to print.
    """
    answer = " | ".join(example.answer.texts) if example.answer else "not known"
    for name, value in (("example", example.example_id), ("question", example.question), ("answer", answer)):
        console.print(Text.assemble((f"{name:<10}", "bold"), value), soft_wrap=True)
    print_cut(cut, console)
    numbers = [Column(name, justify="right") for name in ("#", "row", "column", "tokens")]
    view = Table(*numbers, Column("text", overflow="ellipsis", no_wrap=True, ratio=1), "sees", expand=True)
    for number, node in enumerate(nodes, 1):
        counts = Counter(node.sees).items()
        sees = ", ".join(f"{count} {kind}" for kind, count in counts) or "none"
        place = (str(node.cell[0] + 1), str(node.cell[1] + 1))
        text = Text(node.text, style=IN_CELL if node.right else "")
        view.add_row(str(number), *place, str(node.tokens), text, sees)
    console.print(view)


if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from mate_cli.papers.transformer_xh.relations import NodeText
    from mate_cli.tables.example import TableExample
    from mate_cli.tokenization.layout import TableEncoding


def show_graph(
    example: TableExample,
    encoding: TableEncoding,
    nodes: Sequence[NodeText],
    encoder: Any,  # noqa: ANN401 - of any network
) -> Figure:
    """Print the nodes of an example and draw their graph, with an encoder its weights."""
    from mate_cli.terminal.console import report_console
    from mate_cli.tokenization.fitting.truncation import describe_cut

    assert encoding.label_ids is not None
    kinds = kinds_of(encoding)
    labels = [encoding.label_ids[encoding.row_ids == row] for row in range(1, len(nodes) + 1)]
    right = [bool((node_labels & 1).any()) for node_labels in labels]
    cells = [(text.node.row, text.node.column) for text in nodes]
    texts = [f"{text.title}: {text.body}" if text.title else text.body for text in nodes]
    sees = [[kind for kind in row if kind] for row in kinds]
    lines = [NodeView(*line) for line in zip(cells, map(len, labels), texts, sees, right, strict=True)]
    assert encoding.cut is not None
    print_nodes(example, lines, describe_cut(encoding.cut), report_console())
    names = [text.node.title.strip() or text.body for text in nodes]
    view = GraphView(names, cells, kinds, right)
    weights = weights_of(encoder, encoding) if encoder is not None else {}
    return evidence_graph_figure(view, weights, f"{example.example_id}: {example.question}")


def kinds_of(encoding: TableEncoding) -> list[list[str]]:
    """Name the relation of each node to each other one; "" where there is none."""
    import numpy as np

    from mate_cli.papers.transformer_xh.arrays import RELATIONS
    from mate_cli.papers.transformer_xh.relations import KINDS

    names = ("", *KINDS)
    return [[names[kind] for kind in row] for row in np.asarray(encoding.more[RELATIONS]).tolist()]


def weights_of(encoder: Any, encoding: TableEncoding) -> Mapping[str, np.ndarray]:  # noqa: ANN401 - of any network
    """Return the mean over heads of the weights between nodes [K, K], by layer that hops; {} without hops."""
    from mate_cli.data.loading.collate import collate

    ask = getattr(encoder, "edge_weights", None)
    if ask is None:
        return {}
    batch = collate([encoding], reset_positions=True, max_positions=encoder.size.max_positions)
    layers = ask(batch)
    first = encoder.size.num_layers - len(layers) + 1
    return {f"after layer {first + place}": weights[0].mean(0).numpy() for place, weights in enumerate(layers)}


MAX_LETTERS = 18
"""The most letters of a node's name."""
MIN_SHARE = 0.02
"""Edges that bring less are not drawn where weights are known."""
BEND = 0.18
"""The bend of arrows: the distance of an arc's control points from its chord, in parts of that."""
_RIGHT, *_KINDS = COLORS[1], COLORS[0], *COLORS[2:]


@dataclass(frozen=True)
class GraphView:
    """A graph as it is drawn.

    Args:
        names: of the nodes.
        cells: (row, column) of each node; nodes of several columns stand as in their table, others in a circle.
        kinds: what the relation of node i, which asks, to node j, which is asked, is called; "" where there is none.
        right: which nodes hold the answer.
    """

    names: Sequence[str]
    cells: Sequence[tuple[int, int]]
    kinds: Sequence[Sequence[str]]
    right: Sequence[bool]

    def places(self) -> list[tuple[float, float]]:
        """Return where each node stands, across and up."""
        rows = sorted({row for row, _ in self.cells})
        columns = sorted({column for _, column in self.cells})
        if len(columns) > 1 and len(set(self.cells)) == len(self.cells):
            return [(float(columns.index(column)), -float(rows.index(row))) for row, column in self.cells]
        turns = [math.tau * place / len(self.cells) for place in range(len(self.cells))]
        return [(math.sin(turn), math.cos(turn)) for turn in turns]


def evidence_graph_figure(view: GraphView, weights: Mapping[str, np.ndarray], title: str) -> Figure:
    """Draw a graph, an arrow from each node that is asked to the one that asks.

    Args:
        view: the graph.
        weights: how much node i takes of node j, [K, K], by what the panel is called; without any the edges alone.
        title: the figure's title.
    """
    from matplotlib.lines import Line2D

    panels: dict[str, np.ndarray | None] = {**weights} if weights else {"edges": None}
    width, height, around = _extent(view)
    figure, ((*axes,),) = new_panels(1, len(panels), width * len(panels), height)
    kinds = list(dict.fromkeys(kind for row in view.kinds for kind in row if kind))
    colors = {kind: _KINDS[place % len(_KINDS)] for place, kind in enumerate(kinds)}
    for panel, (name, shares) in zip(axes, panels.items(), strict=True):
        panel.grid(visible=False)
        panel.set_xticks([])
        panel.set_yticks([])
        panel.set_title(name, color=INK, fontsize=9.5)
        _draw(panel, view, shares, colors)
        panel.margins(0.16, around)
    lines = [Line2D([], [], color=colors[kind], label=kind) for kind in kinds]
    lines.append(Line2D([], [], marker="o", linestyle="", color=_RIGHT, label="holds the answer"))
    figure.legend(handles=lines, loc="outside lower center", ncols=min(8, len(lines)), frameon=False, fontsize=8)
    letters = int(11 * width * len(panels))  # as many as fit at this size
    figure.suptitle(literal_text("\n".join(wrap(title, letters))), color=INK, fontsize=10)
    return figure


def _extent(view: GraphView) -> tuple[float, float, float]:
    """Return the inches of a panel, across and up, and the parts of them above and below its nodes."""
    places = view.places()
    across, up = (max(values) - min(values) for values in zip(*places, strict=True))
    if max(across, up) <= 2.0 and len(places) > 1:
        return 6.4, 6.8, 0.16
    span = min(11.8, 1.3 * across)
    arc = BEND / 2 * span  # as high as the longest arrow rises
    rows = min(13.0, max(0.6, arc) * max(1.0, up))
    return 2.2 + span, 1.5 + rows + 2 * arc, (0.15 + arc) / rows


def _draw(axes: Axes, view: GraphView, shares: np.ndarray | None, colors: Mapping[str, str]) -> None:
    places = view.places()
    for asks, row in enumerate(view.kinds):
        for asked, kind in enumerate(row):
            share = 0.2 if shares is None else float(shares[asks, asked])
            if kind and share >= MIN_SHARE:
                _arrow(axes, places[asked], places[asks], colors[kind], share)
    across, up = zip(*places, strict=True)
    paints = [_RIGHT if right else INK for right in view.right]
    axes.scatter(across, up, s=46, c=paints, zorder=3)
    for (x, y), name in zip(places, view.names, strict=True):
        short = name if len(name) <= MAX_LETTERS else name[: MAX_LETTERS - 1] + "…"
        axes.annotate(
            literal_text(short), (x, y), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=7, color=INK
        )


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], color: str, share: float) -> None:
    axes.annotate(
        "",
        end,
        xytext=start,
        arrowprops={
            "arrowstyle": "-|>",
            "connectionstyle": f"arc3,rad={BEND}",
            "color": color if share > 0 else GRID,
            "linewidth": 0.3 + 2.7 * share,
            "alpha": min(1.0, 0.25 + share),
            "shrinkA": 5,
            "shrinkB": 5,
            "mutation_scale": 7,
        },
    )
