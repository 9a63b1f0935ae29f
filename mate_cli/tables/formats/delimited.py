"""Text with a delimiter: comma, semicolon, tab or pipe; quoted or not."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice
from pathlib import Path

from mate_cli.tables.formats.encoding import SAMPLE, Text, text_file
from mate_cli.tables.formats.grid import Grid, numbered
from mate_cli.tables.limits import Limits
from mate_cli.tables.read_options import ReadOptions

DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "pipes"}
NO_DELIMITER = "\x1f"
TITLED_SHARE = 0.8
"""A delimiter that the first line lacks must give this share of the lines the same width."""
LONGEST_QUOTATION = 100
"""Lines after which a quotation mark counts as never closed, in a file with an odd number of them."""
_HINT = re.compile(r"sep=(.)\r?\n")


def read_delimited(path: Path, options: ReadOptions) -> Grid:
    """Open a file of delimited text.

    Raises:
        DataError: it is not text.
    """
    limits, text = options.limits, text_file(path, options.encoding)
    notes = text.notes
    with text.open(newline="") as file:
        sample = file.read(SAMPLE)
    hint = _HINT.match(sample)
    sample = sample[hint.end() :] if hint else sample
    delimiter = hint[1] if hint else find_delimiter(sample, "\t" if path.suffix.lower() in (".tsv", ".tab") else ",")
    usual = {".csv": ",", ".tsv": "\t", ".tab": "\t"}.get(path.suffix.lower())
    if delimiter in DELIMITERS and delimiter != usual:
        notes.append(f"Columns are parted by {DELIMITERS[delimiter]}.")
    csv.field_size_limit(limits.whole // 2)
    is_even, lines = _look_through(text, limits), _texts(text, limits, delimiter, 1 if hint else 0)
    return Grid(
        _lines(lines, delimiter) if is_even else _lines_with_unclosed(lines, delimiter, limits, notes), notes=notes
    )


def find_delimiter(sample: str, usual: str) -> str:
    """Find what parts the columns: what gives most lines the same number of cells. The usual one wins a tie."""
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
    lines = [line for line in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter) if any(line)]
    return [len(line) for line in (lines[:-1] if len(sample) >= SAMPLE and len(lines) > 1 else lines)]


def _texts(text: Text, limits: Limits, delimiter: str, skip: int = 0) -> Iterator[str]:
    """The lines, as long as none has more columns than are read: their cells would be in memory all at once."""
    within = 0
    with text.open(newline="") as file:
        for line in islice(limits.lines(file, text.path), skip, None):
            if line.count(delimiter) > limits.columns:
                outside = line.split('"')[within::2]
                limits.check(text.path, columns=sum(part.count(delimiter) for part in outside))
            within = (within + line.count('"')) % 2
            yield line.replace("\0", "")


def _look_through(text: Text, limits: Limits) -> bool:
    """Whether the quotation marks are even in number; notes what is left out."""
    marks = nothing = 0
    with text.open(newline="") as file:
        for line in limits.lines(file, text.path):
            marks += line.count('"')
            nothing += line.count("\0")
    if nothing:
        text.notes.append(f"{numbered(nothing, 'NUL character')} left out.")
    return marks % 2 == 0


def _lines(texts: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    yield from csv.reader(texts, delimiter=delimiter)


def _lines_with_unclosed(texts: Iterator[str], delimiter: str, limits: Limits, notes: list[str]) -> Iterator[list[str]]:
    """Lines of which some hold quotation marks that the next lines do not close: in these they are text."""
    waiting = deque[str]()
    said = False
    while True:
        while len(waiting) < LONGEST_QUOTATION and sum(map(len, waiting)) <= limits.whole // 2:
            if (text := next(texts, None)) is None:
                break
            waiting.append(text)
        if not waiting:
            return
        marks = accumulate(line.count('"') for line in waiting)
        closed = next((place for place, count in enumerate(marks, 1) if count % 2 == 0), 0)
        record = [waiting.popleft() for _ in range(closed or 1)]
        if closed:
            yield from _lines(record, delimiter)
            continue
        (line,) = csv.reader(record, delimiter=delimiter, quoting=csv.QUOTE_NONE)
        if not said and any(cell.startswith('"') for cell in line):
            said = True
            notes.append("A quotation mark is never closed; it was read as text.")
        yield line
