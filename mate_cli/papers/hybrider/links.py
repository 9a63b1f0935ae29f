"""Link many questions once, and read the links back ever after."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from mate_cli.data.loading.cache import digest_code, digest_of
from mate_cli.files.atomic import replace_file
from mate_cli.papers.hybrider.linking import link_questions
from mate_cli.papers.hybrider.nodes import LinkedExample, Node, attach_nodes
from mate_cli.tables.example import TableExample
from mate_cli.terminal.progress import Progress

CHUNK = 128
"""Questions whose links are kept in one file."""


def link_examples(examples: Sequence[TableExample], folder: Path | None = None) -> list[LinkedExample]:
    """Return the questions with their nodes; those that have them already stay as they are.

    All of a split, or its first ones, so that files of earlier calls fit: `folder` has one per `CHUNK`.
    """
    done: list[LinkedExample] = []
    with Progress("linking", len(examples), "questions") as progress:
        for start in range(0, len(examples), CHUNK):
            chunk = examples[start : start + CHUNK]
            done += _linked_chunk(chunk, folder)
            progress.advance(len(chunk))
    return done


def _linked_chunk(chunk: Sequence[TableExample], folder: Path | None) -> list[LinkedExample]:
    if all(isinstance(example, LinkedExample) for example in chunk):
        return list(chunk)  # type: ignore[arg-type]
    path = folder / f"{digest_of(chunk, f'links {digest_code([LinkedExample])}')}.json" if folder else None
    if path and path.is_file():
        nodes = [tuple(map(_node, some)) for some in json.loads(path.read_text(encoding="utf-8"))]
    else:
        nodes = link_questions(chunk)
        if path:
            with replace_file(path) as partial:
                content = json.dumps([[astuple(node) for node in some] for some in nodes])
                partial.write_text(content, encoding="utf-8")
    return [attach_nodes(example, some) for example, some in zip(chunk, nodes, strict=True)]


def _node(fields: Sequence[Any]) -> Node:
    content, coordinate, *others = fields
    return Node(content, tuple(coordinate), *others)
