"""Dialects of delimited text (delimiter, quotation mark, escapes), and their detection from the lines of a file.

The detected dialect is the one that splits most lines into equally many cells without another delimiter.
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
"""Maximum number of lines of a quoted cell. After more lines, its quotation mark is treated as text."""
MAX_INNER = 1_000
"""Maximum length of a quoted cell, in characters, in a line whose quotation marks are unbalanced."""


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
    """Parser that splits the lines of a delimited text file into cells.

    Unlike `csv.reader`, it treats an unbalanced quotation mark as text.

    Args:
        dialect: dialect of the lines.
        width: number of cells of most records. 0 if unknown.

    Attributes:
        irregular: number of records read so far that have unbalanced quotation marks.
    """

    def __init__(self, dialect: Dialect, width: int = 0) -> None:
        self.dialect, self.width, self.irregular = dialect, width, 0
        mark, delimiter = re.escape(dialect.quote or "\0"), re.escape(dialect.delimiter)
        quotation = rf" *{mark}(?P<quoted>.{{0,{MAX_INNER}}}?){mark} *(?={delimiter}|$)"
        self._escape = re.compile(rf"\\([\\\n{mark}{delimiter}]?)" if dialect.has_escapes else r"(?!)")
        self._cell = re.compile(f"(?:^|{delimiter})(?:{quotation}|(?P<text>[^{delimiter}]*))", re.DOTALL)

    def read(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """Split lines into records, and yield the list of cells of each record.

        Raises:
            csv.Error: a cell exceeds `csv.field_size_limit`.
        """
        return self._read_aligned(lines) if self.dialect.slices else self._read_delimited(lines)

    def _read_aligned(self, lines: Iterator[str]) -> Iterator[list[str]]:
        slices = self.dialect.slices
        # A line with words across column boundaries is a title, which becomes a single cell.
        for line in lines:
            borders = [line[column.start - 1 : column.start + 1] for column in slices[1:] if line[column.start :]]
            yield [line[column] for column in slices] if all(border.strip() != border for border in borders) else [line]

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
            first, *tail = pending
            pending.clear()
            waiting.extendleft(reversed(tail))
            self.irregular += 1
            yield self._split(first)

    def _split(self, line: str) -> list[str]:
        """Split a line with unbalanced quotation marks. Marks that do not enclose a cell are treated as text."""
        quote = self.dialect.quote
        cells = self._cell.finditer(line.rstrip("\r\n"))
        return [cell["text"] or (cell["quoted"] or "").replace(2 * quote, quote) for cell in cells]

    def _swallows(self, lines: list[str], cells: list[str]) -> bool:
        """Return whether a multi-line quoted cell is probably several records instead.

        Then a quotation mark is unbalanced.

        Args:
            lines: lines that the quotation extends over.
            cells: cells of the record if the quotation is one cell.
        """
        rows = list(map(self._split, lines))
        if any(len(row) != self.width for row in rows):
            return len(cells) != self.width == len(rows[0])
        # A space after a delimiter is typical of prose, such as an address.
        is_prose = any(cell.startswith(" ") for row in rows[1:] for cell in row)
        columns = [{is_mostly_digits(cell) for cell in column if cell} for column in zip(*rows, strict=True)]
        return not is_prose and {True} in columns and {True, False} not in columns


FREQUENT, RARE = ",;\t|", "#^~ "
"""Common delimiters, and rare ones that are accepted only if every line contains equally many."""
SAMPLE = 1 << 17
"""Number of characters at the start of a file that determine its dialect."""
SAMPLE_ROWS = 300
CLOSE = 0.75
"""Another dialect is almost as good as the best dialect if its score is above this share of the best score."""
MAX_ALIGNED = 2_000
"""Maximum length of a line with columns aligned with spaces, in characters."""
MAX_TITLES = 5
"""Maximum number of title lines above columns aligned with spaces."""
_RULE_SIGNS = " \t\r\n|+-=:─━═│┃┆┼╪╞╡┌┬┐├┤└┴┘╔╦╗╠╬╣╚╩╝║"


@dataclass(frozen=True)
class DialectFit:
    """A dialect of delimited text, and a score of how well it splits the lines of a file.

    Args:
        dialect: the dialect.
        score: score from 0 (no fit) to 1.
        width: number of cells of most records.
    """

    dialect: Dialect
    score: float
    width: int


def find_dialect(
    lines: Sequence[str], expected: str | None, delimiter: str | None = None, quote: str | None = None
) -> DialectFit:
    """Detect the delimiter, quotation mark and escapes of a file, or columns that are aligned with spaces.

    Args:
        lines: lines of the file.
        expected: delimiter expected from the file name. Spaces are tried as the delimiter only if this is None.
        delimiter: delimiter set by the user. None: infer it.
        quote: quotation mark set by the user, "" for none. None: infer it.
    """
    offsets = accumulate(map(len, lines), initial=0)
    start = [line[:SAMPLE] for line, _ in takewhile(lambda pair: pair[1] <= SAMPLE, zip(lines, offsets, strict=False))]
    text = "".join(start)
    quotes = [quote] if quote is not None else ['"', "'"] if "'" in text and '"' not in text else ['"']
    delimiters = [mark for mark in FREQUENT + RARE if mark in text and (mark != " " or expected is None)]
    # Of dialects with equal scores, the first one is selected.
    escapes = [True, False] if '\\"' in text else [False, True] if "\\" in text else [False]
    dialects = [Dialect(*parts) for parts in product([delimiter] if delimiter else delimiters, quotes, escapes)]
    results = [result for dialect in dialects if (result := measure_dialect(start, dialect)).score]
    winner = max(results, key=lambda result: result.score + (result.dialect.delimiter == expected) / 50, default=None)
    close = [result.dialect.delimiter for result in results if winner and result.score > CLOSE * winner.score]
    # The commas may be inside numbers.
    is_inside = expected is None and close[:1] == [","] and "," not in start[0]
    # A split at every space also splits names, so aligned columns are preferred if there are fewer.
    space_width = winner.width if winner and winner.dialect.delimiter == " " else 0
    slices = () if delimiter or "  " not in text or not (is_inside or space_width or not winner) else find_slices(lines)
    if slices and not 0 < space_width <= len(slices):
        return DialectFit(Dialect(" ", slices=slices), 1, len(slices))
    # Lines of nothing but delimiters are blank.
    delimiter = delimiter or (NO_DELIMITER if text.strip(f"{expected or ','}\r\n") else expected or ",")
    return winner or measure_dialect(start, Dialect(delimiter, quotes[0], escapes[0]))


def measure_dialect(lines: Sequence[str], dialect: Dialect) -> DialectFit:
    """Score how well a dialect splits the first lines of a file, and return a `DialectFit`.

    The score increases with the share of records that have the most frequent number of cells, with this number, and
    with the share of cells that contain no other delimiter.
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
    plain_share = sum(_is_plain(cell, delimiter) for row in rows for cell in row) / sum(map(len, rows))
    regular = 1 - records.irregular / len(widths) / 2
    score = regular * plain_share * share * coverage**0.5 * (1 - 1 / (width + 1))
    return DialectFit(dialect, score if is_table else 0, width)


def _is_plain(cell: str, delimiter: str) -> bool:
    """Return whether a cell contains none of the other delimiters that could separate cells."""
    joins = [mark for mark in ";\t|," if mark in cell and mark != delimiter and f"{mark} " not in cell]
    return not joins or (joins == [","] and is_mostly_digits(cell))


def _is_below_one(dialect: Dialect, rows: list[list[str]], lines: Sequence[str]) -> bool:
    """Return whether a title without delimiter is followed by a table, not by prose or numbers with commas."""
    delimiter, text = dialect.delimiter, "".join(lines)
    if not re.search(rf"{re.escape(delimiter)}[^ \r\n]", text) and not has_numbers(rows):
        return False
    are_numbers = all(is_mostly_digits(delimiter.join(row)) for row in rows)
    return len(rows) > 1 and (not are_numbers or f"{dialect.quote}{delimiter}" in text)


def is_rule(line: str) -> bool:
    """Return whether a line only separates header and rows, such as `|---|---|` in Markdown."""
    return not line.strip(_RULE_SIGNS) and any(mark * 2 in line for mark in "-=─━═")


def find_ruled_slices(line: str) -> tuple[slice, ...]:
    """Return the character ranges of columns from a line such as `---- ------ ---`. Empty for another line."""
    if not re.fullmatch(r" *(?:[-=]+ +)+[-=]+\s*", line) or not is_rule(line):
        return ()
    starts = [0, *(dashes.start() for dashes in list(re.finditer("-+|=+", line))[1:])]
    return tuple(map(slice, starts, [*starts[1:], None]))


def find_slices(lines: Sequence[str]) -> tuple[slice, ...]:
    """Return the character ranges of columns that are aligned with spaces. Empty if the lines are not aligned."""
    start = [line[:MAX_ALIGNED].rstrip() for line in lines[:SAMPLE_ROWS]]
    # A blank line separates titles from the table.
    blank = max((index for index, line in enumerate(start[:MAX_TITLES]) if not line), default=-1)
    sample = list(filter(None, start[blank + 1 :]))
    covered = [False, *(not {*signs} <= {" "} for signs in zip_longest(*sample, fillvalue=" "))]
    blocks = [index for index, (previous, current) in enumerate(pairwise(covered)) if current and not previous]
    texts = [[line[start:end].strip() for line in sample] for start, end in pairwise([*blocks, None])]
    numeric, starts = [has_numbers(list(zip(column, strict=True))) for column in texts], [0]
    for number, index in enumerate(blocks[1:], 1):
        name, *cells = texts[number]
        is_wide = any("  " in line[index - 2 : index + 1] for line in sample if line[index:])
        is_apart = is_wide or numeric[number] != numeric[number - 1]
        is_column = any(cells) and (name or not any(line[index - 2 : index].strip() for line in sample))
        starts += [index] if is_column and is_apart else []
    slices = tuple(map(slice, starts, [*starts[1:], None]))
    return slices if len(slices) > 1 and len(sample) > 2 and max(map(len, sample)) < MAX_ALIGNED else ()
