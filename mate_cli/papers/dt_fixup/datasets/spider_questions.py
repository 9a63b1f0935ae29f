"""The Spider dataset: questions with their queries, and the schemas of the databases.

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
"""Number of databases that are read in parallel."""


@dataclass(eq=False, kw_only=True)
class Spider(Release):
    """Reader of Spider, a dataset of questions about databases with gold SQL queries.

    Subsets are the hardness levels of the queries. A question is named by its file and its index in the file. Its query
    is parsed from the text, like in the official script. A question with an unreadable query is neither trained on nor
    scored.

    Args:
        train_files: training questions. The first file must exist.
        dev_file: questions of the dev split.
        test_file: questions of the test split.
        tables_file: schemas of the databases.
        databases: folder of the databases, each `NAME/NAME.sqlite`.
        values: if true, read the column values of the available databases.
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
        """Note in the record of a run, with the number of databases whose column values were read."""
        schemas = [schema for schema, _ in self._schemas[0].values()] if self.values else []
        return {"databases with values": f"{sum(bool(s.values) for s in schemas)} of {len(schemas)}"} if schemas else {}

    @property
    def split_files(self) -> Mapping[str, str]:
        """File of each split. For the train split, this is the first of its two files."""
        files = {"train": next(iter(self.train_files), None), "dev": self.dev_file, "test": self.test_file}
        return {split: file for split, file in files.items() if file}

    def read(self, split: str, problems: list[Problem]) -> list[TableExample]:
        """Return the valid questions of a split in file order, see `Release.read`."""
        schemas, damaged = self._schemas
        problems += damaged
        examples: list[TableExample] = []
        for file in self.train_files if split == "train" else (self.split_files[split],):
            stem = PurePosixPath(file).stem
            for index, (key, entry) in enumerate(read_entries(file, self.need(file), problems)):
                if damaged and str(entry.get("db_id")) not in schemas:
                    continue  # the problem of the schema is already reported
                with note_damage(file, key, problems):
                    examples.append(self._example(f"{stem}-{index:05}", file, entry, schemas))
        return examples

    def _example(
        self, name: str, file: str, entry: Mapping[str, Any], schemas: Mapping[str, tuple[Schema, Table]]
    ) -> SchemaExample:
        """Convert an entry of a question file to an example with its schema and gold query.

        Raises:
            DamagedEntryError: the entry is unusable.
        """
        question, database = require_text(entry, "question"), require_text(entry, "db_id")
        if database not in schemas:
            raise DamagedEntryError(f"its database has no valid schema: {database!r}")
        schema, table = schemas[database]
        if entry.get("query") is None:
            return schema_example(name, question, schema, table)
        text = require_text(entry, "query")
        if (database, text) not in self._queries:
            self._queries[database, text] = GoldQuery.build(text, schema)
        gold_query = self._queries[database, text]
        if gold_query.problem:
            self.notes.append(Problem(file, name, gold_query.problem))
        return schema_example(name, question, schema, table, gold_query)

    @cached_property
    def _schemas(self) -> tuple[dict[str, tuple[Schema, Table]], list[Problem]]:
        """Valid database schemas by name, each with a table view, and the problems of invalid schemas."""
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

    def _with_values(self, schemas: Mapping[str, tuple[Schema, Table]]) -> dict[str, tuple[Schema, Table]]:
        """Return the schemas, with column values added from the available database files.

        Raises:
            DataError: no database exists, or a file is not a database.
        """
        database_folders = [self.root / folder / self.databases for folder in self.folders]
        candidates = [
            (name, database_folder / name / f"{name}.sqlite")
            for name in schemas
            for database_folder in database_folders
        ]
        files = {name: path for name, path in candidates if PurePosixPath(name).name == name and path.is_file()}
        if not files:
            hint = f"Put the folder {self.databases} of the release there, or set encoding.values=false"
            raise DataError("has no databases to read values from", where=str(self.root), remedy=hint)
        with ThreadPoolExecutor(_READERS) as pool:
            schemas_with_values = pool.map(lambda name: read_values(schemas[name][0], files[name]), files)
            return {**schemas, **{schema.name: (schema, schemas[schema.name][1]) for schema in schemas_with_values}}
