"""Corpora on disk: Parquet files with a table in each row, for anyone to write.

Needed are the columns `header` (texts) and `rows` (lists of texts); all others may be missing: `title`,
`section_title`, `section_text` and `intro` (text), `texts` (what else is said of the table), `table_id`, `source`,
`key`, and for linked passages `links` ({row, column, link}) and `passages` ({link, text}).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mate_cli.data.corpora.corpus import CorpusTable, own_texts
from mate_cli.errors import DataError
from mate_cli.tables.table import Cell, Table

if TYPE_CHECKING:
    import pyarrow as pa

TEXTS = ("table_id", "title", "section_title", "section_text", "intro")
"""Columns that are fields of the table."""
NEEDED = frozenset(("header", "rows"))
ROWS_AT_ONCE = 256
"""Tables of a row group: what is read to reach one of them."""


@dataclass(frozen=True)
class Shard:
    """One file of a corpus.

    Args:
        tables: how many are learnt from.
        held_out: how many more stand before them, for evaluation.
    """

    path: Path
    tables: int
    held_out: int


def is_corpus(path: Path) -> bool:
    """Whether a Parquet file holds a table in each row; else it is a table itself."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return set(pq.read_schema(path).names) >= NEEDED
    except (OSError, pa.ArrowInvalid):
        return False


def read_shard(path: Path) -> Iterator[CorpusTable]:
    """All tables of a file of a corpus."""
    import pyarrow.parquet as pq

    for group in pq.ParquetFile(path).iter_batches(ROWS_AT_ONCE):
        yield from map(from_row, group.to_pylist())


def open_shards(paths: Sequence[Path]) -> list[Shard]:
    """Look into Parquet files: of each, one table in a thousand is held out, but 16 where that is less.

    Raises:
        DataError: there are none, or one is no Parquet file or lacks a column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    shards = []
    for path in paths:
        try:
            metadata = pq.read_metadata(path)
        except (OSError, pa.ArrowInvalid) as error:
            raise DataError("cannot be read as Parquet", where=str(path), remedy="Write the file again") from error
        names = set(metadata.schema.to_arrow_schema().names)
        if not names >= NEEDED:
            remedy = "A corpus has the columns header (texts) and rows (lists of texts)"
            raise DataError(f"has only the columns {', '.join(sorted(names))}", where=str(path), remedy=remedy)
        count = metadata.num_rows
        held_out = max(count // 1000, min(-(-count // 10), 16))
        shards.append(Shard(path, count - held_out, held_out))
    return shards


def write_shard(path: Path, tables: Iterable[CorpusTable]) -> None:
    """Write one file of a corpus."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema()
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        left = iter(tables)
        while group := [_to_row(table) for table in islice(left, ROWS_AT_ONCE)]:
            writer.write_table(pa.Table.from_pylist(group, schema=schema))


def from_row(row: Mapping[str, Any]) -> CorpusTable:
    """A table from a row of a file; body rows of another length than the header are left out."""
    links: dict[tuple[int, int], list[str]] = defaultdict(list)
    for link in row.get("links") or ():
        links[link["row"], link["column"]].append(link["link"])
    header = tuple(Cell(text or "") for text in row["header"] or ())
    body = tuple(
        tuple(Cell(text or "", tuple(links.get((number, column), ()))) for column, text in enumerate(line))
        for number, line in enumerate(row["rows"] or ())
        if len(line) == len(header)
    )
    passages = {passage["link"]: passage["text"] for passage in row.get("passages") or ()}
    texts = {name: row.get(name) or "" for name in TEXTS}
    table = Table(texts.pop("table_id"), header, body, passages=passages, **texts)
    return CorpusTable.of(table, row.get("source") or "", tuple(row.get("texts") or ()), row.get("key") or "")


def _to_row(one: CorpusTable) -> dict[str, Any]:
    table = one.table
    links = ((row, column, link) for row, column, cell in table.cells() for link in cell.links)
    own = {*own_texts(table)}
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
