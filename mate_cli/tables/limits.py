"""How much of a table is read: what a small file can stand for has no end, and memory has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from mate_cli.errors import DataError

MEGABYTE = 1_000_000
WHOLE = 8
"""Of what has to be in memory whole, as JSON has, this part of the megabytes is read."""


@dataclass(frozen=True)
class Limits:
    """The largest table that is read, blank rows and cells counted, and megabytes of the file unpacked."""

    rows: int = 1_048_576
    columns: int = 16_384
    cells: int = 20_000_000
    megabytes: int = 200

    def check(self, path: Path, **found: int) -> None:
        """Refuse what is larger than the limit of that name.

        Raises:
            DataError: naming the limit, which can be raised.
        """
        for name, count in found.items():
            if count > (most := getattr(self, name)):
                raise DataError(
                    f"it has more than {most:,} {name}",
                    where=str(path),
                    remedy=f"Give a part of it, or raise limits.{name}",
                )

    @property
    def whole(self) -> int:
        """Bytes of what has to be in memory whole: a line, a cell, a JSON file."""
        return self.megabytes * MEGABYTE // WHOLE

    @property
    def entry(self) -> int:
        """Letters of an entry of a JSON list, of which a few are in memory at a time."""
        return max(self.whole // 8, 1000)

    def lines(self, file: TextIO, path: Path) -> Iterator[str]:
        """The lines of a text file.

        Raises:
            DataError: one of them is too long to be one of a table.
        """
        while line := file.readline(self.whole + 1):
            if len(line) > self.whole:
                self.check_bytes(path, len(line), whole=True)
            yield line

    def check_bytes(self, path: Path, count: int, *, whole: bool = False) -> None:
        """Refuse a file that is larger, once unpacked; `whole` where all of it has to be in memory.

        Raises:
            DataError: saying how many megabytes are read.
        """
        most = self.whole if whole else self.megabytes * MEGABYTE
        if count > most:
            what = "what has to be in memory whole" if whole else "it"
            raise DataError(
                f"{what} has more than {most // MEGABYTE:,} MB{'' if whole else ' unpacked'}",
                where=str(path),
                remedy=f"Give a part of it, or raise limits.megabytes={self.megabytes}",
            )
