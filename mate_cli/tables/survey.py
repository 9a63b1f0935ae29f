"""What is found out on reading the lines of a table once: header, width, and all that has to be said of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from mate_cli.errors import DataError
from mate_cli.tables.formats.grid import Grid, listed, numbered
from mate_cli.tables.read_options import ReadOptions
from mate_cli.tables.table_file import RowStore, TableFile
from mate_cli.tables.values.column_format import ColumnEvidence, find_formats

LONGEST_CELL = 2_000
"""Characters that are kept of a cell: far more than a network reads."""
TITLE_LINES = 10
"""The header is looked for in so many lines."""


class Survey:
    """Looks at every line once: stores it, and keeps account of what has to be said."""

    def __init__(self, path: Path, grid: Grid, options: ReadOptions) -> None:
        self.options, self.limits = options, options.limits
        self.path, self.grid, self.notes, self.rows, self.title = path, grid, grid.notes, RowStore(), ""
        self._widths: Counter[int] = Counter()
        self._lengths: Counter[int] = Counter()
        self._evidence: defaultdict[int, ColumnEvidence] = defaultdict(ColumnEvidence)
        self._blank = self._number = self._cut = self._last_filled = 0
        self._longest = (0, 0, 0)

    def counted(self, lines: Iterable[list[str]]) -> Iterator[list[str]]:
        """Yield the lines as long as there are not too many.

        Raises:
            DataError: there are.
        """
        cells = 0
        for number, line in enumerate(lines):
            cells += len(line)
            if number > self.limits.rows or len(line) > self.limits.columns or cells > self.limits.cells:
                self.limits.check(self.path, rows=number, columns=len(line), cells=cells)
            yield line

    def find_header(self, lines: Iterable[list[str]]) -> tuple[list[str], Iterator[list[str]]]:
        """Take the header off the front, and lines above it with a single text, which become the title."""
        lines = iter(lines)
        start = list(islice(lines, TITLE_LINES))
        titles: list[str] = []
        while start and _filled(start[0]) <= 1:
            below = next(filter(any, start[1:]), [])
            if any(start[0]) and _filled(below) <= 1:
                break
            titles += filter(None, start.pop(0))
        if titles:
            self.title = " ".join(titles)
            self.notes.append(f"The line above the table was read as its title: {self.title[:80]!r}.")
        if not start:
            return next(filter(any, lines), []), lines
        return start[0], chain(start[1:], lines)

    def add(self, line: list[str]) -> None:
        """Store a body row; blank ones are only counted."""
        self._number += 1
        length = len(line)
        while line and not line[-1]:
            line.pop()
        if not line:
            self._blank += 1
            return
        self._last_filled = self._number
        for column, text in enumerate(line):
            if text:
                self._evidence[column].add(text)
                if len(text) > LONGEST_CELL:
                    line[column] = self._cut_cell(text, column)
        self._widths[len(line)] += 1
        self._lengths[length] += 1
        self.rows.add(self._number, line)

    def _cut_cell(self, text: str, column: int) -> str:
        self._cut += 1
        self._longest = max(self._longest, (len(text), self._number, column))
        return text[:LONGEST_CELL]

    def finish(self, header: list[str]) -> TableFile:
        """Name the columns and say what was done.

        Raises:
            DataError: there is no table.
        """
        self.limits.check(self.path, columns=len(header))
        while header and not header[-1]:
            header.pop()
        if not len(self.rows):
            problem = "there is a header but no row below it" if header else "there is no table in this file"
            raise DataError(problem, where=str(self.path), remedy="Give a table with a header row and rows below it")
        width = max(len(header), *self._widths)
        if self.grid.header is None:
            self._say_what_is_ragged(len(header), width)
        header = [*header, *[""] * (width - len(header))]
        columns = tuple(c for c in range(width) if header[c] or c in self._evidence)
        names = self._names([header[column] for column in columns])
        self._say_the_rest(width, columns, names)
        for column in self.grid.numeric:
            self._evidence[column].is_typed = True
        formats, notes = find_formats(names, [self._evidence[column] for column in columns], self.options)
        self.notes += notes
        return TableFile(self.path, names, self.rows, columns, formats, self.notes, self.title)

    def _say_what_is_ragged(self, header: int, width: int) -> None:
        shorter = sum(count for length, count in self._lengths.items() if length < header)
        longer = sum(count for size, count in self._widths.items() if size > header)
        if shorter and not self.grid.omits_empty:
            self.notes.append(f"{numbered(shorter, 'row')} shorter than the header: filled with empty cells.")
        if longer:
            extra = numbered(width - header, "column")
            self.notes.append(f"{numbered(longer, 'row')} longer than the header: {extra} added on the right.")

    def _names(self, header: list[str]) -> tuple[str, ...]:
        """A name for every column: blank ones get their place, repeated ones a number."""
        names: dict[str, None] = {}
        blank = [f"column {place}" for place, name in enumerate(header, 1) if not name]
        repeated = [name for name, count in Counter(header).items() if name and count > 1]
        taken, last = set(header), dict[str, int]()
        for place, name in enumerate(header, 1):
            wanted = name[:LONGEST_CELL] or f"column {place}"
            number = last.get(wanted, 1)
            name = wanted if number == 1 else f"{wanted} ({number})"
            while name in names or (number > 1 and name in taken):
                number += 1
                name = f"{wanted} ({number})"
            last[wanted] = number
            names[name] = None
        if blank:
            self.notes.append(f"{numbered(len(blank), 'column')} without a name: called {listed(blank)}.")
        if repeated:
            self.notes.append(f"Columns of the same name were numbered: {listed(map(repr, repeated))}.")
        return tuple(names)

    def _say_the_rest(self, width: int, columns: Sequence[int], names: Sequence[str]) -> None:
        inside = self._blank - (self._number - self._last_filled)
        if inside:
            self.notes.append(f"{numbered(inside, 'blank row')} left out.")
        if len(columns) < width:
            self.notes.append(f"{numbered(width - len(columns), 'blank column')} left out.")
        if self._cut:
            length, row, column = self._longest
            place = names[columns.index(column)]
            self.notes.append(
                f"{numbered(self._cut, 'cell')} cut to {LONGEST_CELL:,} characters; "
                f"the longest, in row {row:,} of {place[:40]!r}, had {length:,}."
            )


def _filled(line: Sequence[str]) -> int:
    return sum(map(bool, line))
