"""Serializer of TAPAS: [CLS] question [SEP] header, then the body row by row.

Source: google-research/tapas, `utils/tf_example_utils.py`; HybridQA as in the MATE paper, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from mate_cli.errors import ConfigError
from mate_cli.tables.example import AGGREGATIONS, Answer, Coordinates, TableExample
from mate_cli.tables.table import Table
from mate_cli.tokenization.expansion import whole_passages
from mate_cli.tokenization.fitting.row_selection import RankedRows, RowRanker
from mate_cli.tokenization.fitting.truncation import (
    TableSize,
    choose_columns,
    count_cuts,
    fit_table,
    lost_cells,
    smallest_table,
    tokens_to_keep,
)
from mate_cli.tokenization.layout import TableEncoding, TokenArrays
from mate_cli.tokenization.serializers.serializer import EncodingFailure
from mate_cli.tokenization.serializers.text_serializer import Additions, CannotEncodeError, TextInput, TextSerializer
from mate_cli.tokenization.table_pieces import TablePieces
from mate_cli.tokenization.vocabulary import find_pieces, join_pieces, span_text


@dataclass(eq=False)
class TapasSerializer(TextSerializer):
    """Encodes questions about tables as `TableEncoding` objects.

    A question is truncated if it leaves too few tokens for the header and one row, but never below half of
    `max_tokens`. Numbers are read from the cell texts before expansion, and ranked over all rows of the table.

    Args:
        whole_passages: whether to append whole linked passages instead of sentences, for readers of a single cell.
        label: tokens annotated by `label_ids`. "cells": all tokens of the answer cells. "span": the answer text, at the
            span given by the dataset or else at its first occurrence, and [CLS] if the question has no answer.
        drop_rows_to_fit: whether to drop last rows of a table that does not fit. Otherwise encoding the table fails.
        cell_trim_length: number of tokens after which cells are truncated. None truncates as little as possible.
        title: whether to append the title and the section title of the table to the question.
        lost_answers: "keep" encodes an example whose answer cells were dropped. "fail" rejects it, as does
            google-research/tapas.
        truncation: "cell_concatenation" truncates the cells of all columns. "hem" first drops columns and keeps the
            columns that share most words with the question. "hem_cells" drops cells. See `truncation`.
        best_rows: number of best rows to read, which keep their row ids. Sentences are selected from the links of these
            rows only. None reads all rows.
        ranked_by: folder of the run that ranks the rows.
        ranker: loaded run of `ranked_by`. None reads all rows.
    """

    whole_passages: bool = False
    label: Literal["cells", "span"] = "cells"
    drop_rows_to_fit: bool = True
    cell_trim_length: Annotated[int, Field(gt=0)] | None = None
    title: bool = False
    lost_answers: Literal["keep", "fail"] = "keep"
    truncation: Literal["cell_concatenation", "hem", "hem_cells"] = "cell_concatenation"
    best_rows: Annotated[int, Field(gt=0)] | None = None
    ranked_by: str | None = None
    ranker: RowRanker | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.best_rows is None) != (self.ranked_by is None):
            hint = "Set encoding.best_rows and encoding.ranked_by, or neither"
            raise ConfigError("best_rows and ranked_by must be set together", where="encoding", remedy=hint)
        self._row_ranks = RankedRows(self.ranker) if self.ranker else None

    @property
    def fingerprint(self) -> str:
        """Text of all options that affect encodings, and the digest of the row ranker."""
        return super().fingerprint + (f" {self.ranker.digest}" if self.ranker else "")

    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode each example as `TableEncoding`, or return an `EncodingFailure` with the reason, in the same order."""
        if self._row_ranks:
            self._row_ranks.rank(examples)
        return super().encode(examples)

    def read_of(self, example: TableExample) -> Table:
        """Return the table of an example, reduced to its best rows and the passages of these rows.

        The result is the same object if all rows are read.
        """
        table, rows = example.table, self._rows_of(example)
        if not rows:
            return table
        best_rows = tuple(table.rows[row] for row in rows)
        links = {link for row in best_rows for cell in row for link in cell.links}
        passages = {link: text for link, text in table.passages.items() if link in links}
        return replace(table, rows=best_rows, passages=passages)

    def _rows_of(self, example: TableExample) -> tuple[int, ...]:
        """Return the 0-based indices of the example's best-ranked table rows.

        Return () if all rows are read.
        """
        return self._row_ranks.select(example, self.best_rows) if self._row_ranks and self.best_rows else ()

    def span_text(self, example: TableExample, start: int, end: int) -> str:
        """Return the text of a span of tokens, as written in the table or passage.

        Args:
            example: encoded example.
            start: index of the first token of the span.
            end: index of the last token of the span (inclusive).
        """
        (reading,) = self._make_inputs([example])
        encoding = self._encode(reading)
        if isinstance(encoding, EncodingFailure):
            return ""
        span_ids, row, column = encoding.input_ids[start : end + 1], encoding.row_ids, encoding.column_ids
        if not len(span_ids) or column[start] == 0:
            return join_pieces(self.tokenizer, span_ids)
        cell = int(row[start]) * reading.facts.width + int(column[start]) - 1
        first = int(np.flatnonzero((row == row[start]) & (column == column[start]))[0])
        text = " ".join(reading.changes.get(cell, reading.facts.parts[cell]))
        return span_text(self.tokenizer, span_ids, [text], start - first)

    @property
    def reads_passages(self) -> bool:
        """True if text of linked passages is appended to cells."""
        return self.whole_passages or super().reads_passages

    def additions(self, table: Table) -> Additions:
        """Return a function that maps a question to the text appended to cells, by link of the cell."""
        if not self.whole_passages:
            return super().additions(table)
        passages = whole_passages(table.passages)
        return lambda question: passages

    def _prefix_texts(self, example: TableExample) -> tuple[str, ...]:
        titles = (example.table.title, example.table.section_title) if self.title else ()
        return (example.question, *(title for title in titles if title))

    def _lay_out(self, reading: TextInput) -> TableEncoding:
        table_facts, example = reading.facts, reading.example
        all_tokens = table_facts.pieces(self._cache, reading.changes)
        best_rows = self._rows_of(example)
        ranked_tokens = all_tokens.of_rows(best_rows, table_facts.width) if best_rows else all_tokens
        selected_tokens = self._select(reading, ranked_tokens)
        rows = selected_tokens.cells // table_facts.width
        parts = [part for text in reading.prefix for part in (self._cache[text,], [self.tokenizer.sep_id])]
        prefix_ids = np.concatenate([[self.tokenizer.cls_id], *parts[:-1]])
        prefix = self._cut_prefix(prefix_ids, self.tokenizer.sep_id, smallest_table(selected_tokens.word_starts, rows))
        size = self._fit_table(selected_tokens, rows, len(prefix))
        keep = (selected_tokens.word_starts < size.tokens) & (rows <= size.rows)
        cells = selected_tokens.cells[keep]
        if self.lost_answers == "fail" and example.answer:
            lost = lost_cells(example.answer.coordinates, cells, table_facts.width)
            if lost:
                raise CannotEncodeError(f"{len(lost)} answer cells are in dropped rows or columns")
        start, tokens = len(prefix), TokenArrays(len(prefix) + len(cells))
        tokens.fill(end=start, input_ids=prefix)
        tokens.fill(start, input_ids=selected_tokens.ids[keep], segment_ids=1, column_ids=cells % table_facts.width + 1)
        tokens.fill(start, row_ids=rows[keep], label_ids=self._labels(reading, selected_tokens, keep))
        if self.label == "span" and example.answer and not example.answer.texts:
            tokens.fill(end=1, label_ids=1)
        if example.previous_cells:
            tokens.fill(start, previous_labels=np.isin(cells, _cell_indices(example.previous_cells, table_facts.width)))
        ranks, inverse_ranks = table_facts.ranks[:, cells]
        tokens.fill(start, column_ranks=ranks, inverse_column_ranks=inverse_ranks)
        relations = table_facts.relations(example.question)
        if relations is not None:
            tokens.fill(start, numeric_relations=relations[cells])
        values = np.full(start + len(cells), np.nan, np.float32)
        values[start:] = table_facts.values[cells]
        encoding = tokens.encoding(
            example.example_id,
            numeric_values=values,
            cut=count_cuts(example, all_tokens.cells, cells),
            uncut_tokens=len(prefix_ids) + 1 + len(all_tokens.cells),
            **_targets(example.answer),
        )
        return self._with_features(encoding, reading, cells)

    def _check_size(self, table: Table) -> None:
        super()._check_size(table)
        if len(table.rows) > self.max_rows and not self.drop_rows_to_fit:
            raise CannotEncodeError(f"too many rows: {len(table.rows)}, at most {self.max_rows}")

    def _fit_table(self, tokens: TablePieces, rows: np.ndarray, prefix_length: int) -> TableSize:
        budget = self.max_tokens - prefix_length
        size = fit_table(
            tokens.word_starts, rows, budget, cell_trim_length=self.cell_trim_length, drop_rows=self.drop_rows_to_fit
        )
        if size is None:
            raise self._does_not_fit(budget, smallest_table(tokens.word_starts, rows))
        return size

    def _select(self, reading: TextInput, tokens: TablePieces) -> TablePieces:
        """Drop the table columns or cells least similar to the question, until the table fits.

        The option `truncation` selects between columns and cells. All tokens are returned if the table fits, or if no
        column or body cell would remain.
        """
        table_facts, example = reading.facts, reading.example
        budget = self.max_tokens - len(self._cache[example.question,]) - 2
        if self.truncation == "hem":
            costs = np.bincount(tokens.cells % table_facts.width, minlength=table_facts.width)
            columns = choose_columns(table_facts.stems.column_scores(example), costs.tolist(), budget)
            if 0 < len(columns) < table_facts.width:
                return tokens.of_columns(columns, table_facts.width)
        elif self.truncation == "hem_cells" and len(tokens.ids) > budget:
            lengths = np.bincount(tokens.cells).reshape(-1, table_facts.width)
            counts = tokens_to_keep(table_facts.stems.cell_scores(example)[: len(lengths)], lengths, budget)
            if counts[1:].any():
                return tokens.first_of_cells(counts.reshape(-1))
        return tokens

    def _labels(self, reading: TextInput, tokens: TablePieces, keep: np.ndarray) -> np.ndarray | int:
        answer, width = reading.example.answer, reading.facts.width
        if answer is None:
            return 0
        marked = np.zeros(len(tokens.ids), dtype=np.int32)
        if self.label == "cells":
            marked[np.isin(tokens.cells, _cell_indices(answer.coordinates, width))] = 1
        elif answer.span:
            start, end = self._pieces_of_span(reading, answer, tokens)
            marked[start:end] = keep[start:end].all()
        else:
            for text in answer.texts:
                start, end = self._first_occurrence(self._cache[text,], tokens, width)
                marked[start:end] = keep[start:end].all()
        return marked[keep]

    def _pieces_of_span(self, reading: TextInput, answer: Answer, tokens: TablePieces) -> tuple[int, int]:
        """Return the start and end (exclusive) of the tokens that overlap the characters of `answer.span`.

        Return (0, 0) if no token overlaps them.
        """
        assert answer.span
        (row, column), (span_start, span_end) = answer.coordinates[0], answer.span
        offsets = self.tokenizer.encoding(reading.example.table.rows[row][column].text).offsets
        span_indices = [i for i, (start, end) in enumerate(offsets) if start < span_end and end > span_start]
        offset = int(tokens.offsets[_cell_indices(((row, column),), reading.facts.width)[0]])
        return (offset + span_indices[0], offset + span_indices[-1] + 1) if span_indices else (0, 0)

    def _first_occurrence(self, answer: np.ndarray, tokens: TablePieces, width: int) -> tuple[int, int]:
        """Return the start and end (exclusive) of the first occurrence of an answer inside one body cell.

        Return (0, 0) if no cell contains the answer.

        Args:
            answer: token ids of the answer.
            tokens: tokens of the table.
            width: number of columns.
        """
        for start, end in zip(tokens.offsets[width:], [*tokens.offsets[width + 1 :], len(tokens.ids)], strict=True):
            offset = find_pieces(answer, tokens.ids[start:end])
            if offset >= 0:
                return int(start) + offset, int(start) + offset + len(answer)
        return 0, 0


def _cell_indices(coordinates: Coordinates, width: int) -> list[int]:
    """Convert (row, column) of body cells to cell indices that count the header row first."""
    return [(row + 1) * width + column for row, column in coordinates]


def _targets(answer: Answer | None) -> dict[str, Any]:
    if answer is None:
        return {}
    return {
        "answer_numbers": answer.number,
        "aggregation_ids": None if answer.aggregation is None else AGGREGATIONS.index(answer.aggregation),
        "class_ids": answer.label,
    }
