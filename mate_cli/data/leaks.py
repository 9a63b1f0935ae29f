"""Which tables of a corpus are those of an evaluation split, or nearly so: to pre-train on them would be a leak."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import lru_cache

from mate_cli.data.corpus import table_key
from mate_cli.tables.table import Table

SHARED = 0.5
"""Tables that share this part of the smaller one's rows are one table in two editions."""
FEWEST_SHARED = 2
"""But not those that share fewer rows."""
SHORTEST_ROW = 8
"""Letters and digits of a row; shorter ones, such as "1 2 3", are alike by chance."""

_NOT_PLAIN = re.compile(r"\[[^\]]*\]|[\W_]+")


class EvaluationTables:
    """Tables that must not be learnt from, by what is written in them.

    Args:
        tables: of the evaluation splits.
    """

    def __init__(self, tables: Iterable[Table] = ()) -> None:
        self._keys: set[str] = set()
        self._sizes: list[int] = []
        self._holders: dict[str, list[int]] = defaultdict(list)
        for table in tables:
            self.add(table)

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, table: Table) -> None:
        """Learn one more; one that is known already changes nothing."""
        key = table_key(table)
        if key in self._keys:
            return
        self._keys.add(key)
        rows = plain_rows(table)
        for row in rows:
            self._holders[row].append(len(self._sizes))
        self._sizes.append(len(rows))

    def holds(self, table: Table, key: str) -> str:
        """Why a table is one of these: "equal", "near-equal", or "" where it is not.

        Near-equal tables share half of the rows of the smaller one, whatever their order, their case, accents,
        punctuation, footnotes and the columns' order.
        """
        if key in self._keys:
            return "equal"
        rows = plain_rows(table)
        shared = Counter(holder for row in rows for holder in self._holders.get(row, ()))
        for holder, count in shared.items():
            if count >= max(FEWEST_SHARED, SHARED * min(len(rows), self._sizes[holder])):
                return "near-equal"
        return ""


def plain_rows(table: Table) -> set[str]:
    """What the body rows say, without what editions differ in; short rows are left out."""
    rows = (" ".join(sorted(filter(None, (_plain(cell.text) for cell in row)))) for row in table.rows)
    return {row for row in rows if len(row) >= SHORTEST_ROW}


@lru_cache(maxsize=1 << 16)
def _plain(text: str) -> str:
    text = text.lower()
    if not text.isascii():
        text = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return _NOT_PLAIN.sub("", text)
