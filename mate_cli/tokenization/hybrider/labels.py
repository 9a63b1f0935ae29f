"""The right choices of each of Hybrider's three stages: which node to begin at, where to hop, what to read.

Source: Chen et al. 2020, "HybridQA", section 4.2; wenhuchen/HybridQA, `preprocessing.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.tokenization.hybrider.nodes import MAX_CANDIDATES, Candidate, Node, first_sentence, page_title
from mate_cli.tokenization.hybrider.targets import Target


@dataclass(frozen=True, slots=True)
class ReadingPair:
    """A page that holds the answer of a question.

    Args:
        link: the page's key in `Table.passages`.
        context: its title and text, as `page_context` puts them.
        start: first character of the answer in the context.
        answer: the answer as the context writes it.
    """

    link: str
    context: str
    start: int
    answer: str


def ranking_labels(target: Target, nodes: Sequence[Node]) -> tuple[int, ...]:
    """Stage 1: 1 for each node in a row that holds an answer; empty when nothing is learnt from the question."""
    if not target.ranks:
        return ()
    return tuple(int(node.coordinate[0] in target.answer_of_row) for node in nodes)


def hop_candidates(table: Table, row: int) -> tuple[Candidate, ...]:
    """Stage 2: the cells of a row that have text, each followed by the pages that it links to, the first 16."""
    found: list[Candidate] = []
    for column, cell in enumerate(table.rows[row]):
        if cell.text:
            place, header = (row, column), table.header[column].text
            found.append(Candidate(cell.text, place, None, header, ""))
            found += [
                Candidate(page_title(link), place, link, header, first_sentence(table.passages.get(link, "")))
                for link in cell.links
            ]
    return tuple(found[:MAX_CANDIDATES])


def hop_labels(target: Target, candidates: Sequence[Candidate]) -> tuple[int, ...]:
    """Stage 2: 1 for each candidate that is the last answer node of its row; empty when the row has none.

    A cell that has the text of that node counts too, so that a page and a cell named like it are both right.
    """
    answer = target.answer_of_row.get(candidates[0].coordinate[0]) if target.ranks and candidates else None
    if answer is None:
        return ()
    return tuple(
        int(candidate.content == answer.content if candidate.link is None else candidate.link == answer.link)
        for candidate in candidates
    )


def page_context(table: Table, link: str) -> str:
    """Stage 3: the text to read of a page, its title before it."""
    return f"Title : {page_title(link)} . {table.passages.get(link, '')}"


def reading_pairs(example: TableExample, target: Target) -> tuple[ReadingPair, ...]:
    """Stage 3: each page that holds the answer, once."""
    if target.kind == "trivial" or example.answer is None:
        return ()
    answer = " ".join(example.answer.texts)
    links = dict.fromkeys(node.link for node in target.nodes if node.link)
    return tuple(_pair(link, page_context(example.table, link), answer) for link in links)


def _pair(link: str, context: str, answer: str) -> ReadingPair:
    """The first place of the answer, which may be in the title."""
    start = max(0, _lower(context).find(_lower(answer)))
    return ReadingPair(link, context, start, context[start : start + len(answer)])


def _lower(text: str) -> str:
    """Lower case of the same length, so that places agree: "İ" alone would become two characters."""
    return "".join(character.lower()[0] for character in text)
