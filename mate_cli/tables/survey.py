"""Survey of a table in one reading of its lines: header, width, and notes."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path

from mate_cli.errors import DataError
from mate_cli.tables.formats.dialect import is_mostly_digits
from mate_cli.tables.formats.grid import Grid, count_noun, list_names
from mate_cli.tables.formats.header import count_cells, find_header, find_levels, join_levels
from mate_cli.tables.read_options import ReadOptions
from mate_cli.tables.table_file import RowStore, TableFile
from mate_cli.tables.values.column_evidence import ColumnEvidence
from mate_cli.tables.values.column_format import find_formats

MAX_CELL_LENGTH = 2_000
"""Characters that are kept of a cell: far more than a network reads."""
FIRST_LINES, FIRST_CELLS = 200, 100_000
"""The header is looked for in so many lines, which have about so many cells at most."""
LAST_LINES = 20
"""So many lines below a table may be no rows of it."""
_REMARK = re.compile(r"[*†‡#(\[]|\w+:")


class Survey:
    """Looks at every line once: stores it, and keeps account of what has to be said."""

    def __init__(self, path: Path, grid: Grid, options: ReadOptions) -> None:
        self.options, self.limits, self.header_line = options, options.limits, options.header
        self.path, self.grid, self.notes, self.rows, self.title = path, grid, grid.notes, RowStore(), ""
        self._widths: Counter[int] = Counter()
        self._lengths: Counter[int] = Counter()
        self._evidence: defaultdict[int, ColumnEvidence] = defaultdict(ColumnEvidence)
        self._blank = self._inside = self._number = self._cut = self._width = 0
        self._is_even, self._is_after_blank = True, False
        self._below: list[tuple[int, list[str], int]] = []
        self._longest = (0, 0, 0)

    def limit_lines(self, lines: Iterable[list[str]]) -> Iterator[list[str]]:
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

    def split_header(self, lines: Iterable[list[str]]) -> tuple[list[str], Iterator[list[str]]]:
        """Take the header off the front; what stands above it becomes the title.

        Raises:
            DataError: the line that was typed is not there.
        """
        lines, start, cells, typed = iter(lines), list[list[str]](), 0, self.header_line
        while len(start) < FIRST_LINES and cells < FIRST_CELLS and (line := next(lines, None)) is not None:
            start.append(line)
            cells += len(line)
        if typed is not None and typed > len(start):
            problem = f"there is no line {typed} in this table"
            raise DataError(problem, where=str(self.path), remedy=f"Write header=1 to header={max(len(start), 1)}")
        places = range(0)
        if start and typed != 0:
            places = find_levels(start, find_header(start) if typed is None else typed - 1)
            if typed is None and not any(map(any, start[places.stop :])):  # a wider last row is no header
                places = find_levels(start, next(place for place, line in enumerate(start) if any(line)))
        header = join_levels([start[place] for place in places]) if places else []
        if len(places) > 1:
            example = next((name for name in header if " " in name), "")
            self.notes.append(f"The {len(places)} lines of the header were joined: {example[:80]!r}.")
        if titles := [" ".join(filter(None, line)) for line in start[: places.start] if any(line)]:
            self.title = " ".join(titles)
            lines_above = "The line" if len(titles) == 1 else f"The {len(titles)} lines"
            was_read = "was read as its title" if len(titles) == 1 else "were read as its title"
            self.notes.append(f"{lines_above} above the table {was_read}: {self.title[:80]!r}.")
        self._width = count_cells(header)
        return header, chain(start[places.stop :], lines)

    def add(self, line: list[str]) -> None:
        """Store a body row; blank ones are only counted, and what may stand below the table waits for the end."""
        self._number += 1
        length = len(line)
        while line and not line[-1] and type(line[-1]) is str:
            line.pop()
        if not line:
            self._blank += 1
            self._is_after_blank = True
            return
        may_be_below = len(line) == 1 or self._is_after_blank or self._below
        if may_be_below and self._is_even and self._is_below(line, length) and len(self._below) < LAST_LINES:
            self._below.append((self._number, line, length))
            return
        for row in self._below:
            self._store(*row)
        self._store(self._number, line, length)
        self._below.clear()
        self._is_after_blank = False

    def _is_below(self, line: list[str], length: int) -> bool:
        """Tell whether a line may stand below a table whose rows have all been whole so far."""
        if self.grid.header is not None or self._width < 2 or len(self.rows) < 2:
            return False
        is_after = self._is_after_blank or bool(self._below)
        if len(line) > 1:
            is_remark = _REMARK.match(line[0]) and not any(map(is_mostly_digits, line))
            return is_after and not self.grid.omits_empty and (length < self._width or bool(is_remark))
        is_short = length == 1 and not self.grid.omits_empty
        return is_after or (is_short and self._width > 2) or bool(_REMARK.match(line[0]))

    def _store(self, number: int, line: list[str], length: int) -> None:
        self._inside = self._blank
        self._is_even &= len(line) > 1 and (length >= self._width or self.grid.omits_empty)
        evidence = self._evidence
        for column, text in enumerate(line):
            if text:
                evidence[column].add(text)
                if len(text) > MAX_CELL_LENGTH:
                    line[column] = self._cut_cell(text, number, column)
        self._widths[len(line)] += 1
        self._lengths[length] += 1
        self.rows.add(number, line)

    def _cut_cell(self, text: str, number: int, column: int) -> str:
        self._cut += 1
        self._longest = max(self._longest, (len(text), number, column))
        return text[:MAX_CELL_LENGTH]

    def finish(self, header: list[str]) -> TableFile:
        """Name the columns and say what was done.

        Raises:
            DataError: there is no table.
        """
        self.limits.check(self.path, columns=len(header))
        width = max(self._widths, default=0)
        has_row_names = width == len(header) + 1 and set(self._lengths) == {width} and 0 in self._evidence
        if self.grid.has_commas and self._is_shifted(len(header)):
            self.notes.append("Decimal commas without quotation marks may have shifted cells: write points instead.")
        if self.grid.header is None and header and has_row_names:
            header = ["", *header]
        while header and not header[-1]:
            header.pop()
        if not len(self.rows):
            problem = "it has a header but no rows" if header else "this file has no table"
            raise DataError(problem, where=str(self.path), remedy="Give a table with a header row and rows below it")
        width = max(len(header), *self._widths)
        if self.grid.header is None and header:
            self._say_what_is_ragged(len(header), width)
        header = [*header, *[""] * (width - len(header))]
        columns = tuple(c for c in range(width) if header[c] or c in self._evidence)
        names = self._names([header[column] for column in columns])
        self._say_the_rest(width, columns, names)
        formats, notes = find_formats(names, [self._evidence[column] for column in columns], self.options)
        self.notes += notes
        return TableFile(self.path, names, self.rows, columns, formats, self.notes, self.title)

    def _is_shifted(self, header: int) -> bool:
        """Tell whether rows longer than the header have two numbers side by side that may be one, as of 1,50."""
        rows = list(islice(self.rows, FIRST_LINES))
        long = [row for row in rows if len(row) > header > 0]
        pairs = ([(cell.lstrip("-"), behind) for cell, behind in pairwise(row)] for row in long)
        return 2 * len(long) > len(rows) > 1 and all(
            any(cell.isdecimal() and behind.isdecimal() and len(behind) < 3 for cell, behind in row) for row in pairs
        )

    def _say_what_is_ragged(self, header: int, width: int) -> None:
        shorter = sum(count for length, count in self._lengths.items() if length < header)
        longer = sum(count for size, count in self._widths.items() if size > header)
        if shorter and not self.grid.omits_empty:
            self.notes.append(f"{count_noun(shorter, 'row')} shorter than the header: filled with empty cells.")
        if longer:
            extra = count_noun(width - header, "column")
            self.notes.append(f"{count_noun(longer, 'row')} longer than the header: {extra} added on the right.")

    def _names(self, header: list[str]) -> tuple[str, ...]:
        """Return a name for every column: blank ones get their place, repeated ones a number."""
        names: dict[str, None] = {}
        blank = [f"column {place}" for place, name in enumerate(header, 1) if not name]
        repeated = [name for name, count in Counter(header).items() if name and count > 1]
        header_names, last = set(header), dict[str, int]()
        for place, name in enumerate(header, 1):
            wanted = name[:MAX_CELL_LENGTH] or f"column {place}"
            number = last.get(wanted, 1)
            name = wanted if number == 1 else f"{wanted} ({number})"
            while name in names or (number > 1 and name in header_names):
                number += 1
                name = f"{wanted} ({number})"
            last[wanted] = number
            names[name] = None
        if blank:
            self.notes.append(f"{count_noun(len(blank), 'column')} without a name: called {list_names(blank)}.")
        if repeated:
            self.notes.append(f"Columns of the same name were numbered: {list_names(map(repr, repeated))}.")
        return tuple(names)

    def _say_the_rest(self, width: int, columns: Sequence[int], names: Sequence[str]) -> None:
        if self._inside:
            self.notes.append(f"{count_noun(self._inside, 'blank row')} left out.")
        if self._below:
            count, text = (
                count_noun(len(self._below), "line"),
                " ".join(cell for _, line, _ in self._below for cell in line),
            )
            self.notes.append(f"{count} below the table left out: {text[:80]!r}.")
        if len(columns) < width:
            self.notes.append(f"{count_noun(width - len(columns), 'blank column')} left out.")
        if self._cut:
            length, row, column = self._longest
            place = names[columns.index(column)]
            self.notes.append(
                f"{count_noun(self._cut, 'cell')} cut to {MAX_CELL_LENGTH:,} characters; "
                f"the longest, in row {row:,} of {place[:40]!r}, had {length:,}."
            )
