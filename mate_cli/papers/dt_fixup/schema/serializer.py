"""Lay out a question and the schema of a database: words, tables and columns are the nodes of a graph.

Source: Xu et al. 2021 (DT-Fixup), appendix C, and the released code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from mate_cli.papers.dt_fixup.schema.relations import (
    ACTIONS,
    COLUMN,
    NODE_KINDS,
    NODE_RELATIONS,
    NODE_TABLES,
    TABLE,
    WORD,
    SchemaRelations,
    question_words,
)
from mate_cli.papers.dt_fixup.sql.example import SchemaExample
from mate_cli.papers.dt_fixup.sql.grammar import NONE, Action, derivations, encode_action
from mate_cli.papers.dt_fixup.sql.schema import Schema
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import ARRAYS, Array, TableEncoding, TokenArrays
from mate_cli.tokenization.serializers.serializer import MAX_LINES, Augmentation, EncodingFailure, Label, Serializer


@dataclass(eq=False)
class SchemaSerializer(Serializer):
    """[CLS] words [SEP] table [SEP] ... column [SEP]: each word split by itself, each column behind its type.

    Row ids number the nodes from 1: the words of the question, the columns, the tables, as the schema numbers them;
    tables stand in front of columns in the text. [CLS] and [SEP] are of no node. What is of segment 1 are the names,
    and the last [SEP]. The types are left out where they do not fit.

    Args:
        max_nodes: with more, or with too many tokens, there is no encoding.
        shuffle: tables and columns stand in a random order whenever they are learnt from.
        values: words of the question are linked to columns that hold them, where the values of a schema are known.
    """

    arrays: ClassVar[Sequence[Array]] = (NODE_RELATIONS, NODE_KINDS, NODE_TABLES, ACTIONS)

    max_nodes: Annotated[int, Field(gt=0, le=MAX_LINES)] = MAX_LINES
    shuffle: bool = False
    values: bool = False

    def __post_init__(self) -> None:
        self._pieces: dict[str, np.ndarray] = {}

    @property
    def augmentation(self) -> Augmentation | None:
        """Random order of tables and columns, if it is wanted."""
        return shuffle_names if self.shuffle else None

    @classmethod
    def marks(cls, options: Mapping[str, Any]) -> Label:
        """Return nothing in the text: the query, as actions."""
        return "sql"

    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode examples; the result has their order and number."""
        schemas = {id(example.schema): example.schema for example in examples if isinstance(example, SchemaExample)}
        known = {key: SchemaRelations(schema, values=self.values) for key, schema in schemas.items()}
        words = [question_words(example.question) for example in examples]
        names = (column.name for schema in schemas.values() for column in schema.columns)
        self._split({*chain(*words), *chain(*map(item_texts, schemas.values())), *names})
        return [
            self._encode(example, example_words, known[id(example.schema)])
            if isinstance(example, SchemaExample)
            else EncodingFailure(example.example_id, "it is not a question about a database")
            for example, example_words in zip(examples, words, strict=True)
        ]

    def _split(self, texts: set[str]) -> None:
        """Remember the pieces of texts; one without any is [EMPTY]."""
        new = sorted(texts - self._pieces.keys())
        empty = np.array([self.tokenizer.empty_id], np.int32)
        pieces = self.tokenizer.pieces(new)
        self._pieces |= {text: ids if len(ids) else empty for text, ids in zip(new, pieces, strict=True)}

    def _encode(
        self, example: SchemaExample, words: list[str], known: SchemaRelations
    ) -> TableEncoding | EncodingFailure:
        schema = example.schema
        counts = len(words), len(schema.columns), len(schema.tables)
        pieces = [self._pieces[text] for text in (*words, *item_texts(schema))]
        if _length(pieces, len(words)) > self.max_tokens:
            pieces[len(words) + len(schema.tables) :] = [self._pieces[column.name] for column in schema.columns]
        reason = self._too_large(len(words), sum(counts), _length(pieces, len(words)))
        if reason:
            return EncodingFailure(example.example_id, reason)
        kinds = np.repeat(np.array([WORD, COLUMN, TABLE], np.int16), counts)
        of_tables = np.full(len(kinds), NONE, np.int16)
        of_tables[kinds == COLUMN] = [sum(counts[:2]) + column.table for column in schema.columns]
        more = {NODE_RELATIONS: known.matrix(words), NODE_KINDS: kinds, NODE_TABLES: of_tables}
        if example.actions:
            more[ACTIONS] = action_rows(example.actions, schema)
        return self._laid_out(pieces, *counts).encoding(example.example_id, more=more)

    def _laid_out(self, pieces: Sequence[np.ndarray], words: int, columns: int, tables: int) -> TokenArrays:
        """Return the tokens of words, tables and columns, in this order."""
        names = [*range(words + columns, words + columns + tables), *range(words, words + columns)]
        cls, sep = np.array([[self.tokenizer.cls_id], [self.tokenizer.sep_id]], np.int32)
        parts = [*pieces[:words], *chain.from_iterable((sep, name) for name in pieces[words:])]
        rows = [*range(1, words + 1), *chain.from_iterable((0, node + 1) for node in names)]
        parts, rows = [cls, *parts, sep], [0, *rows, 0]
        row_ids = np.repeat(rows, [len(part) for part in parts])
        tokens = TokenArrays(len(row_ids))
        tokens.fill(input_ids=np.concatenate(parts), row_ids=row_ids, column_ids=row_ids > 0)
        tokens.fill(segment_ids=row_ids > words)
        tokens.fill(len(row_ids) - 1, len(row_ids), segment_ids=1)
        return tokens

    def _too_large(self, words: int, nodes: int, length: int) -> str:
        """Say why there is no encoding; empty where there is one."""
        if not words:
            return "the question has no words"
        if nodes > self.max_nodes:
            return f"the question has {words} words, the schema {nodes - words} names: more than {self.max_nodes}"
        if length > self.max_tokens:
            return f"the question and the schema need {length} tokens, more than {self.max_tokens}"
        return ""


def _length(pieces: Sequence[np.ndarray], words: int) -> int:
    """Return tokens of words and names: [CLS], and a [SEP] around each name."""
    return 2 + sum(map(len, pieces)) + len(pieces) - words


def shuffle_names(encoding: TableEncoding, generator: np.random.Generator) -> TableEncoding:
    """Put the names of tables and columns, each behind its [SEP], in a random order; all else stays as it is.

    Source: Xu et al. 2021 (DT-Fixup), appendix C.1; the released code, which mixes tables and columns too.
    """
    rows, ends = encoding.row_ids, len(encoding) - 1
    starts = np.flatnonzero((encoding.segment_ids[:-1] == 1) & (rows[:-1] != np.roll(rows, 1)[:-1])) - 1
    if not len(starts):
        return encoding
    names = np.split(np.arange(starts[0], ends), starts[1:] - starts[0])
    order = [names[place] for place in generator.permutation(len(names))]
    tokens = np.concatenate([np.arange(starts[0]), *order, [ends]])
    return replace(encoding, **{name: getattr(encoding, name)[tokens] for name in ARRAYS})


def item_texts(schema: Schema) -> list[str]:
    """List the texts of a schema: the names of its tables, then its columns, each behind its type."""
    return [table.name for table in schema.tables] + [f"{column.kind} {column.name}" for column in schema.columns]


def action_rows(actions: Sequence[Action], schema: Schema) -> np.ndarray:
    """Return a derivation as its decoder is taught it, int16 [A, 5].

    The columns are: the production that is applied, its number in `PRODUCTIONS`, or their number for Reduce; the
    column that is selected; the action that applied the production of which a field is open; that production; the
    type of the field, its number in `TYPES`. What there is not is -1.
    """
    states = derivations(schema, tuple(actions))
    rows = [(*encode_action(action), *state.frontier) for action, state in zip(actions, states, strict=False)]
    return np.array(rows, np.int16).reshape(-1, 5)
