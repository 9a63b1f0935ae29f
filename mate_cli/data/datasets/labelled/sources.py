"""Datasets of users: labelled questions in files or on the Hugging Face Hub.

The readers search the table cells of answers that are given as texts, and split off dev questions if necessary.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any, Literal, Protocol, cast

from pydantic import Field

from mate_cli.data.archive import find_file
from mate_cli.data.check import CheckReport, Problem
from mate_cli.data.datasets.hybridqa.reader import HybridQA
from mate_cli.data.datasets.labelled.rows import (
    FIELD_ALIASES,
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
from mate_cli.files.sandbox import default_cache
from mate_cli.tables.example import UNUSABLE, Answer, TableExample
from mate_cli.tables.supervision import CellFinder, Mode, supervise
from mate_cli.tables.text import candidate_cells, table_matches

MAX_NAMED, MAX_LETTERS = 10, 60
"""Maximum number of unusable questions in a check, and maximum length of their texts."""
CELLS_HINT = "write its cells as coordinates, such as [[0, 1]] (row and column from 0), or fix the answer or the table"
DEFAULT_SPLITS = {"train": ("train",), "dev": ("validation", "dev", "valid", "val"), "test": ("test",)}
"""Splits, each with its usual names in datasets of the `datasets` library."""
MIN_TABLES = 10
"""Minimum number of tables to split by table. Data with fewer tables are split by question."""


class QueryRows(Protocol):
    """Protocol of a reader for text-to-SQL data, whose questions are answered by an SQL query.

    The query is run on an SQLite database.

    A reader is constructed from `RowTables`, `database` and `values`.

    Attributes:
        metric: see `Release`.
    """

    metric: str

    def is_query(self, row: LabelledRow) -> bool:
        """Return whether the question of a row must be answered from a database, not a table."""

    def example(self, row: LabelledRow, name: str) -> tuple[TableExample, str]:
        """Convert a row to a question about a database, and return why training cannot use it.

        The reason is "" for a usable question.

        Raises:
            RowError: the row has no question, or its database cannot be read.
        """


@dataclass(eq=False, kw_only=True)
class LabelledRows(Release):
    """Base class for user data: questions with gold answers, each row with its own table.

    The page docs/how-to/train_on_your_data.md describes the fields.

    Args:
        root: folder for relative paths of files and tables.
        train: file or split with the training questions.
        dev: file or split with the dev questions. None splits off `dev_share` of the training questions.
        test: file or split with the test questions. None for no test split.
        columns: column names in the data by field name, such as {question: query}. None means the default names.
        find: how to find the cells of an answer that is given as texts. "equal": cells equal to a text, one per text.
            "holding": all cells that contain the answer in their text or in a linked passage. "auto": "holding" for
            tables with passages, else "equal".
        dev_share: share of the training tables for the dev split, or of the training questions if there are few tables.
        folds: number of cross-validation folds of the training questions, which replace `dev_share`. None for no folds.
        dev_fold: fold that is the dev split, from 1.
        database: SQLite file for all questions without a table and a database.
        values: whether to read the texts in the columns of databases.
        queries: constructor of the reader of rows about databases, see `QueryRows`. None for no databases.

    Raises:
        DataError: a key of `columns` is not a field of rows, or the fold does not exist.
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
        self.column_names = dict(self.columns or {})
        for name in self.column_names:
            if name not in FIELD_ALIASES:
                hint = f"Rename one of {', '.join(FIELD_ALIASES)}"
                raise DataError(f"rows have no {name}", where="data.columns", remedy=hint)
        if (self.folds is None) != (self.dev_fold is None) or (self.dev_fold or 0) > (self.folds or 0):
            problem = f"there is no fold {self.dev_fold} of {self.folds}".replace("None", "null")
            hint = f"Type data.folds={self.folds or 5} with data.dev_fold=1 to {self.folds or 5}"
            raise DataError(problem, where="data.dev_fold", remedy=hint)
        if self.folds and self.dev:
            raise DataError("folds are parts of data.train", where="data.dev", remedy="Leave it out, or data.folds")
        self._row_tables = RowTables(self.root)
        self._queries = self.queries and self.queries(self._row_tables, self.database, self.values)
        self._parsed: dict[str, tuple[list[TableExample], list[Problem]]] = {}

    @abstractmethod
    def rows(self, source: str, problems: list[Problem]) -> Iterator[LabelledRow]:
        """Yield the labelled questions of a file or split. Invalid rows are added to `problems`.

        Raises:
            DataError: the file or split is missing or damaged.
        """

    @abstractmethod
    def is_there(self, source: str) -> bool:
        """Return whether the source of a split (a file or a split name) exists."""

    @property
    def split_files(self) -> Mapping[str, str]:
        """File or split name from which each split is read.

        If `dev` is not set, the dev split is a part of the training questions.
        """
        sources = {split: self.locate(split) for split in DEFAULT_SPLITS}
        if self.folds or (sources["dev"] is None and self.dev_share):
            sources["dev"] = sources["train"]
        return {split: source for split, source in sources.items() if source is not None}

    def locate(self, split: str) -> str | None:
        """Return the file or split name that the user set for `split`, such as `train`, or None."""
        return cast(str | None, getattr(self, split))

    def check(self) -> CheckReport:
        """Check all rows, and note questions from which a model cannot be trained.

        See `Release.check`.
        """
        report = super().check()
        unusable = [
            Problem(self.split_files[split], example.example_id, describe_unusable(example))
            for split in self.splits
            for example in self.load(split)[0]
            # Unusable queries were noted when they were read.
            if type(example) is TableExample and example.outcome.startswith(UNUSABLE)
        ]
        more = len(unusable) - MAX_NAMED
        notes = [*unusable[:MAX_NAMED], *[Problem(str(self.root), "", f"{more:,} more are unusable")] * (more > 0)]
        return replace(report, notes=(*report.notes, *notes))

    def read(self, split: str, problems: list[Problem]) -> list[TableExample]:
        """Return the valid questions of a split, in the order of the rows. See `Release.read`."""
        source = self.split_files[split]
        examples, source_problems = self._read_source(source)
        problems += source_problems
        if self.dev is None and source == self.split_files.get("train") == self.split_files.get("dev"):
            dev_ids = self._hold_out_dev(examples)
            examples = [example for example in examples if (example.example_id in dev_ids) == (split == "dev")]
        finders: dict[int, CellFinder] = {}
        turns = [self._add_supervision(example, finders, strict=split == "train") for example in examples]
        return self._link_conversations(turns)

    def _found_splits(self) -> tuple[str, ...]:
        sources = {split: source for split, source in self.split_files.items() if self.is_there(source)}
        train = sources.get("train")
        if train is not None and sources.get("dev") == train and len(self._read_source(train)[0]) == 1:
            # A single question cannot be split.
            del sources["dev"]
        return tuple(sources)

    def _read_source(self, source: str) -> tuple[list[TableExample], list[Problem]]:
        if source not in self._parsed:
            problems: list[Problem] = []
            examples: dict[str, TableExample] = {}
            unreadable: dict[str, list[str]] = {}
            for number, row in enumerate(self.rows(source, problems), 1):
                name = f"{Path(source).stem}-{number}"
                try:
                    example = self._example(row, source, name)
                    if examples.setdefault(example.example_id, example) is not example:
                        raise RowError(f"the id {example.example_id!r} occurs twice")
                except RowTableError as error:
                    unreadable.setdefault(str(error), []).append(row.text("id") or f"row {number}")
                except RowError as error:
                    problems.append(Problem(source, row.text("id") or f"row {number}", str(error)))
            for text, keys in unreadable.items():
                more = f" ({len(keys)} rows)" if len(keys) > 1 else ""
                problems.append(Problem(source, keys[0], f"{text}{more}"))
            examples_in_order = [*examples.values()]
            # If a file has no answer at all, its answers are unknown.
            if all(example.answer is None or example.answer.is_null for example in examples_in_order):
                examples_in_order = [replace(example, answer=None) for example in examples_in_order]
            self._parsed[source] = examples_in_order, problems
            self.metric = self._choose_metric(self._parsed[source][0])
        return self._parsed[source]

    def _choose_metric(self, examples: Sequence[TableExample]) -> str:
        """Choose the metric for the type of the answers, and return its import path.

        Types are queries, cells, verdicts on statements and texts in passages.

        Other types are verdicts on statements and texts in passages.
        """
        if self._queries and any(type(example) is not TableExample for example in examples):
            return self._queries.metric
        if any(example.answer and example.answer.label is not None for example in examples):
            return TabFact.metric
        return HybridQA.metric if any(example.table.passages for example in examples) else Release.metric

    def _example(self, row: LabelledRow, source: str, name: str) -> TableExample:
        if self._queries is None or not self._queries.is_query(row):
            return build_example(row, name, self._row_tables)
        example, problem = self._queries.example(row, name)
        if problem:
            self.notes.append(Problem(source, example.example_id, problem))
        return example

    def _hold_out_dev(self, examples: Sequence[TableExample]) -> set[str]:
        """Return the ids of the training questions that become the dev split.

        All questions of a table are selected together. If there are few tables, conversations or questions are
        selected instead.
        """
        tables = {example.table.table_id for example in examples}

        def unit(example: TableExample) -> str:
            by_table = len(tables) >= MIN_TABLES
            return example.table.table_id if by_table else example.conversation or example.example_id

        units = sorted(dict.fromkeys(map(unit, examples)), key=lambda name: hashlib.sha256(name.encode()).digest())
        if self.folds and self.folds > len(units):
            problem, hint = f"there are {self.folds} folds of {len(units)} tables or questions", "Take fewer"
            raise DataError(problem, where="data.folds", remedy=hint)
        share = slice(max(1, round(self.dev_share * len(units))) if len(units) > 1 else 0)
        selected_units = set(units[slice(self.dev_fold - 1, None, self.folds) if self.dev_fold else share])
        return {example.example_id for example in examples if unit(example) in selected_units}

    def _add_supervision(self, example: TableExample, finders: dict[int, CellFinder], *, strict: bool) -> TableExample:
        """Find the table cells and the number that an answer text denotes, as training signal.

        Cells that the user states are not changed.
        """
        answer = example.answer
        if type(example) is not TableExample or answer is None or answer.label is not None:
            return example
        if answer.coordinates or answer.is_null:
            return example
        table = example.table
        if self.find == "holding" or (self.find == "auto" and table.passages):
            return replace(example, answer=_find_answer(answer, example))
        finder = finders.setdefault(id(table), CellFinder(table))
        mode: Mode = "remove_all_strict" if strict else "remove_all"
        supervised = supervise(answer, finder, mode, partial(read_stated_number, table=table))
        return replace(example, answer=replace(supervised, aggregation=answer.aggregation))

    @staticmethod
    def _link_conversations(examples: Sequence[TableExample]) -> list[TableExample]:
        """Set the history and the previous answer of each question in a conversation."""
        turns_by_conversation: dict[str, list[TableExample]] = {}
        turns = []
        for turn in examples:
            if turn.conversation:
                earlier = turns_by_conversation.setdefault(turn.conversation, [])
                answer = earlier[-1].answer if earlier else None
                earlier.append(turn)
                history = tuple(example.question for example in earlier[:-1])
                turn = replace(turn, history=history, previous_cells=answer.coordinates if answer else ())
            turns.append(turn)
        return turns


def describe_unusable(example: TableExample) -> str:
    """Describe why a model cannot be trained on a question, with a hint how to fix its row."""
    texts = " | ".join(example.answer.texts) if example.answer else ""
    description = f'"{shorten(texts, MAX_LETTERS)}" for "{shorten(example.question, MAX_LETTERS)}"'
    return f"{description} is unusable, {example.outcome.removeprefix(UNUSABLE)}: {CELLS_HINT}"


def _find_answer(answer: Answer, example: TableExample) -> Answer:
    text, table = " ".join(answer.texts), example.table
    cells = tuple(candidate_cells(table, text))
    source = "table" if table_matches(table, text) else "passage" if cells else "missing"
    return replace(answer, coordinates=cells, source=source)


def format_overrides(options: Mapping[str, Any]) -> str:
    """Format a dataset's options, except None, as overrides such as `data.train=train.csv`."""
    return " ".join(f"data.{name}={value}" for name, value in options.items() if value is not None)


@dataclass(eq=False, kw_only=True)
class LabelledFiles(LabelledRows):
    """Reader of user files with labelled questions. The options are those of `LabelledRows`.

    Paths of files are relative to `root`. Paths of tables are relative to the folder of the row's file, or to `root`.
    """

    @property
    def arguments(self) -> str:
        """Command-line arguments that select this dataset, such as `data=files data.train=FILE`."""
        return f"data=files {format_overrides({split: getattr(self, split) for split in ('train', 'dev', 'test')})}"

    def is_there(self, source: str) -> bool:
        """Return whether a file exists, also if it is compressed."""
        return find_file(self.root, source) is not None

    def missing_files_error(self, sources: Sequence[str]) -> DataError:
        """Create the error for question files that do not exist, with a hint for the user."""
        for file in sources:
            if not self.is_there(file):
                problem, hint = "there is no such file", "Check data.train, data.dev"
                return DataError(problem, where=str(self.root / file), remedy=hint)
        return DataError("no file was given", where="data.train", remedy="Set data.train=FILE and data.dev=FILE")

    def rows(self, source: str, problems: list[Problem]) -> Iterator[LabelledRow]:
        """Yield the labelled questions of a user file. See `LabelledRows.rows`.

        Raises:
            DataError: the file is missing or damaged.
        """
        path = find_file(self.root, source)
        if path is None:
            raise self.missing_files_error((source,))
        is_plain, values = read_rows(path, source, problems)
        entries = list(values)
        names = dict.fromkeys(str(name) for entry in entries for name in entry)
        check_columns(names, self.column_names, str(path))
        yield from (LabelledRow.build(entry, self.column_names, path.parent, flat=is_plain) for entry in entries)
        if unread_columns := unknown_columns(names, self.column_names):
            self.notes.append(Problem(source, "", f"not read: {', '.join(unread_columns)}"))


SAVED = ("dataset_dict.json", "state.json")
"""Files in a folder that `save_to_disk` wrote."""


@dataclass(eq=False, kw_only=True)
class HubDataset(LabelledRows):
    """A dataset of the Hugging Face Hub, or a local folder.

    For the other options see `LabelledRows`.

    Args:
        name: name on the Hub, or path of a folder with files for `datasets.load_dataset` or from `save_to_disk`.
        subset: configuration of a dataset with several configurations. None for the default.
        revision: revision of the dataset. None for the newest revision.
    """

    subset: str | None = None
    revision: str | None = None

    @property
    def arguments(self) -> str:
        """Command-line arguments that select this dataset, such as `data=hub data.name=NAME`."""
        names = ("name", "subset", "train", "dev", "test")
        return f"data=hub {format_overrides({name: getattr(self, name) for name in names})}"

    def locate(self, split: str) -> str | None:
        """Return the name on the Hub of a split such as "dev", or None if it does not exist."""
        return super().locate(split) or next((name for name in DEFAULT_SPLITS[split] if name in self._tables), None)

    def is_there(self, source: str) -> bool:
        """Return whether the Hub dataset has this split."""
        return source in self._tables

    def missing_files_error(self, sources: Sequence[str]) -> DataError:
        """Create the error for a missing split, which lists the splits that the dataset has."""
        problem = f"it has the splits {', '.join(self._tables)}"
        return DataError(problem, where=self.name, remedy="Set data.train=SPLIT and data.dev=SPLIT")

    def rows(self, source: str, problems: list[Problem]) -> Iterator[LabelledRow]:
        """Yield the labelled questions of a Hub dataset's split. See `LabelledRows.rows`."""
        if source not in self._tables:
            raise self.missing_files_error((source,))
        check_columns(getattr(self._tables[source], "column_names", ()), self.column_names, f"{self.name}, {source}")
        for values in self._tables[source]:
            yield LabelledRow.build(values, self.column_names, self.root, flat=False)

    @cached_property
    def _tables(self) -> Mapping[str, Any]:
        """Loaded splits of the Hub dataset, by their names on the Hub.

        Raises:
            DataError: the dataset does not exist or cannot be downloaded.
        """
        if not self.name:
            raise DataError("no dataset was given", where="data.name", remedy="Set data.name=NAME, or a folder")
        import datasets
        from huggingface_hub import constants

        from mate_cli.files.hub import is_reachable

        folder = Path(self.name).expanduser()
        if not folder.exists() and not is_reachable():
            # Otherwise the library would retry for half a minute.
            constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
        cache = None if "/" in self.name and not folder.exists() else str(Path(default_cache()).expanduser() / "hub")
        try:
            if any((folder / file).is_file() for file in SAVED):
                data: Any = datasets.load_from_disk(str(folder))
            else:
                data = datasets.load_dataset(self.name, self.subset, cache_dir=cache, revision=self.revision)
        # A damaged file can raise any exception in any library.
        except Exception as error:
            problem = " ".join(str(error).split())[:200] or type(error).__name__
            raise DataError(f"cannot be loaded: {problem}", where=self.name, remedy=self._hint()) from error
        return data if isinstance(data, Mapping) else {"train": data}

    def _hint(self) -> str:
        """Return a hint for the error that the dataset was not found on the Hugging Face Hub.

        If downloads are disabled, it has the command to download the dataset on another machine.
        """
        from mate_cli.files.hub import NAME, is_reachable

        if not NAME.fullmatch(self.name) or is_reachable():
            return "Check data.name"
        fetch = f"hf download --repo-type dataset {self.name} --local-dir FOLDER"
        return f"The hub is not reachable: on a machine with network type {fetch}, and set data.name=FOLDER here"
