"""Questions with the nodes that they are linked to."""

from __future__ import annotations

from dataclasses import dataclass, fields

from mate_cli.tables.example import TableExample
from mate_cli.tokenization.hybrider.nodes import Node


@dataclass(frozen=True, slots=True)
class LinkedExample(TableExample):
    """A question with the nodes that it is linked to.

    Args:
        nodes: all of them, in the order of `link_question`.
        current: the node to hop from; None where none is chosen yet.
    """

    nodes: tuple[Node, ...] = ()
    current: Node | None = None


def linked(example: TableExample, nodes: tuple[Node, ...]) -> LinkedExample:
    """The question with its nodes."""
    known = {field.name: getattr(example, field.name) for field in fields(TableExample)}
    return LinkedExample(**known, nodes=nodes)
