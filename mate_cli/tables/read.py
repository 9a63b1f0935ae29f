"""Reading of user tables, as spreadsheet users expect it.

The formats are CSV, TSV, JSON, JSON lines, Parquet and workbooks. The module of a format yields lines of cells.
`TableScanner` scans them once to find the header and the width, and to collect notes for the user.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count, islice, zip_longest
from pathlib import Path
from pkgutil import resolve_name

from mate_cli.errors import DataError
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.tables.formats.cell_text import NumberText, count_noun, list_names, valid
from mate_cli.tables.formats.header import (
    count_cells,
    counts_columns,
    find_header,
    find_levels,
    has_numbers,
    is_count,
    is_value,
    join_levels,
)
from mate_cli.tables.read_options import AS_FOUND, MEGABYTE, Limits, ReadOptions
from mate_cli.tables.table import Grid, Table, TableFile
from mate_cli.tables.values.column_evidence import collect_evidence
from mate_cli.tables.values.column_format import find_formats

WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
READERS = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), "delimited:read_delimited"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "records:read_json"),
    **dict.fromkeys((".parquet", ".pq"), "columnar:read_parquet"),
    **dict.fromkeys(WORKBOOKS, "workbook:read_workbook"),
}
"""Reader of each suffix, as `module:function` in `formats`. Modules are imported on demand."""
SUFFIXES = tuple(READERS)
DATABASES = (".sqlite", ".sqlite3", ".db")
CONTENTS = (
    (b"PK\x03\x04", ".xlsx", "a workbook"),
    (b"PAR1", ".parquet", "Parquet"),
    (b"\xd0\xcf\x11\xe0", ".xls", "an old Excel workbook"),
    (b"%PDF", "", "a PDF"),
    ((b"\x89PNG", b"\xff\xd8\xff", b"GIF8"), "", "an image"),
    ((b"<html", b"<HTML", b"<!DOC", b"<!doc", b"<table", b"<?xml"), "", "a web page or XML"),
    (b"\x1f\x8b", "", "compressed with gzip"),
)
"""First bytes of a format, the suffix of its reader ("" for none) and its description, regardless of the file name."""
FIRST_LINES = 200
"""Number of first lines that are searched for the header."""
LAST_LINES = 20
"""Maximum number of lines below a table that are not rows."""
_REMARK = re.compile(r"[*†‡#(\[]|\w+ ?:")
_SHIFTED = re.compile(r"(^|,)-*\d+,\d\d?(,|$)")


def read_table(path: str | Path, options: ReadOptions = AS_FOUND) -> tuple[Table, list[str]]:
    """Read a table file into a `Table`.

    Args:
        path: path of the file.
        options: options of reading. By default, they are inferred from the file.

    Returns:
        The table, and notes on reading, as sentences.

    Raises:
        DataError: the file is missing, cannot be read, is too large or contains no table.
        MissingDependencyError: the package that reads this format is not installed.
    """
    file = open_table(path, options)
    return file.table(), file.notes


def open_table(path: str | Path, options: ReadOptions = AS_FOUND) -> TableFile:
    """Read a table file with its row numbers, column formats and notes. See `read_table`.

    Raises:
        DataError: the file is missing, cannot be read, is too large or contains no table.
        MissingDependencyError: the package that reads this format is not installed.
    """
    path, hint = Path(path).expanduser(), "Open it in its original program, and save it again"
    with wrap_file_errors(path, DataError, "this table cannot be read", hint):
        grid = _read_grid(path, options)
        return TableScanner(path, grid, options).scan(_clean_lines(grid.lines, path, options.limits))


def _read_grid(path: Path, options: ReadOptions) -> Grid:
    with wrap_file_errors(path, DataError, "cannot be read", "Check its name and permissions"):
        if path.exists() and not path.is_file():
            raise DataError("this is not a regular file", where=str(path), remedy="Save the table in a file")
        options.limits.check(path, megabytes=path.stat().st_size / MEGABYTE)
        with path.open("rb") as file:
            start = file.read(16)
    if not start:
        raise DataError("this file is empty", where=str(path), remedy="Give one with a header row and rows below it")
    suffix, notes = _find_kind(path, start)
    reader: Callable[[Path, ReadOptions], Grid] = resolve_name(f"mate_cli.tables.formats.{READERS[suffix]}")
    grid = reader(path, options)
    grid.notes[:0] = notes
    return grid


def _find_kind(path: Path, start: bytes) -> tuple[str, list[str]]:
    """Detect the format of a file by its first bytes, or by its suffix if the bytes are not in `CONTENTS`.

    Returns:
        The suffix that selects the reader in `READERS`, and a note for the user if it differs from that of `path`.
    """
    suffix = path.suffix.lower()
    kind, name = next(((kind, name) for heads, kind, name in CONTENTS if start.startswith(heads)), (suffix, ""))
    if name and not kind:
        hint = "Unpack it first" if "compressed" in name else "Save the table as CSV or .xlsx"
        raise DataError(f"this is {name}", where=str(path), remedy=hint)
    if kind not in READERS:
        hint = "Save the table as CSV, .xlsx, JSON or Parquet"
        if suffix in DATABASES:
            hint = f"Ask it by SQL with database={path}, in data settings data.database={path}"
        raise DataError(f"unsupported file type {suffix!r}", where=str(path), remedy=hint)
    if not name and kind in WORKBOOKS:
        raise DataError("this is not a workbook", where=str(path), remedy="If it is text, rename it to .csv")
    is_same = READERS.get(suffix) == READERS[kind]
    return kind, [] if is_same else [f"The file ending is {suffix or 'missing'}, but the content is {name}."]


def _clean_lines(lines: Iterable[list[str]], path: Path, limits: Limits) -> Iterator[list[str]]:
    """Yield the lines with stripped cells. Raise `DataError` if the table exceeds a limit."""
    cells = 0
    for number, line in enumerate(lines):
        cells += len(line)
        if number > limits.rows or len(line) > limits.columns or cells > limits.cells:
            limits.check(path, rows=number, columns=len(line), cells=cells)
        yield [cell.strip() if type(cell) is str and cell.isascii() else _clean(cell) for cell in line]


def _clean(text: str) -> str:
    return text if type(text) is NumberText else valid(text).strip().lstrip("\ufeff")


Row = tuple[int, list[str], int]
"""Number of a body row (from 1), its cells up to the last that is not empty, and its length with empty cells."""


class TableScanner:
    """One pass over the lines of a table file, which finds header and body rows and collects notes for the user."""

    def __init__(self, path: Path, grid: Grid, options: ReadOptions) -> None:
        self.options, self.path, self.grid, self.notes = options, path, grid, grid.notes
        self.title, self._width = "", 0

    def scan(self, lines: Iterator[list[str]]) -> TableFile:
        """Convert all lines of the file to a table: find the header, drop blank rows, infer number formats.

        Raises:
            DataError: the lines contain no table, exceed a limit, or end before the line of `header=`.
        """
        header = list[str]()
        if self.grid.header is None:
            header, lines = self._split_header(lines)
        elif self.options.header is not None:
            self.notes.append("header= was left out: the columns of this file have names of their own.")
        rows = list[Row]()
        for number, line in enumerate(lines, 1):
            length = len(line)
            while line and not line[-1] and type(line[-1]) is str:
                line.pop()
            rows += [(number, line, length)] if line else []
        return self._finish(header if self.grid.header is None else list(map(_clean, self.grid.header)), rows)

    def _split_header(self, lines: Iterable[list[str]]) -> tuple[list[str], Iterator[list[str]]]:
        """Split the lines into column names and body lines. Lines above the header become the title.

        Raises:
            DataError: the line of `header=` does not exist.
        """
        lines, number = iter(lines), self.options.header
        start = list(islice(lines, FIRST_LINES))
        if number is not None and number > len(start):
            problem = f"there is no line {number} in this table"
            raise DataError(problem, where=str(self.path), remedy=f"Write header=1 to header={max(len(start), 1)}")
        levels = range(0)
        if any(map(any, start)) and number != 0:
            levels = find_levels(start, find_header(start) if number is None else number - 1)
        header = join_levels([start[level] for level in levels]) if levels else []
        if levels and counts_columns(start[levels.stop :]):
            del start[levels.stop]
            self.notes.append("The line that only numbers the columns was left out.")
        elif levels and is_count(start[levels.stop :]):
            self.notes.append("The first row counts from 1: it was read as data, but may only number the columns.")
        if len(levels) > 1:
            example = max(header, key=lambda name: name.count(" "))
            self.notes.append(f"The {len(levels)} lines of the header were joined: {example[:80]!r}.")
        are_numbers = any(is_value(name) and re.fullmatch(r"-?[\d.,]+", name) for name in header)
        if number is None and are_numbers and all(header) and not has_numbers([header, *start[levels.stop :]]):
            self.notes.append("Numbers were read as names of columns (header=none reads that line as a row).")
        titles = [" ".join(filter(None, line)) for line in start[: levels.start] if any(line)]
        self.title = " ".join(titles)
        self._note(len(titles), "line", f"above the table read as its title: {self.title[:80]!r}")
        self._width = count_cells(header)
        return header, chain(start[levels.stop :], lines)

    def _count_below(self, rows: Sequence[Row]) -> int:
        """Count the last lines of a file that follow the table, such as a source or remark.

        Return 0 if a row above these lines has one cell, or fewer cells than the header: such rows are normal then.
        """
        indices = range(max(len(rows) - LAST_LINES, 2), len(rows))
        start = next((p for p in indices if all(self._is_below(row, rows[p - 1][0]) for row in rows[p:])), len(rows))
        min_cells = min((min(len(line), length + 2 - self._width) for _, line, length in rows[:start]), default=0)
        return len(rows) - start if min(min_cells, self._width) > 1 else 0

    def _is_below(self, row: Row, end: int) -> bool:
        """Return whether a line after the table is a remark or source note, not a table row."""
        number, line, length = row
        is_single, is_after = len(line) == 1, number > end + 1
        is_remark = _REMARK.match(line[0]) and not any(map(is_value, line))
        is_short = length < self._width and (is_after or length == 1 < self._width - 1)
        return (is_single or is_after) and bool(is_remark or is_short or (is_after and is_single))

    def _finish(self, header: list[str], rows: list[Row]) -> TableFile:
        """Create the table from its header and body rows.

        Blank rows and columns and lines below the table are removed, unnamed columns get a name, and number formats are
        inferred. Each change adds a note for the user.

        Raises:
            DataError: there are no rows, or the table exceeds a limit.
        """
        end = len(rows) - self._count_below(rows)
        remarks = " ".join(cell for _, line, _ in rows[end:] for cell in line)
        numbers, lines, lengths = zip(*rows[:end], strict=True) if end else ((), (), ())
        widths, first = list(map(len, lines)), lines[:FIRST_LINES] if self.grid.has_commas and header else ()
        longer = [",".join(row) for row in first if len(row) > len(header)]
        if 2 * len(longer) > len(first) and all(map(_SHIFTED.search, longer)):
            self.notes.append("Decimal commas without quotation marks may have shifted cells: write points instead.")
        # A header with one name less than each row lacks the name of the column of row names.
        if header and {*lengths, max(widths, default=0)} == {len(header) + 1}:
            header = ["", *header]
        while header and not header[-1]:
            header.pop()
        if not lines:
            problem = "it has a header but no rows" if header else "this file has no table"
            raise DataError(problem, where=str(self.path), remedy="Give a table with a header row and rows below it")
        width = max(len(header), *widths)
        self.options.limits.check(self.path, columns=width, cells=width * len(lines))
        if self.grid.header is None and header:
            count = count_noun(width - len(header), "column")
            shorter, wider = (sum(n < len(header) for n in lengths), sum(n > len(header) for n in widths))
            self._note(shorter, "row", "shorter than the header: filled with empty cells")
            self._note(wider, "row", f"longer than the header: {count} added on the right")
        # The added last line ensures that each column has a cell. It is removed below.
        columns = zip_longest(*lines, [""] * width, fillvalue="")
        pairs = [(name, cells) for name, cells in zip_longest(header, columns, fillvalue="") if name or any(cells)]
        names = self._names([name for name, _ in pairs])
        self._note(numbers[-1] - len(lines), "blank row", "left out")
        self._note(len(rows) - end, "line", f"below the table left out: {remarks[:80]!r}")
        self._note(width - len(pairs), "blank column", "left out")
        formats, notes = find_formats(names, [collect_evidence(cells) for _, cells in pairs], self.options)
        self.notes += notes
        cells = list(zip(*(cells for _, cells in pairs), strict=True))[:-1]
        return TableFile(self.path, names, cells, numbers, formats, self.notes, self.title)

    def _note(self, count: int, noun: str, event: str) -> None:
        """Add a note such as "3 blank rows left out.", unless `count` is 0."""
        self.notes += [f"{count_noun(count, noun)} {event}."] if count else []

    def _names(self, header: list[str]) -> tuple[str, ...]:
        """Return unique column names: blank names become "column N", duplicates get a number."""
        blank = [f"column {number}" for number, name in enumerate(header, 1) if not name]
        names, originals, numbers = dict[str, None](), set(header), defaultdict[str, Iterator[int]](lambda: count(2))
        for number, name in enumerate(header, 1):
            unique = base = name or f"column {number}"
            while unique in names or (unique != base and unique in originals):
                unique = f"{base} ({next(numbers[base])})"
            names[unique] = None
        self._note(len(blank), "column", f"without a name: called {list_names(blank)}")
        repeated = [repr(name) for name, times in Counter(header).items() if name and times > 1]
        self.notes += [f"Columns of the same name were numbered: {list_names(repeated)}."] if repeated else []
        return tuple(names)
