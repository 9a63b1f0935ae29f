"""What Hybrider's stages learn from: where the answer is found, and which nodes and hops lead there.

Source: wenhuchen/HybridQA, `trace_answer.py` and `preprocessing.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.tokenization.hybrider.nodes import LinkedPlace, Node, page_title

Kind = Literal["trivial", "easy", "medium", "hard", "numeric", "dropped"]
Where = Literal["table", "passage", "calculation", ""]

NUMBER_TRIGGERS = ("how many", "how much", "how long", "how far", "how old", "difference", "total")
MAX_ANSWER_WORDS = 15


@dataclass(frozen=True, slots=True)
class AnswerNode(LinkedPlace):
    """One where the answer is found; a page only where the cell itself does not hold it."""

    @property
    def source(self) -> Literal["table", "passage"]:
        """Which of the two it is."""
        return "table" if self.link is None else "passage"


@dataclass(frozen=True, slots=True)
class Target:
    """What there is to learn from one question.

    Args:
        kind: "trivial": the linked pages are exactly the answer's cells, nothing is learnt from it; "easy": an
            answer cell is linked; "medium": an answer's row is; "hard": neither; "numeric": no answer is found, but
            the question asks for a number; "dropped": everything else.
        where: the kind of the first answer node, "calculation" for numeric ones; empty when nothing is learnt.
        nodes: the answer nodes that the filters leave.
    """

    kind: Kind
    where: Where = ""
    nodes: tuple[AnswerNode, ...] = ()

    @property
    def ranks(self) -> bool:
        """Whether ranking and hopping learn from it."""
        return self.kind in ("easy", "medium")

    @property
    def answer_of_row(self) -> dict[int, AnswerNode]:
        """The last answer node of each row that has one."""
        return {node.coordinate[0]: node for node in self.nodes}


def trace_answer(table: Table, answer: str) -> tuple[AnswerNode, ...]:
    """All places where an answer is found as space-parted words, case apart; nothing else is normalised.

    Cells come first, row by row; then pages, but not in a cell that holds the answer itself.
    """
    cells = [(row, column, cell) for row, column, cell in table.cells() if _holds(cell.text, answer)]
    found = [AnswerNode(cell.text, (row, column), None) for row, column, cell in cells]
    taken = {node.coordinate for node in found}
    for link, passage in table.passages.items():
        if _holds(passage, answer):
            places = [(row, column) for row, column, cell in table.cells() if link in cell.links]
            found += [AnswerNode(page_title(link), place, link) for place in places if place not in taken]
    return tuple(found)


def target_of(example: TableExample, nodes: Sequence[Node]) -> Target:
    """Trace the answer of a question and say what can be learnt from it. A question without an answer is "dropped"."""
    answer = " ".join(example.answer.texts) if example.answer else ""
    if not answer or answer.lower() in ("yes", "no") or len(answer.split(" ")) > MAX_ANSWER_WORDS:
        return Target("dropped")
    answers = _of_named_columns(example, trace_answer(example.table, answer))
    if answers:
        kept = _with_evidence(answers, {node.coordinate for node in nodes})
        kind = _kind(kept, nodes)
        return Target(kind, "" if kind == "trivial" else answers[0].source, kept)
    numeric = any(trigger in example.question.lower() for trigger in NUMBER_TRIGGERS)
    return Target("numeric", "calculation") if numeric else Target("dropped")


def _of_named_columns(example: TableExample, answers: tuple[AnswerNode, ...]) -> tuple[AnswerNode, ...]:
    """Answers in columns whose header stands in the question, where a cell holds the answer and there are any."""
    if not answers or answers[0].source != "table":
        return answers
    header = example.table.header
    named = [node for node in answers if _holds(example.question, header[node.coordinate[1]].text)]
    return tuple(named) or answers


def _with_evidence(answers: tuple[AnswerNode, ...], linked: set[tuple[int, int]]) -> tuple[AnswerNode, ...]:
    """Answers in a row with a linked cell, where there are any; of those, answers in linked cells."""
    rows = {row for row, _ in linked}
    in_row = tuple(node for node in answers if node.coordinate[0] in rows) or answers
    return tuple(node for node in in_row if node.coordinate in linked) or in_row


def _kind(answers: Sequence[AnswerNode], nodes: Sequence[Node]) -> Kind:
    cells = {node.coordinate for node in answers}
    if {node.coordinate for node in nodes if node.source != "links"} == cells:
        return "trivial"
    linked = {node.coordinate for node in nodes}
    if cells & linked:
        return "easy"
    return "medium" if {row for row, _ in cells} & {row for row, _ in linked} else "hard"


def _holds(text: str, words: str) -> bool:
    return f" {words.lower()} " in f" {text.lower()} "
