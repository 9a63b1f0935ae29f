"""How the words of a question, the columns and the tables of a schema relate: 33 kinds.

Source: Xu et al. 2021 (DT-Fixup), `data/rat.py` of the released code, which numbers them so. A word that a column
holds, and that is neither its name nor a part of it, names it too, as there.
"""

from __future__ import annotations

import numpy as np

from mate_cli.sql.schema import Schema
from mate_cli.tokenization.schema.linking import EXACT, NO_LINK, PARTIAL, NameLinker, ValueLinker

RELATIONS = (
    "column: itself",
    "column: of the same table",
    "column: foreign key, primary of both",
    "column: foreign key",
    "column: other column",
    "table: itself",
    "table: referred to",
    "table: refers",
    "table: both",
    "table: other table",
    "column: primary key of table",
    "column: of table",
    "column: other table",
    "table: its primary key",
    "table: its column",
    "table: other column",
    "word: two or more before",
    "word: before",
    "word: itself",
    "word: after",
    "word: two or more after",
    "word: names table",
    "word: part of table's name",
    "word: not table's name",
    "table: named by word",
    "table: part named by word",
    "table: not named by word",
    "word: names column",
    "word: part of column's name",
    "word: not column's name",
    "column: named by word",
    "column: part named by word",
    "column: not named by word",
)
"""Names of the kinds; the place is the number, 0 to 32. Padding has 0 too, and has to be masked."""

_WORD_DISTANCE, _WORD_TABLE, _TABLE_WORD, _WORD_COLUMN, _COLUMN_WORD = 18, 21, 24, 27, 30
_OFFSET = np.zeros(3, np.uint8)
_OFFSET[[EXACT, PARTIAL, NO_LINK]] = 0, 1, 2


class SchemaRelations:
    """All that is known of a schema before a question is asked.

    Args:
        values: words are linked to the columns that hold them, where the schema has values.
    """

    def __init__(self, schema: Schema, *, values: bool = False) -> None:
        self._columns = len(schema.columns)
        self._values = ValueLinker(schema.values) if values and schema.values else None
        self._linkers = [NameLinker(item.name for item in items) for items in (schema.columns, schema.tables)]
        self._own = _schema_relations(schema)

    def matrix(self, words: list[str]) -> np.ndarray:
        """How each node relates to each, uint8 [K, K]: the words, the columns, the tables, in this order."""
        count = len(words)
        relations = np.zeros((count + len(self._own),) * 2, np.uint8)
        distance = np.arange(count)[None] - np.arange(count)[:, None]
        relations[:count, :count] = _WORD_DISTANCE + distance.clip(-2, 2)
        relations[count:, count:] = self._own
        found, named = (linker.links(words) for linker in self._linkers)
        if self._values:
            found[(found == NO_LINK) & self._values.links(words)] = EXACT
        columns, tables = _OFFSET[found], _OFFSET[named]
        first_table = count + self._columns
        relations[:count, count:first_table] = _WORD_COLUMN + columns
        relations[count:first_table, :count] = _COLUMN_WORD + columns.T
        relations[:count, first_table:] = _WORD_TABLE + tables
        relations[first_table:, :count] = _TABLE_WORD + tables.T
        return relations


def _schema_relations(schema: Schema) -> np.ndarray:
    tables = np.array([column.table for column in schema.columns])
    primary = np.isin(np.arange(len(tables)), schema.primary_keys)
    columns = _column_relations(schema, tables, primary)
    belongs = tables[:, None] == np.arange(len(schema.tables))[None]
    of_table = np.where(belongs, np.where(primary, 10, 11)[:, None], 12)
    return np.block([[columns, of_table], [of_table.T + 3, _table_relations(schema, tables, primary)]]).astype(np.uint8)


def _column_relations(schema: Schema, tables: np.ndarray, primary: np.ndarray) -> np.ndarray:
    """[C, C]; a foreign key inside a table is a column of the same table."""
    keys = np.zeros((len(tables),) * 2, bool)
    for one, other in schema.foreign_keys:
        keys[one, other] = keys[other, one] = True
    found = np.where(keys, np.where(primary, 2, 3)[:, None], 4)
    found = np.where(tables[:, None] == tables[None], 1, found)
    np.fill_diagonal(found, 0)
    return found


def _table_relations(schema: Schema, tables: np.ndarray, primary: np.ndarray) -> np.ndarray:
    """[T + 1, T + 1]; foreign keys count by those of their ends that are primary keys."""
    edges = np.zeros((len(schema.tables),) * 2, bool)
    for pair in schema.foreign_keys:
        for one, other in (pair, pair[::-1]):
            edges[tables[one], tables[other]] |= primary[one]
    found = np.select([edges & edges.T, edges.T, edges], [8, 6, 7], 9)
    np.fill_diagonal(found, 5)
    return found
