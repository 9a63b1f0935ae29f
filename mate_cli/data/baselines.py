"""Answers that need no network: what every trained one has to beat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from mate_cli.tables.example import Coordinates, TableExample, group_by_table
from mate_cli.tables.table import Cell, Table


def tfidf_cell_ranking(table: Table, question: str) -> list[tuple[int, int]]:
    """Rank the body cells of a table by their cosine to the question, the best one first; see `tfidf_cell_rankings`."""
    return tfidf_cell_rankings(table, [question])[0]


def tfidf_cell_rankings(table: Table, questions: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Rank the body cells of a table by their cosine to each of some questions, the best one first.

    The floor that every cell selector must clear.
    A cell's document is its text followed by all passages that it links to. Documents and question are
    weighted by scikit-learn's TF-IDF of words and pairs of words (its default tokens, smooth idf, L2 norm),
    fitted on the cells of this one table. Ties keep the reading order, row by row. The header is not used.

    Returns:
        (row, column) of every body cell, both from 0, for each question.
    """
    import numpy as np
    from sklearn.feature_extraction.text import TfidfVectorizer

    coordinates = [(row, column) for row, column, _ in table.cells()]
    documents = [_document(table, cell) for _, _, cell in table.cells()]
    vectorizer = TfidfVectorizer(ngram_range=(1, 2))
    try:
        weights = vectorizer.fit_transform(documents)
    except ValueError:  # no cell holds a word of two letters or more
        return [coordinates] * len(questions)
    scores = (weights @ vectorizer.transform(questions).T).toarray()
    orders = np.argsort(-scores, axis=0, kind="stable").T
    return [[coordinates[place] for place in order] for order in orders]


def _document(table: Table, cell: Cell) -> str:
    return " ".join([cell.text, *(table.passages[link] for link in cell.links if link in table.passages)])


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
        """Return (row, column) of the cells in a table."""
        count = len(table.rows)
        rows = {"first": range(min(1, count)), "last": range(max(0, count - 1), count), "all": range(count)}
        column = min(self.column, len(table.header) - 1)
        return tuple((row, column) for row in rows[self.rows])


def best_column_rule(training: Iterable[TableExample]) -> ColumnRule:
    """Return the column, counted from the left, and the rows in it that are exactly the answer most often.

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
    """Return the same column and rows for every question, by `best_column_rule`."""
    rule = best_column_rule(training)
    return {name: Guess(rule(example.table)) for name, example in examples.items()}


def rank_cells(examples: Iterable[TableExample]) -> dict[str, list[tuple[int, int]]]:
    """Rank the cells of each question's table by TF-IDF, by the name of the question; see `tfidf_cell_rankings`."""
    examples, rankings = list(examples), dict[str, list[tuple[int, int]]]()
    for places in group_by_table(examples):
        asked = [examples[place] for place in places]
        ranked = tfidf_cell_rankings(asked[0].table, [example.question for example in asked])
        rankings |= {example.example_id: cells for example, cells in zip(asked, ranked, strict=True)}
    return rankings


def tfidf_cell(examples: Mapping[str, TableExample]) -> dict[str, Guess]:
    """Return the cell nearest to each question by TF-IDF, see `rank_cells`."""
    return {name: Guess(tuple(cells[:1])) for name, cells in rank_cells(examples.values()).items()}


def majority_label(training: Iterable[TableExample]) -> int:
    """Return the commonest label of statements or options; at a tie the last: 1, entailed, of statements."""
    counts = Counter(
        example.answer.label for example in training if example.answer and example.answer.label is not None
    )
    return max(sorted(counts, reverse=True), key=counts.__getitem__, default=1)
