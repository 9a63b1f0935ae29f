"""A database as what `mate predict` is asked about; no SQL is loaded before one is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mate_cli.papers.dt_fixup.databases.open_database import OpenDatabase


@dataclass(frozen=True)
class DatabaseSource:
    """A database, or its schema.

    Args:
        file: of SQLite, or schemas in the layout of Spider's `tables.json`; None where none is asked about.
        schema: which of these.
        execution_guided: of the queries that were found, the best one is taken that the database runs.
    """

    file: str | None = None
    schema: str | None = None
    execution_guided: bool = True

    def open(self, questions: Sequence[str], questions_file: str | None) -> OpenDatabase:
        """Read the questions and the schema, see `open_database`."""
        from mate_cli.papers.dt_fixup.databases.open_database import open_database

        guided = self.execution_guided
        return open_database(str(self.file), self.schema, questions, questions_file, execution_guided=guided)
