"""Denotations: the values of selected cells, or of their sum, average or count.

`denotation_of` parses the numbers of dataset tables as TAPAS does. `compute` parses the numbers of user tables.

Source: google-research/tapas, `scripts/calc_metrics_utils.py` and `utils/text_utils.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal

from mate_cli.tables.example import AGGREGATIONS, Coordinates
from mate_cli.tables.formats.cell_text import MAX_WHOLE, count_noun, is_mostly_digits, list_names
from mate_cli.tables.numbers import as_float32, convert_to_float
from mate_cli.tables.table import Table, find_table_formats
from mate_cli.tables.values.column_evidence import MISSING_VALUE
from mate_cli.tables.values.summary_rows import find_summary_rows

Denotation = tuple[str | float, ...]


def denotation_of(aggregation: str, cells: Coordinates, table: Table) -> Denotation:
    """Compute the answer denoted by table cells and an aggregation, as TAPAS evaluates predictions.

    The sum of the cells "3" and "4" has the denotation (7.0,). Without an aggregation it is (3.0, 4.0).

    Args:
        aggregation: one of `AGGREGATIONS`.
        cells: (row, column) of the cells. Duplicates are ignored.
        table: the table. Its column formats read the numbers, or the rules of TAPAS if it has no formats.

    Returns:
        The number that the aggregation computes. If `aggregation` is "none" or a cell is not a number, one value per
        cell instead: its number, or its text in lower case. No cells have the count 0 and an empty sum or average.

    Raises:
        ValueError: `aggregation` is unknown.
    """
    if aggregation not in AGGREGATIONS:
        raise ValueError(f"unknown aggregation {aggregation!r}; choose from {', '.join(AGGREGATIONS)}")
    unique = tuple(dict.fromkeys(cells))
    if aggregation == "count":
        return (float(len(unique)),)
    readers = [column_format.read_number for column_format in table.formats] or [read_float] * len(table.header)
    numbers = [readers[column](table.rows[row][column].text) for row, column in unique]
    parsed = [number for number in numbers if number is not None]
    if aggregation == "none" or len(parsed) < max(len(numbers), 1):
        texts = [table.rows[row][column].text.lower() for row, column in unique]
        pairs = zip(texts, numbers, strict=True)
        return tuple(text if number is None or math.isnan(number) else number for text, number in pairs)
    return (sum(parsed) / (len(parsed) if aggregation == "average" else 1),)


def normal_form(denotation: Iterable[str | float]) -> tuple[str, ...]:
    """Convert the values of an answer to sorted lower-case texts, so that two answers can be compared by `==`.

    Numbers, also those written as text, are rounded to 32 bits. NaN is omitted.
    """
    pairs = [(value, read_float(value) if isinstance(value, str) else as_float32(value)) for value in denotation]
    return tuple(sorted(str(value if n is None else n).lower() for value, n in pairs if n is None or not math.isnan(n)))


def answer_texts(aggregation: str, cells: Coordinates, table: Table) -> tuple[str, ...]:
    """Format the answer denoted by cells and an aggregation as texts to show to users.

    The texts are one number if the aggregation computes a number, and the texts of the cells otherwise.

    Args:
        aggregation: one of `AGGREGATIONS`.
        cells: (row, column) of the cells. Duplicates are ignored.
        table: table of the cells.
    """
    if aggregation != "none":
        denotation = denotation_of(aggregation, cells, table)
        if len(denotation) == 1 and isinstance(denotation[0], float):
            return (number_text(denotation[0]),)
    return tuple(table.rows[row][column].text for row, column in dict.fromkeys(cells))


def number_text(number: float, thousands: str = "") -> str:
    """Format a number without superfluous digits: 3, 4319.5, 0.3333, 2e-07.

    Args:
        number: a finite number.
        thousands: thousands separator, "," or "" for none.
    """
    if abs(number) < MAX_WHOLE and number == round(number):
        return f"{int(number):{thousands}}"
    if not 1e-3 <= abs(number) < 1e15:
        return f"{number:.4g}"
    return f"{number:{thousands}.4f}".rstrip("0").rstrip(".")


def read_float(text: str) -> float | None:
    """Parse a cell text as a number by the rules of TAPAS. Return None if the text is not a number."""
    try:
        return convert_to_float(text)
    except ValueError:
        return None


WORDS_FOR_ALL = re.compile(
    r"(?i)\b(how many|how much|total|sum|average|mean|count|number of|amount|altogether|combined|most|least|fewest|more"
    r"|less|\w{3,}est|max(imum)?|min(imum)?|top|rank\w*|all|every|only|difference|first|last)\b"
)
"""Words such as "total" or "most", which suggest that the answer to a question depends on every row of the table."""


def needs_all_rows(question: str, aggregation: str) -> bool:
    """Return whether an answer from a part of the table may be wrong because it depends on the other rows.

    That is the case if cells are aggregated, or if the question contains one of `WORDS_FOR_ALL`.
    """
    return aggregation != "none" or WORDS_FOR_ALL.search(question) is not None


def compute(aggregation: str, cells: Coordinates, table: Table) -> float | None:
    """Compute the sum, average or count of cells such as $1,204, (12.5) or 3 km.

    Args:
        aggregation: one of `AGGREGATIONS`.
        cells: (row, column) of the cells. Duplicates are ignored.
        table: table of the cells.

    Returns:
        The result, or None if `aggregation` is "none", `find_summands` finds no numbers, or the result overflows.
    """
    return compute_with_notes(aggregation, cells, table)[0]


def compute_with_notes(aggregation: str, cells: Coordinates, table: Table) -> tuple[float | None, list[str]]:
    """Compute the sum, average or count of cells like `compute`, and explain which cells were omitted.

    Args:
        aggregation: one of `AGGREGATIONS`.
        cells: (row, column) of the cells. Duplicates are ignored.
        table: table of the cells.

    Returns:
        The value, or None in the cases of `compute`, and sentences for the user such as "2 cells without a value left
        out: 'n/a'.".
    """
    unique = tuple(dict.fromkeys(cells))
    if aggregation in ("count", "none"):
        return float(len(unique)) if aggregation == "count" else None, []
    numbers, notes = find_summands(unique, table)
    if not numbers:
        return None, notes
    total = sum(numbers, Decimal())
    value = float(total) / (len(numbers) if aggregation == "average" else 1)
    is_rounded = aggregation == "sum" and value != total and total == total.to_integral_value()
    return int(total) if is_rounded else value if math.isfinite(value) else None, notes


def find_summands(cells: Coordinates, table: Table) -> tuple[list[Decimal], list[str]]:
    """Return the numbers in cells that a sum or average adds up, and notes on omitted cells.

    Omitted are cells that mark a missing value, such as "n/a", and rows that summarize other rows, such as "Total". No
    numbers are returned if a cell contains other text, if most cells have no value, or if it is doubtful whether a row
    is a summary.

    Args:
        cells: (row, column) of the cells, both from 0.
        table: table of the cells.

    Returns:
        The numbers, and sentences for the user on omitted cells or on the reason why there are no numbers.
    """
    readers = [column_format.read_exact for column_format in table.formats or find_table_formats(table)]
    columns = [[reader(row[index].text) for row in table.rows] for index, reader in enumerate(readers)]
    parsed = {(row, column): columns[column][row] for row, column in cells}
    numbers = {cell: number for cell, number in parsed.items() if number is not None}
    blanks = [table.rows[row][column].text for row, column in parsed if (row, column) not in numbers]
    text = next((text for text in blanks if text and not MISSING_VALUE.fullmatch(text)), "")
    if text or len(list(filter(None, blanks))) > len(numbers) or not numbers:
        return [], [f"The cell {text[:40]!r} is not read as a number: no sum is given."] if text else []
    notes = [f"{count_noun(len(blanks), 'cell')} without a value left out: {_list(blanks)}."] if blanks else []
    names = [_first_text(table, row) for row in range(len(table.rows))]
    for column in {column for _, column in numbers}:
        rows = {row for row, index in numbers if index == column}
        rest_columns = [numbers for index, numbers in enumerate(columns) if index != column]
        summaries, doubtful = (rows & indices for indices in find_summary_rows(names, [columns[column], *rest_columns]))
        if doubtful and len(rows) > 1:
            suspects = _list(names[row] for row in sorted(summaries | doubtful))
            return [], [f"No sum is given: {suspects} may summarize other rows, but not all numbers agree."]
        if summaries < rows:
            notes += [f"Row {names[row]!r} was left out: it summarizes other rows." for row in sorted(summaries)]
            for row in summaries:
                del numbers[row, column]
    return list(numbers.values()), list(dict.fromkeys(notes))


def _list(texts: Iterable[str]) -> str:
    return list_names(map(repr, dict.fromkeys(texts)))


def _first_text(table: Table, row: int) -> str:
    """Return the name of a row: the text of its first cell that is not a number, or else of its first cell."""
    cells = [cell.text for cell in table.rows[row]]
    return next((cell.strip(" :") for cell in cells if cell and not is_mostly_digits(cell)), cells[0])


def find_units(cells: Coordinates, table: Table) -> tuple[str, ...]:
    """List the distinct currencies and units of cells, such as ("$", "km"), to detect sums of different units.

    Cells without a unit add "" only if another cell has a percent sign.
    """
    formats = table.formats or find_table_formats(table)
    units = dict.fromkeys(formats[column].read_unit(table.rows[row][column].text) for row, column in cells)
    return tuple(unit for unit in units if unit or "%" in units)
