"""Answers that need no network: what every trained one has to beat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from mate_cli.data.tfidf_ranking import tfidf_cell_rankings
from mate_cli.tables.example import Coordinates, TableExample
from mate_cli.tables.table import Table

Rows = Literal["first", "last", "all"]


class Guess(NamedTuple):
    """Cells, and what is done with them."""

    cells: Coordinates
    aggregation: str = "none"


class ColumnRule(NamedTuple):
    """The cells of one column: in the first row, in the last one, or in all; without that column, of the last one."""

    column: int
    rows: Rows

    def __call__(self, table: Table) -> Coordinates:
        """(row, column) of the cells in a table."""
        count = len(table.rows)
        rows = {"first": range(min(1, count)), "last": range(max(0, count - 1), count), "all": range(count)}
        column = min(self.column, len(table.header) - 1)
        return tuple((row, column) for row in rows[self.rows])


def best_column_rule(training: Iterable[TableExample]) -> ColumnRule:
    """The column, counted from the left, and the rows in it that are exactly the answer most often.

    Whether the first, the last or all cells of it are guessed is learnt too: whichever is right more often. The
    leftmost column wins a tie, and then the first row. Answers that are no cells teach nothing.
    """
    counts: Counter[ColumnRule] = Counter()
    for example in training:
        cells = set(example.answer.coordinates) if example.answer else set()
        for column in {column for _, column in cells}:
            rules = (ColumnRule(column, "first"), ColumnRule(column, "last"), ColumnRule(column, "all"))
            counts.update(rule for rule in rules if set(rule(example.table)) == cells)
    order = ("first", "last", "all")
    return min(
        counts, key=lambda rule: (-counts[rule], rule.column, order.index(rule.rows)), default=ColumnRule(0, "first")
    )


def most_frequent_column(training: Iterable[TableExample], examples: Mapping[str, TableExample]) -> dict[str, Guess]:
    """The same column and rows for every question, by `best_column_rule`."""
    rule = best_column_rule(training)
    return {name: Guess(rule(example.table)) for name, example in examples.items()}


def tfidf_cell(examples: Mapping[str, TableExample]) -> dict[str, Guess]:
    """The cell nearest to each question by TF-IDF, see `tfidf_cell_rankings`."""
    by_table: dict[int, list[str]] = {}
    for name, example in examples.items():
        by_table.setdefault(id(example.table), []).append(name)
    guesses: dict[str, Guess] = {}
    for names in by_table.values():
        table = examples[names[0]].table
        rankings = tfidf_cell_rankings(table, [examples[name].question for name in names])
        guesses |= {name: Guess(tuple(cells[:1])) for name, cells in zip(names, rankings, strict=True)}
    return guesses


def majority_label(training: Iterable[TableExample]) -> int:
    """The commonest label of statements or options; at a tie the last: 1, entailed, of statements."""
    counts = Counter(
        example.answer.label for example in training if example.answer and example.answer.label is not None
    )
    return max(sorted(counts, reverse=True), key=counts.__getitem__, default=1)
