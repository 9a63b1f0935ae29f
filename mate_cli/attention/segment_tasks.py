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

from mate_cli.attention.base import AttentionPlan
from mate_cli.attention.patterns import SegmentedPattern
from mate_cli.tokenization.tensor_buffer import map_tensors

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


CALL_COST, GPU_CALL_COST = 3000, 1_000_000
"""Cost of one more fused call, in (query, key) pairs; measured on two CPU cores, and guessed for GPUs."""

PADDING_COST = 1.08
"""Factor by which a mask for padded keys makes a pair dearer; measured on two CPU cores."""


@dataclass(frozen=True)
class Gather:
    """Row indices of a table for each slot; Int32.

    Args:
        rows: the row in every filled slot, in the order of the slots.
        offsets: where each slot begins in `rows`, [slots + 1]; an empty slot has no row, a slot of sums has several.
    """

    rows: Tensor
    offsets: Tensor

    def __call__(self, table: Tensor) -> Tensor:
        """Return the table [rows, C] as slots [slots, C]; zeros where a slot is empty."""
        if not len(self.rows):
            return table.new_zeros(len(self.offsets) - 1, table.shape[1])
        return torch.embedding_bag(table, self.rows, self.offsets, include_last_offset=True)[0]


@dataclass(frozen=True)
class TaskClass:
    """Segments padded to one shape: S tasks of as many queries and keys.

    Args:
        tasks: the number S.
        queries: slots for queries in each.
        keys: slots for keys in each.
        key_counts: filled slots for keys, Int32 [S].
        has_empty_keys: some slots for keys are empty.
        projections: from the table of projections to all query slots, then all key slots, then all value slots.
        outputs: from the table of outputs to all query slots.
    """

    tasks: int
    queries: int
    keys: int
    key_counts: Tensor
    has_empty_keys: bool
    projections: Gather
    outputs: Gather

    @property
    def sizes(self) -> list[int]:
        """Numbers of slots for queries, keys and values."""
        return [self.tasks * self.queries, self.tasks * self.keys, self.tasks * self.keys]

    @property
    def empty_keys(self) -> Tensor | None:
        """Bool [S, keys], True on empty slots; None when there is none."""
        if not self.has_empty_keys:
            return None
        return torch.arange(self.keys, device=self.key_counts.device) >= self.key_counts[:, None]


@dataclass(frozen=True)
class SegmentTables:
    """All that the segments backend needs of a batch.

    Args:
        blocks: the number V of blocks of heads.
        classes: of segments.
        gradients: from all slots, class after class, back to the table of projections.
        output_slots: the query slot of every row of the table of outputs, class after class; 0 where a global token
            asks, which is in no class. Int32 [P * V].
        globals: the global tokens of every example, as places in the packed stream; Int64.
        spans: where every example begins and ends in the packed stream.
    """

    blocks: int
    classes: tuple[TaskClass, ...]
    gradients: Gather
    output_slots: Tensor
    globals: tuple[Tensor, ...]
    spans: tuple[tuple[int, int], ...]


def segment_tables(plan: AttentionPlan) -> SegmentTables:
    """Return the tables of a plan, derived once per batch; a few milliseconds on the CPU.

    Projections [P, 3, N, H] are a table of P * 3 * V rows, outputs [P, N, H] one of P * V rows.
    """
    call_cost = CALL_COST if plan.device == "cpu" else GPU_CALL_COST
    return plan.derive(("segment_tables", call_cost), lambda plan: _build_tables(plan, call_cost))


def _build_tables(plan: AttentionPlan, call_cost: int) -> SegmentTables:
    tasks = map_tensors(segment_tasks(plan), Tensor.cpu)
    keys, queries = (tasks.globals + tasks.locals).numpy(), tasks.queries.numpy()
    is_segment = (tasks.local_start == tasks.query_start).numpy()
    members = _length_classes(np.flatnonzero(is_segment), keys, queries, call_cost)
    slots = [_slots(tasks, chosen) for chosen in members]
    projected = [_all_slots(*pair, tasks.blocks) for pair in slots]
    output_slots, gradients = _invert(slots, projected, tasks)
    ends = np.cumsum(plan.packing.lengths).tolist()
    return SegmentTables(
        blocks=tasks.blocks,
        classes=tuple(_task_class(*pair, rows) for pair, rows in zip(slots, projected, strict=True)),
        gradients=gradients,
        output_slots=output_slots,
        globals=_global_tokens(tasks, ends),
        spans=tuple(zip([0, *ends], ends, strict=False)),
    )


def _length_classes(segments: Ints, keys: Ints, queries: Ints, call_cost: int) -> list[Ints]:
    """Split segments by number of keys so that padding and calls together cost least (dynamic programming)."""
    if not len(segments):
        return []
    segments = segments[np.argsort(keys[segments], kind="stable")]
    lengths, ends = np.unique(keys[segments], return_index=True)
    ends = np.append(ends, len(segments))
    pairs = lengths * np.maximum.accumulate(np.maximum.reduceat(queries[segments], ends[:-1]))
    best, first = np.zeros(len(ends)), np.zeros(len(ends), dtype=np.int64)
    for last in range(1, len(ends)):
        padding = np.where(np.arange(last) == last - 1, 1.0, PADDING_COST)
        cost = best[:last] + (ends[last] - ends[:last]) * pairs[last - 1] * padding + call_cost
        first[last] = cost.argmin()
        best[last] = cost[first[last]]
    classes, last = [], len(ends) - 1
    while last:
        classes.append(segments[ends[first[last]] : ends[last]])
        last = first[last]
    return classes


def _slots(tasks: SegmentTasks, chosen: Ints) -> tuple[Ints, Ints]:
    """Give the row of the table of outputs in every query slot [S, queries] and key slot [S, keys], -1 where empty."""
    rows, start, queries, global_start, num_globals = (
        x.numpy() for x in (tasks.rows, tasks.query_start, tasks.queries, tasks.global_start, tasks.globals)
    )
    start, queries, global_start, num_globals = (x[chosen, None] for x in (start, queries, global_start, num_globals))
    slot = np.arange((queries + num_globals).max())
    position = np.where(slot < num_globals, global_start + slot, start + slot - num_globals)
    query_slot = np.arange(queries.max())
    return (
        _rows_at(rows, start + query_slot, query_slot < queries),
        _rows_at(rows, position, slot < num_globals + queries),
    )


def _rows_at(rows: Ints, position: Ints, filled: NDArray[np.bool_]) -> Ints:
    return np.where(filled, rows[np.where(filled, position, 0)].astype(np.int64), -1)


def _all_slots(query_slots: Ints, key_slots: Ints, blocks: int) -> Ints:
    """Return the row of the table of projections in every slot of a class, -1 where empty.

    A query is in row p * 3 * V + v where its output is in p * V + v; its key is V rows further, its value 2 * V.
    """
    queries, keys = (
        np.where(rows < 0, -1, rows + rows // blocks * (2 * blocks) + shift)
        for rows, shift in ((query_slots.ravel(), 0), (key_slots.ravel(), blocks))
    )
    return np.concatenate([queries, keys, np.where(keys < 0, -1, keys + blocks)])


def _task_class(query_slots: Ints, key_slots: Ints, projected: Ints) -> TaskClass:
    key_counts = (key_slots >= 0).sum(1)
    return TaskClass(
        tasks=len(query_slots),
        queries=query_slots.shape[1],
        keys=key_slots.shape[1],
        key_counts=_int32(key_counts),
        has_empty_keys=bool((key_counts < key_slots.shape[1]).any()),
        projections=_gather(projected),
        outputs=_gather(query_slots.ravel()),
    )


def _gather(slots: Ints) -> Gather:
    """Build the gathering from the row of every slot, -1 where empty."""
    filled = slots >= 0
    return Gather(_int32(slots[filled]), _int32(np.append(0, np.cumsum(filled))))


def _invert(slots: list[tuple[Ints, Ints]], projected: list[Ints], tasks: SegmentTasks) -> tuple[Tensor, Gather]:
    """Return where every row of the outputs is found, and what every row of the projections receives."""
    num_rows, nothing = tasks.rows.numel(), np.zeros(0, dtype=np.int64)
    asking = np.concatenate([nothing, *(queries.ravel() for queries, _ in slots)])
    output_slots = np.zeros(num_rows, dtype=np.int64)
    output_slots[asking[asking >= 0]] = np.flatnonzero(asking >= 0)
    receiving = np.concatenate([nothing, *projected])
    filled = np.flatnonzero(receiving >= 0)
    rows = receiving[filled]
    offsets = np.append(0, np.cumsum(np.bincount(rows, minlength=3 * num_rows)))
    return _int32(output_slots), Gather(_int32(filled[np.argsort(rows, kind="stable")]), _int32(offsets))


def _global_tokens(tasks: SegmentTasks, ends: list[int]) -> tuple[Tensor, ...]:
    """Give the global tokens of every example, from the first block's part of the rows, which is sorted by example."""
    asks_all = tasks.local_start > tasks.query_start
    places = [torch.zeros(0, dtype=torch.int64)] * len(ends)
    for start, count in zip(tasks.query_start[asks_all].tolist(), tasks.queries[asks_all].tolist(), strict=True):
        if ends and start < ends[-1]:
            tokens = tasks.rows[start : start + count].long() // tasks.blocks
            places[int(np.searchsorted(ends, start, side="right"))] = tokens
    return tuple(places)


def _int32(array: NDArray[np.integer]) -> Tensor:
    return torch.from_numpy(array.astype(np.int32))
