"""QAMR: questions about the words of a sentence, written for every word with a meaning of its own.

Source: Michael et al. 2018, "Crowdsourcing Question-Answer Meaning Representations".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import ClassVar

from mate_cli.data.check import Problem
from mate_cli.data.datasets.csv_tables import decode, open_end
from mate_cli.data.datasets.entries import DamagedEntryError
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
        sentences, damaged = self._sentences(problems)
        text = decode(file, content, problems)
        lines = (text or "").removesuffix("\n").split("\n")
        if not (text or "").strip():
            problems += [] if text is None else [Problem(file, "", "is empty")]
            return
        known, width = len(problems), max(Counter(line.count("\t") + 1 for line in lines).items(), key=itemgetter(1))[0]
        for number, line in enumerate(lines, 1):
            key, fields = f"line {number}", line.removesuffix("\r").split("\t")
            if len(fields) < COLUMNS:
                problems.append(Problem(file, key, f"has {len(fields)} columns, not {COLUMNS} or more"))
            elif fields[0] not in sentences:
                if not damaged:  # else that is the cause
                    problems.append(Problem(file, key, f"its sentence {fields[0]!r} is not in {SENTENCES}"))
            else:
                if len(fields) < width:
                    self.suspicions.append(Problem(file, key, f"has {len(fields)} columns, most lines {width}"))
                try:
                    spans = _spans(sentences[fields[0]], fields[COLUMNS - 1 :])
                except DamagedEntryError as error:
                    problems.append(Problem(file, key, f"{error} {fields[0]!r} in {SENTENCES}"))
                    continue
                if spans:
                    name = f"{file.rpartition('/')[2].partition('.')[0]}/{number}"
                    yield PassageQuestion(name, fields[5], " ".join(sentences[fields[0]]), spans)
        if len(problems) == known and lines[-1].count("\t") + 1 == width:
            self.suspicions += open_end(file, text)

    def _sentences(self, problems: list[Problem]) -> tuple[dict[str, list[str]], bool]:
        """The words of each sentence, by its id; and whether some are damaged."""
        known, found = len(problems), dict[str, list[str]]()
        text = decode(SENTENCES, self.need(SENTENCES), problems) or ""
        if not text.strip() and len(problems) == known:
            problems.append(Problem(SENTENCES, "", "is empty"))
        for number, line in enumerate(text.removesuffix("\n").split("\n") if text.strip() else (), 1):
            name, _, words = line.removesuffix("\r").partition("\t")
            if not words.strip():
                problems.append(Problem(SENTENCES, f"line {number}", "has no sentence behind its id"))
            elif name in found:
                problems.append(Problem(SENTENCES, f"line {number}", f"the sentence {name!r} occurs twice"))
            else:
                found[name] = [BRACKETS.get(word, word) for word in words.split(" ")]
        return found, len(problems) > known


def _spans(words: Sequence[str], answers: Sequence[str]) -> list[Span]:
    """The answers of the writer and of the validators, each as indices of words, of which some come with a number.

    Raises:
        DamagedEntryError: one names a word that is not there.
    """
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word) + 1)
    found = []
    for answer in answers:
        indices = answer.rpartition(":")[2].split()
        places = sorted(int(index) for index in indices if index.isdecimal())
        if places and places[-1] >= len(words):
            raise DamagedEntryError(f"an answer names word {places[-1]}, from 0, of the {len(words)} words of")
        if len(places) == len(indices) and places and places == list(range(places[0], places[-1] + 1)):
            found.append(Span(" ".join(words[places[0] : places[-1] + 1]), starts[places[0]]))
    return found
