"""Questions about a database with a known schema."""

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
    """A question about a database, whose gold answer is an SQL query.

    Its table is a view of the schema, see `schema_table`.

    Args:
        schema: schema of the database.
        query: gold query; None if unknown or unreadable.
        actions: derivation of the gold query; None if unknown or not derivable by the grammar.
    """

    schema: Schema
    query: Query | None = None
    actions: tuple[Action, ...] | None = None

    @property
    def outcome(self) -> str:
        """Training category of the question: "query", or the reason why it is unusable."""
        if self.answer is None:
            return NOT_GIVEN
        reason = "outside the grammar" if self.query else "its query cannot be read"
        return "query" if self.actions else f"{UNUSABLE}{reason}"


@dataclass(frozen=True, slots=True)
class GoldQuery:
    """A parsed gold SQL query, shared by all questions with the same gold query.

    Args:
        sql: text of the query.
        query: the parsed query, see `SchemaExample`.
        actions: its derivation, see `SchemaExample`.
        problem: reason why the query cannot be read; usually "".
    """

    sql: str
    query: Query | None = None
    actions: tuple[Action, ...] | None = None
    problem: str = ""

    @classmethod
    def build(cls, sql: str, schema: Schema) -> GoldQuery:
        """Build a gold query from its SQL text, by parsing it and finding its grammar actions.

        There are no actions if the query that they derive would differ by exact-set match.
        """
        try:
            query = parse(sql, schema)
            actions = oracle_actions(query, schema)
        except UnreadableQueryError as error:
            return cls(sql, problem=f"its query cannot be read: {error}")
        except UnsupportedQueryError:
            return cls(sql, query)
        return cls(sql, query, actions if queries_match(build_query(actions, schema), query, schema) else None)


def schema_example(
    name: str, question: str, schema: Schema, table: Table, gold: GoldQuery | None = None
) -> SchemaExample:
    """Create an example of a database question, with the hardness of its gold query as subset.

    Args:
        name: id of the example.
        question: the question.
        schema: schema of the database.
        table: view of the schema, see `schema_table`.
        gold: gold query. None if unknown.
    """
    if gold is None:
        return SchemaExample(name, question, table, schema=schema)
    subsets = (hardness(gold.query),) if gold.query else ()
    answer = Answer((gold.sql,))
    return SchemaExample(
        name, question, table, answer, subsets=subsets, schema=schema, query=gold.query, actions=gold.actions
    )


def schema_table(schema: Schema) -> Table:
    """Represent a schema as a `Table` with one column per database column, for code that expects tables.

    The header is `table.column`, and the only row contains the types.
    """
    columns = [column for column in schema.columns if column.original != "*"]
    header = tuple(Cell(f"{schema.tables[column.table].original}.{column.original}") for column in columns)
    return Table(schema.name, header, (tuple(Cell(column.kind) for column in columns),), title=schema.name)


@dataclass(frozen=True)
class OpenDatabase:
    """The schema of a user's database, and the questions about the database.

    Args:
        path: database file or schema file.
        schema: schema of the database.
        examples: the questions.
        seconds: reading time in seconds, with the key `tables`.
        execution_guided: if true, the best predicted query that the database can run is used.
    """

    path: Path
    schema: Schema
    examples: Sequence[SchemaExample]
    seconds: Mapping[str, float]
    execution_guided: bool = True
