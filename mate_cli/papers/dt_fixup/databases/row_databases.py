"""Databases of labelled user questions, whose schemas are read from SQLite files."""

from __future__ import annotations

from dataclasses import dataclass, field

from mate_cli.data.datasets.labelled.rows import LabelledRow, RowError, RowTables
from mate_cli.errors import DataError
from mate_cli.papers.dt_fixup.sql.database import read_database_schema, read_values
from mate_cli.papers.dt_fixup.sql.example import GoldQuery, SchemaExample, schema_example, schema_table
from mate_cli.papers.dt_fixup.sql.schema import Schema
from mate_cli.tables.table import Table


@dataclass
class RowDatabases:
    """Reader of databases whose paths are in labelled rows. Every schema is read only once.

    Args:
        files: finder of the files that rows name.
        shared: path of the database for rows without the field `database`. None if there is none.
        values: whether to also read the texts in the columns.
    """

    metric = "mate_cli.papers.dt_fixup.metrics.exact_set_match.Queries"

    files: RowTables
    shared: str | None = None
    values: bool = False
    _schemas: dict[str, tuple[Schema, Table]] = field(default_factory=dict, init=False)

    def is_query(self, row: LabelledRow) -> bool:
        """Return whether a labelled row contains a question about a database, answered by an SQL query."""
        return "table" not in row.values and (self.shared is not None or "database" in row.values)

    def example(self, row: LabelledRow, name: str) -> tuple[SchemaExample, str]:
        """Convert a labelled row to an example with the schema of its database and the gold query.

        Args:
            row: the row.
            name: id of the example if the row has no id.

        Returns:
            The example, and the reason why its gold query is not usable for training, "" if it is usable or missing.

        Raises:
            RowError: the row has no question, or its database cannot be read.
        """
        question, sql = row.text("question"), row.text("sql")
        if not question:
            raise RowError("has no question")
        schema, table = self._schema(row)
        query = GoldQuery.build(sql, schema) if sql else None
        return schema_example(row.text("id") or name, question, schema, table, query), query.problem if query else ""

    def _schema(self, row: LabelledRow) -> tuple[Schema, Table]:
        path = self.files.find(row.text("database") or self.shared or "", row.folder, "database")
        key = str(path)
        if key not in self._schemas:
            try:
                schema = read_database_schema(path)
                if self.values:
                    schema = read_values(schema, path)
            except DataError as error:
                raise RowError(f"its database cannot be used: {error}") from error
            self._schemas[key] = schema, schema_table(schema)
        return self._schemas[key]
