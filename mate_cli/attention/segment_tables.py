"""Index tables that turn a pattern of segments into small dense attentions, built once per batch.

Every task is one small attention: a segment's tokens ask the global tokens and their own segment; the global
tokens ask everything. Tasks of like length are padded to one class, so that a few fused calls compute them all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mate_cli.attention.base import SegmentedPattern, global_tokens

if TYPE_CHECKING:
    from mate_cli.attention.plan import AttentionPlan

Ints = NDArray[np.int64]

CALL_COST = 3000
"""What one more fused call costs, in (query, key) pairs; measured on two CPU cores."""

PADDING_COST = 1.08
"""How much dearer a pair becomes when the call needs a mask for padded keys; measured on two CPU cores."""


@dataclass(frozen=True)
class Routing:
    """Which row of a table goes to which slot, and back: a matrix of zeros and ones in both orders.

    Args:
        rows: the row in every filled slot, in the order of the slots.
        slot_offsets: where each slot begins in `rows`, [slots + 1]; an empty slot has no row.
        slots: the slots that hold each row, in the order of the rows.
        row_offsets: where each row begins in `slots`, [rows + 1].
        class_sizes: how many slots each class has, in the order of the slots.
    """

    rows: Tensor
    slot_offsets: Tensor
    slots: Tensor
    row_offsets: Tensor
    class_sizes: list[int] = field(default_factory=list)

    @property
    def transposed(self) -> Routing:
        """From the slots back to the rows, adding up what one row sent to several slots."""
        return Routing(self.slots, self.row_offsets, self.rows, self.slot_offsets)


class TaskClass(NamedTuple):
    """Tasks padded to one shape.

    Args:
        tasks: their number S.
        queries: slots for queries in each.
        keys: slots for keys in each.
        real_keys: Bool [S, 1, 1, keys], False on empty slots; None when none is empty.
    """

    tasks: int
    queries: int
    keys: int
    real_keys: Tensor | None


@dataclass(frozen=True)
class SegmentTables:
    """All that the segments backend needs of a batch.

    Args:
        blocks: groups of heads that see alike, V; the table of a projection has B * T * V rows.
        queries: from rows to the query slots of all classes, one after the other.
        keys: the same for keys and values.
        classes: the shapes of the classes, in the order of their slots.
    """

    blocks: int
    queries: Routing
    keys: Routing
    classes: tuple[TaskClass, ...]


class _Tasks(NamedTuple):
    """One entry per task; starts point into `rows`, where every (block, example) lies as globals, then segments."""

    rows: Ints
    query_start: Ints
    queries: Ints
    global_start: Ints
    globals: Ints
    local_start: Ints
    keys: Ints
    asks_all: NDArray[np.bool_]


def build_segment_tables(plan: AttentionPlan) -> SegmentTables:
    """Derive the tables of a batch; a few milliseconds, on the CPU."""
    device = plan.batch.input_ids.device
    ids = _block_ids(plan)
    tasks = _list_tasks(ids, global_tokens(plan.batch).cpu().numpy(), (plan.batch.attention_mask == 1).cpu().numpy())
    members = [
        chosen
        for kind in (tasks.asks_all, ~tasks.asks_all)
        for chosen in _length_classes(np.flatnonzero(kind), tasks.keys, tasks.queries)
    ]
    query_slots = [_query_slots(tasks, chosen) for chosen in members]
    key_slots = [_key_slots(tasks, chosen) for chosen in members]
    return SegmentTables(
        blocks=len(ids),
        queries=_route(query_slots, ids.size, device),
        keys=_route(key_slots, ids.size, device),
        classes=tuple(_task_class(*slots, device) for slots in zip(query_slots, key_slots, strict=True)),
    )


def _block_ids(plan: AttentionPlan) -> Ints:
    """Segment ids [V, B, T] for V blocks of equally many heads (the greatest number that divides all groups)."""
    pattern = plan.pattern
    assert isinstance(pattern, SegmentedPattern)
    size = gcd(*pattern.head_groups)
    ids: Ints = pattern.segment_ids(plan.batch).cpu().numpy()
    return ids.repeat([heads // size for heads in pattern.head_groups], axis=0)


def _list_tasks(ids: Ints, is_global: NDArray[np.bool_], is_real: NDArray[np.bool_]) -> _Tasks:
    """Sort tokens by (block, example, globals first, segment) and read one task off every run of equal keys."""
    blocks, examples, tokens = ids.shape
    spread = int(ids.max(initial=0)) + 2
    within = np.where(is_global, 0, ids + 1)
    block, example, token = np.nonzero(np.broadcast_to(is_real, ids.shape))
    owner = block * examples + example
    key = owner * spread + within[block, example, token]
    order = np.argsort(key, kind="stable")
    key, starts, lengths = _runs(key[order])
    run_owner, asks_all = key // spread, key % spread == 0
    owned = np.bincount(owner, minlength=blocks * examples)
    owner_start = np.cumsum(owned) - owned
    num_globals = np.bincount(run_owner[asks_all], weights=lengths[asks_all], minlength=len(owned)).astype(np.int64)
    global_start, own_globals = owner_start[run_owner], num_globals[run_owner]
    return _Tasks(
        rows=((example * tokens + token) * blocks + block)[order],
        query_start=starts,
        queries=lengths,
        global_start=global_start,
        globals=own_globals,
        local_start=np.where(asks_all, global_start + own_globals, starts),
        keys=np.where(asks_all, owned[run_owner], own_globals + lengths),
        asks_all=asks_all,
    )


def _runs(values: Ints) -> tuple[Ints, Ints, Ints]:
    """The value, start and length of every run of equal values."""
    starts = np.flatnonzero(np.diff(values, prepend=-1))
    return values[starts], starts, np.diff(starts, append=len(values))


def _length_classes(tasks: Ints, keys: Ints, queries: Ints) -> list[Ints]:
    """Split tasks by number of keys so that padding and calls together cost least (dynamic programming)."""
    if not len(tasks):
        return []
    tasks = tasks[np.argsort(keys[tasks], kind="stable")]
    lengths, ends = np.unique(keys[tasks], return_index=True)
    ends = np.append(ends, len(tasks))
    pairs = lengths * np.maximum.accumulate(np.maximum.reduceat(queries[tasks], ends[:-1]))
    best, first = np.zeros(len(ends)), np.zeros(len(ends), dtype=np.int64)
    for last in range(1, len(ends)):
        padding = np.where(np.arange(last) == last - 1, 1.0, PADDING_COST)
        cost = best[:last] + (ends[last] - ends[:last]) * pairs[last - 1] * padding + CALL_COST
        first[last] = cost.argmin()
        best[last] = cost[first[last]]
    classes, last = [], len(ends) - 1
    while last:
        classes.append(tasks[ends[first[last]] : ends[last]])
        last = first[last]
    return classes


def _query_slots(tasks: _Tasks, chosen: Ints) -> Ints:
    """The row of every query slot [S, queries], -1 where empty."""
    slot = np.arange(tasks.queries[chosen].max())
    position = tasks.query_start[chosen, None] + slot
    return _rows_at(tasks.rows, position, slot < tasks.queries[chosen, None])


def _key_slots(tasks: _Tasks, chosen: Ints) -> Ints:
    """The row of every key slot [S, keys], -1 where empty: the globals, then the task's own tokens."""
    slot, num_globals = np.arange(tasks.keys[chosen].max()), tasks.globals[chosen, None]
    local = tasks.local_start[chosen, None] + slot - num_globals
    position = np.where(slot < num_globals, tasks.global_start[chosen, None] + slot, local)
    return _rows_at(tasks.rows, position, slot < tasks.keys[chosen, None])


def _rows_at(rows: Ints, position: Ints, filled: NDArray[np.bool_]) -> Ints:
    return np.where(filled, rows[np.where(filled, position, 0)], -1)


def _route(slots: list[Ints], num_rows: int, device: torch.device) -> Routing:
    """The routing that fills these slots, one class after the other."""
    flat = np.concatenate([rows.ravel() for rows in slots]) if slots else np.zeros(0, dtype=np.int64)
    filled = flat >= 0
    rows = flat[filled]
    row_offsets = np.cumsum(np.bincount(rows, minlength=num_rows))
    by_row = np.flatnonzero(filled)[np.argsort(rows, kind="stable")]
    arrays = (rows, np.append(0, np.cumsum(filled)), by_row, np.append(0, row_offsets))
    in_slot_order, slot_offsets, in_row_order, rows_end = (torch.from_numpy(array).to(device) for array in arrays)
    return Routing(in_slot_order, slot_offsets, in_row_order, rows_end, [rows.size for rows in slots])


def _task_class(query_slots: Ints, key_slots: Ints, device: torch.device) -> TaskClass:
    (tasks, queries), keys, filled = query_slots.shape, key_slots.shape[1], key_slots >= 0
    real_keys = None if filled.all() else torch.from_numpy(filled)[:, None, None, :].to(device)
    return TaskClass(tasks, queries, keys, real_keys)
