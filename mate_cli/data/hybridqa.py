"""HybridQA: questions whose answer is in a table's cell or in a passage that a cell links to.

Source: Chen et al. 2020, "HybridQA: A Dataset of Multi-Hop Question Answering over Tabular and Textual Data".
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from mate_cli.data.archive import find_store, read_members
from mate_cli.data.check import CheckReport, Problem, raise_problems
from mate_cli.data.hybridqa_files import Question, attach_passages, parse_questions, parse_table
from mate_cli.errors import DataError
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Table
from mate_cli.tables.text import candidate_cells

SPLITS = ("train", "dev", "test")
FOLDERS = ("released_data", "tables_tok", "request_tok")
REPOSITORY = "WikiTables-WithLinks"
"""What holds the last two, as a checkout or an archive."""


class HybridQA:
    """The HybridQA release as it lies on disk, packed or not.

    Args:
        root: folder that holds released_data, tables_tok and request_tok, each as a folder, .tar.gz, .tar.xz or .zip
            (or a checkout or archive of WikiTables-WithLinks for the last two).
        extra_train: further files of questions for the train split: names in released_data, or paths.
        download: "auto" fetches the public release into `root` when nothing is there; False never does.
        damaged: "error" refuses a split with damaged entries; "skip" leaves those questions out and warns.
        name: the dataset's name in commands and records.
    """

    def __init__(
        self,
        root: str | Path,
        extra_train: Sequence[str] = (),
        download: Literal["auto", False] = False,
        damaged: Literal["error", "skip"] = "error",
        name: str = "hybridqa",
    ) -> None:
        self.root = Path(root).expanduser()
        self.extra_train = tuple(str(item) for item in extra_train)
        self.name = name
        self.damaged = damaged
        self._download = download
        self._raw: dict[str, dict[str, bytes]] = {"tables_tok": {}, "request_tok": {}}
        self._tables: dict[str, tuple[Table | None, list[Problem]]] = {}

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that are on disk, of train, dev and test."""
        return tuple(split for split in SPLITS if f"{split}.json" in self.released)

    def examples(self, split: str) -> list[TableExample]:
        """All questions of a split, `extra_train` following the train split.

        `answer.coordinates` are the candidate cells (`tables.text.candidate_cells`), possibly none;
        `answer` is None where the release holds the answers back.

        Raises:
            DataError: files are missing, or damaged and `damaged` is "error".
        """
        problems: list[Problem] = []
        questions = self.questions(split, problems)
        return self._settle(questions, problems)

    def examples_from_file(self, path: str | Path) -> list[TableExample]:
        """Questions of any JSON file (a list of {question_id, question, table_id}) about the tables of this dataset.

        Raises:
            DataError: the file or one of its tables is missing or damaged.
        """
        problems: list[Problem] = []
        path = Path(path).expanduser()
        questions = parse_questions(path.name, _files_beside(path), problems)
        return self._settle(questions, problems)

    def check(self) -> CheckReport:
        """Read everything to its end and report every problem, the counts and the sizes."""
        from mate_cli.data.hybridqa_check import check_hybridqa

        return check_hybridqa(self)

    def download(self) -> None:
        """Fetch the public release into `root`; what is there and intact is kept."""
        from mate_cli.data.download import HYBRIDQA_RELEASE, fetch_all

        fetch_all(HYBRIDQA_RELEASE, self.root)

    def questions(self, split: str, problems: list[Problem]) -> list[Question]:
        """The questions of one split, without tables; what is wrong is appended to `problems`.

        Raises:
            DataError: the split is not on disk.
        """
        if split not in self.splits:
            raise DataError(
                f"has no split {split!r}, but {', '.join(self.splits)}",
                where=str(self.root),
                remedy=f"Put {split}.json into {self.root / 'released_data'}",
            )
        questions = parse_questions(f"{split}.json", self.released, problems)
        for extra in self.extra_train if split == "train" else ():
            file, released = self._extra(extra)
            questions += parse_questions(file, released, problems)
        return questions

    @cached_property
    def released(self) -> dict[str, bytes]:
        """Contents of the files of released_data, by name.

        Raises:
            DataError: the data are not there; says what is wanted and how to get it.
        """
        if not self._stores["released_data"]:
            self._fetch_or_refuse()
        store = self._stores["released_data"]
        if store is None:
            raise self._nothing_there(("released_data",))
        released = dict(read_members(store, "released_data"))
        if not any(f"{split}.json" in released for split in SPLITS):
            raise self._nothing_there(tuple(f"released_data/{split}.json" for split in SPLITS))
        return released

    def _fetch_or_refuse(self) -> None:
        if not self._download:
            raise self._nothing_there(FOLDERS)
        refusal = self._nothing_there(FOLDERS)
        try:
            self.download()
        except DataError as error:
            problem = f"{refusal.problem}; {error.problem}"
            raise DataError(problem, where=refusal.where, remedy=refusal.remedy) from error
        self.__dict__.pop("_stores")

    @cached_property
    def _stores(self) -> dict[str, Path | None]:
        return {folder: find_store(self.root, folder, REPOSITORY) for folder in FOLDERS}

    def store(self, folder: str) -> Path:
        """Where `folder` (tables_tok or request_tok) is kept.

        Raises:
            DataError: it is nowhere below the root.
        """
        store = self._stores[folder]
        if store is None:
            raise self._nothing_there((folder,))
        return store

    def _nothing_there(self, wanted: Iterable[str]) -> DataError:
        there = "has not all the files of the dataset" if self.root.is_dir() else "there is no such folder"
        return DataError(
            f"{there}; looked for {', '.join(wanted)} (as a folder, .tar.gz, .tar.xz or .zip)",
            where=str(self.root),
            remedy=f"Give another data.root, or type: mate data download data={self.name} data.root={self.root}",
        )

    def _extra(self, extra: str) -> tuple[str, dict[str, bytes]]:
        name = Path(extra).name if extra.endswith(".json") else f"{extra}.json"
        if name in self.released and Path(extra).parent.name in ("", "released_data"):
            return name, self.released
        path = Path(extra).expanduser()
        return name, _files_beside(path if path.is_absolute() or path.is_file() else self.root / path)

    def _settle(self, questions: list[Question], problems: list[Problem]) -> list[TableExample]:
        """Join questions and tables; refuse or report what is damaged."""
        self._load({question.table_id for question in questions})
        for table_id in dict.fromkeys(question.table_id for question in questions):
            problems.extend(self._tables[table_id][1])
        remedy = (
            f"See all: mate data check data={self.name} data.root={self.root}; or leave them out: data.damaged=skip"
        )
        if self.damaged == "error":
            raise_problems(problems, remedy)
        joined = [_example(question, self._tables[question.table_id][0]) for question in questions]
        kept = [example for example in joined if example is not None]
        if problems:
            text = f"{self.root}: {len(problems)} problems, {len(joined) - len(kept)} questions left out. {remedy}"
            warnings.warn(text, stacklevel=3)
        return kept

    def _load(self, table_ids: Collection[str]) -> None:
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
            wanted |= {q.table_id for split in self.splits for q in self.questions(split, [])} - self._tables.keys()
        for name, content in read_members(store, folder, {f"{table_id}.json" for table_id in wanted}):
            self._raw[folder][name.removesuffix(".json")] = content

    def _parse(self, table_id: str) -> tuple[Table | None, list[Problem]]:
        contents = {folder: raw.pop(table_id, None) for folder, raw in self._raw.items()}
        absent = [folder for folder, content in contents.items() if content is None]
        if absent:
            return None, [Problem(f"{folder}/{table_id}.json", table_id, "is not there") for folder in absent]
        problems: list[Problem] = []
        table = parse_table(table_id, contents["tables_tok"] or b"", problems)
        if table is not None:
            table = attach_passages(table, contents["request_tok"] or b"", problems)
        return table, problems


def _example(question: Question, table: Table | None) -> TableExample | None:
    if table is None:
        return None
    answer = None
    if question.answer is not None:
        answer = Answer((question.answer,), tuple(candidate_cells(table, question.answer)), question.source)
    return TableExample(question.question_id, question.text, table, answer, question.tags)


def _files_beside(path: Path) -> dict[str, bytes]:
    """A file of questions with its .traced.json and _reference.json, by name."""
    if not path.is_file():
        raise DataError("there is no such file of questions", where=str(path), remedy="Check the path")
    stem = path.name.removesuffix(".json").removesuffix(".traced")
    names = (path.name, f"{stem}.traced.json", f"{stem}_reference.json")
    return {name: path.with_name(name).read_bytes() for name in names if path.with_name(name).is_file()}
