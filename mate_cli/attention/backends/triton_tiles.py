"""The tasks of the triton backend cut into tiles, which its kernels take one by one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mate_cli.attention.segment_tasks import SegmentTasks

LONG = 1024
"""Tiles with more keys than this go to the launch of the largest tiles, which is long enough to hide them."""


@dataclass(frozen=True)
class Tiling:
    """What the kernels need of a batch.

    Args:
        blocks: of heads, V.
        heads: in each block.
        rows: the table rows in the order of the tasks, Int32 [V * P].
        tiles: Int32 [tiles, 6], those of a size after each other, longest first: the first and the end of its rows,
            then start and number of the global partners, then of the other ones.
        ends: behind the last tile of each size, for as many launches.
    """

    blocks: int
    heads: int
    rows: Tensor
    tiles: Tensor
    ends: tuple[int, ...]


def interpreted() -> bool:
    """Whether Triton was told to run its kernels in Python, on any tensor."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def cut(tasks: SegmentTasks, sizes: Sequence[int]) -> Tiling:
    """Cut every task's queries into tiles of one of these sizes (ascending)."""
    starts, queries, *partners = (
        getattr(tasks, name).cpu().numpy()
        for name in ("query_start", "queries", "global_start", "globals", "local_start", "locals")
    )
    keys = partners[1] + partners[3]
    chosen = np.minimum(np.searchsorted(sizes, queries), len(sizes) - 1)
    chosen[keys > LONG] = len(sizes) - 1
    tables = []
    for number, size in enumerate(sizes):
        mine = np.flatnonzero(chosen == number)
        mine = mine[np.argsort(-keys[mine], kind="stable")]
        count = -(-queries[mine] // size)
        offset = np.arange(count.sum()) - (np.cumsum(count) - count).repeat(count)
        mine = mine.repeat(count)
        columns = (starts[mine] + offset * size, starts[mine] + queries[mine], *(part[mine] for part in partners))
        tables.append(np.stack(columns, axis=1).astype(np.int32))
    ends = np.cumsum([len(table) for table in tables]).tolist()
    return Tiling(tasks.blocks, tasks.heads, tasks.rows, torch.from_numpy(np.concatenate(tables)), tuple(ends))
