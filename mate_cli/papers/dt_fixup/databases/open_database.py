"""Questions about one's own database, and its schema: read and checked before any network is loaded, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mate_cli.errors import ConfigError, DataError
from mate_cli.files.io_errors import wrap_read_errors
from mate_cli.papers.dt_fixup.sql.database import is_database, read_database_schema
from mate_cli.papers.dt_fixup.sql.example import SchemaExample, schema_example, schema_table
from mate_cli.papers.dt_fixup.sql.schema import Schema, read_schemas
from mate_cli.pipelines.inference.predict_request import all_questions, record_time

_SCHEMA_FILES = (".json", ".json.gz")


@dataclass(frozen=True)
class OpenDatabase:
    """The schema of a database, with the questions about it.

    Args:
        path: its file, or that of schemas.
        seconds: that reading took, as `tables`.
        execution_guided: of the queries that were found, the best one is taken that the database runs.
    """

    path: Path
    schema: Schema
    examples: Sequence[SchemaExample]
    seconds: Mapping[str, float]
    execution_guided: bool = False


def open_database(
    database: str,
    schema: str | None,
    questions: Sequence[str],
    questions_file: str | None = None,
    *,
    execution_guided: bool = False,
) -> OpenDatabase:
    """Read the questions, and the schema of the database.

    Args:
        database: a file of SQLite, or schemas in the layout of Spider's `tables.json`.
        schema: which of these; None for the only one.
        questions: about it.
        questions_file: a file of more, or None.
        execution_guided: see `OpenDatabase`.

    Raises:
        ConfigError: no question is given, or the schema is none of several.
        DataError: no schema can be read.
    """
    seconds: dict[str, float] = {}
    path = Path(database).expanduser()
    with record_time(seconds, "tables"):
        known = _schema(path, schema)
        table = schema_table(known)
        texts = [entry.question for entry in all_questions(questions, questions_file)]
        if not texts:
            raise ConfigError("no question given", where="question", remedy='Write question="..." or questions=FILE')
        examples = [schema_example(f"{n:06}", text, known, table) for n, text in enumerate(texts)]
    return OpenDatabase(path, known, examples, seconds, execution_guided)


def _schema(path: Path, name: str | None) -> Schema:
    with wrap_read_errors(
        path, DataError, "no schema can be read from it", "Give a database of SQLite, or a tables.json"
    ):
        if not path.name.lower().endswith(_SCHEMA_FILES) or is_database(path):
            return read_database_schema(path)
        schemas = read_schemas(path)
    if name is None and len(schemas) == 1:
        return next(iter(schemas.values()))
    if name not in schemas:
        some = ", ".join(list(schemas)[:5])
        problem = f"unknown schema {name!r}" if name else "needs a value, as there are several"
        raise ConfigError(problem, where="schema", remedy=f"Write schema=..., one of {len(schemas)}: {some}")
    return schemas[name]
