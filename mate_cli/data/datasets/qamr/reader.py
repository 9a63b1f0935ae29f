"""QAMR: questions about the words of a sentence, written for every word with a meaning of its own.

Source: Michael et al. 2018, "Crowdsourcing Question-Answer Meaning Representations".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mate_cli.data.check import Problem
from mate_cli.data.datasets.passage_questions import PassageQuestion, PassageQuestions, Span

SENTENCES = "wiki-sentences.tsv"
COLUMNS = 7
"""Sentence, key words, writer, number, key word, question, the writer's answer; then a column per validator."""
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"'}


@dataclass(eq=False)
class QAMR(PassageQuestions):
    """Short lessons: a sentence, and up to dozens of questions about it.

    Answers are words that follow each other; an annotator whose words do not is not counted.
    """

    released_files: ClassVar[Mapping[str, Sequence[str]]] = {
        "train": ("filtered/train.tsv", "filtered/dev.tsv"),
        "dev": ("filtered/test.tsv",),
    }

    def questions(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[PassageQuestion]:
        """The questions of a file, see `PassageQuestions`."""
        sentences = self._sentences()
        for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
            fields = line.split("\t")
            if len(fields) < COLUMNS:
                problems.append(Problem(file, f"line {number}", f"has {len(fields)} columns, not {COLUMNS} or more"))
            elif fields[0] not in sentences:
                problems.append(Problem(file, f"line {number}", f"its sentence {fields[0]!r} is not in {SENTENCES}"))
            elif spans := _spans(sentences[fields[0]], fields[COLUMNS - 1 :]):
                name = f"{file.rpartition('/')[2].partition('.')[0]}/{number}"
                yield PassageQuestion(name, fields[5], " ".join(sentences[fields[0]]), spans)

    def _sentences(self) -> dict[str, list[str]]:
        """The words of each sentence, by its id."""
        rows = (line.partition("\t") for line in self.need(SENTENCES).decode(errors="replace").splitlines())
        return {name: [BRACKETS.get(word, word) for word in text.split(" ")] for name, _, text in rows}


def _spans(words: Sequence[str], answers: Sequence[str]) -> list[Span]:
    """The answers of the writer and of the validators, each as indices of words, of which some come with a number."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word) + 1)
    found = []
    for answer in answers:
        indices = answer.rpartition(":")[2].split()
        places = sorted(int(index) for index in indices if index.isdecimal())
        known = places and len(places) == len(indices) and places[-1] < len(words)
        if known and places == list(range(places[0], places[-1] + 1)):
            found.append(Span(" ".join(words[places[0] : places[-1] + 1]), starts[places[0]]))
    return found
