"""Shards of a corpus: Parquet files with one table per row.

Users can also write such files.

The columns `header` (texts) and `rows` (lists of texts) are required. All other columns are optional: `title`,
`section_title`, `section_text` and `intro` (text), `texts` (further texts about the table), `table_id`, `source`,
`key`, and for linked passages `links` ({row, column, link}) and `passages` ({link, text}).
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np

from mate_cli.errors import DataError
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.tables.table import Cell, Table
from mate_cli.tables.text import format_text

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class CorpusTable:
    """A table of a pre-training corpus, with texts about the table.

    Args:
        table: the table.
        texts: texts about the table: titles, captions and the text of its section, but no questions.
        source: name of the source of the table.
        key: digest of the normalized header and cells, equal for equal tables.
    """

    table: Table
    texts: tuple[str, ...]
    source: str
    key: str

    @property
    def content(self) -> tuple[Table, tuple[str, ...]]:
        """The table with its texts, as the serializer for masked language modeling expects them."""
        return self.table, self.texts

    @classmethod
    def build(cls, table: Table, source: str, texts: tuple[str, ...] = (), key: str = "") -> CorpusTable:
        """Create a corpus table. Its texts are those of the table and `texts`, without duplicates.

        Args:
            table: table, whose titles, section and passages are among the texts.
            source: name of the source.
            texts: further texts.
            key: digest of the table. "" computes it.
        """
        distinct_texts = dict.fromkeys((*table_texts(table), *(" ".join(text.split()) for text in texts)))
        distinct_texts.pop("", None)
        return cls(table, tuple(distinct_texts), source, key or table_key(table))


def table_texts(table: Table) -> tuple[str, ...]:
    """Return the texts about a table: titles, section and page texts, and linked passages.

    Each text is one line.
    """
    texts = (table.title, table.section_title, table.section_text, table.intro, *table.passages.values())
    return tuple(" ".join(text.split()) for text in texts)


def table_key(table: Table) -> str:
    """Hash the header and cells of a table, to find duplicate tables by their hash.

    Case and punctuation are ignored.
    """
    digest = hashlib.sha256()
    for row in (table.header, *table.rows):
        for cell in row:
            digest.update(format_text(cell.text).encode(errors="ignore") + b"\t")
        digest.update(b"\n")
    return digest.hexdigest()[:32]


TEXTS = ("table_id", "title", "section_title", "section_text", "intro")
"""Text columns that are fields of `Table`."""
REQUIRED_COLUMNS = frozenset(("header", "rows"))
METADATA = b"facts"
"""Key of the metadata that `write_shard` adds."""
ROWS_AT_ONCE = 256
"""Number of tables per row group, the unit of reading."""


@dataclass(frozen=True)
class Shard:
    """A Parquet file of a corpus, or a part of the tables in the file.

    Args:
        path: path of the Parquet file.
        tables: number of training tables.
        held_out: number of held-out tables at the start of the file, in addition to `tables`.
        head: number of training tables of the file before this part.
        tail: number of training tables of the file after this part.
    """

    path: Path
    tables: int
    held_out: int
    head: int = 0
    tail: int = 0

    def cut(self, start: Fraction, end: Fraction) -> Shard:
        """Return the part of this shard from the share `start` to the share `end` of its tables.

        Data workers that share a file each read one part.

        Args:
            start: share of the tables before the part, clipped to 0...1.
            end: share of the tables before the end of the part, clipped to 0...1.
        """
        first, stop = (int(self.tables * min(max(share, Fraction(0)), Fraction(1))) for share in (start, end))
        return replace(self, tables=stop - first, head=first, tail=self.tables - stop)


def is_corpus(path: Path) -> bool:
    """Return whether a Parquet file has the columns of a corpus, with one table per row.

    Otherwise the file itself is a table.
    """
    import pyarrow.parquet as pq

    with suppress(Exception):  # A damaged file can raise any exception in pyarrow.
        return set(pq.read_schema(path).names) >= REQUIRED_COLUMNS
    return False


def read_rows(path: Path) -> Iterator[Callable[[], CorpusTable]]:
    """Yield a function for each row of a corpus file, which converts the row to a table."""
    import pyarrow.parquet as pq

    for group in pq.ParquetFile(path).iter_batches(ROWS_AT_ONCE):
        yield from (partial(from_row, row) for row in group.to_pylist())


def read_shard(path: Path) -> Iterator[CorpusTable]:
    """Return an iterator that reads all tables of a corpus file."""
    return (read_table() for read_table in read_rows(path))


def open_shards(paths: Sequence[Path]) -> list[Shard]:
    """Return a `Shard` for each corpus file, with its numbers of training and held-out tables.

    One table in a thousand is held out, but at least 16 tables or a tenth of the file, whichever is less.

    Raises:
        DataError: a path is missing, is not a Parquet file, or lacks a required column.
    """
    import pyarrow.parquet as pq

    shards = []
    for path in paths:
        with wrap_file_errors(path, DataError, "cannot be read as Parquet", "Write the file again"):
            metadata = pq.read_metadata(path)
            names = set(metadata.schema.to_arrow_schema().names)
        if not names >= REQUIRED_COLUMNS:
            hint = "A corpus has the columns header (texts) and rows (lists of texts)"
            raise DataError(f"has only the columns {', '.join(sorted(names))}", where=str(path), remedy=hint)
        count = metadata.num_rows
        held_out = max(count // 1000, min(-(-count // 10), 16))
        shards.append(Shard(path, count - held_out, held_out))
    return shards


def write_shard(path: Path, *groups: Iterable[CorpusTable], metadata: object = None) -> None:
    """Write tables to a Parquet file of a corpus, one row group per group of tables.

    Args:
        path: path of the Parquet file.
        groups: tables of each group. Groups can be read separately.
        metadata: JSON-serializable metadata of the file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema().with_metadata({METADATA: json.dumps(metadata)})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for group in groups:
            writer.write_table(pa.Table.from_pylist(list(map(_to_row, group)), schema=schema))


def from_row(row: Mapping[str, Any]) -> CorpusTable:
    """Convert a row of a corpus file, which has columns such as "header", to a `CorpusTable`.

    Body rows whose length differs from the header are omitted.
    """
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
    return CorpusTable.build(table, row.get("source") or "", tuple(row.get("texts") or ()), row.get("key") or "")


def _to_row(corpus_table: CorpusTable) -> dict[str, Any]:
    table = corpus_table.table
    links = ((row, column, link) for row, column, cell in table.cells() for link in cell.links)
    own_texts = {*table_texts(table)}
    return {
        **{name: getattr(table, name) for name in TEXTS},
        "header": [cell.text for cell in table.header],
        "rows": [[cell.text for cell in row] for row in table.rows],
        "links": [{"row": row, "column": column, "link": link} for row, column, link in links],
        "passages": [{"link": link, "text": text} for link, text in table.passages.items()],
        "texts": [text for text in corpus_table.texts if text not in own_texts],
        "source": corpus_table.source,
        "key": corpus_table.key,
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
"""Number of adjacent tables of a file that are shuffled together. Each lane (sequence of training examples) has one
block in memory."""


@dataclass(frozen=True)
class StreamedTable:
    """Position of a table in a stream of training tables, and a function that reads the table.

    Args:
        epoch: number of earlier passes over the table.
        shard: index of its file.
        row: row of the table among the training tables of the file.
        read: function that reads the table.
    """

    epoch: int
    shard: int
    row: int
    read: Callable[[], CorpusTable]


def deal_shards(shards: Sequence[tuple[int, Shard]], lanes: int) -> list[list[tuple[int, Shard]]]:
    """Assign the shards of a corpus evenly to lanes, independent sequences of training tables.

    The lanes are read in parallel.

    If the number of files is not a multiple of the number of lanes, some files are divided into parts.

    Args:
        shards: index and shard of each file.
        lanes: number of lanes.
    """
    share = Fraction(len(shards), lanes)
    order = [numbered for lane in range(lanes) for numbered in shards[lane::lanes]]

    def deal(start: Fraction, end: Fraction) -> list[tuple[int, Shard]]:
        dealt = ((order[index], start - index, end - index) for index in range(int(start), ceil(end)))
        return [(number, part) for (number, shard), *bounds in dealt if (part := shard.cut(*bounds)).tables]

    return [deal(lane * share, (lane + 1) * share) for lane in range(lanes)]


# Sequences take turns, and each sequence has one current block.
@lru_cache(maxsize=256)
def _permute(seed: tuple[int, ...], count: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(count)


class ShardSequence:
    """Endless sequence of the tables in some shards, in random order, with random access.

    Each epoch contains all tables once, in another order.

    Files are in random order. Within a file, blocks of tables are in file order, and each block is shuffled. The block
    of an index is therefore known without reading earlier blocks. If a sequence has the last part of a file, this part
    comes first. If it has the first part of a file, this part comes last. Sequences therefore start in different files.

    Args:
        shards: index and shard of each file.
        seed: seed of the order.
    """

    def __init__(self, shards: Sequence[tuple[int, Shard]], seed: Sequence[int]) -> None:
        self.shards, self.seed = shards, seed
        self.size = sum(shard.tables for _, shard in shards)
        self._epoch: tuple[int, list[int]] | None = None
        self._block: tuple[tuple[int, int], pa.Table] | None = None
        self._next_block: tuple[tuple[int, int], Generator[pa.Table]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling without open files, which the other process opens again."""
        return {**self.__dict__, "_block": None, "_next_block": None}

    def rows(self, start: int, end: int) -> Iterator[StreamedTable]:
        """Yield the tables from position `start` to position `end` (exclusive) of this sequence.

        A table is read only when it is used.
        """
        for index in range(start, end):
            epoch, offset = divmod(index, self.size)
            for file_index in self._order(epoch):
                number, shard = self.shards[file_index]
                if offset < shard.tables:
                    break
                offset -= shard.tables
            block, block_index = divmod(offset, BLOCK)
            count = min(BLOCK, shard.tables - block * BLOCK)
            row = int(_permute((*self.seed, epoch, file_index, block), count)[block_index])
            read_table = partial(self._table, file_index, block, row)
            yield StreamedTable(epoch, number, shard.head + block * BLOCK + row, read_table)

    def _order(self, epoch: int) -> list[int]:
        """Return the random order in which an epoch reads the files, as indices."""
        if self._epoch is None or self._epoch[0] != epoch:
            order = np.random.default_rng((*self.seed, epoch)).permutation(len(self.shards)).tolist()
            shards = [shard for _, shard in self.shards]
            order.sort(key=lambda file_index: bool(shards[file_index].tail) - bool(shards[file_index].head))
            self._epoch = epoch, order
        return self._epoch[1]

    def _table(self, file_index: int, block: int, row: int) -> CorpusTable:
        if self._block is None or self._block[0] != (file_index, block):
            self._block = (file_index, block), self._read_block(file_index, block)
        return from_row(self._block[1].slice(row, 1).to_pylist()[0])

    def _read_block(self, file_index: int, block: int) -> pa.Table:
        if self._next_block is None or self._next_block[0] != (file_index, block):
            blocks = _blocks(self.shards[file_index][1], block * BLOCK)
            # Otherwise the file would be closed late in the shutdown of the interpreter.
            finalize(self, blocks.close)
        else:
            blocks = self._next_block[1]
        self._next_block = (file_index, block + 1), blocks
        return next(blocks)


def _blocks(shard: Shard, start: int) -> Generator[pa.Table]:
    """Read a shard in blocks of `BLOCK` tables, starting at its training table `start`."""
    from datasets import Dataset

    streamed = Dataset.from_parquet(str(shard.path), streaming=True).with_format("arrow")
    yield from streamed.skip(shard.held_out + shard.head + start).iter(BLOCK)
