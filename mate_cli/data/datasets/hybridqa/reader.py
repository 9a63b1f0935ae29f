"""HybridQA: questions whose answer is in a table's cell or in a passage that a cell links to.

Source: Chen et al. 2020, "HybridQA: A Dataset of Multi-Hop Question Answering over Tabular and Textual Data".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from mate_cli.data.archive import SUFFIXES, find_file, find_store, read_file, read_members, unpacked_name
from mate_cli.data.check import LEFT_OUT, CheckReport, Problem, counts_in_words, note_absent_tables
from mate_cli.data.datasets.file_formats import DamagedEntryError, read_entries
from mate_cli.data.datasets.hybridqa.files import (
    HybridQAQuestion,
    answer_nodes,
    attach_passages,
    parse_hybridqa_table,
    parse_questions,
    parse_reference,
)
from mate_cli.data.datasets.release import Release
from mate_cli.data.question_contamination import EVALUATION, NEAR_DUPLICATE, KnownQuestions, find_repetitions
from mate_cli.errors import DataError
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Table
from mate_cli.tables.text import candidate_cells

FOLDERS = ("released_data", "tables_tok", "request_tok")
REPOSITORY = "WikiTables-WithLinks"
"""What holds the last two, as a checkout or an archive."""
SAMPLE_ROOT = Path(__file__).parents[1] / "sample" / "release"
"""Holds the packed folders of the HybridQA layout and vocab.txt, a WordPiece vocabulary of the sample's words."""


@dataclass(frozen=True, slots=True)
class ExtraQuestions:
    """The questions of further files: those that are learnt from, why others are not, and what is wrong."""

    questions: Sequence[HybridQAQuestion]
    left_out: Mapping[str, int]
    problems: Sequence[Problem]


@dataclass(eq=False, kw_only=True)
class HybridQA(Release):
    """The HybridQA release as it lies on disk, packed or not.

    The coordinates of an answer are its candidate cells (`tables.text.candidate_cells`), possibly none; there is no
    answer where the release holds the answers back.

    Args:
        root: folder that holds released_data, tables_tok and request_tok, each as a folder, .tar.gz, .tar.xz or .zip
            (or a checkout or archive of WikiTables-WithLinks for the last two); for the other options see `Release`.
        extra_train: further files of questions for the train split, which they follow: names in released_data, or
            paths; each may be packed by itself, as may the .traced.json beside it. Questions that repeat one of the
            train split, or one of dev or test, are left out, see `question_contamination`.
        near_duplicate: the overlap from which on questions repeat each other; 1 for equal ones alone.
    """

    archives: ClassVar[Sequence[str]] = (f"{REPOSITORY}*", "HybridQA*")
    metric = "mate_cli.metrics.system_answers.HybridAnswers"

    extra_train: Sequence[str] = ()
    near_duplicate: Annotated[float, Field(gt=0, le=1)] = NEAR_DUPLICATE

    def __post_init__(self) -> None:
        super().__post_init__()
        self._raw: dict[str, dict[str, bytes]] = {"tables_tok": {}, "request_tok": {}}
        self._tables: dict[str, tuple[Table | None, list[Problem]]] = {}

    @property
    def split_files(self) -> Mapping[str, str]:
        """The questions of each split."""
        return {split: f"released_data/{split}.json" for split in ("train", "dev", "test")}

    @property
    def wanted_files(self) -> Sequence[str]:
        """The folders that are looked for."""
        return FOLDERS

    def read(self, split: str, problems: list[Problem]) -> list[TableExample]:
        """Return the sound questions of a split, in the order of the files; see `Release.read`."""
        return self._join(f"{split}.json", self.questions(split, problems), problems)

    def examples_from_file(self, path: str | Path) -> list[TableExample]:
        """Read questions about tables of this dataset from a JSON file (a list of {question_id, question, table_id}).

        Raises:
            DataError: the file or one of its tables is missing or damaged.
        """
        problems: list[Problem] = []
        path = Path(path).expanduser()
        questions = parse_questions(unpacked_name(path.name), _files_beside(path), problems)
        examples = self._join(path.name, questions, problems)
        self._settle(problems)
        return examples

    def check(self) -> CheckReport:
        """Check as every release is checked, and compare the files of references and answer nodes with the questions.

        Questions of the release that repeat one of dev or test are only mentioned; those of `extra_train` that repeat
        any are counted as left out.

        Raises:
            DataError: the data are not there at all.
        """
        report = super().check()
        splits = {split: self.questions(split, []) for split in self.splits}
        tables = {name: table for name, (table, _) in self._tables.items() if table}
        problems = dict.fromkeys(report.problems)
        for split, questions in splits.items():
            released = self.read_released(f"{split}.json")
            problems |= dict.fromkeys(check_reference(split, questions, released))
            problems |= dict.fromkeys(check_nodes(split, released, tables))
        counts = {split: count_questions(questions) for split, questions in splits.items()}
        for why, count in self.repeated.items():
            counts["train"][f"{LEFT_OUT}{why}"] = count
        notes = [*report.notes, *note_contamination(splits, self.near_duplicate), *self._unchecked()]
        return replace(report, problems=tuple(problems), counts=counts, notes=notes)

    def questions(self, split: str, problems: list[Problem]) -> list[HybridQAQuestion]:
        """Return the questions of one split that is on disk, without tables; what is wrong is appended to `problems`.

        Raises:
            DataError: a file is missing or damaged.
        """
        questions = self._read_questions(split, problems)
        if split == "train" and self.extra_train:
            questions += self._extra.questions
            problems += self._extra.problems
        return questions

    @property
    def repeated(self) -> Mapping[str, int]:
        """Numbers of questions of `extra_train` that are left out, by the reason.

        Raises:
            DataError: a file is missing or damaged.
        """
        return self._extra.left_out if self.extra_train else {}

    @property
    def facts(self) -> Mapping[str, str]:
        """Number of questions of `extra_train` that are left out, and splits they were not compared with, in words."""
        text = counts_in_words(self.repeated)
        facts = {"left out, train": f"{text}; {len(self._extra.questions):,} of extra_train are left"} if text else {}
        return facts | {problem.file: problem.what for problem in self._unchecked()}

    def check_extra(self) -> None:
        """Refuse files of `extra_train` that are not there, where the release is; none is read.

        Raises:
            DataError: naming the first.
        """
        for name in self.extra_train if self._found_splits() else ():
            self._find_extra(name)

    def read_released(self, file: str) -> dict[str, bytes]:
        """Read a file of released_data with its .traced.json and _reference.json, by name; those that are there."""
        contents = {name: self.content(f"released_data/{name}") for name in _with_companions(file)}
        return {name: content for name, content in contents.items() if content is not None}

    def store(self, folder: str) -> Path:
        """Find where `folder` (tables_tok or request_tok) is kept.

        Raises:
            DataError: it is nowhere below the root.
        """
        if self.root.is_file() and self.root.name.endswith(SUFFIXES[1:]):
            return self.root
        deeper = sorted(path for path in self.root.glob("*") if path.is_dir())
        stores = (find_store(place, folder, REPOSITORY) for place in (self.root, *deeper))
        store = next((place for place in stores if place), None)
        if store is None:
            raise self.refusal((folder,))
        return store

    def _unchecked(self) -> list[Problem]:
        """Note the evaluation splits that are not on disk, with which `extra_train` is not compared."""
        absent = [split for split in self.split_files if split not in ("train", *self.splits)]
        what = f"not checked for questions of {', '.join(absent)}: not on disk in {self.root}"
        return [Problem("extra_train", "", what)] if self.extra_train and absent else []

    def _read_questions(self, split: str, problems: list[Problem]) -> list[HybridQAQuestion]:
        return parse_questions(f"{split}.json", self.read_released(f"{split}.json"), problems)

    @cached_property
    def _extra(self) -> ExtraQuestions:
        problems: list[Problem] = []
        questions: list[HybridQAQuestion] = []
        for path in map(self._find_extra, self.extra_train):
            file = unpacked_name(path.name)
            contents = _files_beside(path) if path.is_file() else self.read_released(file)
            further = parse_questions(file, contents, problems)
            questions += further
            self.origins |= {question.question_id: file for question in further}
        evaluation = [q for split in self.splits if split != "train" for q in self._read_questions(split, [])]
        reasons = find_repetitions(questions, self._read_questions("train", []), evaluation, self.near_duplicate)
        distinct = [question for question, why in zip(questions, reasons, strict=True) if not why]
        return ExtraQuestions(distinct, dict(Counter(filter(None, reasons)).most_common()), problems)

    def _find_extra(self, name: str) -> Path:
        """Find a file of `extra_train`: in released_data, at its path, or below the root; packed or not.

        Where released_data is in an archive, it is the path that the file would have unpacked.

        Raises:
            DataError: it is not there.
        """
        places = (self.root / "released_data", Path(), self.root)
        names = (str(Path(name).expanduser()), f"{Path(name).expanduser()}.json")
        files = (find_file(place, name) for name in names for place in places)
        file = next(filter(None, files), None)
        if file is None and str(Path(name).parent) in (".", "released_data"):
            inside = f"released_data/{Path(name).name.removesuffix('.json')}.json"
            file = self.root / inside if self._has(inside) else None
        if file is None:
            raise _no_such_file(self.root / name)
        return file

    def _join(self, file: str, questions: Sequence[HybridQAQuestion], problems: list[Problem]) -> list[TableExample]:
        """Join the questions of a file and their sound tables; what is wrong with these is appended to `problems`."""
        self._read_tables({question.table_id for question in questions})
        for table_id in dict.fromkeys(question.table_id for question in questions):
            problems += self._tables[table_id][1]
        absent: dict[str, list[str]] = {}
        for question in questions:
            if self._tables[question.table_id] == (None, []):
                what = f"tables_tok/{question.table_id}.json is not there"
                absent.setdefault(what, []).append(question.question_id)
        problems += note_absent_tables(file, absent)
        tables = (self._tables[question.table_id][0] for question in questions)
        return [_example(question, table) for question, table in zip(questions, tables, strict=True) if table]

    def _read_tables(self, table_ids: Collection[str]) -> None:
        """Read the tables that are not in memory yet."""
        missing = [table_id for table_id in table_ids if table_id not in self._tables]
        if not missing:
            return
        for folder, contents in self._raw.items():
            self._read_raw(folder, [table_id for table_id in missing if table_id not in contents])
        for table_id in missing:
            self._tables[table_id] = self._parse(table_id)

    def _read_raw(self, folder: str, table_ids: list[str]) -> None:
        if not table_ids:
            return
        store = self.store(folder)
        wanted = set(table_ids)
        if not store.is_dir() and store.suffix != ".zip":  # one pass over a .tar serves every split
            wanted |= {
                q.table_id for split in self.splits for q in self._read_questions(split, [])
            } - self._tables.keys()
        for name, content in read_members(store, folder, {f"{table_id}.json" for table_id in wanted}):
            self._raw[folder][name.removesuffix(".json")] = content

    def _parse(self, table_id: str) -> tuple[Table | None, list[Problem]]:
        contents = {folder: raw.pop(table_id, None) for folder, raw in self._raw.items()}
        if contents["tables_tok"] is None:
            return None, []
        if contents["request_tok"] is None:
            return None, [Problem(f"request_tok/{table_id}.json", table_id, "is not there, but the table is")]
        problems: list[Problem] = []
        table = parse_hybridqa_table(table_id, contents["tables_tok"], problems)
        if table is not None:
            table = attach_passages(table, contents["request_tok"], problems)
        return table, problems


@dataclass(eq=False, kw_only=True)
class Sample(HybridQA):
    """80 small tables with passages and 1,500 questions, made by `tools/make_sample.py` from our own word lists.

    Half of the questions are answered by a cell, half by words of a passage; a few by neither, as in HybridQA. It comes
    with the package and is learnt in under a minute.

    Args:
        root: where they come with the package; for the other options see `HybridQA`.
    """

    root: Path = SAMPLE_ROOT

    def fetch(self) -> None:
        """Do nothing: the sample comes with the package."""


def _example(question: HybridQAQuestion, table: Table) -> TableExample:
    answer = None
    if question.answer is not None:
        answer = Answer((question.answer,), tuple(candidate_cells(table, question.answer)), question.source)
    return TableExample(question.question_id, question.text, table, answer, question.tags)


def _files_beside(path: Path) -> dict[str, bytes]:
    """Read a file of questions with its .traced.json and _reference.json, packed or not, by name without .gz or so."""
    if not path.is_file():
        raise _no_such_file(path)
    file, *companions = _with_companions(unpacked_name(path.name))
    paths = {file: path} | {name: place for name in companions if (place := find_file(path.parent, name))}
    return {name: read_file(place) for name, place in paths.items()}


def _no_such_file(path: Path) -> DataError:
    return DataError("question file not found", where=str(path), remedy="Check the path")


def _with_companions(file: str) -> tuple[str, ...]:
    stem = file.removesuffix(".json").removesuffix(".traced")
    return file, f"{stem}.traced.json", f"{stem}_reference.json"


Files = Mapping[str, bytes]
"""Contents of files of questions, by name."""


def check_reference(split: str, questions: Sequence[HybridQAQuestion], released: Files) -> Iterator[Problem]:
    """Compare the reference file with the split; what is wrong with its JSON was noted when the split was read."""
    name = f"{split}_reference.json"
    answers = (parse_reference(name, released, []) or {"reference": {}})["reference"]
    here = {question.question_id: question.answer for question in questions}
    for key, answer in answers.items():
        if key not in here:
            yield Problem(name, key, f"the question is not in {split}.json")
        elif here[key] is not None and here[key] != answer:
            yield Problem(name, key, f"the answer is {answer!r}, but {here[key]!r} in {split}.json")


def check_nodes(split: str, released: Files, tables: Mapping[str, Table]) -> Iterator[Problem]:
    """Look for answer nodes that are no cell of their table; what is wrong with the JSON was noted before."""
    name = f"{split}.traced.json"
    entries = read_entries(name, released[name], []) if name in released else ()
    for place, (_, entry) in enumerate(entries):
        table = tables.get(str(entry.get("table_id")))
        try:
            wrong = [node for node in answer_nodes(entry) if table is not None and not is_cell(node[1], table)]
        except DamagedEntryError as error:
            yield Problem(name, f"entry {place}", str(error))
            continue
        if wrong:
            yield Problem(name, str(entry.get("question_id")), f"no cell is at answer node {wrong[0]!r:.80}")


def is_cell(place: object, table: Table) -> bool:
    """Tell whether [row, column], both from 0, is a cell of the body of a table."""
    if not isinstance(place, list) or len(place) != 2 or not all(type(number) is int for number in place):
        return False
    return table.has_cell(*place)


def note_contamination(splits: Mapping[str, Sequence[HybridQAQuestion]], near: float) -> Iterator[Problem]:
    """Note the questions of the release that repeat one of its evaluation splits; they stay as released."""
    known = KnownQuestions(near, (q for split, questions in splits.items() if split != "train" for q in questions))
    repeats = [question.question_id for question in splits.get("train", ()) if known.holds(question)]
    if repeats:
        what = f"{len(repeats):,} questions are equal or near-equal to {EVALUATION} on the same table, and kept"
        yield Problem("train.json", repeats[0], what)


def count_questions(questions: Sequence[HybridQAQuestion]) -> dict[str, int]:
    """Return the questions, tables, and questions by the source of their answer."""
    sources = Counter(question.source or "not given" for question in questions)
    tables = len({question.table_id for question in questions})
    in_order = {name: sources[name] for name in ("table", "passage", "missing", "not given")}
    return {"questions": len(questions), "tables": tables, **in_order}
