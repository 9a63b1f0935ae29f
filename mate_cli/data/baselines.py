"""Baselines without a network: TF-IDF cell ranking, a fixed column and the majority label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from mate_cli.tables.example import Coordinates, TableExample, group_by_table
from mate_cli.tables.table import Cell, Table


def tfidf_cell_ranking(table: Table, question: str) -> list[tuple[int, int]]:
    """Rank the body cells of a table by TF-IDF similarity to a question, most similar first.

    See `tfidf_cell_rankings`.
    """
    return tfidf_cell_rankings(table, [question])[0]


def tfidf_cell_rankings(table: Table, questions: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Rank the body cells of a table by TF-IDF similarity to each question, best first.

    The ranking is the baseline for cell selection, by the cosine similarity of cells and questions. The document of a
    cell is its text followed by all linked passages. Documents and questions are weighted by scikit-learn's TF-IDF of
    words and word pairs (default tokens, smooth idf, L2 norm), fitted on the cells of this table. Ties keep the reading
    order, row by row. The header is not used.

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
    # No cell contains a word of two or more letters.
    except ValueError:
        return [coordinates] * len(questions)
    scores = (weights @ vectorizer.transform(questions).T).toarray()
    orders = np.argsort(-scores, axis=0, kind="stable").T
    return [[coordinates[index] for index in order] for order in orders]


def _document(table: Table, cell: Cell) -> str:
    return " ".join([cell.text, *(table.passages[link] for link in cell.links if link in table.passages)])


Rows = Literal["first", "last", "all"]


class Guess(NamedTuple):
    """Answer that a baseline predicts: table cells, and an aggregation such as "sum"."""

    cells: Coordinates
    aggregation: str = "none"


class ColumnRule(NamedTuple):
    """Baseline that answers each question by one table column: its first, last or all cells.

    Args:
        column: index of the column. Tables with fewer columns use their last column.
        rows: "first", "last" or "all".
    """

    column: int
    rows: Rows

    def __call__(self, table: Table) -> Coordinates:
        """Return the predicted answer cells of a table as (row, column) pairs."""
        count = len(table.rows)
        rows = {"first": range(min(1, count)), "last": range(max(0, count - 1), count), "all": range(count)}
        column = min(self.column, len(table.header) - 1)
        return tuple((row, column) for row in rows[self.rows])


def best_column_rule(training: Iterable[TableExample]) -> ColumnRule:
    """Return the rule whose cells most often equal the answer cells of training examples.

    Ties are broken by the leftmost column, then by the order "first", "last", "all". Answers without cells are ignored.
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
    """Predict each answer by the column rule that fits most training answers, as baseline.

    See `best_column_rule`.

    Args:
        training: training examples with answers.
        examples: examples to predict, by question id.
    """
    rule = best_column_rule(training)
    return {name: Guess(rule(example.table)) for name, example in examples.items()}


def rank_cells(examples: Iterable[TableExample]) -> dict[str, list[tuple[int, int]]]:
    """Rank the cells of each question's table by TF-IDF similarity to the question.

    Returns:
        The ranked (row, column) pairs by question id.
    """
    examples, rankings = list(examples), dict[str, list[tuple[int, int]]]()
    for indices in group_by_table(examples):
        table_examples = [examples[index] for index in indices]
        table_rankings = tfidf_cell_rankings(table_examples[0].table, [example.question for example in table_examples])
        rankings |= {example.example_id: cells for example, cells in zip(table_examples, table_rankings, strict=True)}
    return rankings


def tfidf_cell(examples: Mapping[str, TableExample]) -> dict[str, Guess]:
    """Predict the cell most similar to each question by TF-IDF, see `rank_cells`.

    Args:
        examples: examples to predict, by question id.
    """
    return {name: Guess(tuple(cells[:1])) for name, cells in rank_cells(examples.values()).items()}


def majority_label(training: Iterable[TableExample]) -> int:
    """Return the most frequent label (of statements or options) of the training examples.

    On a tie, the largest label is returned (1, entailed). Without labels the result is 1.
    """
    counts = Counter(
        example.answer.label for example in training if example.answer and example.answer.label is not None
    )
    return max(sorted(counts, reverse=True), key=counts.__getitem__, default=1)
