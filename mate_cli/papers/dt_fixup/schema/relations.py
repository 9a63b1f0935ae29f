"""Relations of the words of a question, the columns and the tables of a schema: 33 kinds, and the links behind them.

Source: Xu et al. 2021 (DT-Fixup), `data/rat.py` of the released code, which numbers them so. A word that a column
holds, and that is neither its name nor a part of it, names it too, as there.
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
"""What a node is: a word of the question, a column, a table; 0 where there is no node."""

NODE_RELATIONS = Array(("K", "K"), "uint8", name="relations")
"""How node i, which asks, relates to node j, which is asked: see `RELATIONS`; all nodes relate."""
NODE_KINDS = Array(("K",), "int8", name="node_kinds")
"""What each node is. The pieces of a node lie side by side, but those of tables in front of those of columns, whose
nodes come first."""
NODE_TABLES = Array(("K",), "int16", fill=-1, name="node_tables")
"""Of each column's node, the place of its table's node, from 0; -1 of other nodes."""
ACTIONS = Array(("A", 5), "int16", fill=-1, name="actions")
"""How the query is made, see `action_rows`."""

NO_LINK, PARTIAL, EXACT = range(3)
"""How a word and a name go together."""

_WORD = re.compile(r"\d+(?:[.,:]\d+)*|\w+(?:[-']\w+)*|[^\w\s]")
_NUMBER = re.compile(r"-?\d+(?:[.,:]\d+)*")
_YEAR = re.compile(r"(1[6-9]|2[01])\d\d")
_WORDS = """
a an of be 's is me it as in on do to ok or at for the and how are out all with have that this what
"""
_SAY_NOTHING = frozenset(_WORDS.split())
"""Part of a name is none of it where it is one of these words."""
_SHORTEST = 2
"""Letters of a part of a name."""


def question_words(question: str) -> list[str]:
    """Return the words, numbers and signs of a question."""
    return _WORD.findall(question)


class NameLinker:
    """Finds names in questions.

    Args:
        names: in words; one without letters and digits, such as "*", is never found.
    """

    def __init__(self, names: Iterable[str]) -> None:
        stems = [tuple(_stem(word) for word in question_words(name) if word.strip("*_")) for name in names]
        self._names = [" ".join(parts) for parts in stems]
        self._lengths = [len(parts) for parts in stems]
        self._exact: dict[str, list[int]] = defaultdict(list)
        for place, name in enumerate(self._names):
            if name:
                self._exact[name].append(place)

    def links(self, words: Sequence[str]) -> np.ndarray:
        """Link each word to each name: `NO_LINK`, `PARTIAL` or `EXACT`, uint8 [words, names].

        Where several words are a name, no word of them but the last is looked at by itself. A part of a name is a run
        of words whose text stands in it, and of a word and a name the link that is found first counts.
        """
        stems = [_in_question(word) for word in words]
        links = np.zeros((len(stems), len(self._names)), np.uint8)
        start = 0
        while start < len(stems):
            start = self._link_from(start, stems, links)
        return links

    def _link_from(self, start: int, stems: Sequence[str], links: np.ndarray) -> int:
        """Link the words that begin at a place; return the place to go on from."""
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
                if len(part) >= _SHORTEST and part in text and part not in _SAY_NOTHING:
                    _mark(links[start:end, name], PARTIAL)
        return furthest


class ValueLinker:
    """Finds words of questions among the values of columns.

    Args:
        values: the texts that each column holds.
    """

    def __init__(self, values: Sequence[Iterable[str]]) -> None:
        self._count = len(values)
        self._columns: dict[str, list[int]] = defaultdict(list)
        for column, texts in enumerate(values):
            for word in {word.lower() for text in texts for word in question_words(text)}:
                if len(word) >= _SHORTEST and word not in _SAY_NOTHING:
                    self._columns[word].append(column)

    def links(self, words: Sequence[str]) -> np.ndarray:
        """Find the columns that hold each word, Bool [words, columns]."""
        links = np.zeros((len(words), self._count), bool)
        for place, word in enumerate(words):
            links[place, self._columns.get(word.lower(), [])] = True
        return links


def _mark(links: np.ndarray, kind: int) -> None:
    links[links == NO_LINK] = kind


def _in_question(word: str) -> str:
    """Return the stem of a word; of numbers, "year" or "number", which names of columns may have in them."""
    if _YEAR.fullmatch(word):
        return "year"
    return "number" if _NUMBER.fullmatch(word) else _stem(word)


def _stem(word: str) -> str:
    return word.lower() if word.lower() in _SAY_NOTHING else stem(word.lower())


RELATIONS = 33
"""Kinds of relations of node i, which asks, to node j, which is asked; padding has 0 too, and has to be masked.

0 to 4, columns: itself, of the same table, foreign key and primary, foreign key, other; 5 to 9, tables: itself,
referred to, refers, both, other; 10 to 12, a column and its table: primary key, column, other; 13 to 15, a table and
its column; 16 to 20, words: two or more before, before, itself, after, two or more after; 21 to 23, a word and a table:
its name, part of it, no link; 24 to 26, a table and a word; 27 to 29, a word and a column; 30 to 32, a column and a
word.
"""
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
        """Relate each node to each, uint8 [K, K]: the words, the columns, the tables, in this order."""
        count = len(words)
        relations = np.zeros((count + len(self._own),) * 2, np.uint8)
        distance = np.arange(count)[None] - np.arange(count)[:, None]
        relations[:count, :count] = _WORD_DISTANCE + distance.clip(-2, 2)
        relations[count:, count:] = self._own
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
    """Return [C, C]; a foreign key inside a table is a column of the same table."""
    keys = np.zeros((len(tables),) * 2, bool)
    for source, target in schema.foreign_keys:
        keys[source, target] = keys[target, source] = True
    relations = np.where(keys, np.where(primary, 2, 3)[:, None], 4)
    relations = np.where(tables[:, None] == tables[None], 1, relations)
    np.fill_diagonal(relations, 0)
    return relations


def _table_relations(schema: Schema, tables: np.ndarray, primary: np.ndarray) -> np.ndarray:
    """Return [T + 1, T + 1]; foreign keys count by those of their ends that are primary keys."""
    edges = np.zeros((len(schema.tables),) * 2, bool)
    for pair in schema.foreign_keys:
        for source, target in (pair, pair[::-1]):
            edges[tables[source], tables[target]] |= primary[source]
    relations = np.select([edges & edges.T, edges.T, edges], [8, 6, 7], 9)
    np.fill_diagonal(relations, 5)
    return relations
