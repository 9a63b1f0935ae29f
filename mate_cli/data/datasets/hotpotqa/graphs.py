"""Graphs of pages that may answer a question, as the authors of Transformer-XH release them.

Source: microsoft/Transformer-XH, `data/hotpotqa.py`: one object a line with `qid`, `question`, `node` (`full_name` or
`name`, `context` in word pieces, `is_ans`, `spans` of the context) and `edge` (`start`, `end`, `sent`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mate_cli.data.datasets.document_questions import document_example
from mate_cli.data.datasets.entries import DamagedEntryError, list_of, optional_text, required_text, typed
from mate_cli.tables.example import DocumentLink, TableExample


def graph_example(entry: Mapping[str, Any], official: Mapping[str, Any]) -> TableExample:
    """A question with a graph; pages are rows, in the order of the nodes.

    The answer is the official one where it is known, else what the first span says.
    `official` is the same question in the official files, empty where it is not known.

    Raises:
        DamagedEntryError: it cannot be used.
    """
    nodes = [_node(part) for part in list_of(entry, "node")]
    documents = [(title, (text_of_pieces(context),)) for title, context, _, _ in nodes]
    rows = [row for row, (_, _, judged, _) in enumerate(nodes) if judged == 1]
    spans = [
        text_of_pieces(context[start : end + 1])
        for _, context, judged, (start, end) in nodes
        if judged == 1 and 0 <= start <= end < len(context)
    ]
    answer = official.get("answer") or next(iter(spans), None)
    return document_example(
        required_text(entry, "qid"),
        required_text(entry, "question"),
        documents,
        None if answer is None else (answer, *(text for text in spans if text != answer)),
        rows,
        links=_links(entry.get("edge", []), len(nodes)),
        unjudged=tuple(row for row, (_, _, judged, _) in enumerate(nodes) if judged not in (0, 1)),
        subsets=tuple(str(official[kind]) for kind in ("type", "level") if official.get(kind)),
    )


def text_of_pieces(pieces: Sequence[str]) -> str:
    """Word pieces as text."""
    return " ".join(pieces).replace(" ##", "")


def _node(part: object) -> tuple[str, list[str], int, tuple[int, int]]:
    if not isinstance(part, dict):
        raise DamagedEntryError("a node is no object")
    context = part.get("context")
    title = (optional_text(part, "full_name") or optional_text(part, "name")).replace("_", " ")
    if not isinstance(context, list) or not all(isinstance(piece, str) for piece in context):
        raise DamagedEntryError(f"the context of node {title!r} is no list of word pieces")
    judged = typed(part.get("is_ans", -1), int, f"is_ans of node {title!r}")
    match part.get("spans", []):
        case []:
            return title, context, judged, (-1, -1)
        case [[int(start), int(end)], *_]:
            return title, context, judged, (start, end)
        case _:
            raise DamagedEntryError(f"spans of node {title!r} are no list of [begin, end]")


def _links(parts: object, nodes: int) -> tuple[DocumentLink, ...]:
    """Links in the order of the file, one for every sentence that two nodes are linked by."""
    if not isinstance(parts, list):
        raise DamagedEntryError("edge is no list")
    found: dict[DocumentLink, None] = {}
    for part in parts:
        edge = typed(part, dict, "an edge")
        start, end = (typed(edge.get(key), int, f"{key} of an edge") for key in ("start", "end"))
        link = DocumentLink(start, end, optional_text(edge, "sent"))
        if not (0 <= link.source < nodes and 0 <= link.target < nodes):
            raise DamagedEntryError(f"an edge leads from {link.source} to {link.target} of {nodes} nodes")
        found[link] = None
    return tuple(found)
