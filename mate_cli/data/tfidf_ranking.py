"""Cells ranked by the words that they share with a question, nothing learned."""

from __future__ import annotations

from collections.abc import Sequence

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
