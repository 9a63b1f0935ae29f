"""The tasks of the triton backend cut into tiles, which its kernels take one by one."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mate_cli.attention.segment_tasks import SegmentTasks


@dataclass(frozen=True)
class Tiling:
    """The arrays of a batch that the kernels read.

    Args:
        heads: in each block.
        rows: the table rows in the order of the tasks, Int32 [V * P].
        tiles: Int32 [tiles, 6], longest list of partners first: the first and the end of its rows, then start and
            number of the global partners, then of the other ones.
    """

    heads: int
    rows: Tensor
    tiles: Tensor


def is_interpreted() -> bool:
    """Tell whether Triton was told to run its kernels in Python, on any tensor."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def cut_tiles(tasks: SegmentTasks, size: int) -> Tiling:
    """Cut every task's queries into tiles of this size."""
    starts, queries, *partners = (
        getattr(tasks, name).cpu().numpy()
        for name in ("query_start", "queries", "global_start", "globals", "local_start", "locals")
    )
    order = np.argsort(-(partners[1] + partners[3]), kind="stable")
    count = -(-queries[order] // size)
    offset = np.arange(count.sum()) - (np.cumsum(count) - count).repeat(count)
    order = order.repeat(count)
    columns = (starts[order] + offset * size, (starts + queries)[order], *(values[order] for values in partners))
    return Tiling(tasks.heads, tasks.rows, torch.from_numpy(np.stack(columns, axis=1).astype(np.int32)))
