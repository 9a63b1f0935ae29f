"""A table made ready to ask about: which rows a text may mean, and what the passages say."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from urllib.parse import unquote

from mate_cli.data.synthesis.predicates import Words, predicates
from mate_cli.data.synthesis.question_columns import (
    DATE,
    NUMBER,
    PERSON,
    PERSON_PASSAGE,
    YEAR,
    QuestionColumn,
    read_columns,
    subject_column,
)
from mate_cli.data.synthesis.word_sets import LITTLE
from mate_cli.tables.table import Table
from mate_cli.tables.text import normalize_for_candidates

ALIKE = 0.8
"""A row is meant, too, when its texts have more than this share of a clue's telling words."""


class QuestionTable:
    """What the makers of clues and questions ask of a table.

    Attributes:
        columns: those that questions can speak of.
        subject: the one that names the rows, if any does.
        row_noun: what to call a row.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.columns = read_columns(table)
        self.subject = subject_column(table, self.columns)
        self.row_noun = self.subject.row_noun if self.subject else "entry"
        self._keys = [[f" {normalize_for_candidates(cell.text)} " for cell in row] for row in table.rows]
        self._predicates: dict[str, list[Words]] = {}

    def text(self, row: int, column: QuestionColumn) -> str:
        """The text of a cell."""
        return " ".join(self.table.rows[row][column.index].text.split())

    def rows_with(self, text: str, column: QuestionColumn | None = None) -> frozenset[int]:
        """The rows in which a cell, of one column or of any, holds a text as whole words."""
        key = f" {normalize_for_candidates(text)} "
        return frozenset(
            row
            for row, cells in enumerate(self._keys)
            if any(key in cell for cell in ([cells[column.index]] if column else cells))
        )

    def rows_like(self, words: Iterable[str]) -> frozenset[int]:
        """The rows whose cells and passages have most of some words."""
        wanted = {part for word in words for part in normalize_for_candidates(word).split()}
        most = ALIKE * len(wanted)
        return frozenset(row for row, there in enumerate(self._row_words) if len(wanted & there) > most)

    def link(self, row: int, column: QuestionColumn) -> str | None:
        """The only passage of a cell; None when there is none or when there are several."""
        links = [link for link in self.table.rows[row][column.index].links if link in self.table.passages]
        return links[0] if len(links) == 1 else None

    def predicates(self, row: int, column: QuestionColumn) -> list[Words]:
        """What the passage of a cell says of it."""
        link = self.link(row, column)
        if link is None or row not in column.sayable or column.kind in (YEAR, DATE, NUMBER):
            return []  # a linked year or number is no name of what its page is about
        if link not in self._predicates:
            passage = self.table.passages[link]
            fits = column.kind != PERSON or PERSON_PASSAGE.search(passage)  # else the link leads somewhere else
            self._predicates[link] = predicates(passage, self.names(row, column)) if fits else []
        return self._predicates[link]

    def names(self, row: int, column: QuestionColumn) -> frozenset[str]:
        """Lower-cased words by which a linked cell is called: of the page's title and of the cell."""
        title = unquote(self.link(row, column) or "").rsplit("/", 1)[-1].split("_(")[0].replace("_", " ")
        return frozenset(f"{title} {self.text(row, column)}".lower().replace(",", " ").split()) - LITTLE - {"-"}

    def who(self, column: QuestionColumn) -> str:
        """The relative pronoun for a column's cells."""
        return "who" if column.kind == PERSON else "that"

    @cached_property
    def _row_words(self) -> list[frozenset[str]]:
        said = {link: normalize_for_candidates(text).split() for link, text in self.table.passages.items()}
        return [
            frozenset(word for key in keys for word in key.split()).union(
                *(said[link] for cell in row for link in cell.links if link in said)
            )
            for keys, row in zip(self._keys, self.table.rows, strict=True)
        ]
