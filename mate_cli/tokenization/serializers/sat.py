"""Serialise a question and a table as SAT does: [CLS] question [SEP] caption #, the rows that fit the question, counts.

Source: Zhang et al., "Table Fact Verification with Structure-Aware Transformer", EMNLP 2020; zhhongzhi/sat4table,
`sat_main.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from mate_cli.tables.example import Answer, TableExample
from mate_cli.tokenization.fitting.truncation import fit_table, smallest_table
from mate_cli.tokenization.layout import SUMMARY_ROW, TableEncoding, TokenArrays
from mate_cli.tokenization.serializers.text_serializer import TextInput, TextSerializer
from mate_cli.tokenization.table_pieces import TableFacts, TablePieces

ALWAYS_WANTED = 3
"""What the header and the counts have ahead of other lines, in pieces of the question."""


class SatFacts(TableFacts):
    """A table with the counts of its values."""

    @cached_property
    def counts(self) -> list[str]:
        """Result of `count_values` for each column; the header's cell is one of the values."""
        rows = ([cell.text for cell in line] for line in (self.table.header, *self.table.rows))
        return [count_values(column) for column in zip(*rows, strict=False)]

    def texts(self) -> Iterator[str]:
        """Return all texts that are split into pieces, whatever the question."""
        yield from super().texts()
        yield from self.counts


@dataclass(eq=False)
class SatSerializer(TextSerializer):
    """Turns a question about a table into its text alone: no ranks, no relations of numbers.

    Rows and columns are there for attention and for who selects cells. Where lines do not fit, cells are shortened as
    little as possible, then the lines that fit the question worst are left out; the best body row always stays.

    Args:
        rows: the most lines to keep, header and counts among them; None for as many as fit.
    """

    facts_of: ClassVar[type[TableFacts]] = SatFacts

    rows: Annotated[int, Field(ge=3)] | None = 5

    def _prefix_texts(self, example: TableExample) -> tuple[str, ...]:
        return (example.question, " ".join(filter(None, (example.table.title, example.table.section_title))))

    def _lay_out(self, reading: TextInput) -> TableEncoding:
        facts, example = reading.facts, reading.example
        assert isinstance(facts, SatFacts)
        lines, count = self._lines(reading), len(facts.rows) + 2
        numbers = lines.cells // facts.width
        question = self._pieces[example.question,]
        ranks = rank_lines(question[question != self.tokenizer.empty_id], lines.ids, numbers, count)[numbers]
        prefix = self._prefix(reading, smallest_table(lines.word_starts, ranks))
        keep = self._choose_pieces(lines, ranks, self.max_tokens - len(prefix))
        cells = lines.cells[keep]
        row, column = np.divmod(cells, facts.width)
        row[row == count - 1] = SUMMARY_ROW
        start, tokens = len(prefix), TokenArrays(len(prefix) + len(cells))
        tokens.fill(end=start, input_ids=prefix)
        tokens.fill(start, input_ids=lines.ids[keep], segment_ids=1, column_ids=column + 1, row_ids=row)
        tokens.fill(start, label_ids=np.isin(cells, _answer_cells(example.answer, facts)))
        described = np.where(row == SUMMARY_ROW, -1, cells)
        return self._with_features(tokens.encoding(example.example_id), reading, described)

    def _lines(self, reading: TextInput) -> TablePieces:
        """Return the pieces of all lines: header, body and, last, the counts."""
        facts = reading.facts
        assert isinstance(facts, SatFacts)
        table = facts.pieces(self._pieces, reading.changes)
        counted = np.flatnonzero([bool(text) for text in facts.counts])
        if not len(counted):
            return table
        texts = [self._pieces[facts.counts[column],] for column in counted]
        counts = TablePieces.of(texts, self.tokenizer.is_continuation)
        cells = len(facts.parts) + counted[counts.cells]
        offsets = (table.offsets, len(table.ids) + counts.offsets)
        both = ((table.ids, counts.ids), (table.cells, cells), offsets, (table.word_starts, counts.word_starts))
        return TablePieces(*(np.concatenate(pair) for pair in both))

    def _prefix(self, reading: TextInput, room: int) -> np.ndarray:
        """Lay out [CLS] question [SEP] caption #; cut from the end where the table needs the room."""
        question, caption = reading.prefix
        caption_ids = self._pieces[caption,] if caption else np.zeros(0, np.int32)
        begin, middle = np.array([self.tokenizer.cls_id]), np.array([self.tokenizer.sep_id])
        ids = np.concatenate([begin, self._pieces[question,], middle, caption_ids])
        (end,) = self.tokenizer.pieces(["#"])
        return self._cut_prefix(ids, int(end[0]), room)

    def _choose_pieces(self, lines: TablePieces, ranks: np.ndarray, budget: int) -> np.ndarray:
        """Find the pieces that are kept, Bool [P]."""
        wanted = ranks < (self.rows or len(ranks) + 2)
        starts = lines.word_starts[wanted]
        fit = fit_table(starts, ranks[wanted], budget, cell_trim_length=None, drop_rows=True)
        if fit is None:
            raise self._does_not_fit(budget, smallest_table(lines.word_starts, ranks), "the two best lines")
        return wanted & (lines.word_starts < fit.pieces) & (ranks <= fit.rows)


def count_values(values: Sequence[str]) -> str:
    """Count each value that is there more than once, most frequent first; empty when all values differ.

    Among equals the one that is seen first comes first.
    """
    repeated = [f"{value} {count}" for value, count in Counter(values).most_common() if count > 1]
    return f"count : {', '.join(repeated)}" if repeated else ""


def rank_lines(question: np.ndarray, pieces: np.ndarray, lines: np.ndarray, count: int) -> np.ndarray:
    """Return the place of each line by how many pieces of the question it has, the best body row before all others.

    The first line is the header and the last one the counts, which are `ALWAYS_WANTED`. Among equals the counts come
    first, then the header, then whatever has an earlier piece of the question, as in the authors' code.

    Args:
        question: pieces of the question, repeated ones counting each time.
        pieces: of all lines, [P].
        lines: the line of each piece, [P].
        count: lines, L, at least 3.

    Returns:
        Int64 [L].
    """
    matches = np.zeros((len(question) + 1, count), bool)
    asked, places = np.nonzero(question[:, None] == pieces)
    matches[asked, lines[places]] = True
    scores = matches.sum(0)
    scores[[0, -1]] += ALWAYS_WANTED
    matches[-1] = True  # so that a line without any piece has its first one behind the question
    first = matches.argmax(0)
    first[[0, -1]] = -1, -2
    order = np.lexsort((first, -scores))
    best = next(line for line in order if 0 < line < count - 1)
    order = np.concatenate([[best], order[order != best]])
    return order.argsort()


def _answer_cells(answer: Answer | None, facts: TableFacts) -> list[int]:
    """Return the answer's cells, counted in reading order; rows that are not read have none."""
    coordinates = answer.coordinates if answer else ()
    return [(row + 1) * facts.width + column for row, column in coordinates if row < len(facts.rows)]
