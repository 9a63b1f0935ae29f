"""Lines of cells, read once from front to back, which every format gives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Grid:
    """A file as lines of texts.

    Args:
        lines: the cells of each line; they may differ in number.
        header: names of the columns where the format knows them, complete once the lines are read; None where the
            first line has them.
        omits_empty: lines end with their last cell that is not empty, which is nothing to speak of.
        has_commas: commas part the cells, so that decimal commas may part numbers.
        notes: what was done, as plain sentences; complete once the lines are read.
    """

    lines: Iterable[list[str]]
    header: list[str] | None = None
    omits_empty: bool = False
    has_commas: bool = False
    notes: list[str] = field(default_factory=list)


def count_noun(count: int, noun: str) -> str:
    """Write `1 row`, `3 rows`, `50,000 rows`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def list_names(names: Iterable[str], most: int = 5) -> str:
    """Write the first few names, and how many more there are."""
    shown = list(names)
    rest = f" and {len(shown) - most:,} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + rest
