"""Tables of a corpus that are those of an evaluation split, or nearly so: to pre-train on them would be a leak."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from functools import lru_cache

from mate_cli.data.corpora.shards import table_key
from mate_cli.tables.table import Table
from mate_cli.tables.text import strip_accents

MIN_ROW_LENGTH, MIN_CELL_LENGTH = 8, 4
"""Letters and digits; shorter ones, such as "1 2 3", are alike by chance."""
MAX_HOLDERS = 200
"""What more tables hold, such as a year, tells none of them."""

_NOT_PLAIN = re.compile(r"\[[^\]]*\]|[\W_]+")


class TableMarks:
    """Marks of tables, and the search for tables that share enough of them.

    Args:
        share: of the smaller table's marks.
        fewest: marks, whatever the share.
    """

    def __init__(self, share: float, fewest: int) -> None:
        self.share, self.fewest = share, fewest
        self._sizes: list[int] = []
        self._holders: dict[str, list[int]] = defaultdict(list)

    def add(self, marks: Collection[str]) -> None:
        """Learn those of one more table, each once."""
        for mark in marks:
            self._holders[mark].append(len(self._sizes))
        self._sizes.append(len(marks))

    def is_near(self, marks: Collection[str]) -> bool:
        """Tell whether a table with these marks shares enough with one that is known."""
        holders = (self._holders.get(mark, ()) for mark in marks)
        counts = Counter(table for tables in holders if len(tables) <= MAX_HOLDERS for table in tables)
        return any(
            count >= max(self.fewest, self.share * min(len(marks), self._sizes[table]))
            for table, count in counts.items()
        )


class EvaluationTables:
    """Tables that must not be learnt from, by what is written in them."""

    def __init__(self, tables: Iterable[Table] = ()) -> None:
        self._keys: set[str] = set()
        self._rows, self._cells = TableMarks(0.5, 2), TableMarks(0.8, 8)
        for table in tables:
            self.add(table)

    def add(self, table: Table) -> None:
        """Learn one more; one that is known already changes nothing."""
        key = table_key(table)
        if key not in self._keys:
            self._keys.add(key)
            self._rows.add(plain_rows(table))
            self._cells.add(plain_cells(table))

    def holds(self, table: Table, key: str) -> str:
        """Say why a table is one of these: "equal", "near-equal", or "" where it is not.

        Near-equal tables share half of the rows or four fifths of the texts of cells of the smaller one, whatever their
        order, case, accents, punctuation and footnotes.
        """
        if key in self._keys:
            return "equal"
        near = self._rows.is_near(plain_rows(table)) or self._cells.is_near(plain_cells(table))
        return "near-equal" if near else ""


def plain_rows(table: Table) -> set[str]:
    """Normalize the body rows to words that all editions share; short rows are left out."""
    rows = (" ".join(sorted(filter(None, (_plain(cell.text) for cell in row)))) for row in table.rows)
    return {row for row in rows if len(row) >= MIN_ROW_LENGTH}


def plain_cells(table: Table) -> set[str]:
    """Normalize the body cells, likewise; short ones are left out."""
    cells = (_plain(cell.text) for _, _, cell in table.cells())
    return {cell for cell in cells if len(cell) >= MIN_CELL_LENGTH}


@lru_cache(maxsize=1 << 16)
def _plain(text: str) -> str:
    return _NOT_PLAIN.sub("", strip_accents(text.lower()))
