"""Labels of Hybrider's stages: answer nodes, node labels, hop labels and pages to read.

Source: wenhuchen/HybridQA, `trace_answer.py` and `preprocessing.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mate_cli.papers.hybrider.nodes import (
    MAX_CANDIDATES,
    Candidate,
    LinkedItem,
    Node,
    first_sentence,
    page_title,
)
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table

Kind = Literal["trivial", "easy", "medium", "hard", "numeric", "dropped"]
AnswerSource = Literal["table", "passage", "calculation", ""]

NUMBER_TRIGGERS = ("how many", "how much", "how long", "how far", "how old", "difference", "total")
MAX_ANSWER_WORDS = 15


@dataclass(frozen=True, slots=True)
class AnswerNode(LinkedItem):
    """A cell that contains the answer, or a linked page if the cell text does not."""

    @property
    def source(self) -> Literal["table", "passage"]:
        """Source of the answer: a cell of the table, or a passage."""
        return "table" if self.link is None else "passage"


@dataclass(frozen=True, slots=True)
class Target:
    """Labels of one question, from which the training examples of all three stages are made.

    Args:
        kind: "trivial": the linked pages are exactly the answer's cells, and the question is not used for training;
            "easy": an answer cell is linked; "medium": the row of an answer cell is linked; "hard": no row of an answer
            is linked; "numeric": no answer is found, but the question asks for a number; "dropped": all other
            questions.
        where: source of the first answer node, "calculation" for numeric questions. Empty for trivial and dropped
            questions.
        nodes: the answer nodes left after filtering.
    """

    kind: Kind
    where: AnswerSource = ""
    nodes: tuple[AnswerNode, ...] = ()

    @property
    def ranks(self) -> bool:
        """True if the question is trained on in stages 1 (rank nodes) and 2 (select hops)."""
        return self.kind in ("easy", "medium")

    @property
    def answer_of_row(self) -> dict[int, AnswerNode]:
        """The last cell or page that contains the answer, by table row."""
        return {node.coordinate[0]: node for node in self.nodes}


def trace_answer(table: Table, answer: str) -> tuple[AnswerNode, ...]:
    """Return all cells and pages that contain an answer as space-separated words.

    Case is ignored. No other normalization is applied. Cells come first, in row order. Pages follow, except pages of a
    cell that contains the answer itself.
    """
    cells = [(row, column, cell) for row, column, cell in table.cells() if _holds(cell.text, answer)]
    nodes = [AnswerNode(cell.text, (row, column), None) for row, column, cell in cells]
    coordinates = {node.coordinate for node in nodes}
    for link, passage in table.passages.items():
        if _holds(passage, answer):
            page_cells = [(row, column) for row, column, cell in table.cells() if link in cell.links]
            nodes += [
                AnswerNode(page_title(link), coordinate, link)
                for coordinate in page_cells
                if coordinate not in coordinates
            ]
    return tuple(nodes)


def find_target(example: TableExample, nodes: Sequence[Node]) -> Target:
    """Find the cells and pages with the answer of a question, and classify the question.

    Without an answer it is "dropped".
    """
    answer = " ".join(example.answer.texts) if example.answer else ""
    if not answer or answer.lower() in ("yes", "no") or len(answer.split(" ")) > MAX_ANSWER_WORDS:
        return Target("dropped")
    answers = _of_named_columns(example, trace_answer(example.table, answer))
    if answers:
        linked_answers = _with_evidence(answers, {node.coordinate for node in nodes})
        kind = _kind(linked_answers, nodes)
        return Target(kind, "" if kind == "trivial" else answers[0].source, linked_answers)
    numeric = any(trigger in example.question.lower() for trigger in NUMBER_TRIGGERS)
    return Target("numeric", "calculation") if numeric else Target("dropped")


def _of_named_columns(example: TableExample, answers: tuple[AnswerNode, ...]) -> tuple[AnswerNode, ...]:
    """Select the answer nodes in columns that the question names.

    All answer nodes are returned if the question names no such column, or if no cell contains the answer.
    """
    if not answers or answers[0].source != "table":
        return answers
    header = example.table.header
    in_named_columns = [node for node in answers if _holds(example.question, header[node.coordinate[1]].text)]
    return tuple(in_named_columns) or answers


def _with_evidence(answers: tuple[AnswerNode, ...], linked_cells: set[tuple[int, int]]) -> tuple[AnswerNode, ...]:
    """Prefer the answer nodes that share a row with a cell linked to the question.

    Of these, the nodes in linked cells are selected, if there are any.
    """
    rows = {row for row, _ in linked_cells}
    in_row = tuple(node for node in answers if node.coordinate[0] in rows) or answers
    return tuple(node for node in in_row if node.coordinate in linked_cells) or in_row


def _kind(answers: Sequence[AnswerNode], nodes: Sequence[Node]) -> Kind:
    cells = {node.coordinate for node in answers}
    if {node.coordinate for node in nodes if node.source != "links"} == cells:
        return "trivial"
    linked_cells = {node.coordinate for node in nodes}
    if cells & linked_cells:
        return "easy"
    return "medium" if {row for row, _ in cells} & {row for row, _ in linked_cells} else "hard"


def _holds(text: str, words: str) -> bool:
    return f" {words.lower()} " in f" {text.lower()} "


def ranking_labels(target: Target, nodes: Sequence[Node]) -> tuple[int, ...]:
    """Return the labels of stage 1: 1 for each node in a row with an answer node, else 0.

    The result is empty if ranking does not train on the question.
    """
    if not target.ranks:
        return ()
    return tuple(int(node.coordinate[0] in target.answer_of_row) for node in nodes)


def hop_candidates(table: Table, row: int) -> tuple[Candidate, ...]:
    """Return the candidates of stage 2: non-empty cells of a row with their linked pages.

    Each cell is followed by its pages. There are at most 16 candidates.
    """
    candidates: list[Candidate] = []
    for column, cell in enumerate(table.rows[row]):
        if cell.text:
            coordinate, header = (row, column), table.header[column].text
            candidates.append(Candidate(cell.text, coordinate, None, header, ""))
            candidates += [
                Candidate(page_title(link), coordinate, link, header, first_sentence(table.passages.get(link, "")))
                for link in cell.links
            ]
    return tuple(candidates[:MAX_CANDIDATES])


def hop_labels(target: Target, candidates: Sequence[Candidate]) -> tuple[int, ...]:
    """Return the labels of stage 2: 1 for the last answer node of the row, else 0.

    The result is empty if the row has no answer node. A cell whose text equals the content of that answer node is also
    correct. Thus a page and a cell with the same name are both correct.
    """
    answer = target.answer_of_row.get(candidates[0].coordinate[0]) if target.ranks and candidates else None
    if answer is None:
        return ()
    return tuple(
        int(candidate.content == answer.content if candidate.link is None else candidate.link == answer.link)
        for candidate in candidates
    )


def reading_links(example: TableExample, target: Target) -> list[str]:
    """Return the links of the pages that contain the answer, which stage 3 reads, without duplicates."""
    if target.kind == "trivial" or example.answer is None:
        return []
    return list(dict.fromkeys(node.link for node in target.nodes if node.link))


def page_example(example: TableExample, link: str, example_id: str | None = None) -> TableExample:
    """Create an example of stage 3, whose table has one cell with the text of a page.

    The title precedes the text.

    Args:
        example: the question.
        link: key of the page in `Table.passages`.
        example_id: id of the new example. None: the id of `example`.
    """
    text = f"Title : {page_title(link)} . {example.table.passages.get(link, '')}"
    table = Table(f"{example.table.table_id}{link}", (Cell(""),), ((Cell(text),),))
    answer = example.answer and Answer(example.answer.texts, ((0, 0),), example.answer.source)
    return TableExample(example_id or example.example_id, example.question, table, answer)
