"""Selection of the rows and columns of a large table that fit a network's input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from mate_cli.lit_modules.base import TableTask
from mate_cli.tables.example import TableExample
from mate_cli.tables.formats.cell_text import list_names
from mate_cli.tables.table import Table, TableFile
from mate_cli.tokenization.fitting.row_selection import RowChoice, RowIndex, fit_rows, matching_shares
from mate_cli.tokenization.fitting.truncation import choose_columns, similarity, stems
from mate_cli.tokenization.layout import SUMMARY_ROW, TableEncoding
from mate_cli.tokenization.serializers.serializer import MAX_LINES, EncodingFailure, Serializer
from mate_cli.tokenization.serializers.text_serializer import TextSerializer

CELL_PIECES = 4
"""Tokens per cell for which space is planned when rows are selected. With fewer tokens, names become
indistinguishable. With more tokens, few rows fit."""
MIN_ROWS = 16
"""Number of rows that should fit. If they do not fit, columns are omitted."""
FIRST_COLUMN = 0.25
"""Bonus of the first column's similarity to a question, because this column often names the entity of a row."""


@dataclass(frozen=True)
class TableView:
    """The rows and columns of a table that the network reads for a question.

    Args:
        table: all rows, or the selected rows.
        numbers: number of each row in the file, counted from 1 below the header.
        notes: sentences about the selection of rows and columns. Empty if the table is complete.
    """

    table: Table
    numbers: tuple[int, ...]
    notes: tuple[str, ...] = ()


class RowFitter:
    """Selector of the rows and columns of a large table that fit the input of a network.

    Columns are omitted only if necessary.

    Args:
        serializer: serializer of the network.
        task: task of the network. Its head may support fewer rows and columns than the serializer.
    """

    def __init__(self, serializer: Serializer, task: TableTask[Any, Any]) -> None:
        self.serializer = serializer
        rows, columns = task.table_limits
        self.rows = min(rows or MAX_LINES, getattr(serializer, "max_rows", MAX_LINES))
        self.columns = min(columns or MAX_LINES, getattr(serializer, "max_columns", MAX_LINES))

    def fit(self, file: TableFile, questions: Sequence[str], *, together: bool = False) -> list[TableView]:
        """Select for each question the table rows and columns that fit the network's input.

        Args:
            file: the table.
            questions: Q questions about the table.
            together: whether all questions share the same rows and columns.

        Returns:
            Q views of the table.
        """
        queries = [" ".join(questions)] if together else list(questions)

        @cache
        def view_all_rows() -> TableView:
            return TableView(file.table(), tuple(file.numbers))

        too_large = len(file) > self.rows or len(file.header) > self.columns
        is_cut = [True] * len(queries) if too_large else self._is_cut(view_all_rows().table, queries)
        index = RowIndex(file.header, file.formats, queries, file) if any(is_cut) else None
        pairs = zip(queries, is_cut, strict=True)
        views = [self._choose(file, question, index) if index and long else view_all_rows() for question, long in pairs]
        return views * len(questions) if together else views

    def _is_cut(self, table: Table, questions: Sequence[str]) -> list[bool]:
        """Encode a table with each question, and return which inputs lack rows of the table."""
        examples = [TableExample(str(number), question, table) for number, question in enumerate(questions)]
        encodings = self.serializer.encode(examples)
        return [
            isinstance(encoding, EncodingFailure) or _last_row(encoding) < len(table.rows) for encoding in encodings
        ]

    def _choose(self, file: TableFile, question: str, index: RowIndex) -> TableView:
        choice = index.choose(question)
        order = choice.order[: self.rows]
        rows = [file.row(row) for row in order]
        costs, budget = self._costs([file.header, *rows]), self._budget(question, file.title)
        similar = self._choose_columns(file.header, rows, costs, budget, choice)
        columns = sorted(similar)
        costs = costs[:, columns].sum(1)
        indices = fit_rows(order, costs[1:].tolist(), budget - int(costs[0]), self.rows)
        numbers = tuple(file.numbers[row] for row in indices)
        notes = [] if len(indices) == len(file) else [_describe_rows(choice, len(indices), len(file))]
        if len(columns) < len(file.header):
            names = list_names((file.header[column] for column in similar), 8)
            notes.append(f"{len(columns)} of {len(file.header)} columns were read, the nearest ones: {names}.")
        return TableView(file.table(indices, columns), numbers, tuple(notes))

    def _choose_columns(
        self, header: Sequence[str], rows: Sequence[Sequence[str]], costs: np.ndarray, budget: int, choice: RowChoice
    ) -> list[int]:
        """Select the columns of a table that the network reads.

        All columns are read if at least `MIN_ROWS` rows fit. Else columns similar to the question are read, the most
        similar column first.
        """
        lengths = costs[0] + np.ceil(min(MIN_ROWS, len(rows)) * costs[1:].mean(0)).astype(int)
        if lengths.sum() <= budget and len(header) <= self.columns:
            return list(range(len(header)))
        query = stems(choice.question)
        scores = [
            share + 2 * similarity(stems(name), query)
            for name, share in zip(header, matching_shares(choice.question, rows).tolist(), strict=True)
        ]
        scores[0] += FIRST_COLUMN
        if choice.column is not None:
            scores[choice.column] += 1
        subset = choose_columns(scores, lengths.tolist(), budget)
        return list(subset)[: self.columns] or [int(np.argmax(scores))]

    def _budget(self, question: str, title: str) -> int:
        """Return the number of tokens of the input that the table can use.

        The question, the title and special tokens use the other tokens.
        """
        limit = self.serializer.max_tokens
        if not isinstance(self.serializer, TextSerializer):
            return limit - 1
        titled = getattr(self.serializer, "title", False)
        prefix = self.serializer.tokenizer.pieces([question, title if titled else ""])
        return limit - 2 - titled - min(sum(map(len, prefix)), limit // 2)

    def _costs(self, rows: Sequence[Sequence[str]]) -> np.ndarray:
        """Count the tokens [R, C] that each table cell may use, to find how many rows fit.

        Cells use at most `CELL_PIECES` tokens, except cells whose first word is longer. A serializer without word
        pieces uses one token per cell.
        """
        if not isinstance(self.serializer, TextSerializer):
            return np.ones((len(rows), len(rows[0])), int)
        vocabulary = self.serializer.tokenizer
        tokens = vocabulary.pieces([cell for row in rows for cell in row])
        lengths = [max(_first_word(vocabulary.is_continuation[ids]), min(CELL_PIECES, len(ids))) for ids in tokens]
        return np.array(lengths).reshape(len(rows), -1)


def _first_word(is_continuation: np.ndarray) -> int:
    """Count the tokens of the first word of a cell, which is never truncated.

    The count is at least 1.
    """
    starts = np.flatnonzero(~is_continuation[1:])
    return int(starts[0]) + 1 if len(starts) else max(1, len(is_continuation))


def _last_row(encoding: TableEncoding) -> int:
    """Return the number (from 1) of the last table row that an encoded input contains."""
    rows = encoding.row_ids[encoding.row_ids < SUMMARY_ROW]
    return int(rows.max(initial=0))


def _describe_rows(choice: RowChoice, count: int, rows: int) -> str:
    """Explain in a sentence which rows of a table were read, and why these were selected."""
    start = f"{count:,} of {rows:,} rows were read:"
    order = f", {choice.extreme} first" if choice.extreme else ""
    if not choice.match_count:
        return f"{start} the first ones{order}, since no row shares a word or number with the question."
    matches = f"that share words or numbers with the question ({list_names(choice.terms)})"
    if choice.match_count > count:
        return f"{start} the best fitting ones{order}, of {choice.match_count:,} {matches}."
    suffix = f", and the first others{order}" if count > choice.match_count else ""
    return f"{start} the {choice.match_count:,} {matches}{suffix}."
