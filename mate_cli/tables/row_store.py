"""Rows in a temporary file, so that a large table need not fit in memory."""

from __future__ import annotations

import json
import tempfile
import weakref
from array import array
from collections.abc import Iterator, Sequence

IN_MEMORY = 1 << 20
"""Bytes of rows that are kept in memory; with more, all of them go to a temporary file."""


class RowStore:
    """Rows of texts in the order in which they were added; any of them can be read again.

    Attributes:
        numbers: what each row is called, such as its place below the header with blank rows counted.
    """

    def __init__(self) -> None:
        self.numbers = array("q")
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - see below
        weakref.finalize(self, self._file.close)
        self._places = array("q", [0])

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, number: int, row: Sequence[str]) -> None:
        """Add a row."""
        line = json.dumps(row).encode() + b"\n"
        self._file.seek(self._places[-1])
        self._file.write(line)
        self._places.append(self._places[-1] + len(line))
        self.numbers.append(number)

    def __getitem__(self, place: int) -> list[str]:
        """The row at a place, from 0."""
        self._file.seek(self._places[place])
        return json.loads(self._file.read(self._places[place + 1] - self._places[place]))

    def __iter__(self) -> Iterator[list[str]]:
        """Yield all rows in their order."""
        return map(self.__getitem__, range(len(self)))
