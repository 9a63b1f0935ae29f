"""Choose the columns of a table that fit a question, whole or not at all ("heuristic exact match", HEM).

Columns are ranked by the words they share with the question and added while the table fits; what is chosen is then
shortened like any table.
Source: Eisenschlos et al. 2020, section 3.3; google-research/tapas, `utils/pruning_utils.py` (column level). The DoT
paper compares it with shortening alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.tables.text import format_text

if TYPE_CHECKING:
    from nltk.stem.porter import PorterStemmer

Stems = frozenset[str]


@cache
def _stemmer() -> PorterStemmer:
    """NLTK's own variant of Porter's stemmer, which is the reference's; slow to import, so only where it is used."""
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """A word without its ending, in lower case."""
    return str(_stemmer().stem(word))


def stems(text: str) -> Stems:
    """The stems of a text's words; a text without words has that of the word "EMPTY"."""
    return frozenset(map(stem, format_text(text).split()))


def similarity(one: Stems, other: Stems) -> float:
    """Jaccard's index: the shared stems over all stems; 0 where there are none."""
    shared = len(one & other)
    return shared / max(1, len(one) + len(other) - shared)


class ColumnStems:
    """The stems of each column of a table, worked out once and only when they are asked for.

    Args:
        table: header and body count alike, and all rows.
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    @cached_property
    def columns(self) -> list[Stems]:
        """The stems of every column."""
        lines = (self._table.header, *self._table.rows)
        texts = ({row[column].text for row in lines} for column in range(len(self._table.header)))
        return [frozenset[str]().union(*map(stems, distinct)) for distinct in texts]

    def scores(self, example: TableExample) -> list[float]:
        """How well each column fits the question and those before it; columns of the previous answer come first."""
        asked = stems(" ".join([*example.history, example.question]))
        scores = [similarity(column, asked) for column in self.columns]
        for column in {column for _, column in example.previous_cells if column < len(scores)}:
            scores[column] = float(len(scores))
        return scores


def choose_columns(scores: Sequence[float], costs: Sequence[int], budget: int) -> Collection[int]:
    """Add columns, the best first, leaving out those that are too long for what is left of the budget.

    The first of equal scores wins; costs are tokens of columns, header and all.
    """
    chosen: list[int] = []
    for column in sorted(range(len(scores)), key=lambda place: -scores[place]):
        if costs[column] <= budget:
            chosen.append(column)
            budget -= costs[column]
    return chosen
