"""Serialise a question and a table as TAPAS does: [CLS] question [SEP] header, then the body row by row.

Source: google-research/tapas, `utils/tf_example_utils.py`; HybridQA as in the MATE paper, section 4.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cache, partial
from itertools import chain
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.tokenization.detokenize import find_pieces, joined_pieces, span_text
from mate_cli.tokenization.expansion import Expander, whole_passages
from mate_cli.tokenization.layout import TableEncoding
from mate_cli.tokenization.lexical_features import LexicalTable
from mate_cli.tokenization.pieces import Parts, PieceCache, TablePieces
from mate_cli.tokenization.table_facts import TableFacts
from mate_cli.tokenization.truncation import Fit, fit_table, smallest_table
from mate_cli.tokenization.vocabulary import Vocabulary

MAX_LINES = 255
"""Row and column ids end here, because their embedding tables do."""
_TABLES_AT_ONCE = 64

Lines = Annotated[int, Field(gt=0, le=MAX_LINES)]
Additions = Callable[[str], Mapping[str, Parts]]


@dataclass(frozen=True, slots=True)
class EncodingFailure:
    """Why an example cannot be encoded."""

    example_id: str
    reason: str


class _CannotEncodeError(Exception):
    """An example cannot be encoded; the message says why."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """An example whose texts are known but not split yet."""

    example: TableExample
    facts: TableFacts
    prefix: tuple[str, ...]
    changes: Mapping[int, Parts]
    lexical: Callable[[], LexicalTable]

    def texts(self) -> Iterator[str]:
        yield from self.prefix
        for parts in self.changes.values():
            yield from parts
        if self.example.answer:
            yield from self.example.answer.texts


@dataclass(eq=False)
class TapasSerializer:
    """Turns questions about tables into `TableEncoding`s.

    A question that leaves no room for the header and one row is cut, though never below half of `max_tokens`.
    Numbers are read from the cells as they are before expansion, and ranked over all rows of the table.

    Args:
        tokenizer: the vocabulary.
        max_tokens: the longest encoding.
        sentences: how many sentences of linked passages to append to cells; 0 for none.
        whole_passages: append every linked passage whole instead, as the reader of a single cell wants.
        label: what `label_ids` mark: all tokens of the answer cells, or the first occurrence of the answer's text.
        drop_rows_to_fit: drop last rows of a table that does not fit; else it is a failure.
        cell_trim_length: cut cells at this many pieces; None to cut as little as possible.
        max_rows: body rows, at most 255.
        max_columns: columns, at most 255; a wider table is a failure.
        title: put the table's title and section title after the question.
        entity_titles: put the title of each linked page before its sentences.
        lost_answers: "keep" encodes an example whose answer cells were dropped, "fail" does not (as the reference).
        reset_positions: positions restart in every cell; only noted here, for whoever makes batches.
        lexical_features: also say how well the words of each cell, its row and its column fit the question.
    """

    tokenizer: Vocabulary
    _: KW_ONLY
    max_tokens: Annotated[int, Field(ge=8)] = 512
    sentences: Annotated[int, Field(ge=0)] = 5
    whole_passages: bool = False
    label: Literal["cells", "span"] = "cells"
    drop_rows_to_fit: bool = True
    cell_trim_length: Annotated[int, Field(gt=0)] | None = None
    max_rows: Lines = MAX_LINES
    max_columns: Lines = MAX_LINES
    title: bool = False
    entity_titles: bool = False
    lost_answers: Literal["keep", "fail"] = "keep"
    reset_positions: bool = False
    lexical_features: bool = False

    def __post_init__(self) -> None:
        self._pieces = PieceCache(self.tokenizer)

    @property
    def vocab_size(self) -> int:
        """How many word pieces there are."""
        return self.tokenizer.vocab_size

    @property
    def fingerprint(self) -> str:
        """A text that differs whenever the encodings would."""
        options = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "tokenizer"}
        return f"{type(self).__name__} {json.dumps(options, sort_keys=True)} {self.tokenizer.fingerprint}"

    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode examples; the result has their order and number.

        Examples of one table are encoded together, so that what is known of the table is worked out once.
        """
        results: dict[int, TableEncoding | EncodingFailure] = {}
        for places in _by_table(examples):
            readings = self._read([examples[place] for place in places])
            results.update((place, self._encode(reading)) for place, reading in zip(places, readings, strict=True))
        return [results[place] for place in range(len(examples))]

    def span_text(self, example: TableExample, start: int, end: int) -> str:
        """What a span of an example's encoding says in the table or passage, as it is written there.

        Args:
            example: as it was encoded.
            start: first token of the span, from 0.
            end: last token of the span.
        """
        (reading,) = self._read([example])
        encoding = self._encode(reading)
        if isinstance(encoding, EncodingFailure):
            return ""
        pieces, row, column = encoding.input_ids[start : end + 1], encoding.row_ids, encoding.column_ids
        if not len(pieces) or column[start] == 0:
            return joined_pieces(self.tokenizer, pieces)
        cell = int(row[start]) * reading.facts.width + int(column[start]) - 1
        first = int(np.flatnonzero((row == row[start]) & (column == column[start]))[0])
        text = " ".join(reading.changes.get(cell, reading.facts.parts[cell]))
        return span_text(self.tokenizer, pieces, [text], start - first)

    def _read(self, examples: Sequence[TableExample]) -> list[_Reading]:
        tables = {id(example.table): example.table for example in examples}
        facts = {key: TableFacts(table, self.max_rows) for key, table in tables.items()}
        additions = {key: self._additions(table) for key, table in tables.items()}
        lexical = {key: cache(partial(LexicalTable, table)) for key, table in tables.items()}
        readings = []
        for example in examples:
            key = id(example.table)
            changes = facts[key].changes(additions[key](example.question))
            readings.append(_Reading(example, facts[key], self._prefix_texts(example), changes, lexical[key]))
        tables_texts = (text for known in facts.values() for parts in known.parts for text in parts)
        self._pieces.add(chain(tables_texts, *(reading.texts() for reading in readings)))
        return readings

    def _additions(self, table: Table) -> Additions:
        if self.whole_passages:
            passages = whole_passages(table.passages)
            return lambda question: passages
        if self.sentences and table.passages:
            return Expander(table.passages, self.sentences, titles=self.entity_titles).chosen
        return lambda question: {}

    def _prefix_texts(self, example: TableExample) -> tuple[str, ...]:
        titles = (example.table.title, example.table.section_title) if self.title else ()
        return (example.question, *(title for title in titles if title))

    def _encode(self, reading: _Reading) -> TableEncoding | EncodingFailure:
        try:
            return self._lay_out(reading)
        except _CannotEncodeError as error:
            return EncodingFailure(reading.example.example_id, str(error))

    def _lay_out(self, reading: _Reading) -> TableEncoding:
        facts, example = reading.facts, reading.example
        self._check_size(facts.table)
        pieces = facts.pieces(self._pieces, reading.changes)
        rows = pieces.cells // facts.width
        prefix = self._prefix(reading, smallest_table(pieces.word_starts, rows))
        fit = self._fit(pieces, rows, len(prefix))
        self._check_answer(example, fit, facts.width)
        kept = (pieces.word_starts < fit.pieces) & (rows <= fit.rows)
        cells = pieces.cells[kept]
        tokens = np.zeros((9, len(prefix) + len(cells)), dtype=np.int32)
        tokens[0, : len(prefix)] = prefix
        table = tokens[:, len(prefix) :]
        table[0], table[1], table[2], table[3] = pieces.ids[kept], 1, cells % facts.width + 1, rows[kept]
        table[5], table[6] = facts.ranks[:, cells]
        relations = facts.relations(example.question)
        if relations is not None:
            table[7] = relations[cells]
        table[8] = self._labels(reading, pieces, kept)
        features = reading.lexical().features(example.question, header=True) if self.lexical_features else None
        kept_cells = np.concatenate([[0], 1 + np.unique(cells)])
        encoding = TableEncoding(example.example_id, *tokens)
        return encoding if features is None else replace(encoding, cell_features=features[kept_cells])

    def _check_size(self, table: Table) -> None:
        if not table.header or not table.rows:
            raise _CannotEncodeError("the table has no columns" if not table.header else "the table has no rows")
        ragged = next((n for n, row in enumerate(table.rows) if len(row) != len(table.header)), None)
        if ragged is not None:
            raise _CannotEncodeError(
                f"row {ragged} has {len(table.rows[ragged])} cells, the header {len(table.header)}"
            )
        if len(table.header) > self.max_columns:
            raise _CannotEncodeError(f"too many columns: {len(table.header)}, at most {self.max_columns}")
        if len(table.rows) > self.max_rows and not self.drop_rows_to_fit:
            raise _CannotEncodeError(f"too many rows: {len(table.rows)}, at most {self.max_rows}")

    def _prefix(self, reading: _Reading, room: int) -> np.ndarray:
        """[CLS] question [SEP], and [SEP] after each title; cut from the end where the table needs the room."""
        separator = np.array([self.tokenizer.sep_id], dtype=np.int32)
        parts = [part for text in reading.prefix for part in (self._pieces[text,], separator)]
        ids = np.concatenate([[self.tokenizer.cls_id], *parts[:-1]])
        limit = max(self.max_tokens // 2, self.max_tokens - 1 - room)
        return np.concatenate([ids[:limit], separator])

    def _fit(self, pieces: TablePieces, rows: np.ndarray, used: int) -> Fit:
        budget = self.max_tokens - used
        fit = fit_table(
            pieces.word_starts, rows, budget, cell_trim_length=self.cell_trim_length, drop_rows=self.drop_rows_to_fit
        )
        if fit is None:
            needed = smallest_table(pieces.word_starts, rows)
            raise _CannotEncodeError(
                f"the table does not fit: {budget} of {self.max_tokens} tokens are left, "
                f"header and first row need {needed}"
            )
        return fit

    def _check_answer(self, example: TableExample, fit: Fit, width: int) -> None:
        if self.lost_answers == "fail" and example.answer:
            lost = [cell for cell in example.answer.coordinates if cell[0] >= fit.rows or cell[1] >= width]
            if lost:
                raise _CannotEncodeError(f"{len(lost)} answer cells are in dropped rows")

    def _labels(self, reading: _Reading, pieces: TablePieces, kept: np.ndarray) -> np.ndarray | int:
        answer, width = reading.example.answer, reading.facts.width
        if answer is None:
            return 0
        marked = np.zeros(len(pieces.ids), dtype=np.int32)
        if self.label == "cells":
            cells = [(row + 1) * width + column for row, column in answer.coordinates]
            marked[np.isin(pieces.cells, cells)] = 1
        else:
            for text in answer.texts:
                begin, end = self._first_occurrence(self._pieces[text,], pieces, width)
                marked[begin:end] = kept[begin:end].all()
        return marked[kept]

    def _first_occurrence(self, answer: np.ndarray, pieces: TablePieces, width: int) -> tuple[int, int]:
        """Where the answer's pieces stand first inside one body cell; (0, 0) when they do not."""
        for begin, end in zip(pieces.offsets[width:], [*pieces.offsets[width + 1 :], len(pieces.ids)], strict=True):
            place = find_pieces(answer, pieces.ids[begin:end])
            if place >= 0:
                return int(begin) + place, int(begin) + place + len(answer)
        return 0, 0


def _by_table(examples: Sequence[TableExample]) -> Iterator[list[int]]:
    """Places of the examples of a few tables at a time."""
    places: dict[int, list[int]] = defaultdict(list)
    for place, example in enumerate(examples):
        places[id(example.table)].append(place)
    groups = list(places.values())
    for start in range(0, len(groups), _TABLES_AT_ONCE):
        yield [place for group in groups[start : start + _TABLES_AT_ONCE] for place in group]
