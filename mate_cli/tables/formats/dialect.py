"""A dialect of delimited text, its records, and the dialect that gives lines the same number of plain cells."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product, takewhile, zip_longest
from typing import Any

from mate_cli.tables.formats.cell_text import is_mostly_digits
from mate_cli.tables.formats.header import find_width, has_numbers

NO_DELIMITER = "\x1f"
MAX_QUOTED_LINES = 10_000
"""A quotation mark that so many lines do not close counts as never closed."""
MAX_INNER = 1_000
"""Characters of a quotation that may hold quotation marks which are not doubled."""


@dataclass(frozen=True)
class Dialect:
    """Delimiter, quotation mark and escape of a line.

    Args:
        delimiter: one character.
        quote: quotation mark, which is doubled inside a quotation; "" where none is one.
        has_escapes: a backslash makes a quotation mark, a delimiter, a line break or a backslash behind it text.
        slices: places of the columns, where they are aligned with spaces.
    """

    delimiter: str
    quote: str = '"'
    has_escapes: bool = False
    slices: tuple[slice, ...] = ()


class Records:
    """Records of lines, in which no quotation mark swallows others.

    Args:
        dialect: of the lines.
        width: cells that most records have; 0 as long as that is not known.

    Attributes:
        irregular: records so far whose quotation marks do not fit together.
    """

    def __init__(self, dialect: Dialect, width: int = 0) -> None:
        self.dialect, self.width = dialect, width
        self.irregular = 0
        mark, delimiter = re.escape(dialect.quote or "\0"), re.escape(dialect.delimiter)
        quoted = rf" *{mark}(?P<quoted>.{{0,{MAX_INNER}}}?){mark} *(?={delimiter}|$)"
        self._escape = re.compile(rf"\\([\\\n{mark}{delimiter}]?)" if dialect.has_escapes else r"(?!)")
        self._cell = re.compile(f"(?:^|{delimiter})(?:{quoted}|(?P<text>[^{delimiter}]*))", re.DOTALL)

    def read(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """Yield the cells of each record.

        Raises:
            csv.Error: a cell is too long.
        """
        return self._read_aligned(lines) if self.dialect.slices else self._read_delimited(lines)

    def _read_aligned(self, lines: Iterator[str]) -> Iterator[list[str]]:
        slices = self.dialect.slices
        for line in lines:  # a title has words across the places of columns
            gaps = [line[place.start - 1 : place.start + 1] for place in slices[1:] if line[place.start :]]
            yield [line[place] for place in slices] if all(gap.strip() != gap for gap in gaps) else [line]

    def _read_delimited(self, lines: Iterator[str]) -> Iterator[list[str]]:
        waiting, pending = deque[str](), list[str]()
        options: dict[str, Any] = {"delimiter": self.dialect.delimiter, "skipinitialspace": True, "strict": True}
        options |= {"quotechar": self.dialect.quote} if self.dialect.quote else {"quoting": csv.QUOTE_NONE}
        options |= {"escapechar": "\\"} if self.dialect.has_escapes else {}

        def feed() -> Iterator[str]:
            while len(pending) < MAX_QUOTED_LINES and (line := waiting.popleft() if waiting else next(lines, "")):
                pending.append(line)
                yield self._escape.sub(lambda sign: sign[0] if sign[1] else "\\\\", line) if "\\" in line else line

        while True:
            try:
                for cells in csv.reader(feed(), **options):
                    if len(pending) > 1 and self._swallows(pending, cells):
                        break
                    pending.clear()
                    yield cells
            except csv.Error as error:
                if len(pending) == 1 and "limit" in str(error):
                    raise
            if not pending:
                return
            first, *rest = pending
            pending.clear()
            waiting.extendleft(reversed(rest))
            self.irregular += 1
            yield self._split(first)

    def _split(self, line: str) -> list[str]:
        """Split a line whose quotation marks may not fit together: one that does not end a cell is text."""
        quote = self.dialect.quote
        cells = self._cell.finditer(line.rstrip("\r\n"))
        return [cell["text"] or (cell["quoted"] or "").replace(2 * quote, quote) for cell in cells]

    def _swallows(self, lines: list[str], cells: list[str]) -> bool:
        """Tell whether a quotation of several lines holds what look like records themselves."""
        rows = list(map(self._split, lines))
        if any(len(row) != self.width for row in rows):
            return len(cells) != self.width == len(rows[0])
        is_prose = any(cell.startswith(" ") for row in rows[1:] for cell in row)  # such as an address
        columns = [{is_mostly_digits(cell) for cell in column if cell} for column in zip(*rows, strict=True)]
        return not is_prose and {True} in columns and {True, False} not in columns


LIKELY, RARE = ",;\t|", "#^~ "
"""Delimiters that are believed in only where each line has as many of them."""
SAMPLE = 1 << 17
"""Characters of the start of a file that decide."""
SAMPLE_ROWS = 300
CLOSE = 0.75
"""A dialect is close to the best one with more than this share of its score."""
MAX_ALIGNED = 2_000
"""Characters of the longest line of columns that are aligned with spaces."""
MAX_TITLES = 5
"""Lines above columns that are aligned with spaces."""
_DRAWN = " \t\r\n|+-=:─━═│┃┼╪┌┬┐├┤└┴┘╔╦╗╠╬╣╚╩╝║"


@dataclass(frozen=True)
class DialectFit:
    """Fit of a dialect: a score from 0 (not at all) to 1, and the width of most records."""

    dialect: Dialect
    score: float
    width: int


def find_dialect(
    lines: Sequence[str], usual: str | None, delimiter: str | None = None, quote: str | None = None
) -> DialectFit:
    """Find the dialect of a file.

    Args:
        lines: of the file.
        usual: delimiter that the name of the file lets expect; spaces part columns only where there is none.
        delimiter: the one that was typed.
        quote: quotation mark that was typed, "" for none.
    """
    before = accumulate(map(len, lines), initial=0)
    start = [line[:SAMPLE] for line, _ in takewhile(lambda pair: pair[1] <= SAMPLE, zip(lines, before, strict=False))]
    text = "".join(start)
    quotes = [quote] if quote is not None else ['"', "'"] if "'" in text and '"' not in text else ['"']
    delimiters = [mark for mark in LIKELY + RARE if mark in text and (mark != " " or usual is None)]
    escapes = [True, False] if '\\"' in text else [False, True] if "\\" in text else [False]  # the first of equals
    dialects = [Dialect(*parts) for parts in product([delimiter] if delimiter else delimiters, quotes, escapes)]
    fits = [fit for dialect in dialects if (fit := measure_dialect(start, dialect)).score]
    best = max(fits, key=lambda fit: fit.score + (fit.dialect.delimiter == usual) / 50, default=None)
    close = [fit.dialect.delimiter for fit in fits if best and fit.score > CLOSE * best.score]
    is_inside = usual is None and close[:1] == [","] and "," not in start[0]  # of numbers
    most = best.width if best and best.dialect.delimiter == " " else 0  # parts of names among them
    slices = () if delimiter or "  " not in text or not (is_inside or most or not best) else find_slices(lines)
    if slices and not 0 < most <= len(slices):
        return DialectFit(Dialect(" ", slices=slices), 1, len(slices))
    return best or measure_dialect(start, Dialect(delimiter or NO_DELIMITER, quotes[0], escapes[0]))


def measure_dialect(lines: Sequence[str], dialect: Dialect) -> DialectFit:
    """Score a dialect: by how many records are as wide as most, how wide that is, and how plain their cells are."""
    delimiter, quote = dialect.delimiter, dialect.quote
    records = Records(dialect, find_width(list(map(len, Records(dialect).read(iter(lines[:SAMPLE_ROWS]))))))
    rows = list(filter(any, records.read(iter(lines))))
    widths = list(map(len, rows))
    width = find_width(widths)
    if width < (1 if delimiter == NO_DELIMITER else 2):
        return DialectFit(dialect, 0, width)
    first = widths.index(width)
    core = len(widths) - first - widths[::-1].index(width)
    share, coverage = widths.count(width) / core, core / len(widths)
    rows = [row for row in rows[:SAMPLE_ROWS] if len(row) == width] or rows[:SAMPLE_ROWS]
    is_even = share == coverage == 1
    if delimiter in RARE:
        is_named = delimiter == " " and first == share == 1 and widths[0] == width - 1 and lines[0].startswith(quote)
        is_table = is_named or (is_even and len(rows) > 2 and (delimiter != " " or has_numbers(rows)))
    else:
        is_table = delimiter == NO_DELIMITER or widths[0] > 1 or _is_below_one(dialect, rows, lines)
    plain = sum(_is_plain(cell, delimiter) for row in rows for cell in row) / sum(map(len, rows))
    regular = 1 - records.irregular / len(widths) / 2
    score = regular * plain * share * coverage**0.5 * (1 - 1 / (width + 1))
    return DialectFit(dialect, score if is_table else 0, width)


def _is_plain(cell: str, delimiter: str) -> bool:
    """Tell whether a cell is none that another delimiter joins."""
    joins = [mark for mark in ";\t|," if mark in cell and mark != delimiter and f"{mark} " not in cell]
    return not joins or (joins == [","] and is_mostly_digits(cell))


def _is_below_one(dialect: Dialect, rows: list[list[str]], lines: Sequence[str]) -> bool:
    """Tell whether lines below one without a delimiter are those of a table, and not prose, or numbers with commas."""
    delimiter, text = dialect.delimiter, "".join(lines)
    if not re.search(rf"{re.escape(delimiter)}[^ \r\n]", text) and not has_numbers(rows):
        return False
    are_numbers = all(is_mostly_digits(delimiter.join(row)) for row in rows)
    return len(rows) > 1 and (not are_numbers or f"{dialect.quote}{delimiter}" in text)


def is_rule(line: str) -> bool:
    """Tell whether a line is drawn to part a header from rows, as Markdown and programs for databases do."""
    return not line.strip(_DRAWN) and any(mark * 2 in line for mark in "-=─━═")


def find_ruled_slices(line: str) -> tuple[slice, ...]:
    """Find the places of columns by a rule of dashes with spaces between them; none where it is another line."""
    if not re.fullmatch(r" *(?:[-=]+ +)+[-=]+\s*", line) or not is_rule(line):
        return ()
    starts = [0, *(dashes.start() for dashes in list(re.finditer("-+|=+", line))[1:])]
    return tuple(map(slice, starts, [*starts[1:], None]))


def find_slices(lines: Sequence[str]) -> tuple[slice, ...]:
    """Find the places of columns that are aligned with spaces; none where there are no such columns."""
    start = [line[:MAX_ALIGNED].rstrip() for line in lines[:SAMPLE_ROWS]]
    blank = max((place for place, line in enumerate(start[:MAX_TITLES]) if not line), default=-1)  # below titles
    sample = list(filter(None, start[blank + 1 :]))
    covered = [False, *(not {*signs} <= {" "} for signs in zip_longest(*sample, fillvalue=" "))]
    blocks = [place for place, (before, here) in enumerate(pairwise(covered)) if here and not before]
    texts = [[line[start:end].strip() for line in sample] for start, end in pairwise([*blocks, None])]
    numeric, starts = [has_numbers(list(zip(column, strict=True))) for column in texts], [0]
    for number, place in enumerate(blocks[1:], 1):
        name, *cells = texts[number]
        is_wide = any("  " in line[place - 2 : place + 1] for line in sample if line[place:])
        is_apart = is_wide or numeric[number] != numeric[number - 1]
        is_column = any(cells) and (name or not any(line[place - 2 : place].strip() for line in sample))
        starts += [place] if is_column and is_apart else []
    slices = tuple(map(slice, starts, [*starts[1:], None]))
    return slices if len(slices) > 1 and len(sample) > 2 and max(map(len, sample)) < MAX_ALIGNED else ()
