"""A pattern of segments as a list of small dense attentions, the tasks, from which every fast backend starts.

The stream [P, N, H] is seen as a table of P * V rows: row p * V + v holds the heads of block v of token p, and all
heads of a block see alike. A segment's tokens ask the global tokens and their own segment; the global tokens ask
everything. Every row asks in exactly one task. The pattern is symmetric: with queries and keys swapped, the same
tasks say which queries see a given key.
"""

from dataclasses import dataclass
from math import gcd

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mate_cli.attention.pattern import SegmentedPattern
from mate_cli.attention.plan import AttentionPlan

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SegmentTasks:
    """The tasks of a batch, in the order of `rows`; all tensors are Int32 [tasks] but for the rows.

    Args:
        blocks: the number V of blocks of heads.
        heads: in each block.
        rows: of the table, sorted by block, example, globals first, segment; Int32 [V * P].
        query_start: where a task's queries begin in `rows`.
        queries: how many there are.
        global_start: where the global tokens begin that are its first keys.
        globals: how many there are.
        local_start: where its other keys begin.
        locals: how many there are.
    """

    blocks: int
    heads: int
    rows: Tensor
    query_start: Tensor
    queries: Tensor
    global_start: Tensor
    globals: Tensor
    local_start: Tensor
    locals: Tensor

    @property
    def pairs(self) -> int:
        """The (query, key) pairs that the pattern needs, over all heads."""
        return int((self.queries.long() * (self.globals + self.locals)).sum()) * self.heads


def segment_tasks(plan: AttentionPlan) -> SegmentTasks:
    """Return the tasks of a plan, derived once per batch; under a millisecond for a few thousand tokens."""
    return plan.derive("segment_tasks", _find_tasks)


def _find_tasks(plan: AttentionPlan) -> SegmentTasks:
    """Sort tokens by (block, example, globals first, segment) and read one task off every run of equal keys."""
    pattern = plan.pattern
    assert isinstance(pattern, SegmentedPattern)
    heads = gcd(*pattern.head_groups)
    ids, is_global = (
        plan.packing.pack(x).cpu().numpy()
        for x in (pattern.segment_ids(plan.batch).permute(1, 2, 0), pattern.global_tokens(plan.batch))
    )
    ids = ids.T.repeat([group // heads for group in pattern.head_groups], axis=0)
    blocks, tokens = ids.shape
    examples = len(plan.packing.lengths)
    owner = np.arange(blocks)[:, None] * examples + np.repeat(np.arange(examples), plan.packing.lengths)
    spread = int(ids.max(initial=0)) + 2
    keys = (owner * spread + np.where(is_global, 0, ids + 1)).ravel()
    order = np.argsort(keys, kind="stable")
    keys, starts, queries = _runs(keys[order])
    owner, asks_all = keys // spread, keys % spread == 0
    own_start = np.append(0, np.cumsum(np.tile(plan.packing.lengths, blocks)))
    num_globals = np.zeros(blocks * examples, dtype=np.int64)
    num_globals[owner[asks_all]] = queries[asks_all]
    locals_start = np.where(asks_all, own_start[owner] + queries, starts)
    num_locals = np.where(asks_all, own_start[owner + 1] - locals_start, queries)
    rows = order % tokens * blocks + order // tokens if tokens else order
    arrays = (rows, starts, queries, own_start[owner], num_globals[owner], locals_start, num_locals)
    return SegmentTasks(blocks, heads, *(torch.from_numpy(array.astype(np.int32)) for array in arrays))


def _runs(values: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the value, start and length of every run of equal values."""
    starts = np.flatnonzero(np.diff(values, prepend=-1))
    return values[starts], starts, np.diff(starts, append=len(values))
