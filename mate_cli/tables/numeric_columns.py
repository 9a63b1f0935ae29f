"""Columns of numbers or dates: their common type, the ranks of their cells, and how a question's numbers compare.

Source: google-research/tapas, `utils/number_annotation_utils.py` and `utils/tf_example_utils.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mate_cli.tables.formats.cell_text import NumberText
from mate_cli.tables.numbers import Date, Value, as_float32, numeric_values

EQUAL, LESS, GREATER = 1, 2, 4
"""Bits of a numeric relation: the question's value is equal to, less than or greater than the cell's."""
CONSOLIDATION_FRACTION = 0.7

SortKey = Callable[[Value], float | tuple[int | None, ...]]


def consolidate(cells: Sequence[Sequence[Value]], fraction: float = CONSOLIDATION_FRACTION) -> dict[int, Value]:
    """Give each cell of a column its first value of the column's commonest type.

    That type must occur in at least this fraction of the cells.

    Returns:
        The value by row, without the rows that have none; empty when no type is common enough. Dates win a tie.
    """
    counts = Counter(kind for values in cells for kind in {type(value) for value in values})
    most = max(counts.values(), default=0)
    if not most or most < len(cells) * fraction:
        return {}
    kind = Date if counts[Date] == most else float
    chosen = ((row, next((value for value in values if type(value) is kind), None)) for row, values in enumerate(cells))
    return {row: value for row, value in chosen if value is not None}


def column_values(texts: Iterable[str]) -> dict[int, Value]:
    """Parse the body cells of one column and consolidate them; the value by row."""
    texts = list(texts)
    cells: list[tuple[Value, ...]] = []
    empty = 0
    for text in texts:
        values = numeric_values(text)
        if type(text) is NumberText:
            values = (as_float32(text.number), *(value for value in values if type(value) is Date))
        empty += not values
        if len(texts) - empty < len(texts) * CONSOLIDATION_FRACTION:
            return {}  # the others are too few, whatever they are
        cells.append(values)
    return consolidate(cells)


def sort_key(values: Iterable[Value]) -> SortKey | None:
    """Return a key that compares values of one type; None when they cannot be compared.

    Dates are compared by the parts that all of them state.
    """
    values = list(values)
    kinds = {type(value) for value in values}
    if len(kinds) != 1:
        return None
    if kinds == {float}:
        return lambda value: value
    parts = [part for part in range(3) if all(value[part] is not None for value in values)]  # type: ignore[index]
    return (lambda value: tuple(value[part] for part in parts)) if parts else None  # type: ignore[index]


def column_ranks(values: Mapping[int, Value]) -> dict[int, tuple[int, int]]:
    """Return (rank, inverse rank) by row; rank 1 is the smallest of the distinct values, inverse rank 1 the largest."""
    key = sort_key(values.values())
    if key is None:
        return {}
    keys = {row: key(value) for row, value in values.items()}
    ranks = {value: rank for rank, value in enumerate(sorted(set(keys.values())), 1)}
    return {row: (ranks[value], len(ranks) - ranks[value] + 1) for row, value in keys.items()}


def relations(question: Iterable[Value], values: Mapping[int, Value]) -> dict[int, int]:
    """Compare every number of the question with every cell of a column; the set of relations (bits) by row."""
    bits: dict[int, int] = {}
    kind = type(next(iter(values.values()), None))
    for value in question:
        key = sort_key([*values.values(), value]) if type(value) is kind else None
        if key is None:
            continue
        asked: Any = key(value)
        for row, other in values.items():
            own: Any = key(other)
            bits[row] = bits.get(row, 0) | (EQUAL if asked == own else LESS if asked < own else GREATER)
    return bits
