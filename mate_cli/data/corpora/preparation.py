"""Preparation of a pre-training corpus: tables are written to intermediate files (parts), then merged into shards.

Each process writes the parts that are still missing. Processes and machines that share a folder therefore prepare a
corpus together, and an interrupted preparation is resumed. The memory contains the tables of one part and the keys of
all tables.
"""

from __future__ import annotations

import json
import warnings
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import chain, count, islice
from pathlib import Path

import numpy as np

from mate_cli.data.corpora.contamination import EvaluationTables
from mate_cli.data.corpora.corpus_sources import Reader, Sources
from mate_cli.data.corpora.shards import METADATA, ROWS_AT_ONCE, CorpusTable, write_shard
from mate_cli.data.datasets.catalogue import all_datasets
from mate_cli.errors import ConfigError, DataError
from mate_cli.files.atomic import remove_drafts, replace_file

SHARDS = 16
"""Maximum number of files of a prepared corpus. Up to this number, data workers can read different files."""
MIN_TABLES = 8
"""Minimum number of tables per file. A small corpus has fewer than `SHARDS` files."""
PART = 2048
"""Number of readers per part, each of one table file or of a whole dataset."""
BOUNDS = [f"{key:02x}" for key in range(4, 256, 4)]
"""Key prefixes at which the groups of a part start, except the first group."""
AT_ONCE = 8192
"""Approximate number of tables that are merged at once, at least one group of all parts."""


def read_evaluation(sources: Sources, exclude: Sequence[str]) -> tuple[EvaluationTables, dict[str, int]]:
    """Read the tables of evaluation splits, to exclude them from a pre-training corpus.

    Args:
        sources: reader of datasets.
        exclude: evaluation splits, as `<dataset>/<split>`.

    Returns:
        The tables, and the number of tables of each split (0 if the split is not on disk).

    Raises:
        ConfigError: a split does not exist.
    """
    evaluation, counts = EvaluationTables(), dict.fromkeys(exclude, 0)
    known_splits = [f"{info.name}/{split}" for info in all_datasets() for split in info.splits]
    for name in exclude:
        if name not in known_splits:
            hint = f"Splits are {', '.join(known_splits)}"
            raise ConfigError(f"{name!r} is not a split of a known dataset", where="data.exclude", remedy=hint)
        dataset, _, split = name.partition("/")
        for table in sources.split(dataset, split) if sources.is_on_disk(dataset) else ():
            evaluation.add(table)
            counts[name] += 1
    return evaluation, counts


def write_parts(
    folder: Path, sources: Sources, names: Sequence[str], evaluation: EvaluationTables, finished: Path
) -> list[tuple[str, Path]]:
    """Write the intermediate files (parts) of a corpus that do not exist yet.

    Parts that another process is writing are skipped in a first pass, and written in a second pass if still missing.

    Args:
        folder: folder of the parts.
        sources: reader of the sources.
        names: names of the sources.
        evaluation: tables to exclude.
        finished: file that marks a finished corpus. Nothing is written once it exists.

    Returns:
        The source and the path of each part, in order.

    Raises:
        DataError: a source is missing or damaged.
    """
    parts: dict[Path, str] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for are_others_trusted in (True, False):
        busy: set[str] = set()
        for index, source in enumerate(names):
            readers = sources.readers(source)
            for number in count():
                if not (part := list(islice(readers, PART))):
                    break
                path = folder / f"{index:03}-{number:06}.parquet"
                parts[path] = source
                if _is_whole(path) or finished.is_file() or path.name in busy:
                    continue
                busy = remove_drafts(folder) if are_others_trusted else set()
                if path.name not in busy:
                    with replace_file(path) as draft:
                        _write_part(draft, part, evaluation)
            sources.forget(source)
        if all(path.exists() for path in parts):
            break
    return [(source, path) for path, source in parts.items()]


def _is_whole(path: Path) -> bool:
    """Return whether the file of a part is complete. A power failure may have truncated it."""
    import pyarrow.parquet as pq

    with suppress(Exception):
        return pq.read_metadata(path).num_row_groups > len(BOUNDS)
    return False


def _write_part(path: Path, part: Sequence[Reader], evaluation: EvaluationTables) -> None:
    """Read some tables of a corpus, and write them to a file without evaluation tables.

    Empty tables are excluded too.

    Tables are grouped by the start of their key, so that `merge_parts` can read one group of all parts at a time. The
    metadata of the file contain the number of excluded tables by reason, and the unreadable files.
    """
    groups: list[list[CorpusTable]] = [[] for _ in range(len(BOUNDS) + 1)]
    excluded, unreadable = Counter[str](), []
    for table in chain.from_iterable(reader() for reader in part):
        if isinstance(table, str):
            unreadable.append(table)
        elif not table.table.header or not table.table.rows:
            excluded["empty"] += 1
        elif reason := evaluation.find_repeat(table.table, table.key):
            excluded[f"{reason} to one of evaluation"] += 1
        else:
            groups[bisect(BOUNDS, table.key)].append(table)
    write_shard(path, *groups, metadata={"left out": excluded, "unread": unreadable})


def merge_parts(parts: Sequence[tuple[str, Path]], folder: Path) -> dict[str, Mapping[str, int]]:
    """Merge the parts of a corpus into its final files (shards), without duplicate tables.

    Tables are sorted by key, which is a hash: a pseudorandom order that is the same on every machine.

    Args:
        parts: source and path of each part.
        folder: folder of the corpus.

    Returns:
        The number of written tables by source ("tables"), and of excluded tables by source and reason ("left out").

    Raises:
        DataError: no table is left.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    excluded, unreadable = Counter[str](), defaultdict[str, list[str]](list)
    keys: list[pa.Array] = []
    for source, path in parts:
        part_keys = pq.read_table(path, columns=["key"])
        keys += part_keys["key"].chunks
        metadata = json.loads(part_keys.schema.metadata[METADATA])
        excluded.update({f"{source}: {reason}": count for reason, count in metadata["left out"].items()})
        excluded[f"{source}: repeated"] += len(part_keys)
        unreadable[source] += metadata["unread"]
    for source, names in unreadable.items():
        if names:
            warnings.warn(f"{source}: {len(names)} files left out: {', '.join(names[:5])}", stacklevel=2)
    total = sum(map(len, keys))
    if not total:
        raise DataError("no tables are left in this corpus", remedy="Add data.sources, or remove some of data.exclude")
    size = pc.count_distinct(pa.chunked_array(keys)).as_py()
    shards = max(1, min(SHARDS, size // MIN_TABLES))
    written_counts, table_count = Counter[str](), 0
    groups = len(BOUNDS) + 1
    step = max(1, groups * AT_ONCE // total)
    with ExitStack() as stack:
        writers: list[pq.ParquetWriter] = []
        for start in range(0, groups, step):
            group_range = range(start, min(start + step, groups))
            tables = [pq.ParquetFile(path).read_row_groups(group_range) for _, path in parts]
            table = pa.concat_tables(tables).replace_schema_metadata().combine_chunks()
            _, first = np.unique(table["key"].to_numpy(), return_index=True)
            part_ends = np.cumsum([len(part) for part in tables])
            part_indices = np.searchsorted(part_ends, first, side="right").tolist()
            written_counts.update(parts[index][0] for index in part_indices)
            if not writers:
                files = [folder / f"{number:03}.parquet" for number in range(shards)]
                writers = [stack.enter_context(pq.ParquetWriter(x, table.schema, compression="zstd")) for x in files]
            for number, writer in enumerate(writers):
                rows = first[(number - table_count) % shards :: shards]
                writer.write_table(table.take(rows), row_group_size=ROWS_AT_ONCE)
            table_count += len(first)
    excluded.subtract({f"{source}: repeated": count for source, count in written_counts.items()})
    return {
        "tables": {source: written_counts[source] for source, _ in parts if written_counts[source]},
        "left out": dict(+excluded),
    }
