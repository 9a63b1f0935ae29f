"""Tasks split into tiles, each of which one program of the Triton kernels computes."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mate_cli.attention.segment_tasks import SegmentTasks


@dataclass(frozen=True)
class Tiling:
    """Index tensors that map each tile of queries to its keys, as input of Triton kernels.

    Args:
        heads: number of heads in each block.
        rows: table rows in the order of the tasks, Int32 [V * P].
        tiles: start and end of the rows of a tile, start and number of its global partners, start and number of its
            other partners, Int32 [tiles, 6]. Tiles with the most partners come first.
    """

    heads: int
    rows: Tensor
    tiles: Tensor


def is_interpreted() -> bool:
    """Return whether TRITON_INTERPRET=1 is set, so that Triton runs without a GPU.

    Triton then runs kernels in Python, on any device.
    """
    return os.environ.get("TRITON_INTERPRET") == "1"


def cut_tiles(tasks: SegmentTasks, size: int) -> Tiling:
    """Split the queries of every task into tiles of at most `size` queries."""
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
