"""Prepare a corpus: tables of many sources become files of parts, and these the files that are learnt from.

Whoever finds a part missing writes it: processes and machines that share a folder prepare together, and what was killed
goes on. In memory are the tables of a part, and the keys of all.
"""

from __future__ import annotations

import json
import warnings
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, count, islice
from pathlib import Path

import numpy as np

from mate_cli.data.corpora.contamination import EvaluationTables
from mate_cli.data.corpora.corpus_sources import Reader, Sources
from mate_cli.data.corpora.shards import FACTS, ROWS_AT_ONCE, CorpusTable, write_shard
from mate_cli.data.datasets.catalogue import all_datasets
from mate_cli.errors import ConfigError, DataError
from mate_cli.files.atomic import find_files_in_writing, replace_file

SHARDS = 16
"""Files of a prepared corpus: as many processes can read it side by side."""
MIN_TABLES = 8
"""Of a file; a small corpus has fewer files."""
PART = 2048
"""Tables of a part; a dataset is one."""
BOUNDS = [f"{key:02x}" for key in range(4, 256, 4)]
"""Where the groups of a part begin, by the keys of tables."""
AT_ONCE = 8192
"""Tables that are sorted together, or those of a group of all parts where these are more."""


def read_evaluation(sources: Sources, exclude: Sequence[str]) -> tuple[EvaluationTables, dict[str, int]]:
    """Read the tables of evaluation splits, and count those of each; 0 of a split that is not on disk.

    Raises:
        ConfigError: there is no such split.
    """
    evaluation, counts = EvaluationTables(), dict.fromkeys(exclude, 0)
    known = [f"{info.name}/{split}" for info in all_datasets() for split in info.splits]
    for name in exclude:
        if name not in known:
            remedy = f"Splits are {', '.join(known)}"
            raise ConfigError(f"{name!r} is not a split of a known dataset", where="data.exclude", remedy=remedy)
        dataset, _, split = name.partition("/")
        for table in sources.split(dataset, split) if sources.is_on_disk(dataset) else ():
            evaluation.add(table)
            counts[name] += 1
    return evaluation, counts


def write_parts(
    folder: Path, sources: Sources, names: Sequence[str], evaluation: EvaluationTables, finished: Path
) -> list[tuple[str, Path]]:
    """Write the parts that are missing; return all with the names of their sources, in order.

    What others are writing is left to them first. Once the file `finished` is there, nothing is written.

    Raises:
        DataError: a source is missing or damaged.
    """
    parts: dict[Path, str] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for are_others_trusted in (True, False):
        busy: set[str] = set()
        for place, source in enumerate(names):
            readers = sources.readers(source)
            for number in count():
                if not (part := list(islice(readers, PART))):
                    break
                path = folder / f"{place:03}-{number:06}.parquet"
                parts[path] = source
                if _is_whole(path) or finished.is_file() or path.name in busy:
                    continue
                busy = find_files_in_writing(folder) if are_others_trusted else set()
                if path.name not in busy:
                    with replace_file(path) as draft:
                        _write_part(draft, part, evaluation)
            sources.forget(source)
        if all(path.exists() for path in parts):
            break
    return [(source, path) for path, source in parts.items()]


def _is_whole(path: Path) -> bool:
    """Tell whether a part is there and has its end, which a machine that lost its power may not have written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_metadata(path).num_row_groups > len(BOUNDS)
    except (OSError, pa.ArrowInvalid):
        return False


def _write_part(path: Path, part: Sequence[Reader], evaluation: EvaluationTables) -> None:
    """Write the tables that are neither empty nor of evaluation, in groups by their keys; and what was left out."""
    groups: list[list[CorpusTable]] = [[] for _ in range(len(BOUNDS) + 1)]
    left_out, unread = Counter[str](), []
    for one in chain.from_iterable(read() for read in part):
        if isinstance(one, str):
            unread.append(one)
        elif not one.table.header or not one.table.rows:
            left_out["empty"] += 1
        elif reason := evaluation.holds(one.table, one.key):
            left_out[f"{reason} to one of evaluation"] += 1
        else:
            groups[bisect(BOUNDS, one.key)].append(one)
    write_shard(path, *groups, facts={"left out": left_out, "unread": unread})


def merge_parts(parts: Sequence[tuple[str, Path]], folder: Path) -> dict[str, Mapping[str, int]]:
    """Write the files of a corpus from its parts; of equal tables the first one is kept.

    Tables are sorted by their keys: as good as any random order, and the same for everyone.

    Returns:
        Counts of the tables that are kept, and of those left out with the reason, by source.

    Raises:
        DataError: nothing is left.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    left_out, unread = Counter[str](), defaultdict[str, list[str]](list)
    keys: list[pa.Array] = []
    for source, path in parts:
        read = pq.read_table(path, columns=["key"])
        keys += read["key"].chunks
        facts = json.loads(read.schema.metadata[FACTS])
        left_out.update({f"{source}: {reason}": count for reason, count in facts["left out"].items()})
        left_out[f"{source}: repeated"] += len(read)
        unread[source] += facts["unread"]
    for source, names in unread.items():
        if names:
            warnings.warn(f"{source}: {len(names)} files left out: {', '.join(names[:5])}", stacklevel=2)
    total = sum(map(len, keys))
    if not total:
        raise DataError("no tables are left in this corpus", remedy="Add data.sources, or remove some of data.exclude")
    size = pc.count_distinct(pa.chunked_array(keys)).as_py()
    shards = max(1, min(SHARDS, size // MIN_TABLES))
    taken, done = Counter[str](), 0
    groups = len(BOUNDS) + 1
    step = max(1, groups * AT_ONCE // total)
    with ExitStack() as stack:
        writers: list[pq.ParquetWriter] = []
        for begin in range(0, groups, step):
            some = range(begin, min(begin + step, groups))
            tables = [pq.ParquetFile(path).read_row_groups(some) for _, path in parts]
            table = pa.concat_tables(tables).replace_schema_metadata().combine_chunks()
            _, first = np.unique(table["key"].to_numpy(), return_index=True)
            ends = np.cumsum([len(part) for part in tables])
            taken.update(parts[place][0] for place in np.searchsorted(ends, first, side="right").tolist())
            if not writers:
                files = [folder / f"{number:03}.parquet" for number in range(shards)]
                writers = [stack.enter_context(pq.ParquetWriter(x, table.schema, compression="zstd")) for x in files]
            for number, writer in enumerate(writers):
                rows = first[(number - done) % shards :: shards]
                writer.write_table(table.take(rows), row_group_size=ROWS_AT_ONCE)
            done += len(first)
    left_out.subtract({f"{source}: repeated": count for source, count in taken.items()})
    return {"tables": {source: taken[source] for source, _ in parts if taken[source]}, "left out": dict(+left_out)}
