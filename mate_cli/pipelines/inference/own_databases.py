"""Answer questions about one's own databases with SQL, and show what it gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mate_cli.errors import ConfigError, DataError
from mate_cli.files.door import reading
from mate_cli.pipelines.evaluation.evaluation import predict
from mate_cli.pipelines.inference.opened import Model
from mate_cli.pipelines.inference.own_tables import noted_time
from mate_cli.sql.database import Blob, Rows, UnrunnableQueryError, Value, is_database, read_database_schema, run_query
from mate_cli.sql.example import SchemaExample, schema_example, schema_table
from mate_cli.sql.schema import Schema, read_schemas
from mate_cli.sql.tree import PLACEHOLDER
from mate_cli.sql.values import with_values
from mate_cli.sql.write import sql_literal
from mate_cli.tables.answered import Session, TableQuestion
from mate_cli.tables.asked import read_questions
from mate_cli.tables.read import valid
from mate_cli.tables.table import Cell, Table

_TRIAL_SECONDS = 1.0
"""For each query that is tried before one is chosen."""
_SCHEMA_FILES = (".json", ".json.gz")
WITHOUT_VALUES = f"Values are not predicted: put them where {sql_literal(PLACEHOLDER)} stands."


@dataclass(frozen=True)
class AskingDatabase:
    """What is asked of a database.

    Args:
        database: a file of SQLite, or schemas in the layout of Spider's `tables.json`.
        schema: which of these; None for the only one.
        questions: about it.
        questions_file: a file of more, or None.
        execution_guided: of the queries that were found, the best one is taken that the database runs.
    """

    database: str
    schema: str | None = None
    questions: Sequence[str] = ()
    questions_file: str | None = None
    execution_guided: bool = False


def answer_database(
    asking: AskingDatabase, load: Callable[[], Model], say: Callable[[str], None] = lambda text: None
) -> Session:
    """Answer all questions about a database; a query is run where the database is there, and only reads.

    Args:
        asking: the questions and the database.
        load: loads what answers, once the schema is read.
        say: is told what is being done.

    Raises:
        ConfigError: nothing is asked, or the schema is none of several.
        DataError: no schema can be read.
        RunError: there is no such run, or it does not answer with SQL.
        CheckpointError: there is no such checkpoint.
    """
    seconds: dict[str, float] = {}
    path = Path(asking.database).expanduser()
    with noted_time(seconds, "tables"):
        schema = _schema(path, asking.schema)
        table = schema_table(schema)
        questions = _questions(asking)
        examples = [schema_example(f"{n:06}", text, schema, table) for n, text in enumerate(questions)]
    say("loading the model")
    with noted_time(seconds, "model"):
        model = load()
    say("")
    with noted_time(seconds, "answers"):
        answers = _answer(model, examples, path, execution_guided=asking.execution_guided)
    notes = {str(path): list(schema.notes)} if schema.notes else {}
    return Session(model.name, answers, notes, seconds=seconds)


def _questions(asking: AskingDatabase) -> list[str]:
    if not all(map(str.strip, asking.questions)):
        raise ConfigError("is blank", where="question", remedy='Write question="..."')
    asked = [valid(question) for question in asking.questions]
    asked += [one.question for one in read_questions(asking.questions_file)] if asking.questions_file else []
    if not asked:
        raise ConfigError("nothing is asked", where="question", remedy='Write question="..." or questions=FILE')
    return asked


def _schema(path: Path, name: str | None) -> Schema:
    with reading(path, DataError, "no schema can be read from it", "Give a database of SQLite, or a tables.json"):
        if not path.name.lower().endswith(_SCHEMA_FILES):
            return read_database_schema(path)
        schemas = read_schemas(path)
    if name is None and len(schemas) == 1:
        return next(iter(schemas.values()))
    if name not in schemas:
        some = ", ".join(list(schemas)[:5])
        problem = f"there is no {name!r}" if name else "has to be said, there are several"
        raise ConfigError(problem, where="schema", remedy=f"Write schema=..., one of {len(schemas)}: {some}")
    return schemas[name]


def _answer(
    model: Model, examples: Sequence[SchemaExample], path: Path, *, execution_guided: bool
) -> list[TableQuestion]:
    parts, task = model.parts, model.parts.task
    task.runnable = True
    if getattr(parts.serializer, "values", False) and is_database(path):
        known = with_values(examples[0].schema, path)
        examples = [replace(example, schema=known) for example in examples]
    task.runs = (lambda example, sql: _runs(sql, path)) if execution_guided and is_database(path) else None
    with TemporaryDirectory() as folder:  # other people's questions are nothing to keep
        loader = parts.data.loader_of(list(examples), "questions", Path(folder))
        encodings: Any = loader.dataset.encodings  # type: ignore[attr-defined]
        found = predict(task, loader, model.config)
    texts = task.answers(found, {example.example_id: example for example in examples})
    return [
        _answered(example, texts.get(example.example_id, ""), encodings.failures.get(example.example_id, ""), path)
        for example in examples
    ]


def _runs(sql: str, path: Path) -> bool:
    try:
        run_query(sql, path, seconds=_TRIAL_SECONDS, rows=1, counting=0)
    except UnrunnableQueryError:
        return False
    return True


def _answered(example: SchemaExample, sql: str, failure: str, path: Path) -> TableQuestion:
    """The answer with the rows of its query, or with the schema where there are none to show."""
    answered = _showing(TableQuestion(str(path), example.question, example.table, (), 0, text=sql), example.table)
    if not sql:
        return replace(answered, failure=failure or "no query was found")
    warnings = [WITHOUT_VALUES] if sql_literal(PLACEHOLDER) in sql else []
    if is_database(path):
        try:
            answered = _with_rows(answered, run_query(sql, path))
        except UnrunnableQueryError as error:
            warnings.append(f"SQLite does not answer this query: {error.problem}.")
    return replace(answered, warnings=tuple(warnings))


def _with_rows(answered: TableQuestion, found: Rows) -> TableQuestion:
    rows = tuple(tuple(Cell("NULL" if value is None else str(value)) for value in row) for row in found.rows)
    showing = _showing(answered, Table(answered.source, tuple(map(Cell, found.names)), rows))
    return replace(
        showing,
        rows_in_file=len(rows) if found.count is None else found.count,
        more_rows=found.count is None,
        result=tuple(tuple(map(_plain, row)) for row in found.rows),
    )


def _plain(value: Value) -> float | str | None:
    """A value of a database as JSON can hold it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(value) if isinstance(value, Blob) else value


def _showing(answered: TableQuestion, table: Table) -> TableQuestion:
    return replace(
        answered, table=table, row_numbers=tuple(range(1, len(table.rows) + 1)), rows_in_file=len(table.rows)
    )
