"""The nodes of an example as a table for the terminal."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

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
