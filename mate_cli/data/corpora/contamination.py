"""Detection of corpus tables that equal or resemble tables of evaluation splits.

Training on them would be a leak.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from functools import lru_cache

from mate_cli.data.corpora.shards import table_key
from mate_cli.tables.table import Table
from mate_cli.tables.text import strip_accents

MIN_ROW_LENGTH, MIN_CELL_LENGTH = 8, 4
"""Minimum number of letters and digits. Shorter texts, such as "1 2 3", are often equal in unrelated tables."""
MAX_HOLDERS = 200
"""Maximum number of tables with a text. More frequent texts, such as a year, do not identify a table."""

_IGNORED = re.compile(r"\[[^\]]*\]|[\W_]+")


class TableFingerprints:
    """Index of tables by their texts (cells or rows), to find near-duplicates of a table.

    Args:
        share: minimum share of common texts, relative to the smaller table.
        fewest: minimum number of common texts.
    """

    def __init__(self, share: float, fewest: int) -> None:
        self.share, self.fewest = share, fewest
        self._sizes: list[int] = []
        self._holders: dict[str, list[int]] = defaultdict(list)

    def add(self, texts: Collection[str]) -> None:
        """Index a table by the set of its distinct texts."""
        for text in texts:
            self._holders[text].append(len(self._sizes))
        self._sizes.append(len(texts))

    def is_near(self, texts: Collection[str]) -> bool:
        """Return whether a table with these texts nearly duplicates an indexed table."""
        holders = (self._holders.get(text, ()) for text in texts)
        counts = Counter(table for tables in holders if len(tables) <= MAX_HOLDERS for table in tables)
        least = {table: max(self.fewest, self.share * min(len(texts), self._sizes[table])) for table in counts}
        return any(count >= least[table] for table, count in counts.items())


class EvaluationTables:
    """Index of evaluation tables, to exclude equal and similar tables from pre-training."""

    def __init__(self, tables: Iterable[Table] = ()) -> None:
        self._keys: set[str] = set()
        self._rows, self._cells = TableFingerprints(0.5, 2), TableFingerprints(0.8, 8)
        for table in tables:
            self.add(table)

    def add(self, table: Table) -> None:
        """Index a table of an evaluation split, unless an equal table is indexed."""
        key = table_key(table)
        if key not in self._keys:
            self._keys.add(key)
            self._rows.add(plain_rows(table))
            self._cells.add(plain_cells(table))

    def find_repeat(self, table: Table, key: str) -> str:
        """Return "equal" or "near-equal" if the index has a duplicate of `table`, else "".

        Near-equal tables share half of the rows, or four fifths of the cell texts, of the smaller table. Order, case,
        accents, punctuation and footnotes are ignored.

        Args:
            table: table to look up.
            key: key of this table, see `table_key`.
        """
        if key in self._keys:
            return "equal"
        is_near = self._rows.is_near(plain_rows(table)) or self._cells.is_near(plain_cells(table))
        return "near-equal" if is_near else ""


def plain_rows(table: Table) -> set[str]:
    """Return each body row as normalized text, to recognize copies of a table by its rows.

    Rows with fewer than `MIN_ROW_LENGTH` letters and digits are omitted.
    """
    rows = (" ".join(sorted(filter(None, (_simplify(cell.text) for cell in row)))) for row in table.rows)
    return {row for row in rows if len(row) >= MIN_ROW_LENGTH}


def plain_cells(table: Table) -> set[str]:
    """Return the normalized texts of body cells, to recognize copies of a table.

    Texts of fewer than `MIN_CELL_LENGTH` characters are omitted.
    """
    cells = (_simplify(cell.text) for _, _, cell in table.cells())
    return {cell for cell in cells if len(cell) >= MIN_CELL_LENGTH}


@lru_cache(maxsize=1 << 16)
def _simplify(text: str) -> str:
    return _IGNORED.sub("", strip_accents(text.lower()))
