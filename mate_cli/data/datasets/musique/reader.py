"""MuSiQue: questions of two to four hops, made of questions of one, with twenty paragraphs each.

Source: Trivedi et al. 2022, "MuSiQue: Multihop Questions via Single-hop Question Composition".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mate_cli.data.check import Problem
from mate_cli.data.datasets.document_questions import DocumentQuestions, document_example
from mate_cli.data.datasets.entries import DamagedEntryError, list_of, required_text, texts_of
from mate_cli.tables.example import TableExample


@dataclass(eq=False, kw_only=True)
class MuSiQue(DocumentQuestions):
    """Questions of MuSiQue-Ans; those of MuSiQue-Full that nothing answers are left out.

    A paragraph supports an answer as a whole. Subsets are the numbers of hops. Answers are scored by their words alone,
    also yes and no, as by the authors' script.
    """

    folders: ClassVar[Sequence[str]] = ("", "data")

    train_file: str | None = "musique_ans_v1.0_train.jsonl"
    dev_file: str | None = "musique_ans_v1.0_dev.jsonl"
    test_file: str | None = "musique_ans_v1.0_test.jsonl"

    def example(self, file: str, key: str, entry: Mapping[str, Any], problems: list[Problem]) -> TableExample:
        """Read one entry, see `DocumentQuestions`."""
        name, question = required_text(entry, "id"), required_text(entry, "question")
        paragraphs = list_of(entry, "paragraphs")
        if not all(isinstance(part, dict) for part in paragraphs):
            raise DamagedEntryError("a paragraph is no object")
        documents = [(required_text(part, "title"), (required_text(part, "paragraph_text"),)) for part in paragraphs]
        rows = [row for row, part in enumerate(paragraphs) if part.get("is_supporting")]
        answer = entry.get("answer")
        answerable = entry.get("answerable", True)  # of MuSiQue-Full; the others keep the answer of their twin
        judged = [answerable, *(part.get("is_supporting") for part in paragraphs)]
        if answer is not None and not all(isinstance(one, bool) for one in judged):
            raise DamagedEntryError("answerable or is_supporting is neither true nor false")
        if answer is not None and answerable and not rows:
            raise DamagedEntryError("no paragraph supports its answer")
        aliases = texts_of(entry.get("answer_aliases", []), "answer_aliases")
        answers = None if answer is None else (required_text(entry, "answer"), *aliases) if answerable else ()
        supporting = tuple((row, 0) for row in rows) if answers else ()
        subsets = (name.partition("__")[0][:4],)
        known = {"supporting": supporting, "subsets": subsets, "answers_by_words": True}
        return document_example(name, question, documents, answers, rows, **known)

    def left_out(self, example: TableExample) -> str:
        """Questions that nothing answers."""
        return "" if example.answer is None or example.answer.texts else "without an answer"
