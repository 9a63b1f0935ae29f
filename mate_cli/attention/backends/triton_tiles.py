"""The tasks of the triton backend cut into tiles, which its kernels take one by one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mate_cli.attention.segment_tasks import Ints, SegmentTasks

LONG = 1024
"""Tiles with more keys than this go to the launch of the largest tiles, which is long enough to hide them."""
PART, MAX_PARTS = 2048, 4
"""Longer lists of partners are cut into parts of about so many, but no more parts; guesses, not measured.

Each part has a plane of results of its own, and these are added up: more parts take more memory.
"""


@dataclass(frozen=True)
class Tiling:
    """The arrays of a batch that the kernels read.

    Args:
        blocks: of heads, V.
        heads: in each block.
        rows: the table rows in the order of the tasks, Int32 [V * P].
        tiles: Int32 [tiles, 7], those of a size after each other, longest first: the first and the end of its rows,
            then start and number of the global partners, then of the other ones, and the plane of its results.
        ends: behind the last tile of each size, for as many launches.
        planes: of results; one where no list of partners is cut.
    """

    blocks: int
    heads: int
    rows: Tensor
    tiles: Tensor
    ends: tuple[int, ...]
    planes: int


def is_interpreted() -> bool:
    """Tell whether Triton was told to run its kernels in Python, on any tensor."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def cut_tiles(tasks: SegmentTasks, sizes: Sequence[int], part: int = PART) -> Tiling:
    """Cut every task's queries into tiles of one of these sizes (ascending), and partners into parts."""
    starts, queries, *partners = (
        getattr(tasks, name).cpu().numpy()
        for name in ("query_start", "queries", "global_start", "globals", "local_start", "locals")
    )
    keys = partners[1] + partners[3]
    parts = np.clip(-(-keys // part), 1, MAX_PARTS)
    planes = np.arange(parts.sum()) - (np.cumsum(parts) - parts).repeat(parts)
    starts, queries, keys, parts, *partners = (x.repeat(parts) for x in (starts, queries, keys, parts, *partners))
    begin, end = keys * planes // parts, keys * (planes + 1) // parts
    partners = _between(partners, begin, end)
    keys = end - begin
    chosen = np.minimum(np.searchsorted(sizes, queries), len(sizes) - 1)
    chosen[keys > LONG] = len(sizes) - 1
    tables = []
    for number, size in enumerate(sizes):
        members = np.flatnonzero(chosen == number)
        members = members[np.argsort(-keys[members], kind="stable")]
        count = -(-queries[members] // size)
        offset = np.arange(count.sum()) - (np.cumsum(count) - count).repeat(count)
        members = members.repeat(count)
        partner_columns = (values[members] for values in (*partners, planes))
        columns = (starts[members] + offset * size, starts[members] + queries[members], *partner_columns)
        tables.append(np.stack(columns, axis=1).astype(np.int32))
    ends = np.cumsum([len(table) for table in tables]).tolist()
    return Tiling(
        tasks.blocks,
        tasks.heads,
        tasks.rows,
        torch.from_numpy(np.concatenate(tables)),
        tuple(ends),
        int(planes.max(initial=0)) + 1,
    )


def _between(partners: Sequence[Ints], begin: Ints, end: Ints) -> list[Ints]:
    """Return the partners from one place of each list to another.

    Starts and numbers of the global and of the other ones.
    """
    global_start, num_globals, local_start, _ = partners
    global_begin, global_end = np.minimum(begin, num_globals), np.minimum(end, num_globals)
    behind = begin - global_begin
    return [global_start + global_begin, global_end - global_begin, local_start + behind, end - global_end - behind]
