"""Questions about a database, of which only the schema is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mate_cli.sql.hardness import hardness
from mate_cli.sql.ir import Query
from mate_cli.sql.schema import Schema
from mate_cli.sql.tree import UnsupportedQueryError, oracle_actions
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table

if TYPE_CHECKING:
    from mate_cli.sql.derivation import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaExample(TableExample):
    """A question that is to be answered by a query; its table is a view of the schema, see `schema_table`.

    Args:
        schema: of the database.
        query: that answers it; None where it is not known, or cannot be read.
    """

    schema: Schema
    query: Query | None = None

    @property
    def actions(self) -> tuple[Action, ...] | None:
        """The actions that make the query; None where it is not known, or the grammar lacks a part of it."""
        if self.query is None:
            return None
        try:
            return oracle_actions(self.query, self.schema)
        except UnsupportedQueryError:
            return None


def schema_example(
    name: str, question: str, schema: Schema, table: Table, sql: str = "", query: Query | None = None
) -> SchemaExample:
    """A question about a database; how hard its query is makes a subset of questions.

    Args:
        name: of the question.
        question: as it is asked.
        schema: of the database.
        table: the view of the schema, made once for all its questions.
        sql: the query as it is written; empty where it is not known.
        query: the same, read.
    """
    return SchemaExample(
        name,
        question,
        table,
        Answer((sql,)) if sql else None,
        subsets=(hardness(query),) if query else (),
        schema=schema,
        query=query,
    )


def schema_table(schema: Schema) -> Table:
    """A schema as a table: a column for each, `table.column` above its type."""
    real = [column for column in schema.columns if column.original != "*"]
    header = tuple(Cell(f"{schema.tables[column.table].original}.{column.original}") for column in real)
    return Table(schema.name, header, (tuple(Cell(column.kind) for column in real),), title=schema.name)
