"""Questions about a database, of which only the schema is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mate_cli.papers.dt_fixup.sql.exact_match import hardness, queries_match
from mate_cli.papers.dt_fixup.sql.expressions import UnreadableQueryError
from mate_cli.papers.dt_fixup.sql.grammar import Action
from mate_cli.papers.dt_fixup.sql.ir import Query
from mate_cli.papers.dt_fixup.sql.parse import parse
from mate_cli.papers.dt_fixup.sql.schema import Schema
from mate_cli.papers.dt_fixup.sql.tree import UnsupportedQueryError, build_query, oracle_actions
from mate_cli.tables.example import NOT_GIVEN, UNUSABLE, Answer, TableExample
from mate_cli.tables.table import Cell, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaExample(TableExample):
    """A question that is to be answered by a query; its table is a view of the schema, see `schema_table`.

    Args:
        schema: of the database.
        query: that answers it; None where it is not known, or cannot be read.
        actions: that make the query; None where it is not known, or the grammar cannot make it.
    """

    schema: Schema
    query: Query | None = None
    actions: tuple[Action, ...] | None = None

    @property
    def outcome(self) -> str:
        """A query, where the grammar can make it."""
        if self.answer is None:
            return NOT_GIVEN
        reason = "outside the grammar" if self.query else "its query cannot be read"
        return "query" if self.actions else f"{UNUSABLE}{reason}"


@dataclass(frozen=True, slots=True)
class GoldQuery:
    """A query with what is worked out of it once for all questions that it answers; the fields of `SchemaExample`.

    Args:
        problem: why it cannot be read; empty for most.
    """

    sql: str
    query: Query | None = None
    actions: tuple[Action, ...] | None = None
    problem: str = ""

    @classmethod
    def of(cls, sql: str, schema: Schema) -> GoldQuery:
        """Return a query with actions that make one which is the same by exact-set match."""
        try:
            query = parse(sql, schema)
            actions = oracle_actions(query, schema)
        except UnreadableQueryError as error:
            return cls(sql, problem=f"its query cannot be read: {error}")
        except UnsupportedQueryError:
            return cls(sql, query)
        return cls(sql, query, actions if queries_match(build_query(actions, schema), query, schema) else None)


def schema_example(
    name: str, question: str, schema: Schema, table: Table, known: GoldQuery | None = None
) -> SchemaExample:
    """Return a question about a database; how hard its query is makes a subset of questions."""
    if known is None:
        return SchemaExample(name, question, table, schema=schema)
    subsets = (hardness(known.query),) if known.query else ()
    answer = Answer((known.sql,))
    return SchemaExample(
        name, question, table, answer, subsets=subsets, schema=schema, query=known.query, actions=known.actions
    )


def schema_table(schema: Schema) -> Table:
    """Return a schema as a table: a column for each, `table.column` above its type."""
    real = [column for column in schema.columns if column.original != "*"]
    header = tuple(Cell(f"{schema.tables[column.table].original}.{column.original}") for column in real)
    return Table(schema.name, header, (tuple(Cell(column.kind) for column in real),), title=schema.name)


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
    execution_guided: bool = True
