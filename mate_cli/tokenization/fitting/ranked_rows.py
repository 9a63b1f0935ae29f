"""The rows of tables that a finished run thinks best for each question, so that another network reads these alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mate_cli.tables.example import TableExample


class RowRanker(Protocol):
    """Puts the rows of tables in order, the best for a question first."""

    @property
    def digest(self) -> str:
        """Equal for rankers that rank alike."""

    def __call__(self, examples: Sequence[TableExample]) -> Mapping[str, Sequence[int]]:
        """The rows of each question's table, from 0, by `example_id`; none of a table that cannot be encoded."""


class RankedRows:
    """The best rows of tables, worked out once for each question."""

    def __init__(self, ranker: RowRanker) -> None:
        self.ranker = ranker
        self._known: dict[tuple[str, str], Sequence[int]] = {}

    def of(self, example: TableExample, count: int) -> tuple[int, ...]:
        """The best rows of a question's table, from 0 and in their order there; none where nothing was ranked."""
        self.rank([example])
        return tuple(sorted(self._known[_key(example)][:count]))

    def rank(self, examples: Sequence[TableExample]) -> None:
        """Rank those that are asked about for the first time, together."""
        new = [example for example in examples if _key(example) not in self._known]
        found = self.ranker(new) if new else {}
        self._known |= {_key(example): found.get(example.example_id, ()) for example in new}


def _key(example: TableExample) -> tuple[str, str]:
    return example.example_id, example.question
