"""Base class of readers of questions about single passages, which become tables of one cell."""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mate_cli.data.archive import unpacked_name
from mate_cli.data.check import EXCLUDED, CheckReport, Problem, Sizes, format_counts
from mate_cli.data.datasets.release import Release
from mate_cli.data.download import MANIFEST
from mate_cli.data.question_contamination import normalize_words
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table

_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Span:
    """An answer to a question as a part of its passage.

    Args:
        text: text of the answer.
        start: index of its first character in the passage.
    """

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class PassageQuestion:
    """A question about one passage, as stated in a file.

    Args:
        name: id of the question.
        question: text of the question.
        passage: text of the passage.
        answers: answers of all annotators, including duplicates. Empty if the question has no answer, None if the
            answer is unknown.
        title: title of the passage.
        references: reference answers, if these are more than the texts of `answers`.
    """

    name: str
    question: str
    passage: str
    answers: Sequence[Span] | None
    title: str = ""
    references: Sequence[str] = ()


@dataclass(eq=False, kw_only=True)
class PassageQuestions(Release):
    """Questions in files, each with a passage as a table of one cell.

    The title of the passage is put before its text.

    A split consists of its files on disk, at least one. A question of the train split is excluded if it duplicates
    another question, or if its passage occurs in dev or test.

    Args:
        train_files: files of the train split, relative to the root. None means the files of the release.
        dev_files: files of the dev split, relative to the root. None means the files of the release.
        window: maximum number of words of a training passage, taken around the answer. None uses the whole passage.
            Passages for evaluation are not truncated here.
    """

    unit = "passages"
    metric = "mate_cli.metrics.system_answers.Passages"

    train_files: Sequence[str] | None = None
    dev_files: Sequence[str] | None = None
    window: Annotated[int, Field(gt=0)] | None = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        self.repeated: Counter[str] = Counter()
        """Number of excluded questions of the train split by reason, set when the split is read."""

    @property
    @abstractmethod
    def released_files(self) -> Mapping[str, Sequence[str]]:
        """Paths of the files of the public release by split. Files that do not exist are skipped."""

    @property
    def files(self) -> Mapping[str, Sequence[str]]:
        """Paths of the files of each split: `train_files` and `dev_files`, or the release's files."""
        user_files = {"train": self.train_files, "dev": self.dev_files}
        files = {**self.released_files, **{split: names for split, names in user_files.items() if names is not None}}
        return {split: names for split, names in files.items() if names}

    @property
    def split_files(self) -> Mapping[str, str]:
        """Path of the first file of each split, for messages and comparisons."""
        return {split: files[0] for split, files in self.files.items()}

    @property
    def wanted_files(self) -> Sequence[str]:
        """Paths of all question files to read, to name them in error messages."""
        return tuple(file for files in self.files.values() for file in files)

    @property
    def facts(self) -> Mapping[str, str]:
        """Notes for the run record: counts of excluded questions, and ignored files in the folder.

        Empty entries are omitted.
        """
        self.load("train")
        excluded = format_counts(dict(sorted(self.repeated.items())))
        return {name: text for name, text in (("left out, train", excluded), ("not read", self._ignored_files)) if text}

    @property
    def _ignored_files(self) -> str:
        """Names of JSON files in the root folder that are ignored, to reveal misnamed files."""
        remote_files = (file.destination for file in (self.info.remote_files if self.info else ()))
        known_names = {MANIFEST, *(unpacked_name(Path(file).name) for file in (*self.wanted_files, *remote_files))}
        names = {unpacked_name(path.name) for path in self.root.glob("*.json*")} - known_names
        return ", ".join(sorted(name for name in names if name.endswith((".json", ".jsonl"))))

    def read(self, split: str, problems: list[Problem]) -> list[TableExample]:
        """Return the examples of a split: its valid questions, each with its passage as table.

        See `Release.read`. The order is that of the files.
        """
        questions = self._read_split(split, problems)
        if split != "train":
            return build_examples(questions)
        passages = {
            digest_passage(q.passage)
            for evaluation_split in self.splits
            if evaluation_split != "train"
            for q in self._read_split(evaluation_split, [])
        }
        distinct, self.repeated = drop_repeats(questions, passages)
        return build_examples(distinct, self.window)

    @abstractmethod
    def questions(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[PassageQuestion]:
        """Parse the content of a question file, and yield its valid questions with passages.

        Args:
            file: name of the file.
            content: content of the file.
            problems: list that receives the problems of invalid questions.
        """

    def check(self) -> CheckReport:
        """Check the release, and count passages and excluded questions of the train split.

        See `Release.check`.
        """
        report, splits = super().check(), self._sound([])
        counts = {split: count_passages(examples) for split, examples in splits.items()}
        counts.get("train", {}).update({f"{EXCLUDED}{reason}": count for reason, count in self.repeated.items()})
        note = f"not read: {self._ignored_files}; name it with data.train_files"
        notes = [*report.notes, *[Problem(str(self.root), "", note)] * bool(self._ignored_files)]
        return replace(report, counts=counts, percentiles=measure_passages(splits), notes=notes)

    def _read_split(self, split: str, problems: list[Problem]) -> list[PassageQuestion]:
        files = [file for file in self.files[split] if self._has_file(file)]
        return [question for file in files for question in self._of_file(file, problems)]

    def _of_file(self, file: str, problems: list[Problem]) -> Iterator[PassageQuestion]:
        for question in self.questions(file, self.need(file), problems):
            if damage := _damage(question):
                problems.append(Problem(file, question.name, damage))
            else:
                self.origins[question.name] = file
                yield question

    def _found_splits(self) -> tuple[str, ...]:
        return tuple(split for split, files in self.files.items() if any(map(self._has_file, files)))


def _damage(question: PassageQuestion) -> str:
    """Describe why a question is invalid, for example a blank passage, else return ""."""
    if not question.question.strip():
        return "the question is empty"
    if not question.passage.strip():
        return "the passage is empty"
    for span in question.answers or ():
        if span.start < 0 or not question.passage.startswith(span.text, span.start):
            return f"the answer {span.text!r:.60} is not at character {span.start} of the passage"
    return ""


def drop_repeats(
    questions: Sequence[PassageQuestion], evaluated: set[str]
) -> tuple[list[PassageQuestion], Counter[str]]:
    """Remove duplicate training questions, and questions about passages of evaluation splits.

    Args:
        questions: questions of the train split.
        evaluated: keys of the passages of evaluation splits, see `digest_passage`.

    Returns:
        The remaining questions, and the number of removed questions by reason.
    """
    distinct, reasons, question_keys = [], Counter[str](), set()
    for question in questions:
        key = digest_passage(question.passage)
        question_key = (key, normalize_words(question.question))
        if key in evaluated:
            reasons["on a passage of evaluation"] += 1
        elif question_key in question_keys:
            reasons["equal to another"] += 1
        else:
            question_keys.add(question_key)
            distinct.append(question)
    return distinct, reasons


def digest_passage(text: str) -> str:
    """Hash a passage to find its copies, ignoring case, accents, punctuation and spaces."""
    return hashlib.sha1(" ".join(normalize_words(text)).encode(), usedforsecurity=False).hexdigest()[:16]


def _share(key: str) -> float:
    """Hash a text to a number in [0, 1), a pseudorandom number that depends on the text only."""
    return int(hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest()[:12], 16) / 16**12


def build_examples(questions: Sequence[PassageQuestion], window: int | None = None) -> list[TableExample]:
    """Convert questions about passages to examples, whose table is one cell with the passage.

    Questions about the same text share one `Table` object.

    Args:
        questions: valid questions.
        window: maximum number of words of a passage, see `PassageQuestions`.
    """
    tables: dict[tuple[str, str], Table] = {}
    return [_example(question, window, tables) for question in questions]


def _example(question: PassageQuestion, window: int | None, tables: dict[tuple[str, str], Table]) -> TableExample:
    counts = Counter(span.text for span in question.answers or ())
    target = min(question.answers or (), key=lambda span: (-counts[span.text], len(span.text)), default=None)
    window_start, window_end = _window(question, target, window)
    title = f"{question.title.replace('_', ' ').strip()} : " if question.title.strip() else ""
    text, key = f"{title}{question.passage[window_start:window_end]}", digest_passage(question.passage)
    name = key if (window_start, window_end) == (0, len(question.passage)) else f"{key}/{window_start}"
    table = tables.setdefault((name, text), Table(name, (Cell(""),), ((Cell(text),),)))
    answer = None
    if question.answers is not None:
        start = len(title) + target.start - window_start if target else 0
        texts = tuple(dict.fromkeys(question.references or (span.text for span in question.answers)))
        span = (start, start + len(target.text)) if target else None
        answer = Answer(texts, ((0, 0),), "passage", span=span)
    return TableExample(question.name, question.question.strip(), table, answer)


def _window(question: PassageQuestion, answer: Span | None, words: int | None) -> tuple[int, int]:
    """Choose the part of a long passage that becomes the input, at most `words` words.

    If the passage has an answer, the part contains the answer.

    The position of the answer in the window is pseudorandom, by the id of the question, because a network would learn a
    fixed position.

    Returns:
        The index of the first character of the window, and of the character after its end.
    """
    full_span = 0, len(question.passage)
    bounds = [match.span() for match in _WORD.finditer(question.passage)] if words else []
    if words is None or len(bounds) <= words:
        return full_span
    start, stop = (answer.start, answer.start + len(answer.text)) if answer else (0, 0)
    answer_words = [index for index, word in enumerate(bounds) if word[0] < stop and word[1] > start]
    last_start = len(bounds) - words
    earliest, latest = (
        (max(0, answer_words[-1] + 1 - words), min(answer_words[0], last_start)) if answer_words else (0, last_start)
    )
    # The answer has more words than the window.
    if earliest > latest:
        return full_span
    first = earliest + int(_share(question.name) * (latest - earliest + 1))
    return bounds[first][0], bounds[first + words - 1][1]


def count_passages(examples: Sequence[TableExample]) -> dict[str, int]:
    """Count the questions, the passages, and the questions with and without an answer.

    Questions with an unknown answer are counted separately.
    """
    known_answers = [example.answer for example in examples if example.answer]
    answered_count = sum(bool(answer.texts) for answer in known_answers)
    return {
        "questions": len(examples),
        "passages": len({id(example.table) for example in examples}),
        "answered": answered_count,
        "without an answer": len(known_answers) - answered_count,
        "not given": len(examples) - len(known_answers),
    }


def measure_passages(splits: Mapping[str, Sequence[TableExample]]) -> dict[str, dict[int | str, float]]:
    """Return statistics of the number of words in questions, passages and answers.

    Each passage counts once.
    """
    sizes = Sizes()
    tables = {id(example.table): example.table for examples in splits.values() for example in examples}
    for examples in splits.values():
        for example in examples:
            sizes.add("words in a question", len(example.question.split()))
            if example.answer and example.answer.texts:
                sizes.add("words in an answer", len(example.answer.texts[0].split()))
    for table in tables.values():
        sizes.add("words in a passage", len(table.rows[0][0].text.split()))
    return sizes.percentiles()
