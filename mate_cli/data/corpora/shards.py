"""Corpora on disk: Parquet files with a table in each row, for anyone to write.

Needed are the columns `header` (texts) and `rows` (lists of texts); all others may be missing: `title`,
`section_title`, `section_text` and `intro` (text), `texts` (what else is said of the table), `table_id`, `source`,
`key`, and for linked passages `links` ({row, column, link}) and `passages` ({link, text}).
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np

from mate_cli.errors import DataError
from mate_cli.files.io_errors import wrap_read_errors
from mate_cli.tables.table import Cell, Table
from mate_cli.tables.text import format_text

if TYPE_CHECKING:
    import pyarrow as pa


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
        """Return a table with its own titles, section and passages, and further texts; each once and none empty.

        The key is worked out where it is not known already.
        """
        found = dict.fromkeys((*table_texts(table), *(" ".join(text.split()) for text in texts)))
        found.pop("", None)
        return cls(table, tuple(found), source, key or table_key(table))


def table_texts(table: Table) -> tuple[str, ...]:
    """List the texts of a table: titles, the text of its section and page, and linked passages; one line each."""
    own = (table.title, table.section_title, table.section_text, table.intro, *table.passages.values())
    return tuple(" ".join(text.split()) for text in own)


def table_key(table: Table) -> str:
    """Return a digest of the words of the header and the body cells; neither case nor punctuation counts."""
    digest = hashlib.sha256()
    for row in (table.header, *table.rows):
        for cell in row:
            digest.update(format_text(cell.text).encode(errors="ignore") + b"\t")
        digest.update(b"\n")
    return digest.hexdigest()[:32]


TEXTS = ("table_id", "title", "section_title", "section_text", "intro")
"""Columns that are fields of the table."""
NEEDED = frozenset(("header", "rows"))
FACTS = b"facts"
"""Key of the metadata that `write_shard` adds."""
ROWS_AT_ONCE = 256
"""Tables of a row group: what is read to reach one of them."""


@dataclass(frozen=True)
class Shard:
    """One file of a corpus, or a part of it.

    Args:
        tables: how many are learnt from.
        held_out: how many more stand before them, for evaluation.
        before: tables of parts that come before this one.
        after: tables of parts that come after it.
    """

    path: Path
    tables: int
    held_out: int
    before: int = 0
    after: int = 0

    def cut(self, begin: Fraction, end: Fraction) -> Shard:
        """Return the part between two shares of the tables, from 0 to 1."""
        first, last = (int(self.tables * min(max(share, Fraction(0)), Fraction(1))) for share in (begin, end))
        return replace(self, tables=last - first, before=first, after=self.tables - last)


def is_corpus(path: Path) -> bool:
    """Tell whether a Parquet file holds a table in each row; else it is a table itself."""
    import pyarrow.parquet as pq

    try:
        return set(pq.read_schema(path).names) >= NEEDED
    except Exception:  # a damaged file can make the library fail in any way
        return False


def read_rows(path: Path) -> Iterator[Callable[[], CorpusTable]]:
    """Yield what makes each table of a file of a corpus."""
    import pyarrow.parquet as pq

    for group in pq.ParquetFile(path).iter_batches(ROWS_AT_ONCE):
        yield from (partial(from_row, row) for row in group.to_pylist())


def read_shard(path: Path) -> Iterator[CorpusTable]:
    """Return all tables of a file of a corpus."""
    return (make() for make in read_rows(path))


def open_shards(paths: Sequence[Path]) -> list[Shard]:
    """Look into Parquet files: of each, one table in a thousand is held out, but 16 where that is less.

    Raises:
        DataError: there are none, or one is no Parquet file or lacks a column.
    """
    import pyarrow.parquet as pq

    shards = []
    for path in paths:
        with wrap_read_errors(path, DataError, "cannot be read as Parquet", "Write the file again"):
            metadata = pq.read_metadata(path)
            names = set(metadata.schema.to_arrow_schema().names)
        if not names >= NEEDED:
            remedy = "A corpus has the columns header (texts) and rows (lists of texts)"
            raise DataError(f"has only the columns {', '.join(sorted(names))}", where=str(path), remedy=remedy)
        count = metadata.num_rows
        held_out = max(count // 1000, min(-(-count // 10), 16))
        shards.append(Shard(path, count - held_out, held_out))
    return shards


def write_shard(path: Path, *groups: Iterable[CorpusTable], facts: object = None) -> None:
    """Write one file of a corpus, of groups that can be read each by itself; its metadata hold facts as JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema().with_metadata({FACTS: json.dumps(facts)})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for group in groups:
            writer.write_table(pa.Table.from_pylist(list(map(_to_row, group)), schema=schema))


def from_row(row: Mapping[str, Any]) -> CorpusTable:
    """Return a table from a row of a file; body rows of another length than the header are left out."""
    links: dict[tuple[int, int], list[str]] = defaultdict(list)
    for link in row.get("links") or ():
        links[link["row"], link["column"]].append(link["link"])
    header = tuple(Cell(text or "") for text in row["header"] or ())
    body = tuple(
        tuple(Cell(text or "", tuple(links.get((number, column), ()))) for column, text in enumerate(line))
        if links
        else tuple(Cell(text or "") for text in line)
        for number, line in enumerate(row["rows"] or ())
        if len(line) == len(header)
    )
    passages = {passage["link"]: passage["text"] for passage in row.get("passages") or ()}
    texts: dict[str, Any] = {name: row.get(name) or "" for name in TEXTS}
    table = Table(texts.pop("table_id"), header, body, passages=passages, **texts)
    return CorpusTable.of(table, row.get("source") or "", tuple(row.get("texts") or ()), row.get("key") or "")


def _to_row(one: CorpusTable) -> dict[str, Any]:
    table = one.table
    links = ((row, column, link) for row, column, cell in table.cells() for link in cell.links)
    own = {*table_texts(table)}
    return {
        **{name: getattr(table, name) for name in TEXTS},
        "header": [cell.text for cell in table.header],
        "rows": [[cell.text for cell in row] for row in table.rows],
        "links": [{"row": row, "column": column, "link": link} for row, column, link in links],
        "passages": [{"link": link, "text": text} for link, text in table.passages.items()],
        "texts": [text for text in one.texts if text not in own],
        "source": one.source,
        "key": one.key,
    }


def _schema() -> pa.Schema:
    import pyarrow as pa

    text = pa.string()
    columns = {
        **dict.fromkeys((*TEXTS, "source", "key"), text),
        "header": pa.list_(text),
        "rows": pa.list_(pa.list_(text)),
        "texts": pa.list_(text),
        "links": pa.list_(pa.struct({"row": pa.int32(), "column": pa.int32(), "link": text})),
        "passages": pa.list_(pa.struct({"link": text, "text": text})),
    }
    return pa.schema(columns)


BLOCK = 256
"""Tables that stand together in a file and are mixed: what is held in memory of each lane."""


@dataclass(frozen=True)
class StreamedTable:
    """One table of a stream: how often it was seen before, the number of its file, its row there, and what reads it."""

    epoch: int
    shard: int
    row: int
    read: Callable[[], CorpusTable]


def deal_shards(shards: Sequence[tuple[int, Shard]], lanes: int) -> list[list[tuple[int, Shard]]]:
    """Divide numbered files, as many for each lane; where they do not come out even, in parts."""
    share = Fraction(len(shards), lanes)
    order = [numbered for lane in range(lanes) for numbered in shards[lane::lanes]]

    def deal(begin: Fraction, end: Fraction) -> list[tuple[int, Shard]]:
        dealt = ((order[place], begin - place, end - place) for place in range(int(begin), ceil(end)))
        return [(number, part) for (number, shard), *ends in dealt if (part := shard.cut(*ends)).tables]

    return [deal(lane * share, (lane + 1) * share) for lane in range(lanes)]


@lru_cache(maxsize=256)  # as sequences take turns, a block of each
def _permute(seed: tuple[int, ...], count: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(count)


class ShardSequence:
    """Some files of a corpus as an endless sequence: in each epoch all tables once, in another order.

    Files come in random order, and within each file blocks of tables one after another, each mixed. So a place in the
    sequence says which block holds it, and nothing before it has to be read. The end of a file that another sequence
    begins comes first, and the beginning of one that another ends comes last: so all begin in different files.
    """

    def __init__(self, shards: Sequence[tuple[int, Shard]], seed: Sequence[int]) -> None:
        self.shards, self.seed = shards, seed
        self.size = sum(shard.tables for _, shard in shards)
        self._epoch: tuple[int, list[int]] | None = None
        self._block: tuple[tuple[int, int], pa.Table] | None = None
        self._ahead: tuple[tuple[int, int], Generator[pa.Table]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, which opens files by itself."""
        return {**self.__dict__, "_block": None, "_ahead": None}

    def rows(self, begin: int, end: int) -> Iterator[StreamedTable]:
        """Yield the tables at places begin..end of the sequence; nothing is read before someone asks for it."""
        for place in range(begin, end):
            epoch, left = divmod(place, self.size)
            for which in self._order(epoch):
                number, shard = self.shards[which]
                if left < shard.tables:
                    break
                left -= shard.tables
            block, within = divmod(left, BLOCK)
            row = int(self._mix(epoch, which, block)[within])
            read = partial(self._table, which, block, row)
            yield StreamedTable(epoch, number, shard.before + block * BLOCK + row, read)

    def _order(self, epoch: int) -> list[int]:
        """Return the files as they come in an epoch."""
        if self._epoch is None or self._epoch[0] != epoch:
            order = np.random.default_rng((*self.seed, epoch)).permutation(len(self.shards)).tolist()
            shards = [shard for _, shard in self.shards]
            order.sort(key=lambda which: bool(shards[which].after) - bool(shards[which].before))
            self._epoch = epoch, order
        return self._epoch[1]

    def _mix(self, epoch: int, which: int, block: int) -> np.ndarray:
        """Return the tables of a block of a file as they come in an epoch."""
        count = min(BLOCK, self.shards[which][1].tables - block * BLOCK)
        return _permute((*self.seed, epoch, which, block), count)

    def _table(self, which: int, block: int, row: int) -> CorpusTable:
        if self._block is None or self._block[0] != (which, block):
            self._block = (which, block), self._read(which, block)
        return from_row(self._block[1].slice(row, 1).to_pylist()[0])

    def _read(self, which: int, block: int) -> pa.Table:
        if self._ahead is None or self._ahead[0] != (which, block):
            blocks = _blocks(self.shards[which][1], block * BLOCK)
            finalize(self, blocks.close)  # else the open file is noticed when Python is half gone
        else:
            blocks = self._ahead[1]
        self._ahead = (which, block + 1), blocks
        return next(blocks)


def _blocks(shard: Shard, begin: int) -> Generator[pa.Table]:
    """Yield the blocks of a file from a place on; those held out before them are passed over."""
    from datasets import Dataset

    streamed = Dataset.from_parquet(str(shard.path), streaming=True).with_format("arrow")
    yield from streamed.skip(shard.held_out + shard.before + begin).iter(BLOCK)
