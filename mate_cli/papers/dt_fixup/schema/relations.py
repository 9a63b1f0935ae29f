"""The 33 relations between question words, columns and tables, and schema linking.

Source: Xu et al. 2021 (DT-Fixup), `data/rat.py` of the released code, with the same numbers. A word that occurs in the
values of a column, but not in its name, is linked like the full name, as in the released code.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from mate_cli.papers.dt_fixup.sql.schema import Schema
from mate_cli.tokenization.fitting.truncation import stem
from mate_cli.tokenization.layout import Array

WORD, COLUMN, TABLE = 1, 2, 3
"""Type of a node: question word, column or table; 0 for padding nodes."""

NODE_RELATIONS = Array(("K", "K"), "uint8", name="relations")
"""Relation of node i (query) to node j (key), see `RELATIONS`.

All pairs of nodes have a relation.
"""
NODE_KINDS = Array(("K",), "int8", name="node_kinds")
"""Type of each node. The tokens of a node are adjacent.

Columns precede tables among the nodes. Tables precede columns among the tokens.
"""
NODE_TABLES = Array(("K",), "int16", fill=-1, name="node_tables")
"""Index of the table node of each column node, from 0; -1 for other nodes."""
ACTIONS = Array(("A", 5), "int16", fill=-1, name="actions")
"""Derivation of the gold query, see `action_rows`."""

NO_LINK, PARTIAL, EXACT = range(3)
"""Match between a word and a name."""

_WORD = re.compile(r"\d+(?:[.,:]\d+)*|\w+(?:[-']\w+)*|[^\w\s]")
_NUMBER = re.compile(r"-?\d+(?:[.,:]\d+)*")
_YEAR = re.compile(r"(1[6-9]|2[01])\d\d")
_WORDS = """
a an of be 's is me it as in on do to ok or at for the and how are out all with have that this what
"""
_STOP_WORDS = frozenset(_WORDS.split())
"""Stop words: one of these words alone never counts as a partial match or as a value."""
_SHORTEST = 2
"""Minimum length in characters of a partial match or a value."""


def question_words(question: str) -> list[str]:
    """Return the words, numbers and punctuation marks of a question."""
    return _WORD.findall(question)


class NameLinker:
    """Finds the names of tables and columns in questions (schema linking).

    Args:
        names: names of words separated by spaces. A name without letters and digits, such as "*", is never found.
    """

    def __init__(self, names: Iterable[str]) -> None:
        stems = [tuple(_stem(word) for word in question_words(name) if word.strip("*_")) for name in names]
        self._names = [" ".join(parts) for parts in stems]
        self._lengths = [len(parts) for parts in stems]
        self._exact: dict[str, list[int]] = defaultdict(list)
        for index, name in enumerate(self._names):
            if name:
                self._exact[name].append(index)

    def links(self, words: Sequence[str]) -> np.ndarray:
        """Link each word to each name: `NO_LINK`, `PARTIAL` or `EXACT`, UInt8 [words, names].

        After several consecutive words that equal a name, matching continues with the next word. Consecutive words
        whose text occurs in a name are a partial match. The first link found between a word and a name is final.
        """
        stems = [_in_question(word) for word in words]
        links = np.zeros((len(stems), len(self._names)), np.uint8)
        start = 0
        while start < len(stems):
            start = self._link_from(start, stems, links)
        return links

    def _link_from(self, start: int, stems: Sequence[str], links: np.ndarray) -> int:
        """Link the question words that start at `start` to a schema name with the same stems.

        Return the index of the next word to try. If no words equal a name, words that occur in a name are linked to it
        as a partial match.

        Args:
            start: index of the first word.
            stems: stems of all words.
            links: links to update, UInt8 [words, names].
        """
        furthest = start + 1
        for end in range(len(stems), start, -1):
            for name in self._exact.get(" ".join(stems[start:end]), ()):
                _mark(links[start:end, name], EXACT)
                furthest = max(furthest, end)
        if furthest > start + 1:
            return furthest
        for name, (text, length) in enumerate(zip(self._names, self._lengths, strict=True)):
            for end in range(min(start + length, len(stems)), start, -1):
                part = " ".join(stems[start:end])
                if len(part) >= _SHORTEST and part in text and part not in _STOP_WORDS:
                    _mark(links[start:end, name], PARTIAL)
        return furthest


class ValueLinker:
    """Finds question words among the values of columns (schema linking).

    Args:
        values: the texts that each column contains.
    """

    def __init__(self, values: Sequence[Iterable[str]]) -> None:
        self._count = len(values)
        self._columns: dict[str, list[int]] = defaultdict(list)
        for column, texts in enumerate(values):
            for word in {word.lower() for text in texts for word in question_words(text)}:
                if len(word) >= _SHORTEST and word not in _STOP_WORDS:
                    self._columns[word].append(column)

    def links(self, words: Sequence[str]) -> np.ndarray:
        """Return whether the values of each column contain each question word, Bool [words, columns]."""
        links = np.zeros((len(words), self._count), bool)
        for index, word in enumerate(words):
            links[index, self._columns.get(word.lower(), [])] = True
        return links


def _mark(links: np.ndarray, kind: int) -> None:
    links[links == NO_LINK] = kind


def _in_question(word: str) -> str:
    """Return the form in which a question word is compared with names: "year" or "number" for a number, else its stem.

    Columns with numbers often have such names.
    """
    if _YEAR.fullmatch(word):
        return "year"
    return "number" if _NUMBER.fullmatch(word) else _stem(word)


def _stem(word: str) -> str:
    return word.lower() if word.lower() in _STOP_WORDS else stem(word.lower())


RELATIONS = 33
"""Number of relations of node i (query) to node j (key).

Padding also has relation 0 and must be masked. The ids by types of nodes i and j:

- 0 to 4, column and column: itself, same table, foreign key with primary key i, other foreign key, other
- 5 to 9, table and table: itself, i refers to j, j refers to i, both, other
- 10 to 12, column and table: primary key of the table, column of the table, other
- 13 to 15, table and column: the same
- 16 to 20, word and word: j two or more positions before i, one before, itself, one after, two or more after
- 21 to 23, word and table: exact name, partial name, no link
- 24 to 26, table and word: the same
- 27 to 29, word and column: the same
- 30 to 32, column and word: the same
"""
_WORD_DISTANCE, _WORD_TABLE, _TABLE_WORD, _WORD_COLUMN, _COLUMN_WORD = 18, 21, 24, 27, 30
_OFFSET = np.zeros(3, np.uint8)
_OFFSET[[EXACT, PARTIAL, NO_LINK]] = 0, 1, 2


class SchemaRelations:
    """The relations between the columns and tables of a schema, which are equal for all questions.

    Args:
        values: if true, link words to the columns that contain them, if the schema has values.
    """

    def __init__(self, schema: Schema, *, values: bool = False) -> None:
        self._columns = len(schema.columns)
        self._values = ValueLinker(schema.values) if values and schema.values else None
        self._linkers = [NameLinker(item.name for item in items) for items in (schema.columns, schema.tables)]
        self._schema_matrix = _schema_relations(schema)

    def matrix(self, words: list[str]) -> np.ndarray:
        """Return the relation id of each pair of nodes of a question and its schema, UInt8 [K, K].

        Nodes are the words, the columns and the tables, in this order.
        """
        count = len(words)
        relations = np.zeros((count + len(self._schema_matrix),) * 2, np.uint8)
        distance = np.arange(count)[None] - np.arange(count)[:, None]
        relations[:count, :count] = _WORD_DISTANCE + distance.clip(-2, 2)
        relations[count:, count:] = self._schema_matrix
        column_links, table_links = (linker.links(words) for linker in self._linkers)
        if self._values:
            column_links[(column_links == NO_LINK) & self._values.links(words)] = EXACT
        columns, tables = _OFFSET[column_links], _OFFSET[table_links]
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
    """Compute the ids of the relations between columns, [C, C].

    A foreign key within a table counts as "same table".
    """
    keys = np.zeros((len(tables),) * 2, bool)
    for source, target in schema.foreign_keys:
        keys[source, target] = keys[target, source] = True
    relations = np.where(keys, np.where(primary, 2, 3)[:, None], 4)
    relations = np.where(tables[:, None] == tables[None], 1, relations)
    np.fill_diagonal(relations, 0)
    return relations


def _table_relations(schema: Schema, tables: np.ndarray, primary: np.ndarray) -> np.ndarray:
    """Compute the ids of the relations between tables, [T + 1, T + 1].

    A foreign key is directed by which of its ends are primary keys.
    """
    edges = np.zeros((len(schema.tables),) * 2, bool)
    for pair in schema.foreign_keys:
        for source, target in (pair, pair[::-1]):
            edges[tables[source], tables[target]] |= primary[source]
    relations = np.select([edges & edges.T, edges.T, edges], [8, 6, 7], 9)
    np.fill_diagonal(relations, 5)
    return relations
