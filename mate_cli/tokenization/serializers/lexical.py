"""Serializer with one token per cell, represented by lexical features instead of word embeddings.

The features measure which words the question shares with a cell, its row and its column. The best score of the other
cells in the row identifies the row that a question refers to. A cell ranker without this feature fails.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tables.text import split_sentences
from mate_cli.tokenization.expansion import NumberedWords, WordIndex, split_words
from mate_cli.tokenization.layout import TableEncoding, TokenArrays
from mate_cli.tokenization.serializers.serializer import MAX_LINES, EncodingFailure, Serializer
from mate_cli.tokenization.table_pieces import TableFacts


@dataclass(eq=False)
class LexicalSerializer(Serializer):
    """Encodes a question about a table as [CLS] and one token per body cell.

    Every token has lexical features.

    Args:
        tokenizer: vocabulary, of which only the ids of [CLS] and of the empty token are used.
        max_tokens: maximum number of tokens of an encoding. Last rows that do not fit are dropped.
        reset_positions: whether positions restart in every cell. Used by the collator, not by the serializer.
    """

    max_tokens: Annotated[int, Field(ge=8)] = 4096
    reset_positions: bool = True

    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode each example as `TableEncoding`, or return an `EncodingFailure` with the reason, in the same order."""
        tables = {id(example.table): example.table for example in examples}
        lexical_tables = {key: self._misfit(table) or LexicalTable(table) for key, table in tables.items()}
        return [self._lay_out(example, lexical_tables[id(example.table)]) for example in examples]

    def _misfit(self, table: Table) -> str:
        width = len(table.header)
        if not width or not table.rows:
            return "the table has no columns" if not width else "the table has no rows"
        if any(len(row) != width for row in table.rows):
            return "the table has rows of different lengths"
        if width > min(MAX_LINES, self.max_tokens - 1):
            return f"too many columns: {width}, at most {min(MAX_LINES, self.max_tokens - 1)}"
        return ""

    def _lay_out(self, example: TableExample, table: LexicalTable | str) -> TableEncoding | EncodingFailure:
        """Encode an example about a table. If `table` is a text, return an `EncodingFailure` with this reason."""
        if isinstance(table, str):
            return EncodingFailure(example.example_id, table)
        width = table.width
        rows = min(len(example.table.rows), MAX_LINES, (self.max_tokens - 1) // width)
        cells = np.arange(rows * width)
        tokens = TokenArrays(1 + len(cells))
        tokens.fill(end=1, input_ids=self.tokenizer.cls_id)
        tokens.fill(1, input_ids=self.tokenizer.empty_id, segment_ids=1)
        tokens.fill(1, column_ids=cells % width + 1, row_ids=cells // width + 1)
        answers = example.answer.coordinates if example.answer else ()
        tokens.fill(1, label_ids=np.isin(cells, [row * width + column for row, column in answers]))
        features = table.features(example.question)[: 1 + len(cells)]
        return tokens.encoding(example.example_id, cell_features=features)


SCORES = ("document", "sentence", "sentence_rank", "overlap", "coverage")
"""Scores of a cell for the question: the cosine similarity of the cell with its passages, the similarity of its best
sentence (the cell text is one), the reciprocal rank of this sentence in the table, the share of the cell's words that
occur in the question, and the weighted share of the question's words in the cell or its passages (`Coverage`)."""
VIEWS = ("own", "row_best", "row_mean", "largest", "row_largest", "column_best", "column_mean")
"""Views of each score: the cell's score, the best score of other cells in its row, the mean of the row, whether the
cell has the largest score of the table, whether another cell of its row has this score, the best score of other cells
in its column, and the mean of the column."""
ROW = ("row_coverage", "row_coverage_rank", "rest_coverage")
"""The weighted share of the question's words that occur in the row, the reciprocal rank of this share among the rows,
and the share that occurs in the other cells of the row."""
_FORMS = ("digits", "year", "month", "length", "linked", "sentences", "column", "row", "first", "cells")
_KINDS = {
    "person": re.compile(r"\bborn\b|\b\d{4} ?[-\u2013] ?(?:\w+ ){0,2}\d{4} ?\)|\b(?:he|she|his|her)\b"),
    "place": re.compile(r"\b(?:city|town|village|county|municipality|district|province|country|capital|located)\b"),
    "group": re.compile(r"\b(?:team|club|company|organization|university|college|school|band|founded)\b"),
    "work": re.compile(r"\b(?:film|series|album|song|novel|game|directed|starring|released)\b"),
}
CELL = ("header", "asked_header", "asked_lead", *_FORMS, *_KINDS, "rank", "related", "row_lowest", "row_highest")
"""Features of a cell: the overlap of its header with the question, and with the words after "which" or a similar word,
the share of these words in the first sentences of its passages, the form and the position of the cell (`_FORMS`),
topics of its passages (`_KINDS`), the rank of its number in the column, whether its number equals a number of the
question, and whether its row has the lowest or highest number of a column."""
QUESTION = {
    **{word: (word,) for word in ("what", "which", "who", "whom", "when", "where", "how", "many")},
    **{word: (word,) for word in ("name", "year", "first", "last", "most", "number", "city", "team")},
    "lowest": ("first", "earliest", "oldest", "smallest", "lowest", "least", "fewest", "shortest", "youngest"),
    "highest": ("last", "latest", "most", "largest", "highest", "biggest", "longest", "recent", "tallest", "newest"),
    "date": ("date", "day", "month", "when", "born", "age"),
    "place": ("where", "located", "country", "county", "state", "town", "place", "location"),
    "amount": ("many", "much", "population", "total", "capacity", "far", "long"),
    "person": ("who", "whose", "whom", "player", "actor", "actress", "director", "person", "coach", "driver"),
}
"""Words that indicate the type of answer that a question asks for, by feature name."""
FEATURES = (
    *(f"{score}_{view}" for view in VIEWS for score in SCORES),
    *ROW,
    *CELL,
    *(f"asks_{kind}" for kind in QUESTION),
)
"""Names of the features, in order."""

_YEAR = re.compile(r"\b(1[5-9]|20)\d\d\b")
_MONTH = re.compile(r"\b(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\b", re.IGNORECASE)
_LEAD = re.compile(r"\b(?:what|which|whose|how many|name) (?:is |was |are |were )?((?:\S+ ){1,4})", re.IGNORECASE)
_NOT_ASKED = {"the", "of", "in", "is", "was", "are", "were", "did", "does", "do", "has", "have", "had", "that", "this"}
_NOT_ASKED |= {"year", "name", "for", "with", "by", "on"}
PREFIX = 5
"""Number of leading letters that identify a word in `Coverage`."""


class LexicalTable:
    """Lexical statistics of a table, computed once for all of its questions.

    Args:
        table: table with R >= 1 rows of C >= 1 cells.
    """

    def __init__(self, table: Table) -> None:
        self.rows, self.width = len(table.rows), len(table.header)
        cells = [cell for _, _, cell in table.cells()]
        sentences = {link: split_sentences(text) for link, text in table.passages.items()}
        cell_texts = [[cell.text, *(s for link in cell.links for s in sentences.get(link, ()))] for cell in cells]
        text_ids: dict[str, int] = {}
        self._sentences = np.array([text_ids.setdefault(text, len(text_ids)) for texts in cell_texts for text in texts])
        counts = np.array([len(texts) for texts in cell_texts])
        self._starts = counts.cumsum() - counts
        words = NumberedWords.build(list(text_ids))
        self._index, self._documents = WordIndex(words), WordIndex(words.join(self._sentences, counts))
        self._coverage = Coverage(NumberedWords.build(list(text_ids), PREFIX).join(self._sentences, counts), self.width)
        leads = [" ".join(passage[0] for link in cell.links if (passage := sentences.get(link))) for cell in cells]
        lead_facts = {
            lead: (prefixes(lead), [bool(kind.search(lead)) for kind in _KINDS.values()]) for lead in {*leads}
        }
        self._leads = [lead_facts[lead][0] for lead in leads]
        self._header_prefixes = [prefixes(cell.text) for cell in table.header]
        self._words = [_words(cell.text) for cell in cells]
        self._header = [_words(cell.text) for cell in table.header]
        self._table_facts = TableFacts(table, self.rows)
        kinds = np.array([lead_facts[lead][1] for lead in leads], float).T
        self._cells = np.concatenate([_cell_facts(cells, counts, self.rows, self.width), kinds])

    def features(self, question: str, *, header: bool = False) -> np.ndarray:
        """Compute the lexical features of a question and of each table cell, see `FEATURES`.

        Args:
            question: question about the table.
            header: whether to include the cells of the header row, before the cells of the body.

        Returns:
            The features of the question, then of each cell, float32 [1 + cells, F].
        """
        body = self._body_features(question)
        question_features = np.zeros((1 + header * self.width, len(FEATURES)), np.float32)
        question_features[:, -len(QUESTION) :] = body[0, -len(QUESTION) :]
        return np.concatenate([question_features, body])

    def _body_features(self, question: str) -> np.ndarray:
        words = _words(question)
        coverage, rest_coverage, row = self._coverage.shares(question)
        scores = np.concatenate([self._scores(question, words), coverage[None]])
        row_rank = 1 + (row[:, :1] < row[:, 0]).sum(1, keepdims=True)
        header = np.tile([_overlap(names, words) for names in self._header], self.rows)
        question_words = set(question.lower().split())
        question_types = [float(not question_words.isdisjoint(kind)) for kind in QUESTION.values()]
        columns = [*score_views(scores), row, np.repeat(1 / row_rank, self.width, 1), rest_coverage]
        columns += [header, *self._count_asked_words(question), *self._cells, *self._numbers(question)]
        flat = [np.reshape(column, -1) for column in columns]
        return np.column_stack([*flat, np.tile(question_types, (len(header), 1))]).astype(np.float32)

    def _scores(self, question: str, words: frozenset[str]) -> np.ndarray:
        """Score the similarity of every body cell to the question, [4, R, C].

        The scores are the first four of `SCORES`.
        """
        sentence_scores = self._index.scores(question)
        best_scores = np.maximum.reduceat(sentence_scores[self._sentences], self._starts)
        order = np.empty(len(sentence_scores))
        order[np.argsort(-sentence_scores, kind="stable")] = np.arange(1, len(sentence_scores) + 1)
        ranks = np.where(sentence_scores > 0, 1 / order, 0)
        rank = np.maximum.reduceat(ranks[self._sentences], self._starts)
        overlap = [_overlap(cell_words, words) for cell_words in self._words]
        scores = np.stack([self._documents.scores(question), best_scores, rank, np.array(overlap)])
        return scores.reshape(-1, self.rows, self.width)

    def _count_asked_words(self, question: str) -> tuple[np.ndarray, np.ndarray]:
        """Compute the overlap of each cell with the words after "which" or a similar word.

        Returns:
            The share of these words in the cell's header, and in the first sentences of its passages, both [R * C].
        """
        match = _LEAD.search(question)
        requested_words = prefixes(match[1]) - _NOT_ASKED if match else frozenset[str]()
        header = [_overlap(requested_words, words) for words in self._header_prefixes]
        return np.tile(header, self.rows), np.array([_overlap(requested_words, words) for words in self._leads])

    def _numbers(self, question: str) -> tuple[np.ndarray, ...]:
        """Compute the four numeric lexical features of every body cell, such as its rank.

        The features are "rank", "related", "row_lowest" and "row_highest" of `CELL`. The rank of a cell is divided by
        the number of rows.
        """
        lowest, highest = self._table_facts.ranks[:, self.width :]
        relations = self._table_facts.relations(question)
        equals_number = np.zeros(len(lowest)) if relations is None else np.sign(relations[self.width :] & 1)
        is_lowest, is_highest = ((ranks == 1).reshape(self.rows, self.width).any(1) for ranks in (lowest, highest))
        return (
            lowest / max(1, self.rows),
            equals_number,
            np.repeat(is_lowest, self.width),
            np.repeat(is_highest, self.width),
        )


class Coverage:
    """Weighted share of a question's words that occur in the cells and rows of a table.

    Words are compared by their first letters (`prefixes`). The weight of a word is ln((1 + R) / (1 + n)) if it occurs
    in n of R rows.

    Args:
        words: words of R * C cells, row by row, identified by their first letters.
        width: number of columns, C.
    """

    def __init__(self, words: NumberedWords, width: int) -> None:
        self._words, self._shape = words, (words.count // width, width)
        prefixed, self._cells = np.divmod(np.unique(words.numbers * words.count + words.text_ids), words.count)
        self._bounds = np.searchsorted(prefixed, np.arange(len(words.hashes) + 1))

    def shares(self, question: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute the weighted share of a question's words in each cell, in the rest of its row, and in its row.

        Returns:
            The three shares, all [R, C].
        """
        matches, weights = self._match_words(question)
        count = matches.sum(2, keepdims=True)
        cells, other_cells, rows = (
            np.tensordot(weights, occurs, 1) for occurs in (matches, count > matches, count > 0)
        )
        return cells, other_cells, np.repeat(rows, self._shape[1], 1)

    def _match_words(self, question: str) -> tuple[np.ndarray, np.ndarray]:
        """Find the cells that contain each word of a question, Bool [W, R, C], and weight the words, [W].

        The weights sum to 1.
        """
        numbers = [number for number in self._words.find(" ".join(sorted(prefixes(question)))) if number >= 0]
        words = [self._cells[self._bounds[number] : self._bounds[number + 1]] for number in numbers]
        flat = np.zeros((len(words), math.prod(self._shape)), bool)
        for occurs, cells in zip(flat, words, strict=True):
            occurs[cells] = True
        matches = flat.reshape(len(words), *self._shape)
        weights = np.log((1 + self._shape[0]) / (1 + matches.any(2).sum(1)))
        return matches, weights / max(weights.sum(), np.finfo(float).tiny)


def prefixes(text: str) -> frozenset[str]:
    """Return the set of the first five letters of each word of a text.

    The prefixes of "founded" and "founder" are equal.
    """
    return frozenset(word[:PREFIX] for word in split_words(text) if len(word) > 1)


def score_views(scores: np.ndarray) -> np.ndarray:
    """Compare each cell score with the scores in the row, column and table of the cell.

    `VIEWS` lists the comparisons.

    Args:
        scores: S scores of each cell, [S, R, C].

    Returns:
        All views, one after the other, [len(VIEWS) * S, R, C].
    """
    is_largest = ((scores == scores.max((1, 2), keepdims=True)) & (scores > 0)).astype(float)
    row_mean, column_mean = scores.mean(2, keepdims=True), scores.mean(1, keepdims=True)
    views = (
        scores,
        best_elsewhere(scores, 2),
        np.broadcast_to(row_mean, scores.shape),
        is_largest,
        best_elsewhere(is_largest, 2),
        best_elsewhere(scores, 1),
        np.broadcast_to(column_mean, scores.shape),
    )
    return np.concatenate(views)


def best_elsewhere(scores: np.ndarray, axis: int) -> np.ndarray:
    """Compute for each score the maximum of all other scores along an axis.

    For example, [3, 5, 1] becomes [5, 3, 5].

    Args:
        scores: non-negative scores.
        axis: axis of the entries to compare. The result is 0 if it has a single entry.
    """
    if scores.shape[axis] == 1:
        return np.zeros_like(scores)
    second, first = np.split(np.partition(scores, -2, axis).take([-2, -1], axis), 2, axis)
    is_unique = (scores == first).sum(axis, keepdims=True) == 1
    return np.where((scores == first) & is_unique, second, first)


def _cell_facts(cells: Sequence[Cell], counts: np.ndarray, rows: int, width: int) -> np.ndarray:
    """Compute the ten features `_FORMS` of each cell, which do not depend on the question, [10, R * C]."""
    texts = [cell.text for cell in cells]
    row, column = np.divmod(np.arange(len(cells)), width)
    return np.stack(
        [
            [sum(map(str.isdigit, text)) / max(1, len(text)) for text in texts],
            [float(bool(_YEAR.search(text))) for text in texts],
            [float(bool(_MONTH.search(text))) for text in texts],
            np.log1p([len(text) for text in texts]) / 5,
            [float(bool(cell.links)) for cell in cells],
            np.log1p(counts - 1) / 5,
            column / width,
            row / rows,
            column == 0,
            np.full(len(cells), np.log(len(cells)) / 10),
        ]
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(word for word in split_words(text) if len(word) > 1)


def _overlap(words: frozenset[str], other_words: frozenset[str]) -> float:
    """Compute the share of `words` that occurs in `other_words`, from 0 to 1."""
    return len(words & other_words) / max(1, len(words))
