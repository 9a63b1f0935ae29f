"""Multiple-choice questions about a text: ReClor, and LogiQA in ReClor's format.

Source: Yu et al. 2020, "ReClor: A Reading Comprehension Dataset Requiring Logical Reasoning"; Liu et al. 2020, "LogiQA:
A Challenge Dataset for Machine Reading Comprehension with Logical Reasoning" (lgw863/LogiQA-dataset); Liu et al. 2023,
"LogiQA 2.0 - An Improved Dataset for Logical Reasoning in Natural Language Understanding" (csitfun/LogiQA2.0).
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
from mate_cli.data.datasets.file_formats import read_entries, read_lines
from mate_cli.data.datasets.release import Release
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table

HEADER = (Cell("context"),)
RECLOR_FILES = {"train": "train.json", "dev": "val.json", "test": "test.json"}
LOGIQA_LETTERS = "abcd"
LOGIQA_LINES = 8
"""Lines per question in version 1.0.

They are a blank line, the letter of the correct option, the text, the question, and four options.
"""
LOGIQA_FILES: Mapping[str, Mapping[str, str]] = {
    "reclor": RECLOR_FILES,
    "2.0": {"train": "train.txt", "dev": "dev.txt", "test": "test.txt"},
    "1.0": {"train": "Train.txt", "dev": "Eval.txt", "test": "Test.txt"},
}
LOGIQA_QUESTIONS = {"1.0": 8678, "2.0": 15708}
"""Number of questions in the full releases, as published by the authors."""


@dataclass(eq=False, kw_only=True)
class OptionQuestions(Release):
    """Base class of readers of multiple-choice questions in ReClor's format.

    A file is a JSON list of {context, question, answers, label, id_string}. The label is optional.
    """

    metric = "mate_cli.metrics.system_answers.Options"
    unit = "passages"

    @property
    def split_files(self) -> Mapping[str, str]:
        """The file of each split. The dev split is called "val" in ReClor."""
        return RECLOR_FILES

    def read(self, split: str, problems: list[Problem]) -> list[TableExample]:
        """Return the valid questions of a split in file order, see `Release.read`."""
        examples: list[TableExample] = []
        file = self.split_files[split]
        for key, entry in self.entries(file, self.need(file), problems):
            if fault := _damage(entry):
                problems.append(Problem(file, _name(entry) or key, fault))
            else:
                examples.append(_example(entry))
        return examples

    def entries(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield each question of a file as (location, JSON object in ReClor's format).

        Args:
            file: name of the file, for messages.
            content: bytes of the file.
            problems: list to which the problems of unreadable entries are appended.
        """
        return read_entries(file, content, problems)


def _example(entry: Mapping[str, Any]) -> TableExample:
    name, options, label = _name(entry), tuple(entry["answers"]), entry.get("label")
    table = Table(name, HEADER, ((Cell(entry["context"]),),))
    answer = None if label is None else Answer((options[label],), ((0, 0),), label=label)
    return TableExample(name, entry["question"], table, answer, options=options)


def _name(entry: Mapping[str, Any]) -> str:
    name = entry.get("id_string")
    return name if isinstance(name, str) else ""


def _damage(entry: Mapping[str, Any]) -> str:
    """Describe what is invalid in an entry, such as a missing option. Return "" if it is valid."""
    if not _name(entry):
        return "has no id_string"
    if not all(isinstance(entry.get(key), str) and entry[key].strip() for key in ("context", "question")):
        return "the context or the question is missing, empty or not text"
    options, label = entry.get("answers"), entry.get("label")
    if not isinstance(options, list) or len(options) < 2:
        return "needs two answers to choose from"
    if not all(isinstance(text, str) and text.strip() for text in options):
        return "an answer is empty or not text"
    if label is not None and not (type(label) is int and 0 <= label < len(options)):
        return f"the label is not an index into {len(options)} answers"
    return ""


class ReClor(OptionQuestions):
    """Reader of ReClor: four-option questions of law and business school admission tests."""


@dataclass(eq=False, kw_only=True)
class LogiQa(OptionQuestions):
    """Reader of LogiQA: translated four-option questions of Chinese civil service exams.

    The files are LogiQA 1.0 or 2.0 as released by their authors, or in ReClor's format. Questions of 1.0 have no ids,
    and ids of 2.0 are not unique. Questions are therefore named by file and line.

    Args:
        version: release to read; "reclor" for train.json, val.json and test.json. None: the first version with an
            existing file.
    """

    folders: ClassVar[Sequence[str]] = ("", "logiqa/DATA/LOGIQA")

    version: Annotated[Literal["1.0", "2.0", "reclor"], BeforeValidator(str)] | None = None

    @cached_property
    def _version(self) -> str:
        if self.version is not None:
            return str(self.version)
        available = (version for version, files in LOGIQA_FILES.items() if any(map(self._has_file, files.values())))
        return next(available, "2.0")

    @property
    def split_files(self) -> Mapping[str, str]:
        """Path of the question file of each split, in the selected version."""
        return LOGIQA_FILES[self._version]

    @property
    def published(self) -> Mapping[str, int]:
        """Number of questions in the full release, as published by the authors."""
        return {"questions": LOGIQA_QUESTIONS.get(self._version, LOGIQA_QUESTIONS["1.0"])}

    def entries(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[tuple[str, Any]]:
        """Yield each question of a file as (location, JSON object in ReClor's format).

        See `OptionQuestions.entries` for the arguments.
        """
        stem, first = PurePosixPath(file).stem, content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if first in (b"[", b"{"):
            for key, entry in read_entries(file, content, problems):
                is_reclor = self._version == "reclor" or "id_string" in entry
                yield key, entry if is_reclor else _to_reclor_format(entry, f"{stem}-{key.partition(' ')[2]}")
        else:
            yield from _blocks(file, content, stem, problems)


def _to_reclor_format(entry: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Convert an entry of LogiQA 2.0 to ReClor's format."""
    source_keys = {"context": "text", "question": "question", "answers": "options", "label": "answer"}
    return {"id_string": name, **{key: entry.get(source_key) for key, source_key in source_keys.items()}}


def _blocks(file: str, content: bytes, stem: str, problems: list[Problem]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the questions of a LogiQA 1.0 text file, up to the first malformed line."""
    lines = read_lines(file, content, problems)
    for start in range(0, len(lines), LOGIQA_LINES):
        blank, letter, context, question, *options = lines[start : start + LOGIQA_LINES] + [""] * LOGIQA_LINES
        next_line = "".join(lines[start + LOGIQA_LINES : start + LOGIQA_LINES + 1])
        label = LOGIQA_LETTERS.find(letter.strip().lower() or "none")
        line_problems = {
            start + 1: "should be blank, as before every question" if blank.strip() else "",
            start + 2: f"should be the letter of the right option, not {letter[:20]!r}" if label < 0 else "",
            start + LOGIQA_LINES: "the question ends too early" if start + LOGIQA_LINES > len(lines) else "",
            start + LOGIQA_LINES + 1: "should be blank, as before every question" if next_line.strip() else "",
        }
        for line, problem in line_problems.items():
            if problem:
                problems.append(Problem(file, f"line {min(line, len(lines))}", problem))
                return
        answers = [_option(*pair) for pair in zip(LOGIQA_LETTERS, options, strict=False)]
        entry = {"id_string": f"{stem}-{start + 1}", "context": context, "question": question}
        yield f"line {start + 1}", {**entry, "answers": answers, "label": label}


def _option(letter: str, text: str) -> str:
    """Remove the letter before the text of an option: "A. text" becomes "text"."""
    return re.sub(rf"^\s*{letter}\s*\.\s*(?=\S)", "", text, flags=re.IGNORECASE)
