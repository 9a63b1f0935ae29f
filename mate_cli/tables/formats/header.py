"""Header line of a table, and the lines above it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

from mate_cli.tables.formats.dialect import is_mostly_digits

COMMENTS = ("#", "//", "%")
NUMBERS_SHARE = 0.6
"""Least share of numbers among the cells of a column of numbers."""


def find_header(lines: Sequence[Sequence[str]]) -> int:
    """Find the place of the header among the first lines of a table; lines above it are titles, remarks or blank."""
    width = find_width([length for line in lines if (length := count_cells(line))])
    places = range(len(lines))
    if width < 2:
        return next((place for place in places if any(lines[place])), 0)
    return next((place for place in places if not _is_above(lines[place:], width)), 0)


def find_width(widths: Sequence[int]) -> int:
    """Find the width of most lines in the lower half, where nothing stands above the table; of two the wider one."""
    for part in (widths[len(widths) // 2 :], widths):
        counts = Counter(width for width in part if width > 1)
        if counts:
            return max(counts, key=lambda width: (counts[width], width))
    return 1 if widths else 0


def count_cells(line: Sequence[str]) -> int:
    """Count the cells up to the last one that is not empty."""
    return max((place for place, cell in enumerate(line, 1) if cell), default=0)


def has_numbers(rows: Sequence[Sequence[str]], *, below: bool = True) -> bool:
    """Tell whether a column holds numbers; `below` a first cell that is none."""
    for name, *column in zip_longest(*rows, fillvalue=""):
        cells = list(filter(None, column))
        numbers = sum(map(is_mostly_digits, cells))
        if numbers and numbers >= NUMBERS_SHARE * len(cells) and bool(name and not is_mostly_digits(name)) == below:
            return True
    return False


def _is_above(lines: Sequence[Sequence[str]], width: int) -> bool:
    """Tell whether the first line stands above the header, in a table of this width."""
    first, cells, filled = lines[0], count_cells(lines[0]), sum(map(bool, lines[0]))
    if not filled:
        return True
    full = [p for p, line in enumerate(lines) if p and count_cells(line) >= width and sum(map(bool, line)) > 1]
    if not full:
        return False
    place = full[0]
    gap = next((p for p in full if not any(lines[p - 1])), len(lines))  # a table may begin behind a blank line
    if 2 * gap < len(lines) and has_numbers(lines[gap:]) and not has_numbers(lines[:gap]):
        return True
    has_gap = not all(map(any, lines[1:place]))
    is_header_below = has_numbers(lines[place:])
    if cells >= width:
        is_comment = first[0].startswith(COMMENTS) and len(first[0]) > 1
        return is_header_below and (has_gap or is_comment or filled == 1)
    if cells == width - 1 == filled and not has_gap and not is_header_below and has_numbers(lines[place:], below=False):
        return False  # the first column has no name
    is_short = cells <= width / 2 and (filled == 1 or len(first) < len(lines[place]))
    return has_gap or is_header_below or is_short
