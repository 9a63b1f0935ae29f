"""Questions about a text with options to choose from, in the layout of ReClor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mate_cli.data.check import Problem
from mate_cli.data.datasets.entries import read_entries
from mate_cli.data.datasets.release import Release
from mate_cli.tables.example import Answer, ChoiceExample, TableExample
from mate_cli.tables.table import Cell, Table

HEADER = (Cell("context"),)
RECLOR_FILES = {"train": "train.json", "dev": "val.json", "test": "test.json"}


@dataclass(eq=False, kw_only=True)
class OptionQuestions(Release):
    """Files of JSON, each a list of {context, question, answers, label, id_string}; without a label nothing is known.

    Args:
        more_training: files of further questions to learn from, below the root; where another question has their id,
            as in LogiQA 2.0, their place is added to it.

    Source: Yu et al. 2020, "ReClor: A Reading Comprehension Dataset Requiring Logical Reasoning".
    """

    more_training: tuple[str, ...] = ()

    @property
    def split_files(self) -> Mapping[str, str]:
        """The questions of each split; the authors call dev "val"."""
        return RECLOR_FILES

    def read(self, split: str, problems: list[Problem]) -> list[TableExample]:
        """The sound questions of a split, in the order of the files; see `Release.read`."""
        files = [self.split_files[split], *(self.more_training if split == "train" else ())]
        found: list[TableExample] = []
        known: dict[str, ChoiceExample] = {}
        for file in files:
            for key, entry in self.entries(file, self.need(file), problems):
                wrong = _damage(entry)
                if wrong:
                    problems.append(Problem(file, _name(entry) or key, wrong))
                    continue
                example = _example(entry)
                if file in self.more_training and _differs(example, known.get(example.example_id)):
                    self.notes.append(Problem(file, key, f"the id {example.example_id} is another question's too"))
                    example = replace(example, example_id=f"{example.example_id}/{key}")
                found.append(example)
                self.origins[example.example_id], known[example.example_id] = file, example
        return found

    def entries(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Place and content of each entry of a file; what is none is appended to `problems`."""
        return read_entries(file, content, problems)


def _differs(example: ChoiceExample, other: ChoiceExample | None) -> bool:
    """Tell whether two examples ask for something else, as far as there is another one."""
    return other is not None and (example.question, example.table.rows) != (other.question, other.table.rows)


def _example(entry: Mapping[str, Any]) -> ChoiceExample:
    name, options, label = _name(entry), tuple(entry["answers"]), entry.get("label")
    table = Table(name, HEADER, ((Cell(entry["context"]),),))
    answer = None if label is None else Answer((options[label],), ((0, 0),), label=label)
    return ChoiceExample(name, entry["question"], table, answer, options=options)


def _name(entry: Mapping[str, Any]) -> str:
    name = entry.get("id_string")
    return name if isinstance(name, str) else ""


def _damage(entry: Mapping[str, Any]) -> str:
    """What is wrong with an entry; "" when nothing is."""
    if not _name(entry):
        return "has no id_string"
    if not all(isinstance(entry.get(key), str) and entry[key].strip() for key in ("context", "question")):
        return "the context or the question is missing, empty or no text"
    options, label = entry.get("answers"), entry.get("label")
    if not isinstance(options, list) or len(options) < 2:
        return "has not two answers to choose from"
    if not all(isinstance(text, str) and text.strip() for text in options):
        return "an answer is empty or no text"
    if label is not None and not (type(label) is int and 0 <= label < len(options)):
        return f"the label is no place among {len(options)} answers"
    return ""
