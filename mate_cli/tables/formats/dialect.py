"""Dialects of delimited text, their records, and detection of the dialect of a file.

The detected dialect splits the lines into equal numbers of plain cells.
"""

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
"""Maximum number of lines of a quotation. A longer quotation is treated as never closed."""
MAX_INNER = 1_000
"""Maximum length, in characters, of a quotation that may contain quotation marks that are not doubled."""


@dataclass(frozen=True)
class Dialect:
    """Delimiter, quotation mark and escape character of a file.

    Args:
        delimiter: the delimiter, one character.
        quote: the quotation mark, which is doubled inside a quotation. "" for none.
        has_escapes: whether a backslash escapes a quotation mark, delimiter, line break or backslash.
        slices: slices of the columns if they are aligned with spaces.
    """

    delimiter: str
    quote: str = '"'
    has_escapes: bool = False
    slices: tuple[slice, ...] = ()


class Records:
    """Reader of records. An unbalanced quotation mark does not absorb the following records.

    Args:
        dialect: dialect of the lines.
        width: number of cells of most records. 0 if unknown.

    Attributes:
        irregular: number of records read so far that have unbalanced quotation marks.
    """

    def __init__(self, dialect: Dialect, width: int = 0) -> None:
        self.dialect, self.width, self.irregular = dialect, width, 0
        mark, delimiter = re.escape(dialect.quote or "\0"), re.escape(dialect.delimiter)
        quoted = rf" *{mark}(?P<quoted>.{{0,{MAX_INNER}}}?){mark} *(?={delimiter}|$)"
        self._escape = re.compile(rf"\\([\\\n{mark}{delimiter}]?)" if dialect.has_escapes else r"(?!)")
        self._cell = re.compile(f"(?:^|{delimiter})(?:{quoted}|(?P<text>[^{delimiter}]*))", re.DOTALL)

    def read(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """Yield the cells of each record.

        Raises:
            csv.Error: a cell exceeds `csv.field_size_limit`.
        """
        return self._read_aligned(lines) if self.dialect.slices else self._read_delimited(lines)

    def _read_aligned(self, lines: Iterator[str]) -> Iterator[list[str]]:
        slices = self.dialect.slices
        # A line with words across column boundaries is a title, which becomes a single cell.
        for line in lines:
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
        """Split a line with unbalanced quotation marks.

        A mark that does not enclose a whole cell is text.
        """
        quote = self.dialect.quote
        cells = self._cell.finditer(line.rstrip("\r\n"))
        return [cell["text"] or (cell["quoted"] or "").replace(2 * quote, quote) for cell in cells]

    def _swallows(self, lines: list[str], cells: list[str]) -> bool:
        """Return whether a quotation of several lines contains lines that look like records."""
        rows = list(map(self._split, lines))
        if any(len(row) != self.width for row in rows):
            return len(cells) != self.width == len(rows[0])
        # A space after a delimiter is typical of prose, such as an address.
        is_prose = any(cell.startswith(" ") for row in rows[1:] for cell in row)
        columns = [{is_mostly_digits(cell) for cell in column if cell} for column in zip(*rows, strict=True)]
        return not is_prose and {True} in columns and {True, False} not in columns


LIKELY, RARE = ",;\t|", "#^~ "
"""Common delimiters, and rare ones that are accepted only if every line contains equally many."""
SAMPLE = 1 << 17
"""Number of characters at the start of a file that determine its dialect."""
SAMPLE_ROWS = 300
CLOSE = 0.75
"""Share of the best score above which another dialect is close to the best dialect."""
MAX_ALIGNED = 2_000
"""Maximum length of a line with columns aligned with spaces, in characters."""
MAX_TITLES = 5
"""Maximum number of title lines above columns aligned with spaces."""
_DRAWN = " \t\r\n|+-=:─━═│┃┼╪┌┬┐├┤└┴┘╔╦╗╠╬╣╚╩╝║"


@dataclass(frozen=True)
class DialectFit:
    """Fit of a dialect to the lines of a file.

    Args:
        dialect: the dialect.
        score: score from 0 (no fit) to 1.
        width: number of cells of most records.
    """

    dialect: Dialect
    score: float
    width: int


def find_dialect(
    lines: Sequence[str], usual: str | None, delimiter: str | None = None, quote: str | None = None
) -> DialectFit:
    """Find the dialect of a file.

    Args:
        lines: lines of the file.
        usual: delimiter expected from the file name. Spaces are tried as the delimiter only if this is None.
        delimiter: delimiter set by the user. None: infer it.
        quote: quotation mark set by the user, "" for none. None: infer it.
    """
    before = accumulate(map(len, lines), initial=0)
    start = [line[:SAMPLE] for line, _ in takewhile(lambda pair: pair[1] <= SAMPLE, zip(lines, before, strict=False))]
    text = "".join(start)
    quotes = [quote] if quote is not None else ['"', "'"] if "'" in text and '"' not in text else ['"']
    delimiters = [mark for mark in LIKELY + RARE if mark in text and (mark != " " or usual is None)]
    # Of dialects with equal scores, the first one is selected.
    escapes = [True, False] if '\\"' in text else [False, True] if "\\" in text else [False]
    dialects = [Dialect(*parts) for parts in product([delimiter] if delimiter else delimiters, quotes, escapes)]
    fits = [fit for dialect in dialects if (fit := measure_dialect(start, dialect)).score]
    best = max(fits, key=lambda fit: fit.score + (fit.dialect.delimiter == usual) / 50, default=None)
    close = [fit.dialect.delimiter for fit in fits if best and fit.score > CLOSE * best.score]
    # The commas may be inside numbers.
    is_inside = usual is None and close[:1] == [","] and "," not in start[0]
    # A split at every space also splits names, so aligned columns are preferred if there are fewer.
    most = best.width if best and best.dialect.delimiter == " " else 0
    slices = () if delimiter or "  " not in text or not (is_inside or most or not best) else find_slices(lines)
    if slices and not 0 < most <= len(slices):
        return DialectFit(Dialect(" ", slices=slices), 1, len(slices))
    # Lines of nothing but delimiters are blank.
    delimiter = delimiter or (NO_DELIMITER if text.strip(f"{usual or ','}\r\n") else usual or ",")
    return best or measure_dialect(start, Dialect(delimiter, quotes[0], escapes[0]))


def measure_dialect(lines: Sequence[str], dialect: Dialect) -> DialectFit:
    """Score a dialect on the first lines of a file.

    The score increases with the share of records of the most frequent width, with that width, and with the share of
    plain cells.
    """
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
    """Return whether a cell contains no other delimiter that may separate cells."""
    joins = [mark for mark in ";\t|," if mark in cell and mark != delimiter and f"{mark} " not in cell]
    return not joins or (joins == [","] and is_mostly_digits(cell))


def _is_below_one(dialect: Dialect, rows: list[list[str]], lines: Sequence[str]) -> bool:
    """Return whether lines below a line without delimiter are a table.

    Such lines may also be prose, or numbers with commas.
    """
    delimiter, text = dialect.delimiter, "".join(lines)
    if not re.search(rf"{re.escape(delimiter)}[^ \r\n]", text) and not has_numbers(rows):
        return False
    are_numbers = all(is_mostly_digits(delimiter.join(row)) for row in rows)
    return len(rows) > 1 and (not are_numbers or f"{dialect.quote}{delimiter}" in text)


def is_rule(line: str) -> bool:
    """Return whether a line is drawn between header and rows, as in Markdown."""
    return not line.strip(_DRAWN) and any(mark * 2 in line for mark in "-=─━═")


def find_ruled_slices(line: str) -> tuple[slice, ...]:
    """Find the slices of columns from a rule of dashes with spaces. Empty for another line."""
    if not re.fullmatch(r" *(?:[-=]+ +)+[-=]+\s*", line) or not is_rule(line):
        return ()
    starts = [0, *(dashes.start() for dashes in list(re.finditer("-+|=+", line))[1:])]
    return tuple(map(slice, starts, [*starts[1:], None]))


def find_slices(lines: Sequence[str]) -> tuple[slice, ...]:
    """Find the slices of columns that are aligned with spaces. Empty if there are none."""
    start = [line[:MAX_ALIGNED].rstrip() for line in lines[:SAMPLE_ROWS]]
    # A blank line separates titles from the table.
    blank = max((place for place, line in enumerate(start[:MAX_TITLES]) if not line), default=-1)
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
