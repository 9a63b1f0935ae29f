"""Readers of labelled rows in files or on the hub: cells are found, a development split is set apart."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from mate_cli.data.archive import find_file
from mate_cli.data.check import CheckReport, Problem
from mate_cli.data.datasets.hybridqa.reader import HybridQA
from mate_cli.data.datasets.labelled.rows import (
    NAMES,
    LabelledRow,
    RowError,
    RowTableError,
    RowTables,
    build_example,
    check_columns,
    read_rows,
    read_stated_number,
    unknown_columns,
)
from mate_cli.data.datasets.release import Release
from mate_cli.data.datasets.tabfact.reader import TabFact
from mate_cli.errors import DataError
from mate_cli.files.outside import default_cache
from mate_cli.tables.example import UNUSABLE, Answer, TableExample
from mate_cli.tables.supervision import CellFinder, Mode, supervise
from mate_cli.tables.text import candidate_cells, table_matches

MAX_NAMED, MAX_LETTERS = 10, 60
"""Unusable questions that a check names, and letters of their texts."""
REMEDY = "write its cells as coordinates, such as [[0, 1]] (row and column from 0), or mend the answer or the table"
USUAL = {"train": ("train",), "dev": ("validation", "dev", "valid", "val"), "test": ("test",)}
"""Our splits, and what they are called in datasets of the library."""
MIN_TABLES = 10
"""Fewer tables than this are not parted: questions are."""


class QueryRows(Protocol):
    """A reader of rows whose question is not about a table, built of `RowTables`, `database` and `values`.

    Attributes:
        metric: see `Release`.
    """

    metric: str

    def has(self, row: LabelledRow) -> bool:
        """Tell whether a question is about a database."""

    def example(self, row: LabelledRow, name: str) -> tuple[TableExample, str]:
        """Make an example of a row; with the reason why it teaches nothing, which is empty for most.

        Raises:
            RowError: it has no question, or what it is about cannot be read.
        """


@dataclass(eq=False, kw_only=True)
class LabelledRows(Release):
    """Questions with a table each, row by row; docs/how-to/train_on_your_data.md says what a row may have.

    Args:
        root: where files and tables that are named lie.
        train: what holds the training split.
        dev: what holds the development split; None to set `dev_share` of training apart.
        test: what holds the test split, if there is one.
        columns: what values are called there, by our names: {question: query}; None where they are called as here.
        find: how cells are found of an answer that is given as texts: "equal", whole cells, one for each text;
            "holding", all cells that hold it in their text or in a linked passage; "auto", holding where there are
            passages.
        dev_share: of the tables of training, or of its questions where there are few tables.
        folds: in how many parts training is cut for a cross-validation, in place of `dev_share`; None for none.
        dev_fold: which of these is the development split, from 1.
        database: a file of SQLite that all questions are about which name neither a table nor a database.
        values: read the texts that columns of databases hold.
        queries: builds what reads rows about databases, see `QueryRows`; None where there are none.

    Raises:
        DataError: rows have no value of a name in `columns`, or there is no such fold.
    """

    root: Path = Path()
    train: str | None = None
    dev: str | None = None
    test: str | None = None
    columns: Mapping[str, str] | None = None
    find: Literal["auto", "equal", "holding"] = "auto"
    dev_share: Annotated[float, Field(ge=0, lt=1)] = 0.1
    folds: Annotated[int, Field(ge=2)] | None = None
    dev_fold: Annotated[int, Field(ge=1)] | None = None
    database: str | None = None
    values: bool = False
    queries: Callable[..., QueryRows] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.called = dict(self.columns or {})
        for name in self.called:
            if name not in NAMES:
                raise DataError(
                    f"rows have no {name}", where="data.columns", remedy=f"Rename one of {', '.join(NAMES)}"
                )
        if (self.folds is None) != (self.dev_fold is None) or (self.dev_fold or 0) > (self.folds or 0):
            problem = f"there is no fold {self.dev_fold} of {self.folds}".replace("None", "null")
            remedy = f"Type data.folds={self.folds or 5} with data.dev_fold=1 to {self.folds or 5}"
            raise DataError(problem, where="data.dev_fold", remedy=remedy)
        if self.folds and self.dev:
            raise DataError("folds are parts of data.train", where="data.dev", remedy="Leave it out, or data.folds")
        self._row_tables = RowTables(self.root)
        self._queries = self.queries and self.queries(self._row_tables, self.database, self.values)
        self._parsed: dict[str, tuple[list[TableExample], list[Problem]]] = {}

    @abstractmethod
    def rows(self, place: str, problems: list[Problem]) -> Iterator[LabelledRow]:
        """Return the rows of a file or of a split; what is wrong is appended to `problems`.

        Raises:
            DataError: it is missing or damaged.
        """

    @abstractmethod
    def is_there(self, place: str) -> bool:
        """Tell whether a file or a split is there."""

    @property
    def split_files(self) -> Mapping[str, str]:
        """Place of each split; that of training also for the development split, where that is not named."""
        places = {split: self.find_place(split) for split in USUAL}
        if self.folds or (places["dev"] is None and self.dev_share):
            places["dev"] = places["train"]
        return {split: place for split, place in places.items() if place is not None}

    def find_place(self, split: str) -> str | None:
        """Find what holds a split; None where nothing does."""
        place: str | None = getattr(self, split)
        return place

    def check(self) -> CheckReport:
        """Check the rows, see `Release.check`; unusable questions are noted by their rows."""
        report = super().check()
        unusable = [
            Problem(self.split_files[split], example.example_id, describe_unusable(example))
            for split in self.splits
            for example in self.load(split)[0]
            if type(example) is TableExample and example.outcome.startswith(UNUSABLE)  # queries are noted where read
        ]
        more = len(unusable) - MAX_NAMED
        notes = [*unusable[:MAX_NAMED], *[Problem(str(self.root), "", f"{more:,} more are unusable")] * (more > 0)]
        return replace(report, notes=(*report.notes, *notes))

    def read(self, split: str, problems: list[Problem]) -> list[TableExample]:
        """Return the sound questions of a split, in their order; see `Release.read`."""
        place = self.split_files[split]
        examples, place_problems = self._read_place(place)
        problems += place_problems
        if self.dev is None and place == self.split_files.get("train") == self.split_files.get("dev"):
            apart = self._set_apart(examples)
            examples = [example for example in examples if (example.example_id in apart) == (split == "dev")]
        finders: dict[int, CellFinder] = {}
        return self._link_conversations(
            [self._add_supervision(example, finders, strict=split == "train") for example in examples]
        )

    def _found_splits(self) -> tuple[str, ...]:
        places = {split: place for split, place in self.split_files.items() if self.is_there(place)}
        train = places.get("train")
        if train is not None and places.get("dev") == train and len(self._read_place(train)[0]) == 1:
            del places["dev"]  # one question cannot be parted
        return tuple(places)

    def _read_place(self, place: str) -> tuple[list[TableExample], list[Problem]]:
        if place not in self._parsed:
            problems: list[Problem] = []
            examples: dict[str, TableExample] = {}
            unread: dict[str, list[str]] = {}
            for number, row in enumerate(self.rows(place, problems), 1):
                name = f"{Path(place).stem}-{number}"
                try:
                    example = self._example(row, place, name)
                    if examples.setdefault(example.example_id, example) is not example:
                        raise RowError(f"the id {example.example_id!r} occurs twice")
                except RowTableError as error:
                    unread.setdefault(str(error), []).append(row.text("id") or f"row {number}")
                except RowError as error:
                    problems.append(Problem(place, row.text("id") or f"row {number}", str(error)))
            for text, keys in unread.items():
                more = f" ({len(keys)} rows)" if len(keys) > 1 else ""
                problems.append(Problem(place, keys[0], f"{text}{more}"))
            known = [*examples.values()]
            # A file without a single answer is one whose answers are not known.
            if all(example.answer is None or example.answer.is_null for example in known):
                known = [replace(example, answer=None) for example in known]
            self._parsed[place] = known, problems
            self.metric = self._choose_metric(self._parsed[place][0])
        return self._parsed[place]

    def _choose_metric(self, examples: Sequence[TableExample]) -> str:
        """Choose the metric by what rows ask for: queries, verdicts, texts of passages, or cells."""
        if self._queries and any(type(example) is not TableExample for example in examples):
            return self._queries.metric
        if any(example.answer and example.answer.label is not None for example in examples):
            return TabFact.metric
        return HybridQA.metric if any(example.table.passages for example in examples) else Release.metric

    def _example(self, row: LabelledRow, place: str, name: str) -> TableExample:
        if self._queries is None or not self._queries.has(row):
            return build_example(row, name, self._row_tables)
        example, problem = self._queries.example(row, name)
        if problem:
            self.notes.append(Problem(place, example.example_id, problem))
        return example

    def _set_apart(self, examples: Sequence[TableExample]) -> set[str]:
        """Draw the ids of development questions: whole tables, or conversations, or single questions of few."""
        tables = {example.table.table_id for example in examples}

        def unit(example: TableExample) -> str:
            by_table = len(tables) >= MIN_TABLES
            return example.table.table_id if by_table else example.conversation or example.example_id

        units = sorted(dict.fromkeys(map(unit, examples)), key=lambda name: hashlib.sha256(name.encode()).digest())
        if self.folds and self.folds > len(units):
            problem, remedy = f"there are {self.folds} folds of {len(units)} tables or questions", "Take fewer"
            raise DataError(problem, where="data.folds", remedy=remedy)
        share = slice(max(1, round(self.dev_share * len(units))) if len(units) > 1 else 0)
        chosen = set(units[slice(self.dev_fold - 1, None, self.folds) if self.dev_fold else share])
        return {example.example_id for example in examples if unit(example) in chosen}

    def _add_supervision(self, example: TableExample, finders: dict[int, CellFinder], *, strict: bool) -> TableExample:
        """Return the question with the cells and the number of its answer, where these are not stated."""
        answer = example.answer
        if type(example) is not TableExample or answer is None or answer.label is not None or answer.coordinates:
            return example
        if answer.is_null:
            return example
        table = example.table
        if self.find == "holding" or (self.find == "auto" and table.passages):
            return replace(example, answer=_find_answer(answer, example))
        finder = finders.setdefault(id(table), CellFinder(table))
        mode: Mode = "remove_all_strict" if strict else "remove_all"
        known = supervise(answer, finder, mode, partial(read_stated_number, table=table))
        return replace(example, answer=replace(known, aggregation=answer.aggregation))

    @staticmethod
    def _link_conversations(examples: Sequence[TableExample]) -> list[TableExample]:
        """Let the questions of one conversation know those before them."""
        before: dict[str, list[TableExample]] = {}
        turns = []
        for turn in examples:
            if turn.conversation:
                earlier = before.setdefault(turn.conversation, [])
                answer = earlier[-1].answer if earlier else None
                earlier.append(turn)
                history = tuple(example.question for example in earlier[:-1])
                turn = replace(turn, history=history, previous_cells=answer.coordinates if answer else ())
            turns.append(turn)
        return turns


def describe_unusable(example: TableExample) -> str:
    """Say why a question cannot be learnt from, and what to write in its row."""
    texts = " | ".join(example.answer.texts) if example.answer else ""
    told = f'"{shorten(texts, MAX_LETTERS)}" for "{shorten(example.question, MAX_LETTERS)}"'
    return f"{told} is unusable, {example.outcome.removeprefix(UNUSABLE)}: {REMEDY}"


def _find_answer(answer: Answer, example: TableExample) -> Answer:
    text, table = " ".join(answer.texts), example.table
    cells = tuple(candidate_cells(table, text))
    source = "table" if table_matches(table, text) else "passage" if cells else "missing"
    return replace(answer, coordinates=cells, source=source)


def format_overrides(options: Mapping[str, Any]) -> str:
    """Return options of a dataset as they are typed; those that are not set are left out."""
    return " ".join(f"data.{name}={value}" for name, value in options.items() if value is not None)


@dataclass(eq=False, kw_only=True)
class LabelledFiles(LabelledRows):
    """Files of labelled questions; for the options see `LabelledRows`.

    A relative path begins at `root`; a table that a row names lies beside the file of the row, or below `root`.
    """

    @property
    def arguments(self) -> str:
        """Words of the command line for these data."""
        return f"data=files {format_overrides({split: getattr(self, split) for split in ('train', 'dev', 'test')})}"

    def is_there(self, place: str) -> bool:
        """Tell whether there is such a file, packed or not."""
        return find_file(self.root, place) is not None

    def refusal(self, wanted: Sequence[str]) -> DataError:
        """Build the error for files that are not there."""
        missing = [place for place in dict.fromkeys(wanted) if not self.is_there(place)]
        if not missing:
            return DataError("no file was given", where="data.train", remedy="Set data.train=FILE and data.dev=FILE")
        return DataError(
            "there is no such file", where=str(self.root / missing[0]), remedy="Check data.train, data.dev"
        )

    def rows(self, place: str, problems: list[Problem]) -> Iterator[LabelledRow]:
        """Yield the rows of a file; see `LabelledRows.rows`.

        Raises:
            DataError: it is missing or damaged.
        """
        path = find_file(self.root, place)
        if path is None:
            raise self.refusal((place,))
        plain, values = read_rows(path, place, problems)
        entries = list(values)
        names = dict.fromkeys(str(name) for entry in entries for name in entry)
        check_columns(names, self.called, str(path))
        yield from (LabelledRow.of(entry, self.called, path.parent, plain=plain) for entry in entries)
        if unread := unknown_columns(names, self.called):
            self.notes.append(Problem(place, "", f"not read: {', '.join(unread)}"))


SAVED = ("dataset_dict.json", "state.json")
"""In a folder that `save_to_disk` wrote."""


@dataclass(eq=False, kw_only=True)
class HubDataset(LabelledRows):
    """A dataset by its name on the hub, or a folder; for the other options see `LabelledRows`.

    Args:
        name: on the hub, or the path of a folder: of files that `datasets.load_dataset` reads, or saved by
            `save_to_disk`.
        subset: of a dataset that has several; the library calls it a configuration.
        revision: of the dataset; None for the newest.
    """

    subset: str | None = None
    revision: str | None = None

    @property
    def arguments(self) -> str:
        """Words of the command line for these data."""
        names = ("name", "subset", "train", "dev", "test")
        return f"data=hub {format_overrides({name: getattr(self, name) for name in names})}"

    def find_place(self, split: str) -> str | None:
        """Find the name of a split there."""
        return super().find_place(split) or next((name for name in USUAL[split] if name in self._tables), None)

    def is_there(self, place: str) -> bool:
        """Tell whether the dataset has such a split."""
        return place in self._tables

    def refusal(self, wanted: Sequence[str]) -> DataError:
        """Build the error for a split that is not there."""
        problem = f"it has the splits {', '.join(self._tables)}"
        return DataError(problem, where=self.name, remedy="Set data.train=SPLIT and data.dev=SPLIT")

    def rows(self, place: str, problems: list[Problem]) -> Iterator[LabelledRow]:
        """Yield the rows of a split; see `LabelledRows.rows`."""
        if place not in self._tables:
            raise self.refusal((place,))
        check_columns(getattr(self._tables[place], "column_names", ()), self.called, f"{self.name}, {place}")
        for values in self._tables[place]:
            yield LabelledRow.of(values, self.called, self.root, plain=False)

    @cached_property
    def _tables(self) -> Mapping[str, Any]:
        """The splits of the dataset, by their names there.

        Raises:
            DataError: there is none of this name, or it cannot be reached.
        """
        if not self.name:
            raise DataError("no dataset was given", where="data.name", remedy="Set data.name=NAME, or a folder")
        import datasets
        from huggingface_hub import constants

        from mate_cli.files.hub import is_reachable

        folder = Path(self.name).expanduser()
        if not folder.exists() and not is_reachable():
            constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True  # or else it is asked for half a minute
        cache = None if "/" in self.name and not folder.exists() else str(Path(default_cache()).expanduser() / "hub")
        try:
            if any((folder / file).is_file() for file in SAVED):
                data: Any = datasets.load_from_disk(str(folder))
            else:
                data = datasets.load_dataset(self.name, self.subset, cache_dir=cache, revision=self.revision)
        except Exception as error:  # a damaged file can make any library fail in any way
            problem = " ".join(str(error).split())[:200] or type(error).__name__
            raise DataError(f"cannot be loaded: {problem}", where=self.name, remedy=self._remedy()) from error
        return data if isinstance(data, Mapping) else {"train": data}

    def _remedy(self) -> str:
        """Suggest what to do where the library finds no such dataset: how it gets here without network."""
        from mate_cli.files.hub import NAME, is_reachable

        if not NAME.fullmatch(self.name) or is_reachable():
            return "Check data.name"
        fetch = f"hf download --repo-type dataset {self.name} --local-dir FOLDER"
        return f"The hub is not reachable: on a machine with network type {fetch}, and set data.name=FOLDER here"
