"""Read one's own table: csv, tsv, json, jsonl, parquet and xlsx, as a person with a spreadsheet expects it."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from mate_cli.errors import DataError
from mate_cli.files.io_errors import wrap_read_errors
from mate_cli.tables.formats.cell_text import NumberText, valid
from mate_cli.tables.formats.columnar import read_parquet
from mate_cli.tables.formats.delimited import read_delimited
from mate_cli.tables.formats.grid import Grid
from mate_cli.tables.formats.records import read_json
from mate_cli.tables.formats.workbook import read_workbook
from mate_cli.tables.read_options import AS_FOUND, ReadOptions
from mate_cli.tables.survey import Survey
from mate_cli.tables.table import Table
from mate_cli.tables.table_file import TableFile

READERS: dict[str, Callable[[Path, ReadOptions], Grid]] = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), read_delimited),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), read_json),
    **dict.fromkeys((".parquet", ".pq"), read_parquet),
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), read_workbook),
}
"""What reads a file, by how its name ends."""
SUFFIXES = tuple(READERS)
CONTENTS = (
    (b"PK\x03\x04", ".xlsx", "a workbook"),
    (b"PAR1", ".parquet", "Parquet"),
    (b"\xd0\xcf\x11\xe0", ".xls", "an old Excel workbook"),
    (b"%PDF", "", "a PDF"),
    (b"\x89PNG", "", "an image"),
    (b"\xff\xd8\xff", "", "an image"),
    (b"GIF8", "", "an image"),
    (b"\x1f\x8b", "", "compressed with gzip"),
    (b"SQLite format 3", "", "an SQLite database"),
)
"""How some files begin, whatever they are called: the reader for them, or none, and what they are."""


def read_table(path: str | Path, options: ReadOptions = AS_FOUND) -> tuple[Table, list[str]]:
    """Read a table whole.

    Returns:
        The table, and what was done on reading as plain sentences.

    Raises:
        DataError: there is no such file, or no table in it.
        MissingDependencyError: what reads this kind is not installed.
    """
    file = open_table(path, options)
    return file.table(), file.notes


def open_table(path: str | Path, options: ReadOptions = AS_FOUND) -> TableFile:
    """Read a table into a store of rows, at the memory of a few rows; see `read_table`.

    Raises:
        DataError: whatever is wrong with the file, or it is too large.
        MissingDependencyError: what reads this kind is not installed.
    """
    with wrap_read_errors(
        path, DataError, "this table cannot be read", "Open it in its original program, and save it again"
    ):
        return _open(Path(path).expanduser(), options)


def _open(path: Path, options: ReadOptions) -> TableFile:
    grid = _grid(path, options)
    survey = Survey(path, grid, options)
    lines: Iterator[list[str]] = (
        [cell.strip() if type(cell) is str and cell.isascii() else _clean(cell) for cell in line]
        for line in survey.limit_lines(grid.lines)
    )
    header: list[str] = []
    if grid.header is not None and options.header is not None:
        grid.notes.append("header= was left out: the columns of this file have names of their own.")
    if grid.header is None:
        header, lines = survey.split_header(lines)
    for line in lines:
        survey.add(line)
    return survey.finish(header if grid.header is None else list(map(_clean, grid.header)))


def _grid(path: Path, options: ReadOptions) -> Grid:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise DataError("this is not a regular file", where=str(path), remedy="Save the table in a file")
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        problem = f"cannot be read: {(error.strerror or 'error').lower()}"
        raise DataError(problem, where=str(path), remedy="Check its name and permissions") from error
    options.limits.check_bytes(path, found.st_size)
    if not start.strip(b" \t\r\n\0"):
        raise DataError("this file is empty", where=str(path), remedy="Give one with a header row and rows below it")
    suffix, notes = _kind(path, start)
    grid = READERS[suffix](path, options)
    grid.notes[:0] = notes
    return grid


def _kind(path: Path, start: bytes) -> tuple[str, list[str]]:
    """Find the format of a file, from its content where that is told by its first bytes, else from its name."""
    suffix = path.suffix.lower()
    for mark, kind, name in CONTENTS:
        if start.startswith(mark):
            if not kind:
                remedy = "Unpack it first" if "compressed" in name else "Save the table as CSV or .xlsx"
                raise DataError(f"this is {name}", where=str(path), remedy=remedy)
            same = suffix in READERS and READERS[suffix] is READERS[kind]
            return kind, [] if same else [f"The file ending is {suffix or 'missing'}, but the content is {name}."]
    if suffix not in READERS:
        raise DataError(f"unsupported file type {suffix!r}", where=str(path), remedy=f"Use {', '.join(SUFFIXES)}")
    return suffix, []


def _clean(text: str) -> str:
    if type(text) is NumberText:
        return text
    return valid(text).strip().lstrip("\ufeff")
