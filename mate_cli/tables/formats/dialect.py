"""A dialect of delimited text, and the records that it makes of lines."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

NO_DELIMITER = "\x1f"
MAX_QUOTED_LINES = 10_000
"""A quotation mark that so many lines do not close counts as never closed."""
MAX_INNER = 1_000
"""Characters of a quotation that may hold quotation marks which are not doubled."""
MAX_NUMBER = 40
_DIGITS = re.compile(r"\W*\d(?:[\d\W]*\d)?\W*[^\W\d]{0,3}\W*")


def is_mostly_digits(text: str) -> bool:
    """Tell whether a text has the looks of a number, a date or a time, perhaps with a unit."""
    return len(text) <= MAX_NUMBER and _DIGITS.fullmatch(text) is not None


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
            return self._escapes.sub(lambda found: found[0] if found[1] else "\\\\", line)
        return line

    def readings(self, line: str) -> Iterator[list[str]]:
        """Read a line whose quotation marks do not fit together, in two ways.

        A mark that does not end a cell is text; or so is one that does not enclose a cell without others in it.
        """
        line = self.prepare(line).rstrip("\r\n")
        for pattern in self._patterns:
            cells, place = list[str](), -1
            while place < len(line):
                found = pattern.match(line, place + 1)
                assert found  # a text may be empty
                quoted, text = found["quoted"], found["text"]
                if quoted is not None:
                    text = quoted.replace(2 * self.quote, self.quote)
                cells.append(self._escapes.sub(r"\1", text) if self.escape else text)
                place = found.end()
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
        waiting, taken = deque[str](), list[str]()
        prepare = self.dialect.prepare if self.dialect.escape or self.dialect.delimiter == " " else None

        def feed() -> Iterator[str]:
            while len(taken) < MAX_QUOTED_LINES and (line := waiting.popleft() if waiting else next(lines, "")):
                taken.append(line)
                yield prepare(line) if prepare else line

        while True:
            try:
                for cells in self.dialect.read(feed()):
                    if len(taken) > 1 and self._swallows(taken, cells):
                        break
                    taken.clear()
                    yield cells
            except csv.Error as error:
                if len(taken) == 1 and "limit" in str(error):
                    raise
            if not taken:
                return
            first, *rest = taken
            taken.clear()
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
