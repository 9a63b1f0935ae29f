"""Text files whose columns are separated by a delimiter or aligned with spaces."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from mate_cli.tables.formats.cell_text import count_noun
from mate_cli.tables.formats.dialect import Dialect, DialectFit, Records, find_dialect, find_ruled_slices, is_rule
from mate_cli.tables.formats.encoding import read_text
from mate_cli.tables.read_options import DELIMITERS, MEGABYTE, ReadOptions
from mate_cli.tables.table import Grid

SUFFIX_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
RULED_LINES = 10
"""Number of first lines that are searched for a drawn rule, such as dashes below the header."""
_BARS = str.maketrans("│┃┆║", "||||")
_COUNT = re.compile(r"\s*\(?\d+ rows?(?: in set.*| selected\.?|\))?\s*")
"""Row counts that database clients print below a table."""
_PRINTED = re.compile(r"\A(?:shape: \(.*\)|# A tibble: .*)\r?\n((?:.*\n){1,9}?)(?:│ ---.*\n│.*\n|(?:\s*<\w+>)+ *\r?\n)")
"""Shape above and types below the names of columns, as printed by Polars and R."""
_TEXT_FORMULA = re.compile(r'^="([^"]*)"$')
"""Notation of a text that a spreadsheet program must not read as a number."""
_HINT = re.compile(r"sep=(.)\r?\n?")


def read_delimited(path: Path, options: ReadOptions) -> Grid:
    """Open a CSV, TSV or text file, and detect its encoding, delimiter and quotation mark.

    Raises:
        DataError: the file is not text, or its encoding is unknown.
    """
    text, expected = read_text(path, options.encoding), SUFFIX_DELIMITERS.get(path.suffix.lower())
    if nul_count := text.content.count("\0"):
        text.notes.append(f"{count_noun(nul_count, 'NUL character')} left out.")
    lines = re.findall(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+", _PRINTED.sub(r"\1", text.content.replace("\0", "")))
    start, hint = lines[:RULED_LINES], _HINT.fullmatch("".join(lines[:1]))
    del lines[: 1 if hint else 0]
    if any(map(is_rule, start)):
        lines = [line.translate(_BARS) for line in lines if not (is_rule(line) or _COUNT.fullmatch(line))]
    delimiter = options.delimiter or (hint[1] if hint else None)
    slices = next(filter(None, map(find_ruled_slices, start)), ())
    ruled = DialectFit(Dialect(" ", slices=slices), 1, len(slices))
    result = ruled if slices and not delimiter else find_dialect(lines, expected, delimiter, options.quote)
    text.notes.extend(_describe(result, expected, options))
    csv.field_size_limit(options.limits.megabytes * MEGABYTE)
    cells = _lines(Records(result.dialect, result.width), lines, text.notes)
    if any('="' in line for line in start):
        cells = ([_TEXT_FORMULA.sub(r"\1", cell) for cell in line] for line in cells)
    has_commas = result.dialect.delimiter == "," and not any('"' in line for line in start)
    return Grid(chain([[]] if hint else [], cells), notes=text.notes, has_commas=has_commas)


def _describe(result: DialectFit, expected: str | None, options: ReadOptions) -> list[str]:
    """Return notes for the user about an unusual delimiter, quotation mark or escape."""
    dialect = result.dialect
    word = next((f"{word}s" for word, mark in DELIMITERS.items() if mark == dialect.delimiter), repr(dialect.delimiter))
    is_unusual = result.width > 1 and not dialect.slices and dialect.delimiter != expected and not options.delimiter
    notes = {
        "Columns are aligned with spaces.": dialect.slices,
        "No delimiter was found: the table has one column (delimiter=... splits it).": result.width < 2,
        f"Columns are separated by {word}.": is_unusual,
        "Apostrophes were read as quotation marks.": dialect.quote == "'" and options.quote is None,
        "Backslashes were read as escape characters.": dialect.has_escapes,
    }
    return [note for note, is_true in notes.items() if is_true]


def _lines(records: Records, lines: list[str], notes: list[str]) -> Iterator[list[str]]:
    yield from records.read(iter(lines))
    if records.irregular:
        notes.append("Some quotation marks do not fit together; those of no whole cell were read as text.")
