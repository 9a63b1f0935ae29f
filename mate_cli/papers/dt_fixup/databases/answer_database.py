"""Answers to questions about user databases: SQL queries and their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mate_cli.data.loading.in_memory import EncodedExamples
from mate_cli.errors import RunError
from mate_cli.papers.dt_fixup.sql.database import (
    Rows,
    Value,
    is_database,
    run_query,
    with_values,
)
from mate_cli.papers.dt_fixup.sql.example import OpenDatabase, SchemaExample
from mate_cli.papers.dt_fixup.sql.read_only import UnrunnableQueryError
from mate_cli.papers.dt_fixup.sql.tree import PLACEHOLDER
from mate_cli.papers.dt_fixup.sql.write import sql_literal
from mate_cli.pipelines.evaluation.evaluation import predict
from mate_cli.pipelines.inference.predict_request import record_time
from mate_cli.pipelines.inference.tables import LoadedModel
from mate_cli.tables.questions import Session, TableAnswerResult
from mate_cli.tables.table import Cell, Table

_TRIAL_STEPS = 40_000_000
"""Maximum SQLite steps of each candidate query in execution-guided decoding, about one second."""
WITHOUT_VALUES = f"Values are not predicted: put them in place of {sql_literal(PLACEHOLDER)}."


def answer_database(
    database: OpenDatabase, load: Callable[[], LoadedModel], report: Callable[[str], None] = lambda text: None
) -> Session:
    """Predict SQL queries for all questions about a database, and run the queries if possible.

    Predicted queries are executed read-only if the file is a database and not only a schema.

    Args:
        database: questions and schema.
        load: function that loads the model.
        report: callback for progress messages.

    Raises:
        RunError: the run is missing, or its task does not answer with SQL.
        CheckpointError: the checkpoint is missing or damaged.
    """
    path, seconds = database.path, dict(database.seconds)
    report("loading the model")
    with record_time(seconds, "model"):
        model = load()
    task = model.parts.task
    if task.spec.label != "sql":
        problem = f"{type(task).__name__} does not answer with SQL"
        raise RunError(problem, where=model.name, remedy="Use a model of task=sql_parsing, or ask about table=FILE")
    report("answering")
    with record_time(seconds, "answers"):
        schema = database.schema
        if getattr(model.parts.serializer, "values", False) and is_database(path):
            schema = with_values(schema, path)
        examples = [replace(example, schema=schema) for example in database.examples]
        answers = _answer(model, examples, path, execution_guided=database.execution_guided)
    notes = {str(path): list(schema.notes)} if schema.notes else {}
    return Session(model.name, answers, notes, seconds=seconds)


def _answer(
    model: LoadedModel, examples: Sequence[SchemaExample], path: Path, *, execution_guided: bool
) -> list[TableAnswerResult]:
    parts = model.parts
    task: Any = parts.task  # A task that answers with SQL.
    task.runs = (lambda example, sql: _runs(sql, path)) if execution_guided and is_database(path) else None
    encodings = EncodedExamples(examples, parts.serializer)
    predictions = predict(task, parts.data.loader_encoded(encodings), model.settings)
    texts = task.answers(predictions, {example.example_id: example for example in examples})
    return [
        _answer_query(example, texts.get(example.example_id, ""), encodings.failures.get(example.example_id, ""), path)
        for example in examples
    ]


def _runs(sql: str, path: Path) -> bool:
    try:
        run_query(sql, path, steps=_TRIAL_STEPS, rows=1, counting=0)
    except UnrunnableQueryError:
        return False
    return True


def _answer_query(example: SchemaExample, sql: str, failure: str, path: Path) -> TableAnswerResult:
    """Run a predicted query, and return the answer with the result rows.

    Without a database to query, the answer contains the schema instead.
    """
    answer = _showing(TableAnswerResult(str(path), example.question, example.table, (), 0, answer=sql), example.table)
    if not sql:
        return replace(answer, failure=failure or "no query was found")
    warnings = [WITHOUT_VALUES] if sql_literal(PLACEHOLDER) in sql else []
    if is_database(path):
        try:
            answer = _with_rows(answer, run_query(sql, path))
        except UnrunnableQueryError as error:
            warnings.append(f"SQLite failed on this query: {error.problem}.")
    return replace(answer, warnings=tuple(warnings))


def _with_rows(answer: TableAnswerResult, result: Rows) -> TableAnswerResult:
    rows = tuple(tuple(Cell("NULL" if value is None else str(value)) for value in row) for row in result.rows)
    showing = _showing(answer, Table(answer.source, tuple(map(Cell, result.names)), rows))
    return replace(
        showing,
        rows_in_file=len(rows) if result.count is None else result.count,
        more_rows=result.count is None,
        result=tuple(tuple(map(_to_json, row)) for row in result.rows),
    )


def _to_json(value: Value) -> float | str | None:
    """Convert a value of a database to a JSON-serializable value: infinities and NaN become strings."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _showing(answer: TableAnswerResult, table: Table) -> TableAnswerResult:
    return replace(answer, table=table, row_numbers=tuple(range(1, len(table.rows) + 1)), rows_in_file=len(table.rows))
