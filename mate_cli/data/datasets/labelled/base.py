"""What files and datasets of labelled rows have in common: cells are found, a development split is set apart."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from mate_cli.data.check import Problem
from mate_cli.data.datasets.labelled.rows import NAMES, LabelledRow, RowError, RowTables, example_of, read_stated_number
from mate_cli.data.datasets.release import Release
from mate_cli.errors import DataError
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.supervision import CellFinder, Mode, supervise
from mate_cli.tables.text import candidate_cells, table_matches

FEW_TABLES = 10
"""Fewer tables than this are not parted: questions are."""


@dataclass(eq=False, kw_only=True)
class LabelledRows(Release):
    """Questions with a table each, row by row; docs/how-to/train_on_your_data.md lists what a row may have.

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

    Raises:
        DataError: rows have no value of a name in `columns`.
    """

    root: Path = Path()
    train: str | None = None
    dev: str | None = None
    test: str | None = None
    columns: Mapping[str, str] | None = None
    find: Literal["auto", "equal", "holding"] = "auto"
    dev_share: Annotated[float, Field(ge=0, lt=1)] = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.called = dict(self.columns or {})
        for name in self.called:
            if name not in NAMES:
                raise DataError(
                    f"rows have no {name}", where="data.columns", remedy=f"Rename one of {', '.join(NAMES)}"
                )
        self._row_tables = RowTables(self.root)
        self._finders: dict[int, CellFinder] = {}
        self._parsed: dict[str, tuple[list[TableExample], list[Problem]]] = {}

    @abstractmethod
    def rows(self, place: str, problems: list[Problem]) -> Iterator[LabelledRow]:
        """The rows of a file or of a split; what is wrong is appended to `problems`.

        Raises:
            DataError: it is missing or damaged.
        """

    @abstractmethod
    def is_there(self, place: str) -> bool:
        """Whether a file or a split is there."""

    @property
    def split_files(self) -> Mapping[str, str]:
        """What holds each split; training also the development split, where that is not named."""
        places = {"train": self.train, "dev": self.dev, "test": self.test}
        if self.dev is None and self.dev_share:
            places["dev"] = self.train
        return {split: place for split, place in places.items() if place is not None}

    def read(self, split: str, problems: list[Problem]) -> list[TableExample]:
        """The sound questions of a split, in their order; see `Release.read`."""
        place = self.split_files[split]
        examples, found = self._read_place(place)
        problems += found
        if self.dev is None and place == self.split_files.get("train") == self.split_files.get("dev"):
            apart = self._set_apart(examples)
            examples = [example for example in examples if (example.example_id in apart) == (split == "dev")]
        return self._in_turn([self._supervised(example, strict=split == "train") for example in examples])

    def _found_splits(self) -> tuple[str, ...]:
        places = {split: place for split, place in self.split_files.items() if self.is_there(place)}
        train = places.get("train")
        if train is not None and places.get("dev") == train and len(self._read_place(train)[0]) == 1:
            del places["dev"]  # one question cannot be parted
        return tuple(places)

    def _read_place(self, place: str) -> tuple[list[TableExample], list[Problem]]:
        if place not in self._parsed:
            problems: list[Problem] = []
            examples = []
            for number, row in enumerate(self.rows(place, problems), 1):
                name = f"{Path(place).stem}-{number}"
                try:
                    examples.append(example_of(row, name, self._row_tables))
                except RowError as error:
                    problems.append(Problem(place, row.text("id") or f"row {number}", str(error)))
            self._parsed[place] = examples, problems
        return self._parsed[place]

    def _set_apart(self, examples: Sequence[TableExample]) -> set[str]:
        """Ids of the questions that are development: whole tables, or conversations, or single questions of few."""
        tables = {example.table.table_id for example in examples}

        def unit(example: TableExample) -> str:
            by_table = len(tables) >= FEW_TABLES
            return example.table.table_id if by_table else example.conversation or example.example_id

        units = sorted(dict.fromkeys(map(unit, examples)), key=lambda name: hashlib.sha256(name.encode()).digest())
        chosen = set(units[: max(1, round(self.dev_share * len(units)))] if len(units) > 1 else ())
        return {example.example_id for example in examples if unit(example) in chosen}

    def _supervised(self, example: TableExample, *, strict: bool) -> TableExample:
        """The question with the cells and the number of its answer, where these are not stated."""
        answer = example.answer
        if answer is None or answer.label is not None or answer.coordinates:
            return example
        table = example.table
        if self.find == "holding" or (self.find == "auto" and table.passages):
            return replace(example, answer=_held(answer, example))
        finder = self._finders.setdefault(id(table), CellFinder(table))
        stated = answer.aggregation
        mode: Mode = "remove_all_strict" if strict else "remove_all"
        found = supervise(answer, finder, mode, partial(read_stated_number, table=table))
        return replace(example, answer=replace(found, aggregation=stated))

    @staticmethod
    def _in_turn(examples: Sequence[TableExample]) -> list[TableExample]:
        """Questions of one conversation know those before them."""
        before: dict[str, list[TableExample]] = {}
        found = []
        for example in examples:
            if not example.conversation:
                found.append(example)
                continue
            earlier = before.setdefault(example.conversation, [])
            last = earlier[-1].answer if earlier else None
            cells = last.coordinates if last else ()
            found.append(replace(example, history=tuple(one.question for one in earlier), previous_cells=cells))
            earlier.append(example)
        return found


def _held(answer: Answer, example: TableExample) -> Answer:
    text, table = " ".join(answer.texts), example.table
    cells = tuple(candidate_cells(table, text))
    source = "table" if table_matches(table, text) else "passage" if cells else "missing"
    return replace(answer, coordinates=cells, source=source)


def typed(options: Mapping[str, Any]) -> str:
    """Options of a dataset as they are typed; those that are not set are left out."""
    return " ".join(f"data.{name}={value}" for name, value in options.items() if value is not None)
