"""Synthetic statements: sentences of a small grammar that a table entails or refutes.

A statement compares two expressions over the same column, such as "the total Points when Team is Red is greater
than 32". With the same settings and a `numpy.random.RandomState` the reference's statements come out, word for word.

Source: Eisenschlos et al. 2020, "Understanding tables with intermediate pre-training", section 3.2;
google-research/tapas, `utils/synthesize_entablement.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mate_cli.data.corpora.shards import CorpusTable
from mate_cli.data.synthesis.counterfactual import Rewriting, TableReferences, counterfactual_pairs
from mate_cli.data.synthesis.statement_values import (
    COMPARATORS,
    COUNT,
    SELECTS,
    Expression,
    Filter,
    PartValues,
    Values,
    compare_values,
)
from mate_cli.tables.example import VERDICTS, Answer, TableExample
from mate_cli.tables.table import Table

Random = np.random.Generator | np.random.RandomState
Side = Expression | Values
"""One side of a comparison: an expression, or the constant values in its place."""


@dataclass(frozen=True)
class Grammar:
    """Settings of drawing statements.

    Args:
        count_share: how often the rows are counted; 0.02 in the reference's program, 0.2 in its class of settings.
        constant_share: how often the left side is put as its values; else the right side as often.
        stop_share: how often no further condition is put on the rows, after each one that was.
        attempts: so often a comparison, and a right side for a left one, is tried.
        patience: so many comparisons are tried for a statement at most; the reference does not care for time.
        blanks: also use unnamed columns and cells without a word, which leaves holes in the sentence; the reference
            does.
    """

    count_share: float = 0.02
    constant_share: float = 0.5
    stop_share: float = 0.5
    attempts: int = 100
    patience: int = 1000
    blanks: bool = False


class Statement(NamedTuple):
    """A sentence about a table; the label is 1 when the table entails it and 0 when it refutes it."""

    text: str
    label: int


def synthesize(table: Table, rng: Random, grammar: Grammar = Grammar()) -> list[Statement]:
    """Make one entailed and one refuted statement about a small table, in this order, as far as they can be found.

    There are at least two rows; the time depends on their number.
    """
    writer = _Writer(table, rng, grammar)
    texts = ((writer.statement(wanted), wanted) for wanted in (True, False))
    return [Statement(text, int(wanted)) for text, wanted in texts if text is not None]


class _Writer:
    """Draws statements about one table. The order of draws is the reference's."""

    def __init__(self, table: Table, rng: Random, grammar: Grammar) -> None:
        self._rng, self._grammar = rng, grammar
        self._values = PartValues(table, grammar.blanks)
        self._patience = 0

    def statement(self, wanted: bool) -> str | None:
        """Return a statement with the wanted label, or None."""
        self._patience = self._grammar.patience
        tries = (self._comparison(wanted) for _ in range(self._grammar.attempts) if self._patience)
        return next((text for text in tries if text is not None), None)

    def _comparison(self, wanted: bool) -> str | None:
        if self._rng.random() < self._grammar.count_share:
            return self._counts(wanted)
        for column in self._shuffled(range(len(self._values.names))):
            left = self._expression(column)
            if left is None:
                return None
            for _ in range(min(self._grammar.attempts, self._patience)):
                self._patience -= 1
                right = self._expression(column)
                if right is None:
                    return None
                text = self._compared(left, right, wanted)
                if text is not None:
                    return text
        return None

    def _counts(self, wanted: bool) -> str | None:
        left, right = self._restricted(COUNT, -1), self._restricted(COUNT, -1)
        if left is None or right is None:
            return None
        tries = (self._compared(left, right, wanted) for _ in self._shuffled(range(len(self._values.names))))
        return next((text for text in tries if text is not None), None)

    def _expression(self, column: int) -> tuple[Expression, Values] | None:
        """Sum up a column in a random way that makes sense."""
        tries = (self._restricted(select, column) for select in self._shuffled(SELECTS))
        return next((pair for pair in tries if pair is not None), None)

    def _restricted(self, select: str, column: int) -> tuple[Expression, Values] | None:
        """Restrict an expression to some rows, at least by one condition where one leaves it a meaning."""
        rows = self._values.rows
        values = self._values.compute_values(select, column, rows)
        if values is None:
            return None
        expression = Expression(select, column)
        for other in self._shuffled(range(len(self._values.names))):
            condition = self._condition(expression, other, rows) if self._values.usable[other] else None
            if condition is not None:
                where, rows, values = condition
                expression = expression._replace(wheres=(*expression.wheres, where))
                if self._rng.random() > self._grammar.stop_share:
                    break
        return (expression, values) if self._values.is_sayable(values) else None

    def _condition(self, expression: Expression, other: int, rows: int) -> tuple[Filter, int, Values] | None:
        """Return the first of the shuffled conditions on a column that leaves the expression a meaning."""
        texts, ways = self._values.columns[other], len(COMPARATORS)
        for pair in self._shuffled(range(len(texts) * ways)):
            where = Filter(other, COMPARATORS[pair % ways], texts[pair // ways])
            matches = self._values.filter_rows(rows, where)
            values = self._values.compute_values(expression.select, expression.column, matches) if matches else None
            if matches and values is not None and self._values.is_sayable(values):
                return where, matches, values
        return None

    def _compared(self, left: tuple[Expression, Values], right: tuple[Expression, Values], wanted: bool) -> str | None:
        for comparator in self._shuffled(COMPARATORS):
            if compare_values(left[1], right[1], comparator) is wanted:
                first, second = (_format_side(side, self._values.names) for side in self._with_constants(left, right))
                return f"{first} {comparator} {second}"
        return None

    def _with_constants(self, left: tuple[Expression, Values], right: tuple[Expression, Values]) -> tuple[Side, Side]:
        """Put one side as its values, by chance, and where both sides are the same words."""
        share = self._grammar.constant_share
        if share > self._rng.random():
            return left[1], right[0]
        if share > self._rng.random():
            return left[0], right[1]
        return (left[1] if left[0] == right[0] else left[0]), right[0]

    def _shuffled(self, items: Sequence) -> list:  # type: ignore[type-arg]
        shuffled = list(items)
        self._rng.shuffle(shuffled)
        return shuffled


def _format_side(side: Side, names: Sequence[str]) -> str:
    if not isinstance(side, Expression):
        return ", ".join(sorted(side))
    text = side.select.format(names[side.column]) if side.column >= 0 else side.select
    conditions = " and ".join(f"{names[where.column]} {where.comparator} {where.text}" for where in side.wheres)
    return f"{text} when {conditions}" if conditions else text


MAX_CELLS = 50
MIN_COLUMNS, MIN_ROWS = 2, 2


def table_parts(table: Table, max_cells: int = MAX_CELLS) -> Iterator[tuple[int, Table]]:
    """Halve the rows of a table until no part has more than so many body cells.

    Nothing comes of a table with one row or one column, with more columns than `max_cells`, and parts of one row
    are left out.

    Yields:
        The place of the part's first row in the table, and the part, with its own passages only.

    Source: google-research/tapas, `utils/beam_utils.py`.
    """
    columns, rows = len(table.header), len(table.rows)
    if columns < MIN_COLUMNS or rows < MIN_ROWS or columns > max_cells:
        return
    for begin, end in _halves(0, rows, max_cells // columns):
        if end - begin >= MIN_ROWS:
            yield begin, _part(table, begin, end)


def _halves(begin: int, end: int, longest: int) -> Iterator[tuple[int, int]]:
    if end - begin <= longest:
        yield begin, end
        return
    middle = (begin + end) // 2
    yield from _halves(begin, middle, longest)
    yield from _halves(middle, end, longest)


def _part(table: Table, begin: int, end: int) -> Table:
    rows = table.rows[begin:end]
    links = dict.fromkeys(link for row in rows for cell in row for link in cell.links)
    passages = {link: table.passages[link] for link in links if link in table.passages}
    return replace(table, rows=rows, passages=passages)


SYNTHETIC, COUNTERFACTUAL = "synthetic", "counterfactual"
MAX_WORDS = 50


def part_statements(
    table: CorpusTable,
    begin: int,
    part: Table,
    rng: np.random.Generator,
    grammar: Grammar | None,
    rewriting: Rewriting | None,
    max_words: int = MAX_WORDS,
) -> list[TableExample]:
    """Make statements about one of a table's parts: two of the grammar, and pairs of the texts' sentences.

    The texts are those of the corpus and the passages that the part links to, without those that other parts link to.
    An example's table is the bare part: a title or passage beside it would tell which of two sentences was rewritten.

    Args:
        table: the whole, with its texts.
        begin: the part's first row in it.
        part: one of `table_parts`.
        rng: what is made depends on its state only.
        grammar: of the synthetic statements; None makes none.
        rewriting: of the counterfactual statements; None makes none.
        max_words: longer statements are left out; cut to fit a network, they would lose their meaning.
    """
    bare = replace(part, title="", section_title="", section_text="", intro="", passages={})
    entries: list[tuple[str, str, int]] = []
    if grammar is not None:
        statements = synthesize(bare, rng, grammar)
        entries += [(SYNTHETIC, *statement) for statement in statements if _words(statement.text) <= max_words]
    if rewriting is not None:
        elsewhere = set(table.table.passages.values()).difference(part.passages.values())
        texts = dict.fromkeys(text for text in (*table.texts, *part.passages.values()) if text not in elsewhere)
        for pair in counterfactual_pairs(TableReferences(part), texts, rng, rewriting):
            if _words(pair.positive) <= max_words >= _words(pair.negative):
                entries += [(COUNTERFACTUAL, pair.positive, 1), (COUNTERFACTUAL, pair.negative, 0)]
    return [_example(f"{table.key}/{begin}/{place}", *entry, bare) for place, entry in enumerate(entries)]


def _example(example_id: str, kind: str, text: str, label: int, table: Table) -> TableExample:
    text = " ".join(text.split())  # names of columns may have several lines
    return TableExample(example_id, text, table, Answer((VERDICTS[label],), label=label), subsets=(kind,))


def _words(text: str) -> int:
    return len(text.split())
