"""Tables with what is said of them: what networks are pre-trained on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from mate_cli.tables.table import Table
from mate_cli.tables.text import format_text


@dataclass(frozen=True, slots=True)
class CorpusTable:
    """A table of a corpus.

    Args:
        texts: what is said of the table: titles, captions, the text of its section, but no questions.
        source: the corpus that it came from.
        key: equal for equal tables: a digest of the normalised header and cells.
    """

    table: Table
    texts: tuple[str, ...]
    source: str
    key: str

    @property
    def content(self) -> tuple[Table, tuple[str, ...]]:
        """The table and what is said of it."""
        return self.table, self.texts

    @classmethod
    def of(cls, table: Table, source: str, texts: tuple[str, ...] = (), key: str = "") -> CorpusTable:
        """A table with its own titles, section and passages, and further texts; each once and none empty.

        The key is worked out where it is not known already.
        """
        found = dict.fromkeys((*own_texts(table), *(" ".join(text.split()) for text in texts)))
        found.pop("", None)
        return cls(table, tuple(found), source, key or table_key(table))


def own_texts(table: Table) -> tuple[str, ...]:
    """What a table itself brings: titles, the text of its section and page, and linked passages; one line each."""
    own = (table.title, table.section_title, table.section_text, table.intro, *table.passages.values())
    return tuple(" ".join(text.split()) for text in own)


def table_key(table: Table) -> str:
    """A digest of the words of the header and the body cells; neither case nor punctuation counts."""
    digest = hashlib.sha256()
    for row in (table.header, *table.rows):
        for cell in row:
            digest.update(format_text(cell.text).encode(errors="ignore") + b"\t")
        digest.update(b"\n")
    return digest.hexdigest()[:32]
