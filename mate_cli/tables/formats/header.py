"""Detection of the header of a table, of one or more lines, and of the lines above it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, zip_longest

from mate_cli.tables.formats.cell_text import is_mostly_digits
from mate_cli.tables.values.column_evidence import MISSING
from mate_cli.tables.values.number_words import KNOWN_UNITS

NUMBERS_SHARE = 0.6
"""Minimum share of numbers among the cells of a numeric column."""
YEAR = re.compile(r"(?:19|20)\d\d(?: ?[/\u2013-] ?(?:\d\d)?\d\d)?")
_COMMENT = re.compile(r"(?:#|//|%).")
_DIGITS = re.compile(r"\d+")
_UNIT = re.compile(r"\(.*\)|\[.*\]")


def find_header(lines: Sequence[Sequence[str]]) -> int:
    """Find the index of the header among the first lines of a table.

    The header is as wide as the table, and names numeric columns directly above the first row with numbers. Lines
    above the header are titles, remarks or blank.
    """
    width, numeric = find_width([length for line in lines if (length := count_cells(line))]), _find_numeric(lines)
    filled = [sum(map(bool, line)) for line in lines]
    full = [p for p, line in enumerate(lines) if count_cells(line) >= width and filled[p] >= min(width, 2)]
    row = next((place for place in full if _has_number(lines[place], numeric)), None)
    if row is None:
        start = next((place for place in range(max(full[:1], default=0), 0, -1) if not filled[place - 1]), 0)
        return next((place for place in range(start, len(lines) - 1) if 2 * count_cells(lines[place]) > width), start)
    names = [p for p in full if p < row and _find_values(lines[p], numeric)]
    # Without names, the rows are wider than the header, or the names are numbers.
    if not names:
        widest = max((place for place in range(row) if filled[place]), key=lambda p: count_cells(lines[p]), default=row)
        are_values = all(map(is_value, filter(None, lines[row])))
        return widest if are_values or 2 * count_cells(lines[widest]) >= width else row
    header = names.pop()
    while names and all(filled[names[-1] : header]) and not _COMMENT.match(lines[names[-1]][0]):
        if len(numeric) > 1 and all(lines[header][:width]) and not all(lines[names[-1]][1:width]):
            break  # The line above is a remark that is as wide as the table.
        header = names.pop()
    return header


def find_levels(lines: Sequence[Sequence[str]], top: int) -> range:
    """Find the range of all lines of a header.

    Args:
        lines: first lines of the table.
        top: index of the known header line. Groups may be above it, years or units below it.
    """
    width, numeric = max(map(count_cells, lines), default=0), _find_numeric(lines)
    rows = [[*line, *[""] * (width - len(line))][:width] for line in lines]
    first = last = top
    while first and _is_level(rows[first - 1], rows[first], numeric):
        first -= 1
    for line in rows[top + 1 :]:
        # pandas writes the name of the index in a separate line below the column names.
        is_name = first < last and count_cells(line) == 1 < width
        if not (is_name or _is_level(rows[last], line, numeric)):
            break
        last += 1
    return range(first, last + 1)


def _is_level(above: Sequence[str], line: Sequence[str], numeric: Mapping[int, bool]) -> bool:
    """Return whether a line refines the names above it.

    Such a line contains the columns of a group, or words such as units above numbers. A row would have a name in its
    first column, below another name. pandas writes the name of each level there.
    """
    line = ["" if MISSING.fullmatch(cell) else cell for cell in line]
    if _has_number(line, numeric) or min(sum(map(bool, above)), count_cells(line)) < min(len(line), 2):
        return False
    groups = _fill_groups(above, line)
    names = list(filter(None, groups))
    is_shared = len({*names}) < len(names)
    if not is_shared and any(is_mostly_digits(line[place]) for place in numeric):
        return False
    if not numeric and line == [*above]:
        return False  # In a table of texts, equal lines may be rows.
    pairs = list(zip(above, line, strict=True))
    is_pandas = all(above) and len(numeric) >= len(line) - 1 and (0 in numeric or len({*pairs}) == len(pairs))
    return all(
        (place in numeric or name in groups[place - 1 : place + 2 : 2] if place else is_shared and is_pandas)
        for place, (name, cell) in enumerate(pairs)
        if name and cell and name != cell and cell not in KNOWN_UNITS and not _UNIT.fullmatch(cell)
    )


def counts_columns(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row only numbers the columns.

    No cell below may have the form of its number.
    """
    if not is_count(rows):
        return False
    forms = [_DIGITS.sub("1", cell) for cell in rows[0]]
    return all(form != _DIGITS.sub("1", cell) for row in rows[1:] for form, cell in zip(forms, row, strict=False))


def is_count(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row is 1, 2, 3, ... and the second one starts with no number."""
    if len(rows) < 2 or len(rows[0]) < 3 or any(map(is_mostly_digits, rows[1][:1])):
        return False
    return [cell.strip("().") for cell in rows[0]] == [str(place) for place in range(1, len(rows[0]) + 1)]


def join_levels(levels: Sequence[Sequence[str]]) -> list[str]:
    """Join the names of each column over all lines of the header.

    The name of a group extends to the blank cells after it. Equal names of a column are written once.
    """
    *groups, names = list(zip_longest(*zip_longest(*levels, fillvalue=""), fillvalue=""))
    filled = [_fill_groups(group, names) for group in groups]
    return [" ".join(filter(None, dict.fromkeys(column))) for column in zip(*filled, names, strict=True)]


def _fill_groups(group: Sequence[str], names: Sequence[str]) -> list[str]:
    pairs = zip(group, names, strict=True)
    return list(accumulate(pairs, lambda left, pair: pair[0] or (left if pair[1] else ""), initial=""))[1:]


def _find_numeric(lines: Sequence[Sequence[str]]) -> dict[int, bool]:
    """Find the columns with numbers in the lower half of the lines.

    The value of a column is True if most of its numbers are years.
    """
    lower = enumerate(zip_longest(*lines[len(lines) // 2 :], fillvalue=""))
    columns = {place: column for place, column in lower if _are_numbers(column)}
    return {p: 2 * sum(map(is_value, cells)) < sum(map(is_mostly_digits, cells)) for p, cells in columns.items()}


def _find_values(line: Sequence[str], numeric: Mapping[int, bool]) -> list[tuple[str, bool]]:
    """Return the cells of a line in numeric columns.

    Each cell is returned with True if the numbers of its column are years. Empty cells and marks of
    missing values are omitted.
    """
    cells = ((line[place], are_years) for place, are_years in numeric.items() if place < len(line))
    return [(cell, are_years) for cell, are_years in cells if cell and not MISSING.fullmatch(cell)]


def _has_number(line: Sequence[str], numeric: Mapping[int, bool]) -> bool:
    """Return whether a line has a number in a numeric column.

    Years above other numbers are names.
    """
    values = _find_values(line, numeric)
    return any(is_mostly_digits(cell) if are_years else is_value(cell) for cell, are_years in values)


def is_value(text: str) -> bool:
    """Return whether a text looks like a number that is not a year."""
    return is_mostly_digits(text) and YEAR.fullmatch(text) is None


def _are_numbers(column: Sequence[str]) -> bool:
    cells = list(filter(None, column))
    return bool(cells) and sum(map(is_mostly_digits, cells)) >= NUMBERS_SHARE * len(cells)


def find_width(widths: Sequence[int]) -> int:
    """Find the most frequent width of at least two cells.

    On a tie, the larger width is returned.
    """
    counts = Counter(width for width in widths if width > 1)
    return max(counts, key=lambda width: (counts[width], width), default=min(len(widths), 1))


def count_cells(line: Sequence[str]) -> int:
    """Count the cells up to the last cell that is not empty."""
    return max((place for place, cell in enumerate(line, 1) if cell), default=0)


def has_numbers(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a column contains numbers below a first cell that is not a number."""
    columns = zip_longest(*rows, fillvalue="")
    return any(name and not is_mostly_digits(name) and _are_numbers(column) for name, *column in columns)
