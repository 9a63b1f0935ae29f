"""Serializer of SAT: [CLS] question [SEP] caption #, then matching rows and value counts.

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
"""Number of matching question tokens that the header and the value counts are given in addition, so that they rank
before most rows."""


class SatFacts(TableFacts):
    """`TableFacts` with the counts of duplicate values in each column, which SAT adds as a last line."""

    @cached_property
    def counts(self) -> list[str]:
        """Texts that list the repeated values of each column, such as "count : Berlin 2".

        The name of the column is one of the values.
        """
        rows = ([cell.text for cell in line] for line in (self.table.header, *self.table.rows))
        return [count_values(column) for column in zip(*rows, strict=False)]

    def texts(self) -> Iterator[str]:
        """Return the texts of cells and value counts, which are tokenized once for all questions about the table."""
        yield from super().texts()
        yield from self.counts


@dataclass(eq=False)
class SatSerializer(TextSerializer):
    """Encodes a question about a table as text only, without column ranks and numeric relations.

    Row and column ids are set for structured attention and for the selection of cells. If lines do not fit, cells are
    truncated as little as possible, then the lines that match the question worst are dropped. The best body row is
    always kept.

    Args:
        rows: maximum number of lines, including the header and the value counts. None means as many as fit.
    """

    facts_of: ClassVar[type[TableFacts]] = SatFacts

    rows: Annotated[int, Field(ge=3)] | None = 5

    def _prefix_texts(self, example: TableExample) -> tuple[str, ...]:
        return (example.question, " ".join(filter(None, (example.table.title, example.table.section_title))))

    def _lay_out(self, reading: TextInput) -> TableEncoding:
        table_facts, example = reading.facts, reading.example
        assert isinstance(table_facts, SatFacts)
        lines, count = self._lines(reading), len(table_facts.rows) + 2
        numbers = lines.cells // table_facts.width
        question = self._cache[example.question,]
        ranks = rank_lines(question[question != self.tokenizer.empty_id], lines.ids, numbers, count)[numbers]
        prefix = self._prefix(reading, smallest_table(lines.word_starts, ranks))
        keep = self._choose_pieces(lines, ranks, self.max_tokens - len(prefix))
        cells = lines.cells[keep]
        row, column = np.divmod(cells, table_facts.width)
        row[row == count - 1] = SUMMARY_ROW
        start, tokens = len(prefix), TokenArrays(len(prefix) + len(cells))
        tokens.fill(end=start, input_ids=prefix)
        tokens.fill(start, input_ids=lines.ids[keep], segment_ids=1, column_ids=column + 1, row_ids=row)
        tokens.fill(start, label_ids=np.isin(cells, _answer_cells(example.answer, table_facts)))
        feature_cells = np.where(row == SUMMARY_ROW, -1, cells)
        return self._with_features(tokens.encoding(example.example_id), reading, feature_cells)

    def _lines(self, reading: TextInput) -> TablePieces:
        """Tokenize the lines of the table: the header, the body rows, and the value counts as last line."""
        table_facts = reading.facts
        assert isinstance(table_facts, SatFacts)
        table = table_facts.pieces(self._cache, reading.changes)
        counted_columns = np.flatnonzero([bool(text) for text in table_facts.counts])
        if not len(counted_columns):
            return table
        texts = [self._cache[table_facts.counts[column],] for column in counted_columns]
        counts = TablePieces.join(texts, self.tokenizer.is_continuation)
        cells = len(table_facts.parts) + counted_columns[counts.cells]
        offsets = (table.offsets, len(table.ids) + counts.offsets)
        pairs = ((table.ids, counts.ids), (table.cells, cells), offsets, (table.word_starts, counts.word_starts))
        return TablePieces(*(np.concatenate(pair) for pair in pairs))

    def _prefix(self, reading: TextInput, room: int) -> np.ndarray:
        """Return the token ids of [CLS] question [SEP] caption #, before the table.

        The end is truncated if the table needs `room` tokens.
        """
        question, caption = reading.prefix
        caption_ids = self._cache[caption,] if caption else np.zeros(0, np.int32)
        first_ids, separator_ids = np.array([self.tokenizer.cls_id]), np.array([self.tokenizer.sep_id])
        ids = np.concatenate([first_ids, self._cache[question,], separator_ids, caption_ids])
        (last_ids,) = self.tokenizer.pieces(["#"])
        return self._cut_prefix(ids, int(last_ids[0]), room)

    def _choose_pieces(self, lines: TablePieces, ranks: np.ndarray, budget: int) -> np.ndarray:
        """Select the tokens of the best lines that fit into the token budget, with truncated cells.

        Args:
            lines: tokens of all lines.
            ranks: rank of the line of each token, [P].
            budget: maximum number of tokens.

        Returns:
            True for tokens to keep, Bool [P].
        """
        is_best_line = ranks < (self.rows or len(ranks) + 2)
        word_starts = lines.word_starts[is_best_line]
        size = fit_table(word_starts, ranks[is_best_line], budget, cell_trim_length=None, drop_rows=True)
        if size is None:
            raise self._does_not_fit(budget, smallest_table(lines.word_starts, ranks), "the two best lines")
        return is_best_line & (lines.word_starts < size.tokens) & (ranks <= size.rows)


def count_values(values: Sequence[str]) -> str:
    """Describe the counts of duplicate values as text, the most frequent first.

    Values with equal counts are ordered by their first occurrence. The text is empty if all values differ.
    """
    repeated = [f"{value} {count}" for value, count in Counter(values).most_common() if count > 1]
    return f"count : {', '.join(repeated)}" if repeated else ""


def rank_lines(question: np.ndarray, ids: np.ndarray, lines: np.ndarray, count: int) -> np.ndarray:
    """Rank lines by the number of question tokens that they contain, with the best body row first.

    The first line is the header and the last line the value counts. Both get the bonus `ALWAYS_WANTED`. Of lines with
    equal scores the value counts come first, then the header, then the line whose first matching token is earlier in
    the question, as in the authors' code.

    Args:
        question: token ids of the question. A duplicate token counts each time.
        ids: token ids of all lines, [P].
        lines: line of each token, [P].
        count: number of lines L, at least 3.

    Returns:
        The rank of each line from 0, int64 [L].
    """
    matches = np.zeros((len(question) + 1, count), bool)
    question_indices, token_indices = np.nonzero(question[:, None] == ids)
    matches[question_indices, lines[token_indices]] = True
    scores = matches.sum(0)
    scores[[0, -1]] += ALWAYS_WANTED
    # A line without any match gets its first match after the end of the question.
    matches[-1] = True
    first = matches.argmax(0)
    first[[0, -1]] = -1, -2
    order = np.lexsort((first, -scores))
    best_row = next(line for line in order if 0 < line < count - 1)
    order = np.concatenate([[best_row], order[order != best_row]])
    return order.argsort()


def _answer_cells(answer: Answer | None, table_facts: TableFacts) -> list[int]:
    """Return the indices of the answer cells in the reading order of `table_facts`, without omitted rows."""
    coordinates = answer.coordinates if answer else ()
    return [(row + 1) * table_facts.width + column for row, column in coordinates if row < len(table_facts.rows)]
