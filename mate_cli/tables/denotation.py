"""The values that an aggregation of selected cells stands for: as the reference reads numbers, and as people do.

Source: google-research/tapas, `scripts/calc_metrics_utils.py` and `utils/text_utils.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from mate_cli.tables.example import AGGREGATIONS, Coordinates
from mate_cli.tables.numbers import as_float32, convert_to_float, numeric_values
from mate_cli.tables.table import Table

Denotation = tuple[str | float, ...]


def denotation_of(aggregation: str, cells: Coordinates, table: Table) -> Denotation:
    """Work out what an aggregation of body cells gives; a cell named twice counts once.

    Without aggregation that is a value per cell: its number, or its text in lower case. A sum or an average of
    no cells is nothing, and of cells that are not all numbers it is their values; a count of no cells is 0.

    Raises:
        ValueError: there is no such aggregation.
    """
    if aggregation not in AGGREGATIONS:
        raise ValueError(f"no aggregation is called {aggregation!r}; there are {', '.join(AGGREGATIONS)}")
    texts = [table.rows[row][column].text for row, column in dict.fromkeys(cells)]
    if aggregation == "count":
        return (float(len(texts)),)
    numbers = [_number(text) for text in texts]
    known = [number for number in numbers if number is not None]
    if aggregation == "none" or not texts or len(known) < len(texts):
        return tuple(_value(text) for text in texts)
    return (sum(known) / (len(known) if aggregation == "average" else 1),)


def normal_form(denotation: Iterable[str | float]) -> tuple[str, ...]:
    """Write a denotation so that equal ones are equal texts: sorted, numbers in 32 bits, NaN left out."""
    forms = []
    for value in denotation:
        number = _number(value) if isinstance(value, str) else as_float32(value)
        if number is None:
            forms.append(str(value).lower())
        elif not math.isnan(number):
            forms.append(str(number))
    return tuple(sorted(forms))


def official_items(denotation: Iterable[str | float]) -> list[str]:
    """Write a denotation as the items of a prediction file for the evaluation of WikiTableQuestions, sorted."""
    return sorted(map(str, denotation))


def answer_texts(aggregation: str, cells: Coordinates, table: Table) -> tuple[str, ...]:
    """Write an answer for people: the cells as they stand in the table, or the computed number, rounded as needed."""
    if aggregation != "none":
        denotation = denotation_of(aggregation, cells, table)
        if len(denotation) == 1 and isinstance(denotation[0], float):
            return (number_text(denotation[0]),)
    return tuple(table.rows[row][column].text for row, column in dict.fromkeys(cells))


def number_text(number: float, thousands: str = "") -> str:
    """Write a number without superfluous digits: 3, 4319.5, 0.3333, 2e-07; for people with "," between thousands."""
    if not 1e-3 <= abs(number) < 1e15:
        return f"{number:.4g}"
    return f"{number:{thousands}.4f}".rstrip("0").rstrip(".")


def _number(text: str) -> float | None:
    try:
        return convert_to_float(text)
    except ValueError:
        return None


def _value(text: str) -> str | float:
    """A text's number, else its lower case; NaN is no number here."""
    number = _number(text)
    return text.lower() if number is None or math.isnan(number) else number


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
    """The sum, average or count of cells, also of $1,204, 12.5% and 3 km.

    None where there is nothing to compute, or it is beyond all numbers.
    """
    texts = [table.rows[row][column].text for row, column in dict.fromkeys(cells)]
    if aggregation == "count":
        return float(len(texts))
    numbers = [number for number in map(number_in, texts) if number is not None]
    if aggregation == "none" or not texts or len(numbers) < len(texts):
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
