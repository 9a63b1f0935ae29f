"""What words say of a question and a cell, its row and its column, as numbers; one token per cell, known by these.

The best score elsewhere in the row is what finds the row that a question speaks of; without it a ranker fails.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.expansion import SentenceIndex, split_sentences
from mate_cli.tokenization.layout import TableEncoding, TokenArrays
from mate_cli.tokenization.pieces.table_facts import TableFacts
from mate_cli.tokenization.serializers.serializer import MAX_LINES, EncodingFailure, Label, Serializer

SCORES = ("document", "sentence", "sentence_rank", "overlap")
"""How well a cell fits the question: cosine of the cell with its passages, the best of its sentences (its own text
being one) and that one's reciprocal rank in the table, and the share of the cell's words that are in the question."""
VIEWS = ("own", "row_best", "row_mean", "largest", "row_largest", "column_best", "column_mean")
"""Each score of the cell itself, the best elsewhere in its row and the row's mean, whether the cell or another one
of its row has the table's largest, the best elsewhere in its column and the column's mean."""
_PLAIN = ("digits", "year", "length", "linked", "sentences", "column", "row", "first", "cells")
CELL = ("header", *_PLAIN, "rank", "related")
"""The overlap of a cell's header with the question; the shape of its text, and its place; its number's rank in the
column, and whether it equals a number of the question."""
QUESTION = (
    *("what", "which", "who", "whom", "when", "where", "how", "many"),
    *("name", "year", "first", "last", "most", "number", "city", "team"),
)
"""Words that say what kind of answer a question asks for."""
FEATURES = (*(f"{score}_{view}" for view in VIEWS for score in SCORES), *CELL, *(f"asks_{word}" for word in QUESTION))
"""The names of the features, in their order."""

_WORD, _YEAR = re.compile(r"\w\w+"), re.compile(r"\b(1[5-9]|20)\d\d\b")


class LexicalTable:
    """What is worked out once per table and serves all its questions.

    Args:
        table: with R rows of C cells, both at least 1.
    """

    def __init__(self, table: Table) -> None:
        self.rows, self.width = len(table.rows), len(table.header)
        cells = [cell for _, _, cell in table.cells()]
        sentences = {link: split_sentences(text) for link, text in table.passages.items()}
        own = [[cell.text, *(s for link in cell.links for s in sentences.get(link, ()))] for cell in cells]
        places: dict[str, int] = {}
        self._sentences = np.array([places.setdefault(text, len(places)) for texts in own for text in texts])
        counts = np.array([len(texts) for texts in own])
        self._starts = counts.cumsum() - counts
        self._documents = SentenceIndex([" ".join(texts) for texts in own])
        self._index = SentenceIndex(list(places))
        self._words = [_words(cell.text) for cell in cells]
        self._header = [_words(cell.text) for cell in table.header]
        self._facts = TableFacts(table, self.rows)
        self._cells = _cell_facts(cells, counts, self.rows, self.width)

    def features(self, question: str, *, header: bool = False) -> np.ndarray:
        """`FEATURES` for a question, float32 [1 + cells, F]: of the question itself, then cell by cell.

        With `header`, the cells of the header row come before those of the body.
        """
        body = self._body_features(question)
        asked = np.zeros((1 + header * self.width, len(FEATURES)), np.float32)
        asked[:, -len(QUESTION) :] = body[0, -len(QUESTION) :]
        return np.concatenate([asked, body])

    def _body_features(self, question: str) -> np.ndarray:
        words = _words(question)
        scores = self._scores(question, words)
        header = np.tile([_overlap(names, words) for names in self._header], self.rows)
        asked = [float(word in question.lower().split()) for word in QUESTION]
        columns = [*score_views(scores), header, *self._cells, *self._numbers(question)]
        flat = [np.reshape(column, -1) for column in columns]
        return np.column_stack([*flat, np.tile(asked, (len(header), 1))]).astype(np.float32)

    def _scores(self, question: str, words: frozenset[str]) -> np.ndarray:
        """`SCORES` of every cell, [4, R, C]."""
        found = self._index.scores(question)
        best = np.maximum.reduceat(found[self._sentences], self._starts)
        order = np.empty(len(found))
        order[np.argsort(-found, kind="stable")] = np.arange(1, len(found) + 1)
        ranks = np.where(found > 0, 1 / order, 0)
        rank = np.maximum.reduceat(ranks[self._sentences], self._starts)
        overlap = [_overlap(own, words) for own in self._words]
        scores = np.stack([self._documents.scores(question), best, rank, np.array(overlap)])
        return scores.reshape(len(SCORES), self.rows, self.width)

    def _numbers(self, question: str) -> tuple[np.ndarray, np.ndarray]:
        """Of every cell, its rank in its column as a share, and whether it compares with a number of the question."""
        ranks = self._facts.ranks[0, self.width :] / max(1, self.rows)
        relations = self._facts.relations(question)
        related = np.zeros(len(ranks)) if relations is None else np.sign(relations[self.width :] & 1)
        return ranks, related


def score_views(scores: np.ndarray) -> np.ndarray:
    """`VIEWS` of scores [S, R, C], one after the other: [len(VIEWS) * S, R, C]."""
    largest = ((scores == scores.max((1, 2), keepdims=True)) & (scores > 0)).astype(float)
    row_mean, column_mean = scores.mean(2, keepdims=True), scores.mean(1, keepdims=True)
    found = (
        scores,
        best_elsewhere(scores, 2),
        np.broadcast_to(row_mean, scores.shape),
        largest,
        best_elsewhere(largest, 2),
        best_elsewhere(scores, 1),
        np.broadcast_to(column_mean, scores.shape),
    )
    return np.concatenate(found)


def best_elsewhere(scores: np.ndarray, axis: int) -> np.ndarray:
    """The largest of the other entries along an axis, of entries not below 0; 0 where there is no other."""
    if scores.shape[axis] == 1:
        return np.zeros_like(scores)
    second, first = np.split(np.partition(scores, -2, axis).take([-2, -1], axis), 2, axis)
    alone = (scores == first).sum(axis, keepdims=True) == 1
    return np.where((scores == first) & alone, second, first)


def _cell_facts(cells: Sequence[Cell], counts: np.ndarray, rows: int, width: int) -> np.ndarray:
    """What does not depend on the question, `_PLAIN`, [9, R * C]."""
    texts = [cell.text for cell in cells]
    row, column = np.divmod(np.arange(len(cells)), width)
    return np.stack(
        [
            [sum(map(str.isdigit, text)) / max(1, len(text)) for text in texts],
            [float(bool(_YEAR.search(text))) for text in texts],
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
    return frozenset(_WORD.findall(text.lower()))


def _overlap(words: frozenset[str], question: frozenset[str]) -> float:
    """The share of the words that are in the question."""
    return len(words & question) / max(1, len(words))


@dataclass(eq=False)
class LexicalSerializer(Serializer):
    """Turns a question about a table into [CLS] and one token per body cell, each with `FEATURES`.

    Args:
        tokenizer: names [CLS] and the empty word, the only words there are.
        max_tokens: the longest encoding; last rows that do not fit are dropped.
        reset_positions: only noted, as the tokens of cells have no order.
    """

    max_tokens: Annotated[int, Field(ge=8)] = 4096
    reset_positions: bool = True

    @classmethod
    def marks(cls, options: Mapping[str, Any]) -> Label:
        """The cells of an answer."""
        return "cells"

    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode examples; the result has their order and number."""
        tables = {id(example.table): example.table for example in examples}
        known = {key: self._misfit(table) or LexicalTable(table) for key, table in tables.items()}
        return [self._lay_out(example, known[id(example.table)]) for example in examples]

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
        """The encoding of an example with what is known of its table, or why that cannot be encoded."""
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
