"""A dialect of delimited text, its records, and the dialect that gives lines the same number of plain cells."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product

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
        escape: a backslash where one makes the next quotation mark, delimiter or backslash text, else "".
        slices: places of the columns, where they are aligned with spaces.
    """

    delimiter: str
    quote: str = '"'
    escape: str = ""
    slices: tuple[slice, ...] = ()

    def read(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Read records; a quotation may go on over several lines.

        Raises:
            csv.Error: the quotation marks of a record do not fit together.
        """
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quotechar=self.quote or None,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            escapechar=self.escape or None,
            skipinitialspace=True,
            strict=True,
        )

    def prepare(self, line: str) -> str:
        """Change what `csv` would read otherwise: spaces around a line of spaces, backslashes that escape nothing."""
        if self.delimiter == " ":
            return line.strip() + "\n"
        if self.escape and self.escape in line:
            return self._escapes.sub(lambda escape: escape[0] if escape[1] else "\\\\", line)
        return line

    def readings(self, line: str) -> Iterator[list[str]]:
        """Read a line whose quotation marks do not fit together, in two ways.

        A mark that does not end a cell is text; or so is one that does not enclose a cell without others in it.
        """
        line = self.prepare(line).rstrip("\r\n")
        for pattern in self._patterns:
            cells, place = list[str](), -1
            while place < len(line):
                cell = pattern.match(line, place + 1)
                assert cell  # a text may be empty
                quoted, text = cell["quoted"], cell["text"]
                if quoted is not None:
                    text = quoted.replace(2 * self.quote, self.quote)
                cells.append(self._escapes.sub(r"\1", text) if self.escape else text)
                place = cell.end()
            yield cells

    @cached_property
    def _escapes(self) -> re.Pattern[str]:
        return re.compile(rf"\\(?:([{re.escape(self.quote + self.delimiter)}\\])|)")

    @cached_property
    def _patterns(self) -> list[re.Pattern[str]]:
        mark, delimiter = re.escape(self.quote or "\0"), re.escape(self.delimiter)
        end, escape = rf" *(?:(?={delimiter})|$)", re.escape(self.escape)
        text, strict = f"[^{delimiter}{escape}]*", f"[^{mark}{escape}]*"  # no choice per letter: cells can be long
        pair = f"{mark}{mark}|{escape}." if escape else mark + mark
        strict = rf"{strict}(?:(?:{pair}){strict})*"
        text += rf"(?:{escape}.?{text})*" if escape else ""
        return [
            re.compile(rf" *{mark}(?P<quoted>{quoted}){mark}{end}|(?P<text>{text})", re.DOTALL)
            for quoted in (f".{{0,{MAX_INNER}}}?", strict)
        ]


class Records:
    """Records of lines, in which no quotation mark swallows others.

    Args:
        dialect: of the lines.
        width: cells that most records have; 0 as long as that is not known.

    Attributes:
        irregular: records so far whose quotation marks do not fit together.
        has_stray: whether a cell begins with a quotation mark that is text.
    """

    def __init__(self, dialect: Dialect, width: int = 0) -> None:
        self.dialect, self.width = dialect, width
        self.irregular, self.has_stray = 0, False

    def read(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """Yield the cells of each record.

        Raises:
            csv.Error: a cell is too long.
        """
        if self.dialect.slices:
            yield from ([line[place] for place in self.dialect.slices] for line in lines)
            return
        waiting, pending = deque[str](), list[str]()
        prepare = self.dialect.prepare if self.dialect.escape or self.dialect.delimiter == " " else None

        def feed() -> Iterator[str]:
            while len(pending) < MAX_QUOTED_LINES and (line := waiting.popleft() if waiting else next(lines, "")):
                pending.append(line)
                yield prepare(line) if prepare else line

        while True:
            try:
                for cells in self.dialect.read(feed()):
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
            yield self._mend(first)

    def _mend(self, line: str) -> list[str]:
        self.irregular += 1
        cells = list[str]()
        for cells in self.dialect.readings(line):
            if len(cells) == self.width:
                break
        if len(cells) > self.width > 0 and (mark := self.dialect.quote):  # what an unclosed mark begins goes on
            place = next((place for place, cell in enumerate(cells) if cell.strip().startswith(mark)), len(cells))
            end = place + 1 + len(cells) - self.width
            cells[place:end] = [self.dialect.delimiter.join(cells[place:end])] if place < len(cells) else []
        self.has_stray |= any(cell.strip().startswith(self.dialect.quote or NO_DELIMITER) for cell in cells)
        return cells

    def _swallows(self, lines: list[str], cells: list[str]) -> bool:
        """Tell whether a quotation of several lines holds what look like records themselves."""
        if self.width < 2:
            return False
        rows = [list(self.dialect.readings(line))[1] for line in lines]
        if any(len(row) != self.width for row in rows):
            return len(cells) != self.width == len(rows[0])
        if len(cells) != self.width or len(rows) > 3:
            return True
        if any(cell.startswith(" ") for row in rows[1:] for cell in row):  # prose, such as an address
            return False
        columns = [{is_mostly_digits(cell) for cell in column if cell} for column in zip(*rows, strict=True)]
        return {True} in columns and {True, False} not in columns


LIKELY, RARE = ",;\t|", "#^~ "
"""Delimiters that are believed in only where each line has as many of them."""
SAMPLE = 1 << 17
"""Characters of the start of a file that decide."""
SAMPLE_ROWS = 300
CLOSE = 0.75
"""A dialect is close to the best one with more than this share of its score."""
MAX_ALIGNED = 2_000
"""Characters of the longest line of columns that are aligned with spaces."""
_DRAWN = " \t\r\n|+-=:─━═│┃┼╪┌┬┐├┤└┴┘╔╦╗╠╬╣╚╩╝║"
MIN_SHARE = 0.8
"""Share of the lines that have the same width, where the first line has no delimiter."""
_GROUPS = re.compile(r"\d{1,3}( \d{3})+")
_CELL = r"(?:'(?:[^']|'')*'|[^'A-Za-z,;\t|]*)"
_QUOTED = re.compile(rf"{_CELL}(?:[,;\t|]{_CELL})*")
"""A line whose texts all stand in apostrophes."""


@dataclass(frozen=True)
class DialectFit:
    """Fit of a dialect: a score from 0 (not at all) to 1, the width of most records, and whether all have it."""

    dialect: Dialect
    score: float
    width: int
    is_even: bool = False


def find_dialect(
    lines: Callable[[], Iterator[str]], usual: str | None, delimiter: str | None = None, quote: str | None = None
) -> DialectFit:
    """Find the dialect of a file.

    Args:
        lines: gives the lines of the file, from the first one on each time.
        usual: delimiter that the name of the file lets expect; spaces part columns only where there is none.
        delimiter: the one that was typed.
        quote: quotation mark that was typed, "" for none.
    """
    start, length = list[str](), 0
    for line in lines():
        start.append(line[:SAMPLE])
        length += len(line)
        if length > SAMPLE:
            break
    text = "".join(start)
    quotes = [quote] if quote is not None else ['"', "'"] if "'" in text else ['"']
    delimiters = [mark for mark in LIKELY + RARE if mark in text and (mark != " " or usual is None)]
    escapes = [""]
    if re.search(r"""\\["',;\t|]""", text):
        escapes = ["\\", ""] if '\\"' in text else ["", "\\"]  # of two that fit alike the first is taken
    dialects = [Dialect(*parts) for parts in product([delimiter] if delimiter else delimiters, quotes, escapes)]
    fits = [measure_dialect(start, dialect, text) for dialect in dialects]
    if quote is None:
        fits = [fit for fit in fits if fit.dialect.quote != "'" or _has_apostrophes(fit, text)]
    best = max((fit.score for fit in fits), default=0)
    close = [fit for fit in fits if fit.score > CLOSE * best]
    is_inside = usual is None and close and close[0].dialect.delimiter not in text.split("\n")[0]  # of numbers
    slices = find_slices(lines()) if not delimiter and "  " in text and (is_inside or not close) else ()
    if close and not slices:
        return max(close, key=lambda fit: fit.score + (fit.dialect.delimiter == usual) / 50)
    if slices:
        return DialectFit(Dialect(" ", slices=slices), 1, len(slices))
    single = [Dialect(delimiter or NO_DELIMITER, quotes[0], escape) for escape in escapes]
    return max((measure_dialect(start, dialect, text) for dialect in single), key=lambda fit: fit.score)


def measure_dialect(lines: Iterable[str], dialect: Dialect, text: str) -> DialectFit:
    """Score a dialect: by how many records are as wide as most, how wide that is, and how plain their cells are.

    Args:
        lines: of the file, or the first of them.
        dialect: to be scored.
        text: the first lines.
    """
    parts, is_single = text.splitlines(), dialect.delimiter == NO_DELIMITER
    parted = [(line.count(dialect.delimiter) + 1, (dialect.quote or "\0") not in line) for line in parts if line]
    plain = [width for width, is_plain in parted if is_plain]
    is_same = len({width for width, _ in parted}) == 1  # also where most lines have a mark that nothing closes
    records = Records(dialect, find_width(plain) if 3 * len(plain) >= len(parts) else parted[0][0] if is_same else 0)
    all_rows, irregular = list[list[str]](), 0
    for row in records.read(iter(lines)):
        if any(row) and (records.irregular == irregular or not all_rows):
            all_rows.append(row)
        irregular = records.irregular
    widths = list(map(len, all_rows))
    width = find_width(widths)
    if width < (1 if is_single else 2):
        return DialectFit(dialect, 0, width)
    first = widths.index(width)
    core = len(widths) - first - widths[::-1].index(width)
    share, coverage = widths.count(width) / core, core / len(widths)
    rows = [row for row in all_rows[:SAMPLE_ROWS] if len(row) == width] or all_rows[:SAMPLE_ROWS]
    is_named = dialect.delimiter == " " and first == 1 and widths[0] == width - 1 and text.startswith(dialect.quote)
    is_even = share == coverage == 1
    if not is_single and not (
        (share == 1 and is_named) or (is_even and _is_rare_table(dialect, rows))
        if dialect.delimiter in RARE
        else (widths[0] > 1 or (share >= MIN_SHARE and _is_below_one(dialect, rows, text)))
    ):
        return DialectFit(dialect, 0, width)
    share_plain = sum(_plain(cell, dialect.delimiter) for row in rows for cell in row) / sum(map(len, rows))
    likely = (
        (1 - irregular / (len(widths) + irregular) / 2)
        * {"'": 1.05}.get(dialect.quote, 1)
        * {" ": 0.5}.get(dialect.delimiter, 1)
        * (0.7 if widths[0] == 1 else 1)
    )
    return DialectFit(dialect, likely * share * coverage**0.5 * (1 - 1 / (width + 1)) * share_plain, width, is_even)


def _plain(cell: str, delimiter: str) -> float:
    """Score how much a cell looks like one: numbers do most, texts that another delimiter joins do not."""
    joins = [mark for mark in ";\t|," if mark in cell and mark != delimiter and f"{mark} " not in cell]
    is_number = is_mostly_digits(cell)
    if joins and not (is_number and joins == [","]):
        return 0
    return 1 if is_number or not cell else 0.9


def _is_rare_table(dialect: Dialect, rows: list[list[str]]) -> bool:
    if dialect.delimiter != " ":
        return len(rows) > 2
    lines = [" ".join(row) for row in rows[1:]]
    return len(rows) > 2 and has_numbers(rows) and not all(map(_GROUPS.fullmatch, lines))


def _is_below_one(dialect: Dialect, rows: list[list[str]], text: str) -> bool:
    """Tell whether lines below one without a delimiter are those of a table, and not prose, or numbers with commas."""
    delimiter = dialect.delimiter
    if not re.search(rf"{re.escape(delimiter)}[^ \r\n]", text) and not has_numbers(rows):
        return False
    are_numbers = all(is_mostly_digits(delimiter.join(row)) for row in rows)
    return len(rows) > 1 and (not are_numbers or f"{dialect.quote}{delimiter}" in text)


def _has_apostrophes(fit: DialectFit, text: str) -> bool:
    """Tell whether apostrophes are quotation marks: they enclose all texts, or make all lines equally wide."""
    lines = text.splitlines(keepends=True)
    if all("'" in line and _QUOTED.fullmatch(line.strip()) for line in lines[:SAMPLE_ROWS] if line.strip()):
        return True
    return fit.is_even and not measure_dialect(lines, replace(fit.dialect, quote='"'), text).is_even


def is_rule(line: str) -> bool:
    """Tell whether a line is drawn to part a header from rows, as Markdown and programs for databases do."""
    return not line.strip(_DRAWN) and any(mark * 2 in line for mark in "-=─━═")


def find_ruled_slices(line: str) -> tuple[slice, ...]:
    """Find the places of columns by a rule of dashes with spaces between them; none where it is another line."""
    if not re.fullmatch(r" *(?:[-=]+ +)+[-=]+\s*", line) or not is_rule(line):
        return ()
    starts = [0, *(dashes.start() for dashes in list(re.finditer("-+|=+", line))[1:])]
    return tuple(map(slice, starts, [*starts[1:], None]))


def find_slices(lines: Iterable[str]) -> tuple[slice, ...]:
    """Find the places of columns that are aligned with spaces; none where there are no such columns."""
    covered, wide, sample = 0, 0, list[str]()
    for line in map(str.rstrip, lines):
        if len(line) > MAX_ALIGNED:
            return ()
        for word in re.finditer(r"\S+", line):
            covered |= (1 << word.end()) - (1 << word.start())
        for gap in re.finditer(r"(?<=\S)  +", line):
            wide |= (1 << gap.end()) - (1 << gap.start())
        if line and len(sample) < SAMPLE_ROWS:
            sample.append(line)
    blocks = [block.start() for block in re.finditer("1+", bin(covered)[:1:-1])]
    starts = [0]
    texts = [[line[start:end].strip() for line in sample] for start, end in pairwise([*blocks, None])]
    numeric = [has_numbers([(cell,) for cell in column]) for column in texts]
    for number, start in enumerate(blocks[1:], 1):
        name, *cells = texts[number]
        is_apart = name and numeric[number] != numeric[number - 1]
        is_wide = wide >> (start - 1) & 1 and (
            name or all(not line[max(start - 2, 0) : start].strip() for line in sample)
        )
        starts += [start] if any(cells) and (is_apart or is_wide) else []
    slices = tuple(map(slice, starts, [*starts[1:], None]))
    rows = [[line[place].strip() for place in slices] for line in sample]
    is_table = len(slices) > 1 and len(rows) > 2 and (has_numbers(rows) or all(map(all, rows)))
    return slices if is_table else ()
