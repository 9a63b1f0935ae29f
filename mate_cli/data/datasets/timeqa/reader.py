"""TimeQA: questions about long articles, whose answers depend on the time that they name; some have none.

Source: Chen, Wang and Wang 2021, "A Dataset for Answering Time-Sensitive Questions".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mate_cli.data.check import Problem
from mate_cli.data.datasets.entries import DamagedEntryError, part, read_entries, required_text, typed
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
            except DamagedEntryError as error:
                problems.append(Problem(file, key, str(error)))


def _spans(entry: Mapping[str, Any]) -> tuple[Span, ...]:
    """The answers; none where nothing answers the question.

    Raises:
        DamagedEntryError: one has no place, or another length than its place.
    """
    texts, starts, ends = (part(entry, key, list) for key in ("targets", "from", "end"))
    if not len(texts) == len(starts) == len(ends):
        raise DamagedEntryError("targets, from and end are not of the same length")
    found = []
    for text, start, end in zip(texts, starts, ends, strict=True):
        span = Span(typed(text, str, "a target"), typed(start, int, "its place"))
        if typed(end, int, "its end") - span.start != len(span.text):
            raise DamagedEntryError(f"the answer {text!r:.60} does not end at character {end}")
        if text.strip():
            found.append(span)
    return tuple(found)
