"""Serialise a question and a table as TAPAS does: [CLS] question [SEP] header, then the body row by row.

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
    Fit,
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
    """Turns questions about tables into `TableEncoding`s.

    A question that leaves no room for the header and one row is cut, though never below half of `max_tokens`.
    Numbers are read from the cells as they are before expansion, and ranked over all rows of the table.

    Args:
        whole_passages: append every linked passage whole instead of sentences, as the reader of a single cell wants.
        label: what `label_ids` mark: all tokens of the answer cells; or the answer's text, where the dataset says that
            it stands or else where it occurs first, and [CLS] where nothing answers the question.
        drop_rows_to_fit: drop last rows of a table that does not fit; else it is a failure.
        cell_trim_length: cut cells at this many pieces; None to cut as little as possible.
        title: put the table's title and section title after the question.
        lost_answers: "keep" encodes an example whose answer cells were dropped, "fail" does not (as the reference).
        truncation: "cell_concatenation" shortens the cells of all columns alike; "hem" drops columns first, keeping
            those that share words with the question; "hem_cells" drops cells; see `truncation`.
        best_rows: first cut the table to so many rows, which keep their numbers; sentences are chosen of their links
            alone. None reads all rows.
        ranked_by: folder of the run that says which rows are best.
        ranker: this run, loaded; without it all rows are read.
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
            remedy = "Set encoding.best_rows and encoding.ranked_by, or neither"
            raise ConfigError("best_rows and ranked_by must be set together", where="encoding", remedy=remedy)
        self._ranked = RankedRows(self.ranker) if self.ranker else None

    @property
    def fingerprint(self) -> str:
        """A text that differs whenever the encodings would."""
        return super().fingerprint + (f" {self.ranker.digest}" if self.ranker else "")

    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode examples; the result has their order and number."""
        if self._ranked:
            self._ranked.rank(examples)
        return super().encode(examples)

    def read_of(self, example: TableExample) -> Table:
        """Return the best rows of a question's table, with what they link to; the table itself where all are read."""
        table, rows = example.table, self._rows_of(example)
        if not rows:
            return table
        best_rows = tuple(table.rows[row] for row in rows)
        links = {link for row in best_rows for cell in row for link in cell.links}
        passages = {link: text for link, text in table.passages.items() if link in links}
        return replace(table, rows=best_rows, passages=passages)

    def _rows_of(self, example: TableExample) -> tuple[int, ...]:
        """Return the best rows of a question, from 0; none where all are read."""
        return self._ranked.of(example, self.best_rows) if self._ranked and self.best_rows else ()

    def span_text(self, example: TableExample, start: int, end: int) -> str:
        """Return the text of a table or passage at a span of an example's encoding, first and last token from 0."""
        (reading,) = self._read([example])
        encoding = self._encode(reading)
        if isinstance(encoding, EncodingFailure):
            return ""
        pieces, row, column = encoding.input_ids[start : end + 1], encoding.row_ids, encoding.column_ids
        if not len(pieces) or column[start] == 0:
            return join_pieces(self.tokenizer, pieces)
        cell = int(row[start]) * reading.facts.width + int(column[start]) - 1
        first = int(np.flatnonzero((row == row[start]) & (column == column[start]))[0])
        text = " ".join(reading.changes.get(cell, reading.facts.parts[cell]))
        return span_text(self.tokenizer, pieces, [text], start - first)

    @property
    def reads_passages(self) -> bool:
        """True if words of linked passages are appended to cells."""
        return self.whole_passages or super().reads_passages

    def additions(self, table: Table) -> Additions:
        """Return the text that a question appends to the cells of a table for each of their links."""
        if not self.whole_passages:
            return super().additions(table)
        passages = whole_passages(table.passages)
        return lambda question: passages

    def _prefix_texts(self, example: TableExample) -> tuple[str, ...]:
        titles = (example.table.title, example.table.section_title) if self.title else ()
        return (example.question, *(title for title in titles if title))

    def _lay_out(self, reading: TextInput) -> TableEncoding:
        facts, example = reading.facts, reading.example
        whole = facts.pieces(self._pieces, reading.changes)
        chosen = self._rows_of(example)
        pieces = self._select(reading, whole.of_rows(chosen, facts.width) if chosen else whole)
        rows = pieces.cells // facts.width
        before = self._before(reading)
        prefix = self._cut_prefix(before, self.tokenizer.sep_id, smallest_table(pieces.word_starts, rows))
        fit = self._fit(pieces, rows, len(prefix))
        keep = (pieces.word_starts < fit.pieces) & (rows <= fit.rows)
        cells = pieces.cells[keep]
        if self.lost_answers == "fail" and example.answer:
            lost = lost_cells(example.answer.coordinates, cells, facts.width)
            if lost:
                raise CannotEncodeError(f"{len(lost)} answer cells are in dropped rows or columns")
        start, tokens = len(prefix), TokenArrays(len(prefix) + len(cells))
        tokens.fill(end=start, input_ids=prefix)
        tokens.fill(start, input_ids=pieces.ids[keep], segment_ids=1, column_ids=cells % facts.width + 1)
        tokens.fill(start, row_ids=rows[keep], label_ids=self._labels(reading, pieces, keep))
        if self.label == "span" and example.answer and not example.answer.texts:
            tokens.fill(end=1, label_ids=1)
        if example.previous_cells:
            tokens.fill(start, previous_labels=np.isin(cells, _places(example.previous_cells, facts.width)))
        ranks, inverse_ranks = facts.ranks[:, cells]
        tokens.fill(start, column_ranks=ranks, inverse_column_ranks=inverse_ranks)
        relations = facts.relations(example.question)
        if relations is not None:
            tokens.fill(start, numeric_relations=relations[cells])
        values = np.full(start + len(cells), np.nan, np.float32)
        values[start:] = facts.values[cells]
        known = {"numeric_values": values, "cut": count_cuts(example, whole.cells, cells), **_targets(example.answer)}
        known["uncut_tokens"] = len(before) + 1 + len(whole.cells)
        return self._with_features(tokens.encoding(example.example_id, **known), reading, cells)

    def _check_size(self, table: Table) -> None:
        super()._check_size(table)
        if len(table.rows) > self.max_rows and not self.drop_rows_to_fit:
            raise CannotEncodeError(f"too many rows: {len(table.rows)}, at most {self.max_rows}")

    def _before(self, reading: TextInput) -> np.ndarray:
        """Lay out [CLS] question, and [SEP] before each title; the [SEP] that ends it is not there yet."""
        parts = [part for text in reading.prefix for part in (self._pieces[text,], [self.tokenizer.sep_id])]
        return np.concatenate([[self.tokenizer.cls_id], *parts[:-1]])

    def _fit(self, pieces: TablePieces, rows: np.ndarray, used: int) -> Fit:
        budget = self.max_tokens - used
        fit = fit_table(
            pieces.word_starts, rows, budget, cell_trim_length=self.cell_trim_length, drop_rows=self.drop_rows_to_fit
        )
        if fit is None:
            raise self._does_not_fit(budget, smallest_table(pieces.word_starts, rows))
        return fit

    def _select(self, reading: TextInput, pieces: TablePieces) -> TablePieces:
        """Choose the parts that fit the question best; all, to be shortened like any table, where that is nothing."""
        facts, example = reading.facts, reading.example
        budget = self.max_tokens - len(self._pieces[example.question,]) - 2
        if self.truncation == "hem":
            costs = np.bincount(pieces.cells % facts.width, minlength=facts.width)
            columns = choose_columns(facts.stems.column_scores(example), costs.tolist(), budget)
            if 0 < len(columns) < facts.width:
                return pieces.of_columns(columns, facts.width)
        elif self.truncation == "hem_cells" and len(pieces.ids) > budget:
            lengths = np.bincount(pieces.cells).reshape(-1, facts.width)
            counts = tokens_to_keep(facts.stems.cell_scores(example)[: len(lengths)], lengths, budget)
            if counts[1:].any():
                return pieces.first_of_cells(counts.reshape(-1))
        return pieces

    def _labels(self, reading: TextInput, pieces: TablePieces, keep: np.ndarray) -> np.ndarray | int:
        answer, width = reading.example.answer, reading.facts.width
        if answer is None:
            return 0
        marked = np.zeros(len(pieces.ids), dtype=np.int32)
        if self.label == "cells":
            marked[np.isin(pieces.cells, _places(answer.coordinates, width))] = 1
        elif answer.span:
            begin, end = self._pieces_of_span(reading, answer, pieces)
            marked[begin:end] = keep[begin:end].all()
        else:
            for text in answer.texts:
                begin, end = self._first_occurrence(self._pieces[text,], pieces, width)
                marked[begin:end] = keep[begin:end].all()
        return marked[keep]

    def _pieces_of_span(self, reading: TextInput, answer: Answer, pieces: TablePieces) -> tuple[int, int]:
        """Find the pieces that hold a span of characters, the first and that behind the last; (0, 0) for none."""
        assert answer.span
        (row, column), (begin, end) = answer.coordinates[0], answer.span
        encoding = self.tokenizer.encoding(reading.example.table.rows[row][column].text)
        inside = [place for place, (first, last) in enumerate(encoding.offsets) if first < end and last > begin]
        offset = int(pieces.offsets[_places(((row, column),), reading.facts.width)[0]])
        return (offset + inside[0], offset + inside[-1] + 1) if inside else (0, 0)

    def _first_occurrence(self, answer: np.ndarray, pieces: TablePieces, width: int) -> tuple[int, int]:
        """Find where the answer's pieces stand first inside one body cell; (0, 0) when they do not."""
        for begin, end in zip(pieces.offsets[width:], [*pieces.offsets[width + 1 :], len(pieces.ids)], strict=True):
            place = find_pieces(answer, pieces.ids[begin:end])
            if place >= 0:
                return int(begin) + place, int(begin) + place + len(answer)
        return 0, 0


def _places(coordinates: Coordinates, width: int) -> list[int]:
    """Return the body cells as they are counted in reading order, the header row first."""
    return [(row + 1) * width + column for row, column in coordinates]


def _targets(answer: Answer | None) -> dict[str, Any]:
    if answer is None:
        return {}
    return {
        "answer_numbers": answer.number,
        "aggregation_ids": None if answer.aggregation is None else AGGREGATIONS.index(answer.aggregation),
        "class_ids": answer.label,
    }
