"""Fit a table that is too long for the network to each question: choose rows, and say which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mate_cli.lit_modules.base import TableTask
from mate_cli.lit_modules.table_qa import TableQA
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.tables.table_file import TableFile
from mate_cli.tokenization.layout import SUMMARY_ROW, TableEncoding
from mate_cli.tokenization.row_selection import RowChoice, RowIndex, fit_rows
from mate_cli.tokenization.serializer import MAX_LINES, Serializer
from mate_cli.tokenization.text_serializer import TextSerializer

CELL_PIECES = 4
"""So many word pieces of each cell should have room when rows are chosen: with fewer, names are no longer told apart;
with more, few rows are left."""


@dataclass(frozen=True)
class Seen:
    """What of a table a question is asked about.

    Args:
        table: all rows, or those that were chosen.
        numbers: of each row, its number below the header, from 1.
        said: how rows were chosen; empty where all are there.
    """

    table: Table
    numbers: tuple[int, ...]
    said: str = ""


class RowFitter:
    """Chooses rows for the network that will read them.

    Args:
        serializer: encodes for it.
        task: whose head may tell fewer rows apart than the serializer gives.
    """

    def __init__(self, serializer: Serializer, task: TableTask[Any]) -> None:
        self.serializer = serializer
        self.rows = min(MAX_LINES, getattr(serializer, "max_rows", MAX_LINES))
        if isinstance(task, TableQA) and task.options.select_one_column:
            self.rows = min(self.rows, task.options.max_rows - 1)

    def fit(self, file: TableFile, questions: Sequence[str], *, together: bool = False) -> list[Seen]:
        """What each question is asked about.

        Args:
            file: the table.
            questions: asked of it.
            together: all are asked about the same rows.
        """
        asked = [" ".join(questions)] if together else list(questions)
        whole = Whole(file)
        is_long = [True] * len(asked) if len(file) > self.rows else self._too_long(whole.seen.table, asked)
        index = RowIndex(file.header, asked, file) if any(is_long) else None
        pairs = zip(asked, is_long, strict=True)
        seen = [self._choose(file, one, index) if index and long else whole.seen for one, long in pairs]
        return seen * len(questions) if together else seen

    def _too_long(self, table: Table, questions: Sequence[str]) -> list[bool]:
        """Whether rows would be dropped for each question."""
        examples = [TableExample(str(place), question, table) for place, question in enumerate(questions)]
        encodings = self.serializer.encode(examples)
        return [isinstance(one, TableEncoding) and _last_row(one) < len(table.rows) for one in encodings]

    def _choose(self, file: TableFile, question: str, index: RowIndex) -> Seen:
        choice = index.choose(question)
        best = choice.order[: self.rows]
        rows = [file.row(place) for place in best]
        places = fit_rows(best, self._costs(rows), self._budget(file, question), self.rows)
        numbers = tuple(file.rows.numbers[place] for place in places)
        return Seen(file.table(places), numbers, _said(choice, len(places), len(file)))

    def _budget(self, file: TableFile, question: str) -> int:
        """Tokens that are left for rows."""
        most = self.serializer.max_tokens
        if not isinstance(self.serializer, TextSerializer):
            return most - 1
        asked, *_ = self.serializer.tokenizer.pieces([question])
        (header,) = self._costs([file.header])
        return most - 2 - min(len(asked), most // 2) - header

    def _costs(self, rows: Sequence[Sequence[str]]) -> list[int]:
        """Tokens that each row should have."""
        if not isinstance(self.serializer, TextSerializer):
            return [len(row) for row in rows]
        pieces = self.serializer.tokenizer.pieces([cell for row in rows for cell in row])
        lengths = iter([min(CELL_PIECES, max(1, len(ids))) for ids in pieces])
        return [sum(next(lengths) for _ in row) for row in rows]


class Whole:
    """A table with all its rows, made when it is first wanted."""

    def __init__(self, file: TableFile) -> None:
        self._file = file

    @cached_property
    def seen(self) -> Seen:
        """All rows."""
        return Seen(self._file.table(), tuple(self._file.rows.numbers))


def _last_row(encoding: TableEncoding) -> int:
    """The last row that has tokens, from 1."""
    rows = encoding.row_ids[encoding.row_ids < SUMMARY_ROW]
    return int(rows.max(initial=0))


def _said(choice: RowChoice, taken: int, rows: int) -> str:
    """How the rows were chosen, as a sentence."""
    shared = ", ".join(choice.terms[:6])
    by = f" with the {choice.extreme}" if choice.extreme else ""
    start = f"{taken:,} of {rows:,} rows were looked at:"
    if not choice.matching:
        return f"{start} the {'ones' if by else 'first ones'}{by}, as no row shares a word or number with the question."
    if choice.matching > taken:
        of = f"of {choice.matching:,} that share words or numbers with the question ({shared})"
        return f"{start} those that fit best{' and' + by if by else ''}, {of}."
    rest = f", and the {'others' if by else 'first others'}{by}" if taken > choice.matching else ""
    return f"{start} the {choice.matching:,} that share words or numbers with the question ({shared}){rest}."
