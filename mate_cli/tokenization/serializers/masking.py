"""Examples of masked language modelling: a window of what is said of a table, a corner of the table, pieces masked.

Source: google-research/tapas, `utils/tf_example_utils.py`, `ToPretrainingTensorflowExample`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.tokenization.layout import TableEncoding, TokenArrays
from mate_cli.tokenization.serializers.serializer import MAX_LINES, EncodingFailure, Label, Serializer
from mate_cli.tokenization.table_pieces import LONG_TEXT, PieceCache, SplitTexts, TableFacts, TableInPieces, TablePieces

KEPT_PIECES = 50_000_000
"""Pieces of tables that a process remembers, at four bytes or so each: a later epoch splits no word again."""
BLOCK = 256
"""Numbers that are drawn from a generator at a time: one by one they take ten times as long."""


class GeneratorDraws:
    """Chance from a numpy generator."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self._drawn: list[float] = []

    def random(self) -> float:
        """Return a number from 0 to 1."""
        if not self._drawn:
            self._drawn = self._generator.random(BLOCK).tolist()
        return self._drawn.pop()

    def randint(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, both included."""
        return low + int(self.random() * (high - low + 1))

    def shuffle(self, items: list[Any]) -> None:
        """Bring a list into a random order."""
        items[:] = [items[place] for place in self._generator.permutation(len(items)).tolist()]


Draws = Random | GeneratorDraws
"""What is asked of chance; the reference asks Python's."""


class Corner(NamedTuple):
    """The part of a table that is read: first columns, first body rows, and of each cell the words before a piece."""

    columns: int
    rows: int
    pieces: int


@dataclass(eq=False)
class MaskingSerializer(Serializer):
    """Makes examples whose masked pieces are to be told: `label_ids` hold the piece that was there, 0 elsewhere.

    No masked piece is the padding, whose id is 0. The text is a window of all texts in random order (where they are
    very long, of the part around a random place); a table with less text than `min_text` keeps what it has (the
    reference leaves it out). Whole words are masked in texts, whole cells in tables: of a masked unit, each piece
    becomes [MASK] (80 %), stays (10 %) or becomes any piece (10 %).

    Args:
        share: of the pieces, how many are masked.
        max_predictions: the most masked pieces; None for as many as `share` allows at `max_tokens`: 20 at 128.
        min_text: pieces of the window of text, at least.
        max_text: pieces of the window of text, at most; a word at its end is completed.
        whole_cells: mask cells as a whole; else words.
    """

    share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    max_predictions: Annotated[int, Field(gt=0)] | None = None
    min_text: Annotated[int, Field(ge=0)] = 8
    max_text: Annotated[int, Field(gt=0)] = 32
    whole_cells: bool = True

    def __post_init__(self) -> None:
        self._pieces = PieceCache(self.tokenizer, capacity=20_000)
        self._tables: dict[str, TableInPieces] = {}
        self._remembered = 0

    @classmethod
    def marks(cls, options: Mapping[str, Any]) -> Label:
        """Return masked word pieces."""
        return "pieces"

    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode examples, always with the same masks; each line of the question is one text."""
        encodings: list[TableEncoding | EncodingFailure] = []
        for example in examples:
            known = self.in_pieces(example.table, example.question.splitlines())
            seed = list(example.example_id.encode())
            encodings.append(self.mask(known, GeneratorDraws(np.random.default_rng(seed)), example.example_id))
        return encodings

    def split_table(self, name: str, read: Callable[[], tuple[Table, Sequence[str]]]) -> TableInPieces:
        """Return the pieces of a table and its texts, split once for each name as long as there is room for them."""
        if name not in self._tables:
            pieces = self.in_pieces(*read())
            if self._remembered > KEPT_PIECES:
                self._tables.clear()
                self._remembered = 0
            self._remembered += pieces.size
            self._tables[name] = pieces
        return self._tables[name]

    def in_pieces(self, table: Table, texts: Sequence[str]) -> TableInPieces:
        """Split texts and those cells that fit when all cells before them have one piece."""
        facts = TableFacts(table, min(self.max_tokens, MAX_LINES))
        cells = np.arange(len(facts.parts))
        rows, columns = np.divmod(cells, max(1, facts.width))
        reachable = ((rows + 1) * (columns + 1) <= self.max_tokens) & (columns < MAX_LINES)
        cells, rows, columns = cells[reachable], rows[reachable], columns[reachable]
        cell_parts = [facts.parts[cell] for cell in cells.tolist()]
        split = SplitTexts(texts, self._pieces)
        if not cell_parts:
            none = np.zeros(0, np.int32)
            return TableInPieces(split, none, none, none, none, np.zeros((2, 0), np.int32))
        self._pieces.add(part for parts in cell_parts for part in parts)
        pieces = TablePieces.of([self._pieces[parts] for parts in cell_parts], self.tokenizer.is_continuation)
        at = pieces.cells
        rows, columns, starts = (array.astype(np.int32) for array in (rows[at], columns[at], pieces.word_starts))
        return TableInPieces(split, pieces.ids, rows, columns, starts, facts.ranks[:, cells[at]])

    def mask(self, known: TableInPieces, draws: Draws, example_id: str = "") -> TableEncoding:
        """Mask one example; the same draws give the same one."""
        text = self.text_window(known.texts, draws)
        ids, columns = known.ids, known.columns
        if not len(ids):
            text = text[: self.max_tokens - 2]
        corner = self.corner(known, self.max_tokens - len(text) - 2, draws)
        keep = (columns < corner.columns) & (known.rows <= corner.rows) & (known.word_starts < corner.pieces)
        start = len(text) + 2
        tokens, ranks = TokenArrays(start + int(keep.sum())), known.ranks[:, keep]
        tokens.fill(end=1, input_ids=self.tokenizer.cls_id)
        tokens.fill(1, start - 1, input_ids=text)
        tokens.fill(start - 1, start, input_ids=self.tokenizer.sep_id)
        tokens.fill(start, input_ids=ids[keep], segment_ids=1, column_ids=columns[keep] + 1, row_ids=known.rows[keep])
        tokens.fill(start, column_ranks=ranks[0], inverse_column_ranks=ranks[1])
        self._mask_units(tokens, len(text), draws)
        return tokens.encoding(example_id)

    def text_window(self, texts: SplitTexts, draws: Draws) -> np.ndarray:
        """Return a random window of all texts, whole words of it, int32."""
        order = list(range(len(texts)))
        draws.shuffle(order)
        if texts.characters > LONG_TEXT:
            order = texts.rotate_to(order, draws.randint(0, texts.characters - 1))
        pieces = np.concatenate([texts[place] for place in order]) if order else np.zeros(0, np.int32)
        if len(pieces) < max(1, self.min_text):
            return pieces
        inner = self.tokenizer.is_continuation
        start = draws.randint(0, len(pieces) - self.min_text)
        while start > 0 and inner[pieces[start]]:
            start -= 1
        end = draws.randint(start + self.min_text, min(len(pieces), start + self.max_text))
        while end < len(pieces) and inner[pieces[end]]:
            end += 1
        return pieces[start:end]

    def corner(self, known: TableInPieces, budget: int, draws: Draws) -> Corner:
        """Grow a corner from one cell, by a column, a row or a piece per cell at even odds, until the next is too much.

        The budget is the most pieces.
        """
        if not len(known.ids):
            return Corner(0, 0, 0)
        limits = Corner(known.width, min(known.height, MAX_LINES), self._longest(known))
        now = Corner(1, 1, 1)
        while now != limits:
            for axis in range(3):
                if now[axis] < limits[axis] and draws.random() < 0.5:
                    larger = Corner(*(size + (place == axis) for place, size in enumerate(now)))
                    if known.cost(*larger) > budget:
                        return now
                    now = larger
        return now

    def _longest(self, known: TableInPieces) -> int:
        """Return the most pieces of a cell, as far as they matter."""
        places = np.arange(len(known.ids))
        cells = known.rows * known.width + known.columns
        first = np.searchsorted(cells, cells)
        return min(int((places - first).max()) + 1, self.max_tokens)

    def _mask_units(self, tokens: TokenArrays, text: int, draws: Draws) -> None:
        ids, columns, labels = (tokens[name] for name in ("input_ids", "column_ids", "label_ids"))
        units = self._units(ids, columns, text)
        draws.shuffle(units)
        left = min(self.most_predictions, max(1, round(len(ids) * self.share)))
        mask, size = self.tokenizer.mask_id, self.vocab_size
        for begin, end in units:
            if left <= 0:
                break
            if end - begin > left:  # a smaller one may still fit
                continue
            left -= end - begin
            labels[begin:end] = ids[begin:end]
            for place in range(begin, end):
                if draws.random() < 0.8:
                    ids[place] = mask
                elif draws.random() >= 0.5:
                    ids[place] = draws.randint(0, size - 1)

    @property
    def most_predictions(self) -> int:
        """Largest number of pieces of an example that are masked."""
        return self.max_predictions or math.ceil(self.share * self.max_tokens)

    def _units(self, ids: np.ndarray, columns: np.ndarray, text: int) -> list[tuple[int, int]]:
        """Return (begin, end) of what is masked together; [CLS] and [SEP] are in none.

        A cell goes on while the column is the same, so that the cells of a table's only column are one unit.
        """
        inner = self.tokenizer.is_continuation[ids]
        if self.whole_cells:
            inner[1:] |= (columns[1:] > 0) & (columns[1:] == columns[:-1])
        inner[[0, 1, text + 1]] = False
        begins = np.flatnonzero(~inner)
        ends = [*begins[1:].tolist(), len(ids)]
        special = (0, text + 1)
        return [unit for unit in zip(begins.tolist(), ends, strict=True) if unit[0] not in special]
