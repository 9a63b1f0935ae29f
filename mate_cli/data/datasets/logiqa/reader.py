"""LogiQA: questions of Chinese civil servants' examinations about short texts, translated, with four options each.

Source: Liu et al. 2020, "LogiQA: A Challenge Dataset for Machine Reading Comprehension with Logical Reasoning"
(lgw863/LogiQA-dataset); Liu et al. 2023, "LogiQA 2.0 - An Improved Dataset for Logical Reasoning in Natural Language
Understanding" (csitfun/LogiQA2.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator

from mate_cli.data.check import Problem
from mate_cli.data.datasets.csv_tables import decode
from mate_cli.data.datasets.entries import read_entries
from mate_cli.data.datasets.option_questions import RECLOR_FILES, OptionQuestions

LETTERS = "abcd"
LINES = 8
"""Lines of a question of 1.0: a blank one, the letter of the right option, text, question, and four options."""
FILES: Mapping[str, Mapping[str, str]] = {
    "reclor": RECLOR_FILES,
    "2.0": {"train": "train.txt", "dev": "dev.txt", "test": "test.txt"},
    "1.0": {"train": "Train.txt", "dev": "Eval.txt", "test": "Test.txt"},
}
QUESTIONS = {"1.0": 8678, "2.0": 15708}
"""In the whole releases, by their authors."""


@dataclass(eq=False, kw_only=True)
class LogiQa(OptionQuestions):
    """The files of LogiQA 1.0 or 2.0 as their authors ship them, or in ReClor's layout.

    Questions of 1.0 have no ids, and those of 2.0 are not unique: questions are called by their file and line.

    Args:
        version: which files are read; "reclor" for train.json, val.json and test.json. None takes those that are there.
    """

    folders: ClassVar[Sequence[str]] = ("", "logiqa/DATA/LOGIQA")

    version: Annotated[Literal["1.0", "2.0", "reclor"], BeforeValidator(str)] | None = None

    @cached_property
    def _version(self) -> str:
        if self.version is not None:
            return str(self.version)
        there = (version for version, files in FILES.items() if any(map(self._has, files.values())))
        return next(there, "2.0")

    @property
    def split_files(self) -> Mapping[str, str]:
        """The questions of each split."""
        return FILES[self._version]

    @property
    def published(self) -> Mapping[str, int]:
        """Number of questions in the whole release."""
        return {"questions": QUESTIONS.get(self._version, QUESTIONS["1.0"])}

    def entries(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[tuple[str, Any]]:
        """Place and content of each entry in ReClor's words, see `OptionQuestions`."""
        stem, first = PurePosixPath(file).stem, content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if first in (b"[", b"{"):
            for key, entry in read_entries(file, content, problems):
                is_reclor = self._version == "reclor" or "id_string" in entry
                yield key, entry if is_reclor else _in_words_of_reclor(entry, f"{stem}-{key.partition(' ')[2]}")
        else:
            yield from _blocks(file, content, stem, problems)


def _in_words_of_reclor(entry: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An entry of 2.0."""
    told = {"context": "text", "question": "question", "answers": "options", "label": "answer"}
    return {"id_string": name, **{ours: entry.get(theirs) for ours, theirs in told.items()}}


def _blocks(file: str, content: bytes, stem: str, problems: list[Problem]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The questions of a file of 1.0, up to the first line that is not what it should be."""
    text = decode(file, content, problems)
    lines = [] if text is None else [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if text is not None and not text.strip():
        problems.append(Problem(file, "", "is empty"))
        return
    for start in range(0, len(lines), LINES):
        blank, letter, context, question, *options = lines[start : start + LINES] + [""] * LINES
        behind = "".join(lines[start + LINES : start + LINES + 1])
        label = LETTERS.find(letter.strip().lower() or "none")
        wrong = {
            start + 1: "should be blank, as before every question" if blank.strip() else "",
            start + 2: f"should be the letter of the right option, not {letter[:20]!r}" if label < 0 else "",
            start + LINES: "the question ends too early" if start + LINES > len(lines) else "",
            start + LINES + 1: "should be blank, as before every question" if behind.strip() else "",
        }
        for line, what in wrong.items():
            if what:
                problems.append(Problem(file, f"line {min(line, len(lines))}", what))
                return
        answers = [_option(*pair) for pair in zip(LETTERS, options, strict=False)]
        entry = {"id_string": f"{stem}-{start + 1}", "context": context, "question": question}
        yield f"line {start + 1}", {**entry, "answers": answers, "label": label}


def _option(letter: str, text: str) -> str:
    """An option without the letter before it."""
    return re.sub(rf"^\s*{letter}\s*\.\s*(?=\S)", "", text, flags=re.IGNORECASE)
