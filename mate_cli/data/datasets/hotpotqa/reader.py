"""HotpotQA: its authors' files, and the graphs that the authors of Transformer-XH made of its full setting.

Source: Yang et al. 2018, "HotpotQA: A Dataset for Diverse, Explainable Multi-hop Question Answering".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from mate_cli.data.check import Problem
from mate_cli.data.datasets.document_questions import DocumentQuestions, document_example
from mate_cli.data.datasets.entries import (
    DamagedEntryError,
    entry_name,
    list_of,
    optional_text,
    read_entries,
    required_text,
)
from mate_cli.data.datasets.hotpotqa.graphs import graph_example
from mate_cli.tables.example import TableExample


@dataclass(eq=False, kw_only=True)
class HotpotQA(DocumentQuestions):
    """Questions with their paragraphs, or with graphs of pages; which of the two, an entry itself shows.

    Subsets are the type of a question (bridge, comparison) and its level (easy, medium, hard). Graphs have no answers:
    where their questions stand in the official files, too, these say them.

    Args:
        setting: "distractor", whose paragraphs hold what leads to the answer; "fullwiki", whose paragraphs a search
            found, with or without it.
        answer_files: official files with the questions of graphs.
    """

    train_file: str | None = "hotpot_train_v1.1.json"
    dev_file: str | None = "hotpot_dev_distractor_v1.json"
    test_file: str | None = "hotpot_test_fullwiki_v1.json"
    setting: Literal["distractor", "fullwiki"] = "distractor"
    answer_files: Sequence[str] = ()

    def example(self, file: str, key: str, entry: Mapping[str, Any], problems: list[Problem]) -> TableExample:
        """Read one entry, see `DocumentQuestions`."""
        if "node" in entry:
            return graph_example(entry, self._answers.get(entry_name(entry), {}))
        return paragraphs_example(entry, lost_facts=self.setting == "fullwiki")

    @cached_property
    def _answers(self) -> dict[str, Mapping[str, Any]]:
        """Official entries by question."""
        return {
            entry_name(entry): entry
            for file in self.answer_files
            for _, entry in read_entries(file, self.need(file), [])
        }


def paragraphs_example(entry: Mapping[str, Any], *, lost_facts: bool) -> TableExample:
    """A question of the authors' files; without an answer it is one of the test split.

    Supporting facts whose sentence is not there, as a few of the release's are not, are asked for all the same, and so
    are those whose paragraph a search did not find, as in the full setting: the official script counts them as missed.

    `lost_facts` says that none of a question's facts need be in its paragraphs.

    Raises:
        DamagedEntryError: it cannot be used.
    """
    name, question = required_text(entry, "_id"), required_text(entry, "question")
    documents = [_paragraph(part) for part in list_of(entry, "context")]
    answer = entry.get("answer")
    if answer is not None:
        answer = required_text(entry, "answer")
    facts = _facts(entry.get("supporting_facts", [] if answer is None else None))
    titles = [title for title, _ in documents]
    titles += [title for title, _ in facts if title not in titles]
    supporting = tuple((titles.index(title), number) for title, number in facts)
    rows = [row for row, _ in supporting if row < len(documents)]
    if answer and not rows and not lost_facts:
        raise DamagedEntryError("no supporting fact is of one of its paragraphs (data.setting=fullwiki allows it)")
    subsets = tuple(filter(None, (optional_text(entry, kind) for kind in ("type", "level"))))
    return document_example(
        name, question, documents, answer and (answer,), rows, supporting=supporting, subsets=subsets
    )


def _paragraph(part: object) -> tuple[str, tuple[str, ...]]:
    match part:
        case [str(title), list(texts)] if all(isinstance(text, str) for text in texts):
            return title, tuple(texts)
        case _:
            raise DamagedEntryError("a paragraph of context is not [title, sentences]")


def _facts(parts: object) -> list[tuple[str, int]]:
    if not isinstance(parts, list):
        raise DamagedEntryError("supporting_facts is no list")
    facts = [(part[0], part[1]) for part in parts if isinstance(part, list) and len(part) == 2]
    if len(facts) < len(parts) or not all(isinstance(t, str) and type(n) is int and n >= 0 for t, n in facts):
        raise DamagedEntryError("a supporting fact is not [title, sentence]")
    return facts
