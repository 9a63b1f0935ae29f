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
from mate_cli.data.datasets.document_questions import DamagedEntryError, list_of, read_entries, required_text
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
            except (DamagedEntryError, KeyError, TypeError, IndexError) as error:
                problems.append(Problem(file, key, f"is no question of a known layout ({error!s:.60})"))


def _of_qed(name: str, entry: Mapping[str, Any]) -> PassageQuestion:
    annotators = entry["original_nq_answers"]
    # An annotator who marks several spans means all of them, as a list: of these none alone is the answer.
    spans = [Span(str(one[0]["string"]), int(one[0]["start"])) for one in annotators if len(one) == 1]
    if not spans:
        spans = [Span(str(span["string"]), int(span["start"])) for one in annotators for span in one][:1]
    passage, title = required_text(entry, "paragraph_text"), str(entry.get("title_text", ""))
    return PassageQuestion(name, required_text(entry, "question_text"), passage, spans or None, title)


def _of_oracle(name: str, entry: Mapping[str, Any]) -> PassageQuestion:
    document = list_of(entry, "ctxs")[0]
    passage = required_text(document, "text")
    answers = [str(text) for text in list_of(entry, "answers")]
    title, spans = str(document.get("title", "")), occurrences(answers, passage)
    return PassageQuestion(name, required_text(entry, "question"), passage, spans or None, title, answers)


def _of_swap(name: str, entry: Mapping[str, Any]) -> PassageQuestion:
    passage = _TAGS.sub(" ", required_text(entry, "context")).strip()
    spans = occurrences([required_text(entry, "answer")], passage)
    return PassageQuestion(name, required_text(entry, "question"), passage, spans or None)
