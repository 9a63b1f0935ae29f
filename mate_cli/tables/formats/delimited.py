"""Text with a delimiter: comma, semicolon, tab or pipe; quoted or not."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from mate_cli.tables.formats.encoding import SAMPLE, find_encoding
from mate_cli.tables.formats.grid import Grid

DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "pipes"}
NO_DELIMITER = "\x1f"
Quoting = Literal[0, 3]
LARGEST_CELL = 2**31 - 1
TITLED_SHARE = 0.8
"""A delimiter that the first line lacks must give this share of the lines the same width."""
UNCLOSED_LINES = 20
"""A cell with as many line breaks in a file with an odd number of quotation marks has swallowed the lines below."""
_HINT = re.compile(r"sep=(.)\r?\n")


def read_delimited(path: Path) -> Grid:
    """Open a file of delimited text.

    Raises:
        DataError: it is not text.
    """
    encoding, notes = find_encoding(path)
    with path.open(encoding=encoding, errors="replace", newline="") as file:
        sample = file.read(SAMPLE)
    hint = _HINT.match(sample)
    sample = sample[hint.end() :] if hint else sample
    delimiter = hint[1] if hint else find_delimiter(sample, "\t" if path.suffix.lower() in (".tsv", ".tab") else ",")
    usual = {".csv": ",", ".tsv": "\t", ".tab": "\t"}.get(path.suffix.lower())
    if delimiter in DELIMITERS and delimiter != usual:
        notes.append(f"Columns are parted by {DELIMITERS[delimiter]}.")
    quoting: Quoting = csv.QUOTE_MINIMAL
    if _is_unclosed(path, encoding, delimiter):
        quoting = csv.QUOTE_NONE
        notes.append("A quotation mark is never closed; quotation marks were read as text.")
    return Grid(_lines(path, encoding, delimiter, quoting, skip=1 if hint else 0), notes=notes)


def find_delimiter(sample: str, usual: str) -> str:
    """Find what parts the columns: what gives most lines the same number of cells.

    Args:
        sample: the beginning of the file.
        usual: wins a tie.
    """
    scores: dict[str, float] = {}
    first: dict[str, int] = {}
    for delimiter in sorted(DELIMITERS, key=lambda one: one != usual):
        widths = _widths(sample, delimiter)
        if not widths:
            return usual
        first[delimiter] = widths[0]
        width, count = max(Counter(widths).items(), key=lambda pair: (pair[1], pair[0]))
        share = count / len(widths)
        if width > 1 and (widths[0] > 1 or share >= TITLED_SHARE):
            scores[delimiter] = share
    if scores:
        return max(scores, key=scores.__getitem__)
    splitting = max(first, key=first.__getitem__)
    if first[splitting] > 1:
        return splitting
    return usual if set(_widths(sample, usual)) == {1} else NO_DELIMITER


def _widths(sample: str, delimiter: str) -> list[int]:
    """How many cells each whole line of a sample has; blank lines are left out."""
    csv.field_size_limit(LARGEST_CELL)
    lines = [line for line in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter) if any(line)]
    return [len(line) for line in (lines[:-1] if len(sample) >= SAMPLE and len(lines) > 1 else lines)]


def _lines(path: Path, encoding: str, delimiter: str, quoting: Quoting, skip: int = 0) -> Iterator[list[str]]:
    csv.field_size_limit(LARGEST_CELL)
    with path.open(encoding=encoding, errors="replace", newline="") as file:
        for _ in range(skip):
            file.readline()
        yield from csv.reader((line.replace("\0", "") for line in file), delimiter=delimiter, quoting=quoting)


def _is_unclosed(path: Path, encoding: str, delimiter: str) -> bool:
    """Whether a quotation mark that nobody closes swallows the rest of the file."""
    with path.open(encoding=encoding, errors="replace", newline="") as file:
        if sum(line.count('"') for line in file) % 2 == 0:
            return False
    ends = deque(_lines(path, encoding, delimiter, csv.QUOTE_MINIMAL), maxlen=1)
    return bool(ends and ends[0]) and ends[0][-1].count("\n") >= UNCLOSED_LINES
