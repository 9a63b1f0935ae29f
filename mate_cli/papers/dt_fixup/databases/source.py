"""A database as what `mate predict` is asked about; no SQL is loaded before one is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mate_cli.papers.dt_fixup.databases.open_database import OpenDatabase
    from mate_cli.pipelines.inference.load_model import LoadedModel
    from mate_cli.tables.questions import Session


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

    def answer(self, opened: OpenDatabase, load: Callable[[], LoadedModel], say: Callable[[str], None]) -> Session:
        """Answer all questions with SQL, see `answer_database`."""
        from mate_cli.papers.dt_fixup.databases.answer_database import answer_database, require_sql  # torch

        return answer_database(opened, lambda: require_sql(load()), say)
