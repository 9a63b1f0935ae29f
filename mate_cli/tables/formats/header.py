"""Header of a table, of one line or more, and the lines above it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import accumulate, zip_longest

from mate_cli.tables.formats.cell_text import is_mostly_digits
from mate_cli.tables.values.number_words import KNOWN_UNITS

COMMENTS = ("#", "//", "%")
NUMBERS_SHARE = 0.6
"""Least share of numbers among the cells of a column of numbers, and of columns that groups of columns explain."""
YEAR = re.compile(r"(?:19|20)\d\d(?: ?[/\u2013-] ?(?:\d\d)?\d\d)?")
_UNIT = re.compile(r"\(.*\)|\[.*\]|-")


def find_header(lines: Sequence[Sequence[str]]) -> int:
    """Find the place of the header among the first lines of a table; lines above it are titles, remarks or blank."""
    width = find_width([length for line in lines if (length := count_cells(line))])
    places = range(len(lines))
    header = next((place for place in places if not _is_above(lines[place:], width)), 0)
    if not _are_values(lines[header]):
        return header
    names = (place for place in places[:header] if any(lines[place]) and not _are_values(lines[place]))
    return next(names, header)  # the rows below are wider


def find_levels(lines: Sequence[Sequence[str]], top: int) -> range:
    """Find the places of all lines of a header, of which one is known: groups above it, years or units below it."""
    width = max(map(count_cells, lines), default=0)
    rows = [[*line, *[""] * (width - len(line))][:width] for line in lines]
    last = top
    for place in range(top + 1, len(rows) - 1):
        is_level = _is_level_below(rows[top:place], rows[place], rows[place + 1 :])
        if is_level is None:
            break
        last = place if is_level else last
    first = last
    while first and (up := _count_levels_above(rows[: last + 1], first, top)):
        first -= up
    top = first if all(rows[last]) else min(first, top)  # else remarks as wide as the table
    return range(top, last + 1 + _begins_with_column_numbers(rows[last + 1 :]))


def _count_levels_above(rows: Sequence[Sequence[str]], first: int, top: int) -> int:
    """Count the lines right above a level of the header that belong to it with the next one that does."""
    if _is_below_names(rows[first - 1], rows[first], {*range(1, len(rows[first]))}) and all(rows[first - 1][1:]):
        return 1
    is_apart = not any(rows[first - 1]) and rows[first - 2][0] and rows[first][0]  # Year,2024 above a blank line
    places = range(1, min(first, 1 if is_apart else 2) + 1)
    for up in places:
        group, names = rows[first - up], join_levels(rows[first - up + 1 :])
        is_title = names[0] and sum(map(bool, group)) == count_cells(group) < count_cells(names)  # Sales by town, 2024
        if _is_group(group, names) and not is_title:
            return up
    return 0


def join_levels(levels: Sequence[Sequence[str]]) -> list[str]:
    """Join the names of each column, a group's name being that of the blank ones behind it; equal ones stand once."""
    lines = [line for place, line in enumerate(levels) if not (place and _counts_columns(line))]
    *groups, names = list(zip_longest(*zip_longest(*lines, fillvalue=""), fillvalue=""))
    filled = [_fill_groups(group, names) for group in groups]
    return [" ".join(filter(None, dict.fromkeys(column))) for column in zip(*filled, names, strict=True)]


def _fill_groups(group: Sequence[str], names: Sequence[str]) -> list[str]:
    pairs = zip(group, names, strict=True)
    return list(accumulate(pairs, lambda left, pair: pair[0] or (left if pair[1] else ""), initial=""))[1:]


def _is_group(group: Sequence[str], names: Sequence[str]) -> bool:
    """Tell whether a line has the names of groups of columns, whose own names, distinct in each, stand below it."""
    filled = _fill_groups(group, names)
    joined = [pair for pair in zip(filled, names, strict=True) if any(pair)]
    counts = Counter(name for name, below in joined if name and below and below != name)
    shared = sum(count for count in counts.values() if count > 1)
    apart = sum(not (name and below) or name == below for name, below in joined)
    apart += bool(group[0]) and counts[group[0]] == 1  # the names of rows
    start = next((place for place, text in enumerate(group[1:], 1) if text), len(group))
    return (
        sum(map(bool, group)) > 1
        and len({*joined}) == len(joined)
        and shared > 1
        and shared + apart >= NUMBERS_SHARE * len(joined)
        and (not group[0] or 2 * start <= len(joined))
    )


def _are_values(line: Sequence[str]) -> bool:
    return any(line) and all(map(is_value, filter(None, line)))


def is_value(text: str) -> bool:
    """Tell whether a text has the looks of a number that is no year."""
    return is_mostly_digits(text) and YEAR.fullmatch(text) is None


def _is_level_below(above: Sequence[Sequence[str]], line: Sequence[str], rest: Sequence[Sequence[str]]) -> bool | None:
    """Tell whether a line below the header is its last one: it has texts or years above numbers; None for a row."""
    columns = list(zip(*rest, strict=True))
    numeric = {place for place, column in enumerate(columns) if _are_numbers(column)}
    cells = {place: line[place] for place in numeric if line[place]}
    years = [place for place, cell in cells.items() if is_mostly_digits(cell)]
    if len(above) > 1 and len(line) > 1 and line[0] and not any(line[1:]):  # the name of rows, as pandas writes it
        return True
    if not cells:
        names = ["", *above[-1], ""]
        beside = zip(names, names[1:], names[2:], line, strict=False)
        is_shared = all(below and name in (before, after, below) for before, name, after, below in beside)
        return (is_shared and _is_group(above[-1], line)) or None
    if years:
        groups = _fill_groups(above[-1], line)
        is_shared = len({groups[place] for place in years}) < len(years)
        numbers = [cell for place in years for cell in columns[place]]
        are_values = any(map(is_value, cells.values())) or sum(map(is_value, numbers)) <= len(numbers) / 2
        return (is_shared and not are_values) or None
    if _is_group(above[-1], line) or _is_below_names(above[-1], line, numeric):
        return True
    return all(line) and not all(above[-1]) and len(cells) > 1  # a remark stands above


def _begins_with_column_numbers(rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether the first row only numbers the columns, also the first one, below which no numbers stand."""
    names = [row[:1] for row in rows]
    is_numbered = any(map(_counts_columns, rows[:1])) and not has_numbers(names, below=False)
    return is_numbered and has_numbers(rows, below=False)


def _counts_columns(line: Sequence[str]) -> bool:
    """Tell whether a line has the number of each column, as official tables have below their names."""
    return len(line) > 2 and [cell.strip("().") for cell in line] == [str(place + 1) for place in range(len(line))]


def _is_below_names(names: Sequence[str], line: Sequence[str], numeric: Collection[int]) -> bool:
    """Tell whether texts below names, such as units, stand above numbers alone, names of rows once."""
    return not any(map(is_mostly_digits, line)) and all(
        not (name and cell) or (place and place in numeric) or cell in KNOWN_UNITS or _UNIT.fullmatch(cell)
        for place, (name, cell) in enumerate(zip(names, line, strict=True))
    )


def _are_numbers(column: Sequence[str]) -> bool:
    cells = list(filter(None, column))
    return bool(cells) and sum(map(is_mostly_digits, cells)) >= NUMBERS_SHARE * len(cells)


def find_width(widths: Sequence[int]) -> int:
    """Find the width of most lines that have two cells or more; of equals the widest."""
    counts = Counter(width for width in widths if width > 1)
    return max(counts, key=lambda width: (counts[width], width), default=min(len(widths), 1))


def count_cells(line: Sequence[str]) -> int:
    """Count the cells up to the last one that is not empty."""
    return max((place for place, cell in enumerate(line, 1) if cell), default=0)


def has_numbers(rows: Sequence[Sequence[str]], *, below: bool = True) -> bool:
    """Tell whether a column holds numbers; `below` a first cell that is none."""
    columns = zip_longest(*rows, fillvalue="")
    return any(_are_numbers(column) and bool(name and not is_mostly_digits(name)) == below for name, *column in columns)


def _is_above(lines: Sequence[Sequence[str]], width: int) -> bool:
    """Tell whether the first line stands above the header, in a table of this width."""
    first, cells, filled = lines[0], count_cells(lines[0]), sum(map(bool, lines[0]))
    if not filled:
        return True
    full = [p for p, line in enumerate(lines) if p and count_cells(line) >= width and sum(map(bool, line)) > 1]
    if not full:
        return False
    place = full[0]
    has_gap = not all(map(any, lines[1:place]))
    is_header_below = has_numbers(lines[place:])
    if cells >= width:
        is_comment = first[0].startswith(COMMENTS) and len(first[0]) > 1
        return is_header_below and (has_gap or is_comment or filled == 1)
    if cells == width - 1 == filled and not has_gap and not is_header_below and has_numbers(lines[place:], below=False):
        return False  # the first column has no name
    is_short = cells <= width / 2 and (filled == 1 or len(first) < len(lines[place]))
    return has_gap or is_header_below or is_short
