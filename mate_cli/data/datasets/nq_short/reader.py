"""Natural Questions with short answers: QED, the oracle passages of NQ-open, and NQ-swap.

Source: Kwiatkowski et al. 2019, "Natural Questions"; Lamm et al. 2021, "QED"; Liu et al. 2024, "Lost in the Middle";
Longpre et al. 2021, "Entity-Based Knowledge Conflicts in Question Answering".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mate_cli.data.check import Problem
from mate_cli.data.datasets.entries import (
    DamagedEntryError,
    list_of,
    optional_text,
    part,
    read_entries,
    required_text,
    texts_of,
    typed,
)
from mate_cli.data.datasets.passage_questions import PassageQuestion, PassageQuestions, Span, occurrences

_TAGS = re.compile(r"\s*</?[A-Z][a-z0-9]*>\s*")


@dataclass(eq=False, kw_only=True)
class NaturalQuestionsShort(PassageQuestions):
    """Questions that people asked a search engine, in the layout that each entry shows.

    In NQ-swap the answer is another one of its kind, everywhere in the passage: it has to be read, not known.
    """

    released_files: ClassVar[Mapping[str, Sequence[str]]] = {
        "train": (
            "qed-train.jsonlines",
            "qed-dev.jsonlines",
            "nq-open-oracle.jsonl",
            "nq-swap/train.json",
            "nq-swap/dev.json",
            "nq-swap/test.json",
        )
    }

    held_out: float = 0.05

    def questions(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[PassageQuestion]:
        """The questions of a file, see `PassageQuestions`."""
        for key, entry in read_entries(file, content, problems):
            name = f"{file.partition('.')[0]}/{key.partition(' ')[2]}"
            try:
                if "paragraph_text" in entry:
                    yield _of_qed(name, entry)
                elif "ctxs" in entry:
                    yield _of_oracle(name, entry)
                else:
                    yield _of_swap(name, entry)
            except DamagedEntryError as error:
                problems.append(Problem(file, key, str(error)))


def _of_qed(name: str, entry: Mapping[str, Any]) -> PassageQuestion:
    passage, title = required_text(entry, "paragraph_text"), optional_text(entry, "title_text")
    annotators = [
        [_span(one) for one in typed(some, list, "an answer")] for some in list_of(entry, "original_nq_answers")
    ]
    # An annotator who marks several spans means all of them, as a list: of these none alone is the answer.
    spans = [some[0] for some in annotators if len(some) == 1] or [span for some in annotators for span in some][:1]
    return PassageQuestion(name, required_text(entry, "question_text"), passage, spans or None, title)


def _span(answer: object) -> Span:
    span = Span(part(answer, "string", str), part(answer, "start", int))
    if (end := part(answer, "end", int)) - span.start != len(span.text):
        raise DamagedEntryError(f"the answer {span.text!r:.60} does not end at character {end}")
    return span


def _of_oracle(name: str, entry: Mapping[str, Any]) -> PassageQuestion:
    document = typed(list_of(entry, "ctxs")[0], dict, "a passage of ctxs")
    passage, question = required_text(document, "text"), required_text(entry, "question")
    answers = texts_of(list_of(entry, "answers"), "answers")
    return PassageQuestion(name, question, passage, _found(answers, passage), optional_text(document, "title"), answers)


def _of_swap(name: str, entry: Mapping[str, Any]) -> PassageQuestion:
    passage = _TAGS.sub(" ", required_text(entry, "context")).strip()
    return PassageQuestion(
        name, required_text(entry, "question"), passage, _found([required_text(entry, "answer")], passage)
    )


def _found(answers: Sequence[str], passage: str) -> list[Span]:
    spans = occurrences(answers, passage)
    if not spans:
        raise DamagedEntryError(f"the answer {answers[0]!r:.60} is not in its passage")
    return spans
