"""HybridQA: questions whose answer is in a table cell or in a passage that a cell links to.

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
from mate_cli.data.check import EXCLUDED, CheckReport, Problem, format_counts, note_absent_tables
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
"""Repository with the folders tables_tok and request_tok, as a checkout or an archive."""
SAMPLE_ROOT = Path(__file__).parents[1] / "sample" / "release"
"""Folder with the sample in the format of HybridQA, packed, and vocab.txt, a WordPiece vocabulary of its words."""


@dataclass(frozen=True, slots=True)
class ExtraQuestions:
    """Additional training questions (option `extra_train`), without duplicates.

    Args:
        questions: questions to train on.
        left_out: number of excluded questions by reason.
        problems: problems of invalid questions.
    """

    questions: Sequence[HybridQAQuestion]
    left_out: Mapping[str, int]
    problems: Sequence[Problem]


@dataclass(eq=False, kw_only=True)
class HybridQA(Release):
    """Reader of HybridQA: questions about tables whose cells link to passages.

    The coordinates of an answer are its candidate cells (`tables.text.candidate_cells`), possibly none. The answer is
    None if the release withholds it.

    Args:
        root: folder with released_data, tables_tok and request_tok, each as a folder, .tar.gz, .tar.xz or .zip
            (or a checkout or archive of WikiTables-WithLinks for the last two). For the other options see `Release`.
        extra_train: further files of training questions, appended to the train split: names in released_data, or
            paths. Each file, and the .traced.json next to it, may be packed separately. Duplicates of questions in
            train, dev or test are excluded, see `question_contamination`.
        near_duplicate: minimum overlap of duplicate questions. 1 means equal questions only.
    """

    archives: ClassVar[Sequence[str]] = (f"{REPOSITORY}*", "HybridQA*")
    prefix: ClassVar[str] = ""
    """Prefix of the names of the folders tables_tok and request_tok."""
    metric = "mate_cli.metrics.system_answers.HybridAnswers"

    extra_train: Sequence[str] = ()
    near_duplicate: Annotated[float, Field(gt=0, le=1)] = NEAR_DUPLICATE

    def __post_init__(self) -> None:
        super().__post_init__()
        self._raw: dict[str, dict[str, bytes]] = {"tables_tok": {}, "request_tok": {}}
        self._tables: dict[str, tuple[Table | None, list[Problem]]] = {}

    split_files: ClassVar[Mapping[str, str]] = {s: f"released_data/{s}.json" for s in ("train", "dev", "test")}

    wanted_files: ClassVar[Sequence[str]] = FOLDERS

    def read(self, split: str, problems: list[Problem]) -> Iterator[TableExample]:
        """Return the valid questions of a split, in the order of the files. See `Release.read`."""
        return self._join(f"{split}.json", self.questions(split, problems), problems)

    def examples_from_file(self, path: str | Path) -> list[TableExample]:
        """Read questions about HybridQA tables from a JSON file, and add their tables.

        The file is a list of {question_id, question, table_id}.

        Raises:
            DataError: the file or one of its tables is missing or damaged.
        """
        problems: list[Problem] = []
        path = Path(path).expanduser()
        questions = parse_questions(unpacked_name(path.name), _files_beside(path), problems)
        examples = [*self._join(path.name, questions, problems)]
        self._raise_or_warn(problems)
        return examples

    def check(self) -> CheckReport:
        """Check the release, including its reference files and the answer nodes of questions.

        Training questions of the release that duplicate a question of dev or test are notes only. Duplicates in
        `extra_train` are counted as excluded. See `Release.check`.

        Raises:
            DataError: no split is available.
        """
        report = super().check()
        splits = {split: self.questions(split, []) for split in self.splits}
        tables = {name: table for name, (table, _) in self._tables.items() if table}
        problems = dict.fromkeys(report.problems)
        for split, questions in splits.items():
            contents = self.read_released(f"{split}.json")
            problems |= dict.fromkeys(check_reference(split, questions, contents))
            problems |= dict.fromkeys(check_nodes(split, contents, tables))
        counts = {split: count_questions(questions) for split, questions in splits.items()}
        for reason, count in self.repeated.items():
            counts["train"][f"{EXCLUDED}{reason}"] = count
        notes = [*report.notes, *note_contamination(splits, self.near_duplicate), *self._unchecked()]
        return replace(report, problems=tuple(problems), counts=counts, notes=notes)

    def questions(self, split: str, problems: list[Problem]) -> list[HybridQAQuestion]:
        """Return the questions of a split as stated in its files, before they get their tables.

        Args:
            split: name of the split.
            problems: list that receives the problems of invalid questions.

        Raises:
            DataError: a file is missing or damaged.
        """
        questions = self._read_questions(split, problems)
        if split == "train" and self.extra_train:
            questions += self._extras.questions
            problems += self._extras.problems
        return questions

    @property
    def repeated(self) -> Mapping[str, int]:
        """Number of excluded additional training questions (option `extra_train`), by reason.

        Raises:
            DataError: a file is missing or damaged.
        """
        return self._extras.left_out if self.extra_train else {}

    @property
    def facts(self) -> Mapping[str, str]:
        """Notes for the run record: which questions of the option `extra_train` were excluded.

        Evaluation splits that were not on disk, and thus not compared with these questions, are listed too.
        """
        text = format_counts(self.repeated)
        notes = {"left out, train": f"{text}; {len(self._extras.questions):,} of extra_train are left"} if text else {}
        return notes | {problem.file: problem.what for problem in self._unchecked()}

    def check_extra(self) -> None:
        """Raise `DataError` if a file of `extra_train` is missing, without reading the files.

        If the release itself is not on disk, nothing is checked.

        Raises:
            DataError: a file does not exist.
        """
        for name in self.extra_train if self._found_splits() else ():
            self._find_extra(name)

    def read_released(self, file: str) -> dict[str, bytes]:
        """Read a question file, with its .traced.json and _reference.json files if they exist.

        Returns:
            The content of each existing file by name.
        """
        contents = {name: self.content(f"released_data/{name}") for name in _with_companions(file)}
        return {name: content for name, content in contents.items() if content is not None}

    def store(self, folder: str) -> Path:
        """Return the path of the folder `tables_tok` or `request_tok`, or of an archive of it.

        Raises:
            DataError: the folder is not found below the root.
        """
        if self.root.is_file() and self.root.name.endswith(SUFFIXES[1:]):
            return self.root
        subfolders = sorted(path for path in self.root.glob("*") if path.is_dir())
        repository = self.archives[0].removesuffix("*")
        stores = (find_store(parent, folder, repository) for parent in (self.root, *subfolders))
        store = next((parent for parent in stores if parent), None)
        if store is None:
            raise self.missing_files_error((folder,))
        return store

    def _unchecked(self) -> list[Problem]:
        """Return a note if `extra_train` could not be compared with all evaluation splits."""
        absent = [split for split in self.split_files if split not in ("train", *self.splits)]
        note = f"not checked for questions of {', '.join(absent)}: not on disk in {self.root}"
        return [Problem("extra_train", "", note)] if self.extra_train and absent else []

    def _read_questions(self, split: str, problems: list[Problem]) -> list[HybridQAQuestion]:
        return parse_questions(f"{split}.json", self.read_released(f"{split}.json"), problems)

    @cached_property
    def _extras(self) -> ExtraQuestions:
        problems: list[Problem] = []
        questions: list[HybridQAQuestion] = []
        for path in map(self._find_extra, self.extra_train):
            file = unpacked_name(path.name)
            contents = _files_beside(path) if path.is_file() else self.read_released(file)
            file_questions = parse_questions(file, contents, problems)
            questions += file_questions
            self.origins |= {question.question_id: file for question in file_questions}
        evaluation = [q for split in self.splits if split != "train" for q in self._read_questions(split, [])]
        reasons = find_repetitions(questions, self._read_questions("train", []), evaluation, self.near_duplicate)
        distinct = [question for question, reason in zip(questions, reasons, strict=True) if not reason]
        return ExtraQuestions(distinct, dict(Counter(filter(None, reasons)).most_common()), problems)

    def _find_extra(self, name: str) -> Path:
        """Return the path of an additional training file, which may be compressed.

        The file is in released_data, at its path, or below the root.

        If released_data is an archive, the path is that of the unpacked file.

        Raises:
            DataError: the file does not exist.
        """
        folders = (self.root / "released_data", Path(), self.root)
        names = (str(Path(name).expanduser()), f"{Path(name).expanduser()}.json")
        files = (find_file(folder, name) for name in names for folder in folders)
        file = next(filter(None, files), None)
        if file is None and str(Path(name).parent) in (".", "released_data"):
            inner_path = f"released_data/{Path(name).name.removesuffix('.json')}.json"
            file = self.root / inner_path if self._has_file(inner_path) else None
        if file is None:
            raise _no_such_file(self.root / name)
        return file

    def _join(
        self, file: str, questions: Sequence[HybridQAQuestion], problems: list[Problem]
    ) -> Iterator[TableExample]:
        """Combine questions with their tables to examples, except questions on damaged tables.

        Problems of tables are appended to `problems`.
        """
        self._read_tables({question.table_id for question in questions})
        for table_id in dict.fromkeys(question.table_id for question in questions):
            problems += self._tables[table_id][1]
        absent: dict[str, list[str]] = {}
        for question in questions:
            if self._tables[question.table_id] == (None, []):
                problem = f"tables_tok/{question.table_id}.json is not there"
                absent.setdefault(problem, []).append(question.question_id)
        problems += note_absent_tables(file, absent)
        tables = (self._tables[question.table_id][0] for question in questions)
        return (_example(question, table) for question, table in zip(questions, tables, strict=True) if table)

    def _read_tables(self, table_ids: Collection[str]) -> None:
        """Read and cache the tables with these ids, except tables that are cached already."""
        missing_ids = [table_id for table_id in table_ids if table_id not in self._tables]
        for folder, contents in self._raw.items():
            self._read_raw(folder, [table_id for table_id in missing_ids if table_id not in contents])
        for table_id in missing_ids:
            self._tables[table_id] = self._parse(table_id)

    def _read_raw(self, folder: str, table_ids: list[str]) -> None:
        if not table_ids:
            return
        store = self.store(f"{self.prefix}{folder}")
        requested_ids = set(table_ids)
        # One pass over a .tar archive reads the tables of all splits.
        if not store.is_dir() and store.suffix != ".zip":
            questions = (question for split in self.splits for question in self._read_questions(split, []))
            requested_ids |= {question.table_id for question in questions} - self._tables.keys()
        names = {f"{table_id}.json" for table_id in requested_ids}
        for name, content in read_members(store, f"{self.prefix}{folder}", names):
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
class OttQA(HybridQA):
    """Reader of OTT-QA: standalone questions, each with its table given.

    The tables and passages are those of HybridQA.

    The systems of the authors have to find the table first. Here each question has its table.

    Args:
        root: folder with released_data, and with data, which contains traindev_tables_tok and traindev_request_tok.
            It may be an archive of the repository. For the other options see `HybridQA`.
    """

    archives = ("OTT-QA*",)
    prefix = "traindev_"

    # The answers and tables of the test split are not published.
    split_files: ClassVar[Mapping[str, str]] = {split: f"released_data/{split}.json" for split in ("train", "dev")}

    wanted_files = ("released_data", "data/traindev_tables_tok", "data/traindev_request_tok")

    def read_released(self, file: str) -> dict[str, bytes]:
        """Read a question file and its file .traced.json, but not its file _reference.json.

        The reference file of OTT-QA states no sources of answers.
        """
        return {name: text for name, text in super().read_released(file).items() if "reference" not in name}


@dataclass(eq=False, kw_only=True)
class Sample(HybridQA):
    """Sample dataset of 80 small tables with passages and 1,500 questions.

    `tools/make_sample.py` generated the dataset from word lists.

    Half of the questions are answered by a cell, half by words of a passage, and a few by neither, as in HybridQA. The
    sample is part of the package, and training on it takes less than a minute.

    Args:
        root: folder of the sample in the package. For the other options see `HybridQA`.
    """

    root: Path = SAMPLE_ROOT

    def fetch(self) -> None:
        """Do nothing, because the sample is part of the package."""


def _example(question: HybridQAQuestion, table: Table) -> TableExample:
    answer = None
    if question.answer is not None:
        answer = Answer((question.answer,), tuple(candidate_cells(table, question.answer)), question.source)
    return TableExample(question.question_id, question.text, table, answer, question.tags)


def _files_beside(path: Path) -> dict[str, bytes]:
    """Read a question file of HybridQA and, if they exist, its .traced and _reference files.

    All files may be compressed.

    Returns:
        The content of each existing file, by its name without the suffix of the compression.
    """
    if not path.is_file():
        raise _no_such_file(path)
    file, *companions = _with_companions(unpacked_name(path.name))
    paths = {file: path} | {name: companion for name in companions if (companion := find_file(path.parent, name))}
    return {name: read_file(companion) for name, companion in paths.items()}


def _no_such_file(path: Path) -> DataError:
    return DataError("question file not found", where=str(path), remedy="Check the path")


def _with_companions(file: str) -> tuple[str, ...]:
    stem = file.removesuffix(".json").removesuffix(".traced")
    return file, f"{stem}.traced.json", f"{stem}_reference.json"


Files = Mapping[str, bytes]
"""Contents of question files, by name."""


def check_reference(split: str, questions: Sequence[HybridQAQuestion], contents: Files) -> Iterator[Problem]:
    """Yield a `Problem` for each answer in the reference file that the questions contradict.

    The reference file states the answer of each question and its source.

    Problems of the file itself were reported when the split was read.

    Args:
        split: name of the split.
        questions: questions of the split.
        contents: contents of the files of `released_data`, by name.
    """
    name = f"{split}_reference.json"
    answers = (parse_reference(name, contents, []) or {"reference": {}})["reference"]
    answers_of_split = {question.question_id: question.answer for question in questions}
    for key, answer in answers.items():
        if key not in answers_of_split:
            yield Problem(name, key, f"the question is not in {split}.json")
        elif answers_of_split[key] is not None and answers_of_split[key] != answer:
            yield Problem(name, key, f"the answer is {answer!r}, but {answers_of_split[key]!r} in {split}.json")


def check_nodes(split: str, contents: Files, tables: Mapping[str, Table]) -> Iterator[Problem]:
    """Yield a `Problem` for each question whose answer node is no cell of its table.

    An answer node names the cell or passage with the answer.

    Args:
        split: name of the split.
        contents: contents of the files of `released_data`, by name.
        tables: tables by id.
    """
    name = f"{split}.traced.json"
    entries = read_entries(name, contents[name], []) if name in contents else ()
    for index, (_, entry) in enumerate(entries):
        table = tables.get(str(entry.get("table_id")))
        try:
            invalid_nodes = [node for node in answer_nodes(entry) if table is not None and not is_cell(node[1], table)]
        except DamagedEntryError as error:
            yield Problem(name, f"entry {index}", str(error))
            continue
        if invalid_nodes:
            yield Problem(name, str(entry.get("question_id")), f"no cell is at answer node {invalid_nodes[0]!r:.80}")


def is_cell(pair: object, table: Table) -> bool:
    """Return whether [row, column], both from 0, is a body cell of a table."""
    if not isinstance(pair, list) or len(pair) != 2 or not all(type(number) is int for number in pair):
        return False
    return table.has_cell(*pair)


def note_contamination(splits: Mapping[str, Sequence[HybridQAQuestion]], overlap: float) -> Iterator[Problem]:
    """Yield a note on training questions that duplicate a question of an evaluation split.

    These questions are not removed.
    """
    evaluation = (question for split, questions in splits.items() if split != "train" for question in questions)
    known_questions = KnownQuestions(overlap, evaluation)
    repeats = [question.question_id for question in splits.get("train", ()) if known_questions.find_repeat(question)]
    if repeats:
        note = f"{len(repeats):,} questions are equal or near-equal to {EVALUATION} on the same table, and kept"
        yield Problem("train.json", repeats[0], note)


def count_questions(questions: Sequence[HybridQAQuestion]) -> dict[str, int]:
    """Count the questions, their tables, and the questions by source of the answer."""
    sources = Counter(question.source or "not given" for question in questions)
    tables = len({question.table_id for question in questions})
    in_order = {name: sources[name] for name in ("table", "passage", "missing", "not given")}
    return {"questions": len(questions), "tables": tables, **in_order}
