"""The view of `mate inspect` on texts that are read side by side: the nodes, and a picture of their graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Column, Table
from rich.text import Text

from mate_cli.reports.examples.example import print_cut
from mate_cli.reports.examples.example_table import IN_CELL
from mate_cli.tables.example import TableExample
from mate_cli.terminal.console import Console


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
    for name, said in (("example", example.example_id), ("question", example.question), ("answer", answer)):
        console.print(Text.assemble((f"{name:<10}", "bold"), said), soft_wrap=True)
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
    from mate_cli.papers.transformer_xh.evidence_graph import GraphView, evidence_graph_figure
    from mate_cli.terminal.console import report_console
    from mate_cli.tokenization.fitting.truncation import describe_cut

    assert encoding.label_ids is not None
    kinds = kinds_of(encoding)
    labels = [encoding.label_ids[encoding.row_ids == row] for row in range(1, len(nodes) + 1)]
    right = [bool((own & 1).any()) for own in labels]
    cells = [(text.node.row, text.node.column) for text in nodes]
    said = [f"{text.title}: {text.body}" if text.title else text.body for text in nodes]
    sees = [[kind for kind in row if kind] for row in kinds]
    lines = [NodeView(*line) for line in zip(cells, map(len, labels), said, sees, right, strict=True)]
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
    found = ask(batch)
    first = encoder.size.num_layers - len(found) + 1
    return {f"after layer {first + place}": one[0].mean(0).numpy() for place, one in enumerate(found)}
