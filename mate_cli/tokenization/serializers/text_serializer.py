"""Base class of serializers that encode the text of a question and of table cells as one token sequence."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from mate_cli.tables.example import TableExample, group_by_table
from mate_cli.tables.table import Table
from mate_cli.tokenization.expansion import Expander, Parts
from mate_cli.tokenization.layout import TableEncoding
from mate_cli.tokenization.serializers.lexical import LexicalTable
from mate_cli.tokenization.serializers.serializer import MAX_LINES, EncodingFailure, Serializer
from mate_cli.tokenization.table_pieces import PieceCache, TableFacts

_TABLES_AT_ONCE = 64

Lines = Annotated[int, Field(gt=0, le=MAX_LINES)]
Additions = Callable[[str], Mapping[str, Parts]]


class CannotEncodeError(Exception):
    """An example cannot be encoded. The message is the reason."""


@dataclass(frozen=True, slots=True)
class TextInput:
    """An example, and the texts that its encoding consists of, before they are tokenized.

    Args:
        example: example to encode.
        facts: facts of its table, shared by all examples of the table.
        prefix: texts before the table.
        changes: expanded text of cells, by cell index.
        lexical: function that returns the lexical statistics of the table, computed on the first call.
    """

    example: TableExample
    facts: TableFacts
    prefix: tuple[str, ...]
    changes: Mapping[int, Parts]
    lexical: Callable[[], LexicalTable]

    def texts(self) -> Iterator[str]:
        """Yield the texts of an example that must be tokenized, in addition to the texts of `facts`."""
        yield from self.prefix
        for parts in self.changes.values():
            yield from parts
        if self.example.answer:
            yield from self.example.answer.texts


@dataclass(eq=False)
class TextSerializer(Serializer):
    """Base class of serializers that encode a question and table cells as one token sequence.

    Args:
        sentences: number of sentences of linked passages to append to cells. 0 appends none.
        entity_titles: whether to put the title of each linked page before its sentences.
        max_rows: maximum number of body rows, at most 255.
        max_columns: maximum number of columns, at most 255. A wider table cannot be encoded.
        lexical_features: whether to add lexical features, which score the words of each cell, its row and its column
            against the question. Words of passages count if passages are read.
    """

    facts_of: ClassVar[type[TableFacts]] = TableFacts
    """Class of the facts that are computed once per table."""

    sentences: Annotated[int, Field(ge=0)] = 5
    entity_titles: bool = False
    max_rows: Lines = MAX_LINES
    max_columns: Lines = MAX_LINES
    lexical_features: bool = False

    def __post_init__(self) -> None:
        self._cache = PieceCache(self.tokenizer)

    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode each example as `TableEncoding`, or return an `EncodingFailure` with the reason, in the same order.

        Examples of one table are encoded together, so the facts of the table are computed once.
        """
        results: dict[int, TableEncoding | EncodingFailure] = {}
        groups = group_by_table(examples)
        for start in range(0, len(groups), _TABLES_AT_ONCE):
            indices = [index for group in groups[start : start + _TABLES_AT_ONCE] for index in group]
            readings = self._make_inputs([examples[index] for index in indices])
            results.update((index, self._encode(reading)) for index, reading in zip(indices, readings, strict=True))
        return [results[index] for index in range(len(examples))]

    def additions(self, table: Table) -> Additions:
        """Return a function that maps a question to the text appended to cells of `table`, by link of the cell."""
        if self.sentences and table.passages:
            return Expander(table.passages, self.sentences, titles=self.entity_titles).choose
        return lambda question: {}

    def read_of(self, example: TableExample) -> Table:
        """Return the part of an example's table that is encoded.

        By default it is the whole table. Subclasses may select rows.
        """
        return example.table

    def find_additions(self, example: TableExample) -> Mapping[str, Parts]:
        """Return the passage texts to append to cells of an example, keyed by passage link."""
        return self.additions(self.read_of(example))(example.question)

    @property
    def reads_passages(self) -> bool:
        """True if text of linked passages is appended to cells."""
        return self.sentences > 0

    def _drop_passages(self, table: Table) -> Table:
        return table if self.reads_passages else replace(table, passages={})

    @abstractmethod
    def _prefix_texts(self, example: TableExample) -> tuple[str, ...]:
        """Return the texts that precede the table in the input, such as question and title."""

    @abstractmethod
    def _lay_out(self, reading: TextInput) -> TableEncoding:
        """Build the encoding of an example from the tokens of its question and its table.

        Raises:
            CannotEncodeError: the example cannot be encoded.
        """

    def _make_inputs(self, examples: Sequence[TableExample]) -> list[TextInput]:
        tables = {id(example.table): example.table for example in examples}
        facts_by_table = {key: self.facts_of(table, self.max_rows) for key, table in tables.items()}
        additions = {key: self.additions(table) for key, table in tables.items()}
        lexical = {key: cache(partial(LexicalTable, self._drop_passages(table))) for key, table in tables.items()}
        readings = []
        for example in examples:
            key = id(example.table)
            reads_all = self.read_of(example) is example.table
            texts = additions[key](example.question) if reads_all else self.find_additions(example)
            changes = facts_by_table[key].changes(texts)
            readings.append(TextInput(example, facts_by_table[key], self._prefix_texts(example), changes, lexical[key]))
        parts = [table_facts.texts() for table_facts in facts_by_table.values()]
        self._cache.add(chain.from_iterable([*parts, *(reading.texts() for reading in readings)]))
        return readings

    def _encode(self, reading: TextInput) -> TableEncoding | EncodingFailure:
        try:
            self._check_size(reading.facts.table)
            return self._lay_out(reading)
        except CannotEncodeError as error:
            return EncodingFailure(reading.example.example_id, str(error))

    def _check_size(self, table: Table) -> None:
        if not table.header or not table.rows:
            raise CannotEncodeError("the table has no columns" if not table.header else "the table has no rows")
        ragged = next((n for n, row in enumerate(table.rows) if len(row) != len(table.header)), None)
        if ragged is not None:
            raise CannotEncodeError(f"row {ragged} has {len(table.rows[ragged])} cells, the header {len(table.header)}")
        if len(table.header) > self.max_columns:
            raise CannotEncodeError(f"too many columns: {len(table.header)}, at most {self.max_columns}")

    def _cut_prefix(self, ids: np.ndarray, end: int, room: int) -> np.ndarray:
        """Truncate the question and titles to leave `room` tokens for the table, and append the token `end`.

        At least half of `max_tokens` are kept.
        """
        limit = max(self.max_tokens // 2, self.max_tokens - 1 - room)
        return np.append(ids[:limit], end)

    def _does_not_fit(self, budget: int, needed_tokens: int, lines: str = "header and first row") -> CannotEncodeError:
        remaining_budget = f"{budget} of {self.max_tokens} tokens are left"
        return CannotEncodeError(f"the table does not fit: {remaining_budget}, {lines} need {needed_tokens}")

    def _with_features(self, encoding: TableEncoding, reading: TextInput, cells: np.ndarray) -> TableEncoding:
        """Return the encoding with lexical features if they are enabled.

        Args:
            encoding: encoding without lexical features.
            reading: its example.
            cells: cell index of each token of the table, -1 for tokens outside of its cells.
        """
        if not self.lexical_features:
            return encoding
        features = reading.lexical().features(reading.example.question, header=True)
        feature_rows = np.concatenate([np.zeros(len(encoding) - len(cells), int), 1 + cells])
        starts = np.flatnonzero(np.diff(encoding.cells, prepend=-1))
        return replace(encoding, cell_features=features[feature_rows[starts]])
