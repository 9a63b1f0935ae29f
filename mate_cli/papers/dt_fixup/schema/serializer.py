"""Serializer of a question and a database schema, whose words, tables and columns are the nodes of a graph.

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
    """[CLS] words [SEP] table [SEP] ... column [SEP]. Every word is tokenized separately.

    The name of each column follows its type. If the types do not fit, they are omitted. Row ids number the nodes from
    1: question words, columns and tables, in schema order. Tables precede columns in the text. [CLS] and [SEP] belong
    to no node. Names and the last [SEP] have segment id 1.

    Args:
        max_nodes: maximum number of nodes. A question with more nodes or too many tokens is not encoded.
        shuffle: if true, shuffle tables and columns in training.
        values: if true, link words of the question to columns that contain them, if the values of the schema are known.
    """

    arrays: ClassVar[Sequence[Array]] = (NODE_RELATIONS, NODE_KINDS, NODE_TABLES, ACTIONS)

    max_nodes: Annotated[int, Field(gt=0, le=MAX_LINES)] = MAX_LINES
    shuffle: bool = False
    values: bool = False

    def __post_init__(self) -> None:
        self._ids: dict[str, np.ndarray] = {}

    @property
    def augmentation(self) -> Augmentation | None:
        """Function that shuffles tables and columns at each use in training. None if `shuffle` is false."""
        return shuffle_names if self.shuffle else None

    @classmethod
    def label_kind(cls, options: Mapping[str, Any]) -> Label:
        """Return "sql", the name of labels that are the grammar actions of the gold query."""
        return "sql"

    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode each example as `TableEncoding`, or return an `EncodingFailure` with the reason, in the same order."""
        schemas = {id(example.schema): example.schema for example in examples if isinstance(example, SchemaExample)}
        schema_relations = {key: SchemaRelations(schema, values=self.values) for key, schema in schemas.items()}
        words = [question_words(example.question) for example in examples]
        names = (column.name for schema in schemas.values() for column in schema.columns)
        self._split({*chain(*words), *chain(*map(item_texts, schemas.values())), *names})
        return [
            self._encode(example, example_words, schema_relations[id(example.schema)])
            if isinstance(example, SchemaExample)
            else EncodingFailure(example.example_id, "it is not a question about a database")
            for example, example_words in zip(examples, words, strict=True)
        ]

    def _split(self, texts: set[str]) -> None:
        """Tokenize the texts that are not yet cached. A text without tokens becomes [EMPTY]."""
        new_texts = sorted(texts - self._ids.keys())
        empty = np.array([self.tokenizer.empty_id], np.int32)
        token_ids = self.tokenizer.pieces(new_texts)
        self._ids |= {text: ids if len(ids) else empty for text, ids in zip(new_texts, token_ids, strict=True)}

    def _encode(
        self, example: SchemaExample, words: list[str], schema_relations: SchemaRelations
    ) -> TableEncoding | EncodingFailure:
        schema = example.schema
        counts = len(words), len(schema.columns), len(schema.tables)
        token_ids = [self._ids[text] for text in (*words, *item_texts(schema))]
        if _length(token_ids, len(words)) > self.max_tokens:
            token_ids[len(words) + len(schema.tables) :] = [self._ids[column.name] for column in schema.columns]
        reason = self._too_large(len(words), sum(counts), _length(token_ids, len(words)))
        if reason:
            return EncodingFailure(example.example_id, reason)
        kinds = np.repeat(np.array([WORD, COLUMN, TABLE], np.int16), counts)
        tables_of_nodes = np.full(len(kinds), NONE, np.int16)
        tables_of_nodes[kinds == COLUMN] = [sum(counts[:2]) + column.table for column in schema.columns]
        more = {NODE_RELATIONS: schema_relations.matrix(words), NODE_KINDS: kinds, NODE_TABLES: tables_of_nodes}
        if example.actions:
            more[ACTIONS] = action_rows(example.actions, schema)
        return self._laid_out(token_ids, *counts).encoding(example.example_id, more=more)

    def _laid_out(self, token_ids: Sequence[np.ndarray], words: int, columns: int, tables: int) -> TokenArrays:
        """Build the input arrays of a question and a schema: words, tables, then columns."""
        names = [*range(words + columns, words + columns + tables), *range(words, words + columns)]
        cls, sep = np.array([[self.tokenizer.cls_id], [self.tokenizer.sep_id]], np.int32)
        parts = [*token_ids[:words], *chain.from_iterable((sep, name) for name in token_ids[words:])]
        rows = [*range(1, words + 1), *chain.from_iterable((0, node + 1) for node in names)]
        parts, rows = [cls, *parts, sep], [0, *rows, 0]
        row_ids = np.repeat(rows, [len(part) for part in parts])
        tokens = TokenArrays(len(row_ids))
        tokens.fill(input_ids=np.concatenate(parts), row_ids=row_ids, column_ids=row_ids > 0)
        tokens.fill(segment_ids=row_ids > words)
        tokens.fill(len(row_ids) - 1, len(row_ids), segment_ids=1)
        return tokens

    def _too_large(self, words: int, nodes: int, length: int) -> str:
        """Describe which limit an example exceeds, or return "" if it can be encoded."""
        if not words:
            return "the question has no words"
        if nodes > self.max_nodes:
            return f"the question has {words} words, the schema {nodes - words} names: more than {self.max_nodes}"
        if length > self.max_tokens:
            return f"the question and the schema need {length} tokens, more than {self.max_tokens}"
        return ""


def _length(token_ids: Sequence[np.ndarray], words: int) -> int:
    """Count the tokens of question words and names, including [CLS] and a [SEP] around each name."""
    return 2 + sum(map(len, token_ids)) + len(token_ids) - words


def shuffle_names(encoding: TableEncoding, generator: np.random.Generator) -> TableEncoding:
    """Shuffle the names of tables and columns, each with its preceding [SEP].

    All other tokens keep their positions.

    Source: Xu et al. 2021 (DT-Fixup), appendix C.1; the released code, which also mixes tables with columns.
    """
    rows, last_index = encoding.row_ids, len(encoding) - 1
    starts = np.flatnonzero((encoding.segment_ids[:-1] == 1) & (rows[:-1] != np.roll(rows, 1)[:-1])) - 1
    if not len(starts):
        return encoding
    names = np.split(np.arange(starts[0], last_index), starts[1:] - starts[0])
    order = [names[index] for index in generator.permutation(len(names))]
    tokens = np.concatenate([np.arange(starts[0]), *order, [last_index]])
    return replace(encoding, **{name: getattr(encoding, name)[tokens] for name in ARRAYS})


def item_texts(schema: Schema) -> list[str]:
    """Return the texts of a schema: table names, then columns as "type name"."""
    return [table.name for table in schema.tables] + [f"{column.kind} {column.name}" for column in schema.columns]


def action_rows(actions: Sequence[Action], schema: Schema) -> np.ndarray:
    """Convert a derivation to decoder targets and inputs, one row per action, Int16 [A, 5].

    The columns are:

    1. index of the applied production in `PRODUCTIONS`; the number of productions for Reduce
    2. the selected column
    3. index of the action that applied the production of the open field
    4. that production
    5. index of the open field's type in `TYPES`

    A missing value is -1.
    """
    states = derivations(schema, tuple(actions))
    rows = [(*encode_action(action), *state.frontier) for action, state in zip(actions, states, strict=False)]
    return np.array(rows, np.int16).reshape(-1, 5)
