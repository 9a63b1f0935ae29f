"""TimeQA: questions about long articles, whose answers depend on the time that they name; some have none.

Source: Chen, Wang and Wang 2021, "A Dataset for Answering Time-Sensitive Questions".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mate_cli.data.check import Problem
from mate_cli.data.datasets.document_questions import DamagedEntryError, read_entries, required_text
from mate_cli.data.datasets.passage_questions import PassageQuestion, PassageQuestions, Span


@dataclass(eq=False, kw_only=True)
class TimeQA(PassageQuestions):
    """The questions that people wrote, easy and hard; of each article one window is read."""

    released_files: ClassVar[Mapping[str, Sequence[str]]] = {
        "train": ("human_train.easy.jsonl", "human_train.hard.jsonl")
    }

    held_out: float = 0.05

    def questions(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[PassageQuestion]:
        """The questions of a file, see `PassageQuestions`."""
        level = file.split(".")[-2]
        for key, entry in read_entries(file, content, problems):
            try:
                name = f"{required_text(entry, 'idx')}/{level}"
                title = name.split("/")[2].partition("#")[0] if name.startswith("/wiki/") else ""
                passage, question = required_text(entry, "context"), required_text(entry, "question")
                yield PassageQuestion(name, question, passage, _spans(entry), title)
            except (DamagedEntryError, KeyError, TypeError, ValueError) as error:
                problems.append(Problem(file, key, f"is no question of this layout ({error!s:.60})"))


def _spans(entry: Mapping[str, Any]) -> tuple[Span, ...]:
    """The answers; none where nothing answers the question."""
    places = zip(entry["targets"], entry["from"], entry["end"], strict=True)
    return tuple(Span(str(text), int(start)) for text, start, _ in places if str(text).strip())
