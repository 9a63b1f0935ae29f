"""Synthetic statements: sentences of a small grammar that a table entails or refutes.

A statement compares two expressions over the same column, such as "the total Points when Team is Red is greater
than 32". With the same settings and a `numpy.random.RandomState`, the statements equal those of the reference
implementation (google-research/tapas).

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
Operand = Expression | Values
"""One side of a comparison: an expression, or its values as constants."""


@dataclass(frozen=True)
class Grammar:
    """Probabilities and limits for sampling synthetic statements about tables.

    Args:
        count_share: probability that a statement counts rows. The reference implementation has 0.02 in its program
            and 0.2 in its class of settings.
        constant_share: probability that the left side is replaced by its values. If not, the right side is replaced
            with the same probability.
        stop_share: probability that no further condition is added after a condition.
        attempts: number of attempts to find a comparison, and a right side for a left side.
        patience: maximum number of comparisons tried per statement. The reference implementation has no limit.
        blanks: whether to use unnamed columns and empty cells, which leave gaps in the sentence, as the reference
            implementation does.
    """

    count_share: float = 0.02
    constant_share: float = 0.5
    stop_share: float = 0.5
    attempts: int = 100
    patience: int = 1000
    blanks: bool = False


class Statement(NamedTuple):
    """A generated sentence about a table, with its label.

    The label is 1 if the table entails the sentence and 0 if it refutes it.
    """

    text: str
    label: int


def synthesize(table: Table, rng: Random, grammar: Grammar = Grammar()) -> list[Statement]:
    """Sample one true (entailed) and one false (refuted) statement about a small table.

    Args:
        table: table with at least two rows. The time depends on the number of rows.
        rng: source of randomness.
        grammar: settings.
    """
    writer = _Writer(table, rng, grammar)
    texts = ((writer.statement(label), label) for label in (True, False))
    return [Statement(text, int(label)) for text, label in texts if text is not None]


class _Writer:
    """Generator of random statements about one table, with a grammar.

    Random numbers are drawn in the order of the reference implementation.
    """

    def __init__(self, table: Table, rng: Random, grammar: Grammar) -> None:
        self._rng, self._grammar = rng, grammar
        self._values = PartValues(table, grammar.blanks)
        self._patience = 0

    def statement(self, label: bool) -> str | None:
        """Sample a statement that is true or false as `label`, or return None without success."""
        self._patience = self._grammar.patience
        tries = (self._comparison(label) for _ in range(self._grammar.attempts) if self._patience)
        return next((text for text in tries if text is not None), None)

    def _comparison(self, label: bool) -> str | None:
        if self._rng.random() < self._grammar.count_share:
            return self._counts(label)
        for column in self._shuffled(range(len(self._values.names))):
            lhs = self._expression(column)
            if lhs is None:
                return None
            for _ in range(min(self._grammar.attempts, self._patience)):
                self._patience -= 1
                rhs = self._expression(column)
                if rhs is None:
                    return None
                text = self._compare(lhs, rhs, label)
                if text is not None:
                    return text
        return None

    def _counts(self, label: bool) -> str | None:
        lhs, rhs = self._restricted(COUNT, -1), self._restricted(COUNT, -1)
        if lhs is None or rhs is None:
            return None
        tries = (self._compare(lhs, rhs, label) for _ in self._shuffled(range(len(self._values.names))))
        return next((text for text in tries if text is not None), None)

    def _expression(self, column: int) -> tuple[Expression, Values] | None:
        """Sample an aggregation of a column with conditions, and return it with its values.

        Return None if no aggregation is defined.
        """
        tries = (self._restricted(select, column) for select in self._shuffled(SELECTS))
        return next((pair for pair in tries if pair is not None), None)

    def _restricted(self, select: str, column: int) -> tuple[Expression, Values] | None:
        """Sample row conditions for an aggregation (`select`) of a column, and evaluate it.

        The expression has at least one condition if its value is defined with a condition. None if it is not defined.
        """
        rows = self._values.rows
        values = self._values.compute_values(select, column, rows)
        if values is None:
            return None
        expression = Expression(select, column)
        for filter_column in self._shuffled(range(len(self._values.names))):
            condition = self._condition(expression, filter_column, rows) if self._values.usable[filter_column] else None
            if condition is not None:
                row_filter, rows, values = condition
                expression = expression._replace(wheres=(*expression.wheres, row_filter))
                if self._rng.random() > self._grammar.stop_share:
                    break
        return (expression, values) if self._values.is_sayable(values) else None

    def _condition(self, expression: Expression, filter_column: int, rows: int) -> tuple[Filter, int, Values] | None:
        """Sample a condition on `filter_column` under which `expression` still has a value.

        Returns:
            The condition, the set of rows that satisfy it, and the values of the expression in these rows. None if no
            condition is suitable.
        """
        texts, comparator_count = self._values.columns[filter_column], len(COMPARATORS)
        for pair in self._shuffled(range(len(texts) * comparator_count)):
            row_filter = Filter(filter_column, COMPARATORS[pair % comparator_count], texts[pair // comparator_count])
            matches = self._values.filter_rows(rows, row_filter)
            values = self._values.compute_values(expression.select, expression.column, matches) if matches else None
            if matches and values is not None and self._values.is_sayable(values):
                return row_filter, matches, values
        return None

    def _compare(self, lhs: tuple[Expression, Values], rhs: tuple[Expression, Values], label: bool) -> str | None:
        for comparator in self._shuffled(COMPARATORS):
            if compare_values(lhs[1], rhs[1], comparator) is label:
                sides = self._with_constants(lhs, rhs)
                first, second = (_format_operand(side, self._values.names) for side in sides)
                return f"{first} {comparator} {second}"
        return None

    def _with_constants(
        self, lhs: tuple[Expression, Values], rhs: tuple[Expression, Values]
    ) -> tuple[Operand, Operand]:
        """Replace one side of a comparison by its values with probability `constant_share`.

        The side is chosen at random.

        If neither side is replaced and both sides are the same expression, the left side is replaced.
        """
        share = self._grammar.constant_share
        if share > self._rng.random():
            return lhs[1], rhs[0]
        if share > self._rng.random():
            return lhs[0], rhs[1]
        return (lhs[1] if lhs[0] == rhs[0] else lhs[0]), rhs[0]

    def _shuffled(self, items: Sequence) -> list:  # type: ignore[type-arg]
        shuffled = list(items)
        self._rng.shuffle(shuffled)
        return shuffled


def _format_operand(operand: Operand, names: Sequence[str]) -> str:
    if not isinstance(operand, Expression):
        return ", ".join(sorted(operand))
    text = operand.select.format(names[operand.column]) if operand.column >= 0 else operand.select
    conditions = " and ".join(f"{names[clause.column]} {clause.comparator} {clause.text}" for clause in operand.wheres)
    return f"{text} when {conditions}" if conditions else text


MAX_CELLS = 50
MIN_COLUMNS, MIN_ROWS = 2, 2


def table_parts(table: Table, max_cells: int = MAX_CELLS) -> Iterator[tuple[int, Table]]:
    """Split a table by halving its rows until no part has more than `max_cells` body cells.

    A table with one row or one column, or with more than `max_cells` columns, yields no parts. Parts of one row are
    omitted.

    Yields:
        The index of the part's first row in the table, and the part with only its linked passages.

    Source: google-research/tapas, `utils/beam_utils.py`.
    """
    columns, rows = len(table.header), len(table.rows)
    if columns < MIN_COLUMNS or rows < MIN_ROWS or columns > max_cells:
        return
    for start, end in _halves(0, rows, max_cells // columns):
        if end - start >= MIN_ROWS:
            yield start, _part(table, start, end)


def _halves(start: int, end: int, longest: int) -> Iterator[tuple[int, int]]:
    if end - start <= longest:
        yield start, end
        return
    middle = (start + end) // 2
    yield from _halves(start, middle, longest)
    yield from _halves(middle, end, longest)


def _part(table: Table, start: int, end: int) -> Table:
    rows = table.rows[start:end]
    links = dict.fromkeys(link for row in rows for cell in row for link in cell.links)
    passages = {link: table.passages[link] for link in links if link in table.passages}
    return replace(table, rows=rows, passages=passages)


SYNTHETIC, COUNTERFACTUAL = "synthetic", "counterfactual"
MAX_WORDS = 50


def part_statements(
    table: CorpusTable,
    start: int,
    part: Table,
    rng: np.random.Generator,
    grammar: Grammar | None,
    rewriting: Rewriting | None,
    max_words: int = MAX_WORDS,
) -> list[TableExample]:
    """Generate training examples with true and false statements about some rows of a table.

    These are two statements of the grammar, and pairs of original and rewritten sentences.

    Sentences come from the texts of the table and from passages that the part links to, without passages that only
    other parts link to. The table of an example has no title and no passages, because they would reveal which of two
    sentences was rewritten.

    Args:
        table: whole table with its texts.
        start: index of the part's first row in the table.
        part: part from `table_parts`.
        rng: only source of randomness.
        grammar: settings of synthetic statements. None makes no synthetic statements.
        rewriting: settings of counterfactual statements. None makes no counterfactual statements.
        max_words: maximum number of words. Longer statements are omitted, because truncation changes their meaning.
    """
    bare = replace(part, title="", section_title="", section_text="", intro="", passages={})
    entries: list[tuple[str, str, int]] = []
    if grammar is not None:
        statements = synthesize(bare, rng, grammar)
        entries += [(SYNTHETIC, *statement) for statement in statements if _words(statement.text) <= max_words]
    if rewriting is not None:
        passages_of_other_parts = set(table.table.passages.values()).difference(part.passages.values())
        all_texts = (*table.texts, *part.passages.values())
        texts = dict.fromkeys(text for text in all_texts if text not in passages_of_other_parts)
        for pair in counterfactual_pairs(TableReferences(part), texts, rng, rewriting):
            if _words(pair.positive) <= max_words >= _words(pair.negative):
                entries += [(COUNTERFACTUAL, pair.positive, 1), (COUNTERFACTUAL, pair.negative, 0)]
    return [_example(f"{table.key}/{start}/{index}", *entry, bare) for index, entry in enumerate(entries)]


def _example(example_id: str, kind: str, text: str, label: int, table: Table) -> TableExample:
    # Names of columns may have several lines.
    text = " ".join(text.split())
    return TableExample(example_id, text, table, Answer((VERDICTS[label],), label=label), subsets=(kind,))


def _words(text: str) -> int:
    return len(text.split())
