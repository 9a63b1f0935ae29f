"""The files of Spider: questions with their queries, and the schemas of the databases.

Source: Yu et al. 2018, "Spider: A Large-Scale Human-Labeled Dataset for Complex and Cross-Domain Semantic Parsing and
Text-to-SQL Task".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, ClassVar

from mate_cli.data.check import Problem
from mate_cli.data.datasets.file_formats import DamagedEntryError, note_damage, read_entries, require_text
from mate_cli.data.datasets.release import Release
from mate_cli.errors import DataError
from mate_cli.papers.dt_fixup.sql.database import read_values
from mate_cli.papers.dt_fixup.sql.example import GoldQuery, SchemaExample, schema_example, schema_table
from mate_cli.papers.dt_fixup.sql.schema import Schema
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table

_READERS = 4
"""Databases that are read at once, each by a process of its own."""


@dataclass(eq=False, kw_only=True)
class Spider(Release):
    """Questions about databases of which the schema is known; subsets are how hard their queries are.

    A question is named by its file and its place there. Its query is read from the text, as the official script reads
    it. One that cannot be read teaches nothing and is not scored.

    Args:
        train_files: of which the first has to be there.
        dev_file: questions of the dev split.
        test_file: questions of the test split.
        tables_file: the schemas of their databases.
        databases: the folder of the databases, each `NAME/NAME.sqlite`.
        values: read the texts that columns hold, of the databases that are there.
    """

    folders: ClassVar[Sequence[str]] = ("", "spider", "spider_data")
    metric = "mate_cli.papers.dt_fixup.metrics.exact_set_match.Queries"

    train_files: Sequence[str] = ("train_spider.json",)
    dev_file: str | None = "dev.json"
    test_file: str | None = "test.json"
    tables_file: str = "tables.json"
    databases: str = "database"
    values: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._queries: dict[tuple[str, str], GoldQuery] = {}

    @property
    def facts(self) -> Mapping[str, str]:
        """Number of databases whose values were read."""
        schemas = [schema for schema, _ in self._schemas[0].values()] if self.values else []
        return {"databases with values": f"{sum(bool(s.values) for s in schemas)} of {len(schemas)}"} if schemas else {}

    @property
    def split_files(self) -> Mapping[str, str]:
        """The file of each split, the first one of train."""
        files = {"train": next(iter(self.train_files), None), "dev": self.dev_file, "test": self.test_file}
        return {split: file for split, file in files.items() if file}

    def read(self, split: str, problems: list[Problem]) -> list[TableExample]:
        """Return the sound questions of a split, in the order of the files; see `Release.read`."""
        schemas, damaged = self._schemas
        problems += damaged
        examples: list[TableExample] = []
        for file in self.train_files if split == "train" else (self.split_files[split],):
            stem = PurePosixPath(file).stem
            for place, (key, entry) in enumerate(read_entries(file, self.need(file), problems)):
                if damaged and str(entry.get("db_id")) not in schemas:
                    continue  # what is wrong with the schemas is the cause
                with note_damage(file, key, problems):
                    examples.append(self._example(f"{stem}-{place:05}", file, entry, schemas))
        return examples

    def _example(
        self, name: str, file: str, entry: Mapping[str, Any], schemas: Mapping[str, tuple[Schema, Table]]
    ) -> SchemaExample:
        """Read one entry.

        Raises:
            DamagedEntryError: it cannot be used.
        """
        question, database = require_text(entry, "question"), require_text(entry, "db_id")
        if database not in schemas:
            raise DamagedEntryError(f"its database has no valid schema: {database!r}")
        schema, table = schemas[database]
        if entry.get("query") is None:
            return schema_example(name, question, schema, table)
        text = require_text(entry, "query")
        if (database, text) not in self._queries:
            self._queries[database, text] = GoldQuery.of(text, schema)
        known = self._queries[database, text]
        if known.problem:
            self.notes.append(Problem(file, name, known.problem))
        return schema_example(name, question, schema, table, known)

    @cached_property
    def _schemas(self) -> tuple[dict[str, tuple[Schema, Table]], list[Problem]]:
        """The sound schemas by the names of their databases, each with its view, and what is wrong with others."""
        problems: list[Problem] = []
        file = self.tables_file
        entries = read_entries(file, self.need(file), problems, "a list of schemas")
        schemas: dict[str, tuple[Schema, Table]] = {}
        for key, entry in entries:
            try:
                schema = Schema.from_entry({**entry, "db_id": require_text(entry, "db_id")})
            except (ValueError, DamagedEntryError) as error:
                name = entry.get("db_id")
                problems.append(Problem(file, name if isinstance(name, str) and name else key, str(error)))
                continue
            if schema.name in schemas:
                problems.append(Problem(file, schema.name, "the schema occurs twice"))
            schemas[schema.name] = (schema, schema_table(schema))
        if self.values:
            schemas = self._with_values(schemas)
        return schemas, problems

    def _with_values(self, known: Mapping[str, tuple[Schema, Table]]) -> dict[str, tuple[Schema, Table]]:
        """Return schemas with the values of the databases that are there.

        Raises:
            DataError: there are none, or one is no database.
        """
        places = [self.root / folder / self.databases for folder in self.folders]
        named = [(name, place / name / f"{name}.sqlite") for name in known for place in places]
        files = {name: path for name, path in named if PurePosixPath(name).name == name and path.is_file()}
        if not files:
            remedy = f"Put the folder {self.databases} of the release there, or set encoding.values=false"
            raise DataError("has no databases to read values from", where=str(self.root), remedy=remedy)
        with ThreadPoolExecutor(_READERS) as pool:
            read = pool.map(lambda name: read_values(known[name][0], files[name]), files)
            return {**known, **{schema.name: (schema, known[schema.name][1]) for schema in read}}
