"""What an aggregation of cells of one's own table gives: also of $1,204, 12.5% and 3 km."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from mate_cli.tables.example import Coordinates
from mate_cli.tables.numbers import convert_to_float, numeric_values
from mate_cli.tables.table import Table

WORDS_FOR_ALL = re.compile(
    r"\b(how many|how much|total|sum|average|mean|count|number of|amount|altogether|combined|most|least|fewest|more"
    r"|less|\w{3,}est|max(imum)?|min(imum)?|top|rank\w*|all|every|only|difference|first|last)\b",
    re.IGNORECASE,
)
"""Words of questions whose answer may depend on every row."""

AFFIXES = " €£¥%"
"""What stands beside numbers without changing them."""


def needs_all_rows(question: str, aggregation: str) -> bool:
    """Whether rows that were not looked at may change the answer."""
    return aggregation != "none" or WORDS_FOR_ALL.search(question) is not None


def compute(aggregation: str, cells: Coordinates, table: Table) -> float | None:
    """The sum, average or count of cells; None where there is nothing to compute, or it is beyond all numbers."""
    texts = [table.rows[row][column].text for row, column in dict.fromkeys(cells)]
    if aggregation == "count":
        return float(len(texts))
    if aggregation == "none" or not texts:
        return None
    return _summed(texts, aggregation)


def _summed(texts: Sequence[str], aggregation: str) -> float | None:
    numbers = [number for number in map(number_in, texts) if number is not None]
    if len(numbers) < len(texts):
        return None
    try:
        return math.fsum(numbers) / (len(numbers) if aggregation == "average" else 1)
    except OverflowError:
        return None


def number_in(text: str) -> float | None:
    """The number that a cell is, else the only one in it; None where there is none or several."""
    try:
        number = convert_to_float(text.replace("$", "").strip(AFFIXES))
    except ValueError:
        found = [value for value in numeric_values(text) if isinstance(value, float)]
        return (-found[0] if text.startswith("-") and found[0] > 0 else found[0]) if len(found) == 1 else None
    return number if math.isfinite(number) else None


def readable_number(number: float) -> str:
    """Write a number for people: 1,204 or 0.3333."""
    if number and not 1e-3 <= abs(number) < 1e15:
        return f"{number:.4g}"
    return f"{number:,.4f}".rstrip("0").rstrip(".")
