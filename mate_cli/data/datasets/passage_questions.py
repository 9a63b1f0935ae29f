"""Base of the readers of questions about single passages: files, windows, passages as tables of one cell."""

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
from mate_cli.data.check import LEFT_OUT, CheckReport, Problem, Sizes, counts_in_words
from mate_cli.data.datasets.release import Release
from mate_cli.data.download import MANIFEST
from mate_cli.data.question_contamination import normalize_words
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table

_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Span:
    """An answer in a passage: its text, and its first character there."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class PassageQuestion:
    """A question about one passage, as a file has it.

    Answers are of several annotators, repeats kept: none where nothing answers it, None where nobody says. References
    are what counts as right, where that is more than the texts of the answers.
    """

    name: str
    question: str
    passage: str
    answers: Sequence[Span] | None
    title: str = ""
    references: Sequence[str] = ()


@dataclass(eq=False, kw_only=True)
class PassageQuestions(Release):
    """Questions in files, each with the passage to read: a table of one cell, the title before the text.

    Of a split, the files are read that are there; one has to be. A question of the train split that repeats another
    one, or whose passage dev or test have too, is left out.

    Args:
        train_files: questions to learn from, below the root; None for those of the release.
        dev_files: of the dev split; None for those of the release.
        window: words of a passage that is learnt from, of a longer one those around the answer; None for all. What is
            evaluated is not cut here.
    """

    unit = "passages"
    metric = "mate_cli.metrics.system_answers.Passages"

    train_files: Sequence[str] | None = None
    dev_files: Sequence[str] | None = None
    window: Annotated[int, Field(gt=0)] | None = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        self.repeated: Counter[str] = Counter()
        """How many questions of the train split were left out, by the reason; known once it was read."""

    @property
    @abstractmethod
    def released_files(self) -> Mapping[str, Sequence[str]]:
        """The files of each split of the release, and those of partial copies."""

    @property
    def files(self) -> Mapping[str, Sequence[str]]:
        """The files that are looked for, by split."""
        typed = {"train": self.train_files, "dev": self.dev_files}
        files = {**self.released_files, **{split: names for split, names in typed.items() if names is not None}}
        return {split: names for split, names in files.items() if names}

    @property
    def split_files(self) -> Mapping[str, str]:
        """The first file of each split."""
        return {split: files[0] for split, files in self.files.items()}

    @property
    def wanted_files(self) -> Sequence[str]:
        """The files that are looked for."""
        return tuple(file for files in self.files.values() for file in files)

    @property
    def facts(self) -> Mapping[str, str]:
        """Questions left out, by number, and files that are not read, in words; nothing where there are none."""
        self.load("train")
        left_out = counts_in_words(dict(sorted(self.repeated.items())))
        return {name: text for name, text in (("left out, train", left_out), ("not read", self._unread)) if text}

    @property
    def _unread(self) -> str:
        """Files of the root that nobody reads and that may be taken for some of the release."""
        released = (file.destination for file in (self.info.remote_files if self.info else ()))
        known = {MANIFEST, *(unpacked_name(Path(file).name) for file in (*self.wanted_files, *released))}
        names = {unpacked_name(path.name) for path in self.root.glob("*.json*")} - known
        return ", ".join(sorted(name for name in names if name.endswith((".json", ".jsonl"))))

    def read(self, split: str, problems: list[Problem]) -> list[TableExample]:
        """Return the sound questions of a split, in the order of its files; see `Release.read`."""
        questions = self._read_split(split, problems)
        if split != "train":
            return build_examples(questions)
        passages = {
            digest_passage(q.passage) for other in self.splits if other != "train" for q in self._read_split(other, [])
        }
        distinct, self.repeated = drop_repeats(questions, passages)
        return build_examples(distinct, self.window)

    @abstractmethod
    def questions(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[PassageQuestion]:
        """Read the questions of a file; what is wrong with others is appended to `problems`."""

    def check(self) -> CheckReport:
        """Check as every release is checked; count passages, and what is left out of the train split."""
        report, splits = super().check(), self._sound([])
        counts = {split: count_passages(examples) for split, examples in splits.items()}
        counts.get("train", {}).update({f"{LEFT_OUT}{why}": count for why, count in self.repeated.items()})
        what = f"not read: {self._unread}; name it with data.train_files"
        notes = [*report.notes, *[Problem(str(self.root), "", what)] * bool(self._unread)]
        return replace(report, counts=counts, percentiles=measure_passages(splits), notes=notes)

    def _read_split(self, split: str, problems: list[Problem]) -> list[PassageQuestion]:
        files = [file for file in self.files[split] if self._has(file)]
        return [question for file in files for question in self._of_file(file, problems)]

    def _of_file(self, file: str, problems: list[Problem]) -> Iterator[PassageQuestion]:
        for question in self.questions(file, self.need(file), problems):
            if wrong := _damage(question):
                problems.append(Problem(file, question.name, wrong))
            else:
                self.origins[question.name] = file
                yield question

    def _found_splits(self) -> tuple[str, ...]:
        return tuple(split for split, files in self.files.items() if any(map(self._has, files)))


def _damage(question: PassageQuestion) -> str:
    """Say what is wrong with a question; "" where nothing is."""
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
    """Return the questions that repeat no other, and on no passage of evaluation; how many do, by the reason.

    `evaluated` are the keys of the passages of evaluation, see `digest_passage`.
    """
    distinct, reasons, known = [], Counter[str](), set()
    for question in questions:
        key = digest_passage(question.passage)
        asked = (key, normalize_words(question.question))
        if key in evaluated:
            reasons["on a passage of evaluation"] += 1
        elif asked in known:
            reasons["equal to another"] += 1
        else:
            known.add(asked)
            distinct.append(question)
    return distinct, reasons


def digest_passage(text: str) -> str:
    """Return a name of a passage's words, whatever its case, accents, punctuation and spaces."""
    return hashlib.sha1(" ".join(normalize_words(text)).encode(), usedforsecurity=False).hexdigest()[:16]


def _share(key: str) -> float:
    """Place a key between 0 and 1, at random but always the same."""
    return int(hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest()[:12], 16) / 16**12


def build_examples(questions: Sequence[PassageQuestion], window: int | None = None) -> list[TableExample]:
    """Turn sound questions into examples; those about the same words share a table. See `PassageQuestions`."""
    tables: dict[tuple[str, str], Table] = {}
    return [_example(question, window, tables) for question in questions]


def _example(question: PassageQuestion, window: int | None, tables: dict[tuple[str, str], Table]) -> TableExample:
    learnt = _most_given(question.answers or ())
    begin, end = _window(question, learnt, window)
    title = f"{question.title.replace('_', ' ').strip()} : " if question.title.strip() else ""
    text, key = f"{title}{question.passage[begin:end]}", digest_passage(question.passage)
    name = key if (begin, end) == (0, len(question.passage)) else f"{key}/{begin}"
    table = tables.setdefault((name, text), Table(name, (Cell(""),), ((Cell(text),),)))
    answer = None
    if question.answers is not None:
        start = len(title) + learnt.start - begin if learnt else 0
        texts = tuple(dict.fromkeys(question.references or (span.text for span in question.answers)))
        span = (start, start + len(learnt.text)) if learnt else None
        answer = Answer(texts, ((0, 0),), "passage", span=span)
    return TableExample(question.name, question.question.strip(), table, answer)


def _most_given(spans: Sequence[Span]) -> Span | None:
    """Return the answer that most annotators give, of these the shortest, of these the first; None without any."""
    counts = Counter(span.text for span in spans)
    return min(spans, key=lambda span: (-counts[span.text], len(span.text))) if spans else None


def _window(question: PassageQuestion, answer: Span | None, words: int | None) -> tuple[int, int]:
    """Return the first character of what is read of a passage, and the one behind its last.

    Where in it the answer stands depends on the name of the question: it would be learnt otherwise.
    """
    whole = 0, len(question.passage)
    bounds = [match.span() for match in _WORD.finditer(question.passage)] if words else []
    if words is None or len(bounds) <= words:
        return whole
    start, stop = (answer.start, answer.start + len(answer.text)) if answer else (0, 0)
    held = [place for place, (begin, end) in enumerate(bounds) if answer and begin < stop and end > start]
    last = len(bounds) - words
    earliest, latest = (max(0, held[-1] + 1 - words), min(held[0], last)) if held else (0, last)
    if earliest > latest:  # the answer has more words than the window
        return whole
    first = earliest + int(_share(question.name) * (latest - earliest + 1))
    return bounds[first][0], bounds[first + words - 1][1]


def count_passages(examples: Sequence[TableExample]) -> dict[str, int]:
    """Count questions, passages, and questions with an answer, without one, and of which nobody says."""
    known = [example.answer for example in examples if example.answer]
    answered = sum(bool(answer.texts) for answer in known)
    return {
        "questions": len(examples),
        "passages": len({id(example.table) for example in examples}),
        "answered": answered,
        "without an answer": len(known) - answered,
        "not given": len(examples) - len(known),
    }


def measure_passages(splits: Mapping[str, Sequence[TableExample]]) -> dict[str, dict[int | str, float]]:
    """Return the words in questions, passages and answers; each passage counts once."""
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
