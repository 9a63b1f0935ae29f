"""Graph view of `mate inspect`: nodes of an example and attention weights between nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Column, Table
from rich.text import Text

from mate_cli.data.loading.collate import collate
from mate_cli.papers.transformer_xh.relations import KINDS, RELATIONS, NodeText
from mate_cli.reports.example import IN_CELL, print_cut
from mate_cli.reports.plots.style import COLORS, INK, literal_text, new_panels
from mate_cli.tables.example import TableExample
from mate_cli.terminal.console import report_console
from mate_cli.tokenization.fitting.truncation import describe_cut
from mate_cli.tokenization.layout import TableEncoding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_LETTERS = 24
"""Maximum length of a node label in characters."""


def show_graph(
    example: TableExample,
    encoding: TableEncoding,
    nodes: Sequence[NodeText],
    encoder: Any,  # noqa: ANN401 - any network
) -> Figure:
    """Print the nodes of an example and plot the edges between nodes.

    Args:
        example: the example.
        encoding: encoding of the example with relations.
        nodes: nodes of the encoding, in the same order.
        encoder: network whose hop weights determine the shade of the edges. None: all edges have the same shade.
    """
    kinds = np.array(["", *KINDS])[np.asarray(encoding.more[RELATIONS])]
    print_nodes(example, encoding, nodes, kinds)
    names = [
        f"{n} {shorten(text.node.title.strip() or text.body, MAX_LETTERS, placeholder='…')}"
        for n, text in enumerate(nodes, 1)
    ]
    weights = weights_of(encoder, encoding) if encoder is not None else {}
    return edges_figure(names, kinds, weights, f"{example.example_id}: {example.question}")


def print_nodes(example: TableExample, encoding: TableEncoding, nodes: Sequence[NodeText], kinds: np.ndarray) -> None:
    """Print the question, and the position, text and relations of each node.

    Args:
        example: the example.
        encoding: encoding of the example with labels and truncation counts.
        nodes: nodes of the encoding, in the same order.
        kinds: name of the relation of node i (query) to node j (key), "" without a relation [K, K].
    """
    assert encoding.label_ids is not None
    assert encoding.cut is not None
    console = report_console()
    answer = " | ".join(example.answer.texts) if example.answer else "not known"
    for name, value in (("example", example.example_id), ("question", example.question), ("answer", answer)):
        console.print(Text.assemble((f"{name:<10}", "bold"), value), soft_wrap=True)
    print_cut(describe_cut(encoding.cut), console)
    numbers = [Column(name, justify="right") for name in ("#", "row", "column", "tokens")]
    view = Table(*numbers, Column("text", overflow="ellipsis", no_wrap=True, ratio=1), "sees", expand=True)
    for number, (text, row) in enumerate(zip(nodes, kinds, strict=True), 1):
        labels = encoding.label_ids[encoding.row_ids == number]
        relation_counts = ", ".join(f"{count} {kind}" for kind, count in Counter(row).items() if kind) or "none"
        position = (number, text.node.row + 1, text.node.column + 1, len(labels))
        body = f"{text.title}: {text.body}" if text.title else text.body
        view.add_row(*map(str, position), Text(body, style=IN_CELL if (labels & 1).any() else ""), relation_counts)
    console.print(view)


def weights_of(encoder: Any, encoding: TableEncoding) -> Mapping[str, np.ndarray]:  # noqa: ANN401 - any network
    """Return the head-averaged hop weights between nodes [K, K] per hop layer.

    The keys are panel titles. A network without hops returns {}.
    """
    edge_weights = getattr(encoder, "edge_weights", None)
    if edge_weights is None:
        return {}
    batch = collate([encoding], reset_positions=True, max_positions=encoder.size.max_positions)
    layers = edge_weights(batch)
    first = encoder.size.num_layers - len(layers) + 1
    return {f"after layer {first + index}": weights[0].mean(0).numpy() for index, weights in enumerate(layers)}


def edges_figure(names: Sequence[str], kinds: np.ndarray, weights: Mapping[str, np.ndarray], title: str) -> Figure:
    """Plot a square for each edge in the color of its relation, darker for a larger weight.

    Args:
        names: labels of the K nodes.
        kinds: name of the relation of node i (query) to node j (key), "" without a relation [K, K].
        weights: attention weight of node i for node j [K, K], by panel title. If empty, one panel shows the edges.
        title: the figure's title.
    """
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    panels = weights or {"edges": (kinds != "").astype(float)}
    size = 2.5 + 0.22 * len(names)
    figure, ((*axes,),) = new_panels(1, len(panels), size * len(panels), size)
    present = [kind for kind in KINDS if (kinds == kind).any()]
    colors = {kind: COLORS[index % len(COLORS)] for index, kind in enumerate(present)}
    paint = np.array([[to_rgb(colors.get(kind, INK)) for kind in row] for row in kinds])
    for panel, (name, shares) in zip(axes, panels.items(), strict=True):
        panel.grid(visible=False)
        panel.imshow(1 - (shares / max(shares.max(), 1e-9))[..., None] * (1 - paint), interpolation="nearest")
        panel.set_title(name, color=INK, fontsize=9.5)
        labels = list(map(literal_text, names))
        panel.set_xticks(range(len(names)), labels, rotation=90, fontsize=7)
        panel.set_yticks(range(len(names)), labels, fontsize=7)
    handles = [Patch(color=color, label=kind) for kind, color in colors.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=max(1, len(handles)), frameon=False, fontsize=8)
    figure.suptitle(literal_text("\n".join(wrap(title, int(11 * size * len(panels))))), color=INK, fontsize=10)
    return figure
