"""Databases that users ask questions about by `mate predict`.

The SQL modules are imported only if a database is specified, and torch only to answer questions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mate_cli.errors import ConfigError, DataError

if TYPE_CHECKING:
    from mate_cli.papers.dt_fixup.sql.example import OpenDatabase
    from mate_cli.papers.dt_fixup.sql.schema import Schema
    from mate_cli.pipelines.inference.tables import LoadedModel
    from mate_cli.tables.questions import Session

_SCHEMA_FILES = (".json", ".json.gz")


@dataclass(frozen=True)
class DatabaseSource:
    """The database or schema that the options of `mate predict` name, and the questions about it.

    Args:
        file: SQLite file, or schema file in the format of Spider's `tables.json`. None if no database is specified.
        schema: name of the schema in a schema file. None for the only schema.
        execution_guided: whether to answer with the best predicted query that the database executes without error.
    """

    file: str | None = None
    schema: str | None = None
    execution_guided: bool = True

    def open(self, questions: Sequence[str], questions_file: str | None) -> OpenDatabase:
        """Read the questions of `mate predict`, and the schema of the database that they are about.

        Args:
            questions: questions of the command line.
            questions_file: file of additional questions, or None.

        Raises:
            ConfigError: no question is specified, or the schema file contains no schema of this name.
            DataError: no schema can be read.
        """
        from mate_cli.papers.dt_fixup.sql.example import OpenDatabase, schema_example, schema_table
        from mate_cli.pipelines.inference.predict_request import all_questions, record_time

        seconds: dict[str, float] = {}
        path = Path(str(self.file)).expanduser()
        with record_time(seconds, "tables"):
            schema = _schema(path, self.schema)
            table = schema_table(schema)
            texts = [entry.question for entry in all_questions(questions, questions_file)]
            if not texts:
                hint = 'Write question="..." or questions=FILE'
                raise ConfigError("no question given", where="question", remedy=hint)
            examples = [schema_example(f"{n:06}", text, schema, table) for n, text in enumerate(texts)]
        return OpenDatabase(path, schema, examples, seconds, self.execution_guided)

    def answer(self, opened: OpenDatabase, load: Callable[[], LoadedModel], say: Callable[[str], None]) -> Session:
        """Answer the questions about the database with SQL queries. See `answer_database`.

        Args:
            opened: questions and schema.
            load: function that loads the model.
            say: callback for progress messages.
        """
        from mate_cli.papers.dt_fixup.databases.answer_database import answer_database

        return answer_database(opened, load, say)


def _schema(path: Path, name: str | None) -> Schema:
    from mate_cli.files.io_errors import wrap_file_errors
    from mate_cli.papers.dt_fixup.sql.database import is_database, read_database_schema
    from mate_cli.papers.dt_fixup.sql.schema import read_schemas

    hint = "Give a database of SQLite, or a tables.json"
    with wrap_file_errors(path, DataError, "no schema can be read from it", hint):
        if not path.name.lower().endswith(_SCHEMA_FILES) or is_database(path):
            return read_database_schema(path)
        schemas = read_schemas(path)
    if name is None and len(schemas) == 1:
        return next(iter(schemas.values()))
    if name not in schemas:
        names = ", ".join(list(schemas)[:5])
        problem = f"unknown schema {name!r}" if name else "needs a value, as there are several"
        raise ConfigError(problem, where="schema", remedy=f"Write schema=..., one of {len(schemas)}: {names}")
    return schemas[name]
