"""Detection of the header of a table, of one or more lines, and of the lines above it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, zip_longest

from mate_cli.tables.formats.cell_text import is_mostly_digits
from mate_cli.tables.values.column_evidence import MISSING_VALUE
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
    row = next((index for index in full if _has_number(lines[index], numeric)), None)
    if row is None:
        start = next((index for index in range(max(full[:1], default=0), 0, -1) if not filled[index - 1]), 0)
        return next((index for index in range(start, len(lines) - 1) if 2 * count_cells(lines[index]) > width), start)
    names = [p for p in full if p < row and _find_values(lines[p], numeric)]
    # Without names, the rows are wider than the header, or the names are numbers.
    if not names:
        widest = max((index for index in range(row) if filled[index]), key=lambda p: count_cells(lines[p]), default=row)
        are_values = all(map(is_value, filter(None, lines[row])))
        return widest if are_values or 2 * count_cells(lines[widest]) >= width else row
    header = names.pop()
    while names and all(filled[names[-1] : header]) and not _COMMENT.match(lines[names[-1]][0]):
        if len(numeric) > 1 and all(lines[header][:width]) and not all(lines[names[-1]][1:width]):
            break  # The line above is a remark that is as wide as the table.
        header = names.pop()
    return header


def find_levels(lines: Sequence[Sequence[str]], header: int) -> range:
    """Find all lines of a header, such as a line of groups, a line of names and a line of units.

    Args:
        lines: first lines of the table.
        header: index of one header line, from `find_header`. Groups may be above it, years or units below it.

    Returns:
        The range of line indices.
    """
    width, numeric = max(map(count_cells, lines), default=0), _find_numeric(lines)
    rows = [[*line, *[""] * (width - len(line))][:width] for line in lines]
    first = bottom = header
    while first and _is_level(rows[first - 1], rows[first], numeric):
        first -= 1
    for line in rows[header + 1 :]:
        # pandas writes the name of the index in a separate line below the column names.
        is_name = first < bottom and count_cells(line) == 1 < width
        if not (is_name or _is_level(rows[bottom], line, numeric)):
            break
        bottom += 1
    return range(first, bottom + 1)


def _is_level(upper: Sequence[str], line: Sequence[str], numeric: Mapping[int, bool]) -> bool:
    """Return whether a line is another header line, such as a line of units.

    Such a line names the columns of a group, or contains words such as units above numbers. A row would have a name
    in its first column, below another name. pandas writes the name of each level there.
    """
    line = ["" if MISSING_VALUE.fullmatch(cell) else cell for cell in line]
    if _has_number(line, numeric) or min(sum(map(bool, upper)), count_cells(line)) < min(len(line), 2):
        return False
    groups = _fill_groups(upper, line)
    names = list(filter(None, groups))
    is_shared = len({*names}) < len(names)
    if not is_shared and any(is_mostly_digits(line[column]) for column in numeric):
        return False
    if not numeric and line == [*upper]:
        return False  # In a table of texts, equal lines may be rows.
    pairs = list(zip(upper, line, strict=True))
    is_pandas = all(upper) and len(numeric) >= len(line) - 1 and (0 in numeric or len({*pairs}) == len(pairs))
    return all(
        (column in numeric or name in groups[column - 1 : column + 2 : 2] if column else is_shared and is_pandas)
        for column, (name, cell) in enumerate(pairs)
        if name and cell and name != cell and cell not in KNOWN_UNITS and not _UNIT.fullmatch(cell)
    )


def counts_columns(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row only numbers the columns: 1, 2, 3, ..., above cells that look different."""
    if not is_count(rows):
        return False
    forms = [_DIGITS.sub("1", cell) for cell in rows[0]]
    return all(form != _DIGITS.sub("1", cell) for row in rows[1:] for form, cell in zip(forms, row, strict=False))


def is_count(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row is 1, 2, 3, ... and the second row does not start with a number."""
    if len(rows) < 2 or len(rows[0]) < 3 or any(map(is_mostly_digits, rows[1][:1])):
        return False
    return [cell.strip("().") for cell in rows[0]] == [str(number) for number in range(1, len(rows[0]) + 1)]


def join_levels(levels: Sequence[Sequence[str]]) -> list[str]:
    """Join the lines of a header to one name per column, such as "2020 Sales" from a group and a name.

    The name of a group also applies to the blank cells after it. Equal names of a column are written once.
    """
    *groups, names = list(zip_longest(*zip_longest(*levels, fillvalue=""), fillvalue=""))
    filled = [_fill_groups(group, names) for group in groups]
    return [" ".join(filter(None, dict.fromkeys(column))) for column in zip(*filled, names, strict=True)]


def _fill_groups(group: Sequence[str], names: Sequence[str]) -> list[str]:
    pairs = zip(group, names, strict=True)
    return list(accumulate(pairs, lambda left, pair: pair[0] or (left if pair[1] else ""), initial=""))[1:]


def _find_numeric(lines: Sequence[Sequence[str]]) -> dict[int, bool]:
    """Return the indices of numeric columns, judged by the lower half of the lines.

    The value of an index is True if most numbers of the column are years.
    """
    lower = enumerate(zip_longest(*lines[len(lines) // 2 :], fillvalue=""))
    columns = {index: column for index, column in lower if _are_numbers(column)}
    return {p: 2 * sum(map(is_value, cells)) < sum(map(is_mostly_digits, cells)) for p, cells in columns.items()}


def _find_values(line: Sequence[str], numeric: Mapping[int, bool]) -> list[tuple[str, bool]]:
    """Return (cell, whether its column has years) for the cells of a line in numeric columns.

    Empty cells and cells that mark a missing value are omitted.
    """
    cells = ((line[column], are_years) for column, are_years in numeric.items() if column < len(line))
    return [(cell, are_years) for cell, are_years in cells if cell and not MISSING_VALUE.fullmatch(cell)]


def _has_number(line: Sequence[str], numeric: Mapping[int, bool]) -> bool:
    """Return whether a line has a number in a numeric column. A year counts only in a column of years."""
    values = _find_values(line, numeric)
    return any(is_mostly_digits(cell) if are_years else is_value(cell) for cell, are_years in values)


def is_value(text: str) -> bool:
    """Return whether a text looks like a number that is not a year."""
    return is_mostly_digits(text) and YEAR.fullmatch(text) is None


def _are_numbers(column: Sequence[str]) -> bool:
    cells = list(filter(None, column))
    return bool(cells) and sum(map(is_mostly_digits, cells)) >= NUMBERS_SHARE * len(cells)


def find_width(widths: Sequence[int]) -> int:
    """Return the most frequent number of cells per line, from lines of at least two cells.

    On a tie, the larger number is returned. Without such a line it is 1, or 0 if there are no lines.
    """
    counts = Counter(width for width in widths if width > 1)
    return max(counts, key=lambda width: (counts[width], width), default=min(len(widths), 1))


def count_cells(line: Sequence[str]) -> int:
    """Return the number of cells of a line, without the empty cells at the end of the line."""
    return max((number for number, cell in enumerate(line, 1) if cell), default=0)


def has_numbers(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a column contains numbers below a first cell that is not a number."""
    columns = zip_longest(*rows, fillvalue="")
    return any(name and not is_mostly_digits(name) and _are_numbers(column) for name, *column in columns)
