"""Decomposition of a segmented pattern into tasks, small dense attentions.

Every fast backend computes these tasks. The packed stream [P, N, H] is viewed as a table of P * V rows. Row p * V + v
contains the heads of block v of token p, and all heads of a block have the same mask. The tokens of a segment attend to
the global tokens and to their segment. The global tokens attend to all tokens of the example. Every row is a query in
exactly one task. The pattern is symmetric: with queries and keys swapped, the same tasks define which queries attend to
a given key.
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
    """The tasks of a batch: small dense attentions that together compute a segmented pattern.

    The tasks are in the order of `rows`.

    All tensors except `rows` are Int32 [tasks].

    Args:
        blocks: number V of blocks of heads.
        heads: number of heads in each block.
        rows: indices of table rows, sorted by block, example, global tokens first, and segment. Int32 [V * P].
        query_start: index in `rows` of the first query of each task.
        queries: number of queries of each task.
        global_start: index in `rows` of the first global token. The global tokens are the first keys of each task.
        globals: number of global tokens of each task.
        local_start: index in `rows` of the first key that is not a global token.
        locals: number of keys that are not global tokens.
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
        """The number of query-key pairs that the pattern allows, over all heads."""
        return int((self.queries.long() * (self.globals + self.locals)).sum()) * self.heads


def segment_tasks(plan: AttentionPlan) -> SegmentTasks:
    """Divide the attention of a batch into tasks, small dense attentions that fast backends compute.

    The tasks are cached in the plan. Creating them takes under a millisecond for a few thousand tokens.
    """
    return plan.derive("segment_tasks", _find_tasks)


def _find_tasks(plan: AttentionPlan) -> SegmentTasks:
    """Compute the tasks of a batch: sort the table rows, and build one task per run of rows with equal sort keys.

    The sort key is (block of heads, example, global tokens first, segment).
    """
    pattern = plan.pattern
    assert isinstance(pattern, SegmentedPattern)
    heads = gcd(*pattern.head_groups)
    segment_ids, global_tokens = pattern.segment_ids(plan.batch), pattern.global_tokens(plan.batch)
    packed = plan.packing.pack(torch.cat([segment_ids, global_tokens[None]]).permute(1, 2, 0)).cpu().numpy()
    ids = packed[:, :-1].T.repeat([group // heads for group in pattern.head_groups], axis=0)
    is_global = packed[:, -1] > 0
    blocks, tokens = ids.shape
    examples = len(plan.packing.lengths)
    example_index = np.arange(blocks)[:, None] * examples + np.repeat(np.arange(examples), plan.packing.lengths)
    id_range = int(ids.max(initial=0)) + 2
    keys = (example_index * id_range + np.where(is_global, 0, ids + 1)).ravel()
    order = np.argsort(keys, kind="stable")
    keys, starts, queries = _runs(keys[order])
    example_index, is_global_task = keys // id_range, keys % id_range == 0
    example_start = np.append(0, np.cumsum(np.tile(plan.packing.lengths, blocks)))
    num_globals = np.zeros(blocks * examples, dtype=np.int64)
    num_globals[example_index[is_global_task]] = queries[is_global_task]
    locals_start = np.where(is_global_task, example_start[example_index] + queries, starts)
    num_locals = np.where(is_global_task, example_start[example_index + 1] - locals_start, queries)
    rows = order % tokens * blocks + order // tokens if tokens else order
    arrays = (rows, starts, queries, example_start[example_index], num_globals[example_index], locals_start, num_locals)
    return SegmentTasks(blocks, heads, *(torch.from_numpy(array.astype(np.int32)) for array in arrays))


def _runs(values: Ints) -> tuple[Ints, Ints, Ints]:
    """Find the runs of equal adjacent values. Return the value, start index and length of each run."""
    starts = np.flatnonzero(np.diff(values, prepend=-1))
    return values[starts], starts, np.diff(starts, append=len(values))


CALL_COST, GPU_CALL_COST = 3000, 1_000_000
"""Cost of one additional fused call, in query-key pairs. Measured on two CPU cores, estimated for GPUs."""

PADDING_COST = 1.08
"""Factor by which a mask for padded keys raises the cost of a pair. Measured on two CPU cores."""


@dataclass(frozen=True)
class TaskClass:
    """A class of S attention tasks, padded to equal numbers of queries and keys to run as one batch.

    Slots that are not needed repeat the last row of their task.

    Args:
        tasks: number S of tasks.
        queries: number of query slots of each task.
        keys: number of key slots of each task.
        key_counts: number of key slots that each task needs, Int32 [S].
        has_empty_keys: whether any key slot is not needed.
    """

    tasks: int
    queries: int
    keys: int
    key_counts: Tensor
    has_empty_keys: bool

    @property
    def sizes(self) -> list[int]:
        """Total numbers of queries, keys and values of all tasks in the class, with padding."""
        return [self.tasks * self.queries, self.tasks * self.keys, self.tasks * self.keys]

    @property
    def empty_keys(self) -> Tensor | None:
        """Mask of key slots that are only padding, Bool [S, keys]. None without such slots."""
        if not self.has_empty_keys:
            return None
        return torch.arange(self.keys, device=self.key_counts.device) >= self.key_counts[:, None]


@dataclass(frozen=True)
class SegmentTables:
    """Precomputed indices with which the `segments` backend gathers tokens by segment.

    Args:
        blocks: number V of blocks of heads.
        classes: tasks of segments, batched into classes of similar size.
        slots: row of the table of projections in every slot, class after class: all query slots, then all key slots,
            then all value slots. Int32.
        output_slots: query slot of every row of the table of outputs, counted class after class, Int32 [P * V]. It is
            0 for global tokens, which no class contains.
        globals: positions of the global tokens of every example in the packed stream, Int64.
        spans: start and end of every example in the packed stream.
    """

    blocks: int
    classes: tuple[TaskClass, ...]
    slots: Tensor
    output_slots: Tensor
    globals: tuple[Tensor, ...]
    spans: tuple[tuple[int, int], ...]


def segment_tables(plan: AttentionPlan) -> SegmentTables:
    """Compute the index tables of the segments backend for a batch, and cache them in the plan.

    This takes a few milliseconds on the CPU.

    Projections [P, 3, N, H] are viewed as a table of P * 3 * V rows, outputs [P, N, H] as a table of P * V rows.
    """
    call_cost = CALL_COST if plan.device == "cpu" else GPU_CALL_COST
    return plan.derive(("segment_tables", call_cost), lambda plan: _build_tables(plan, call_cost))


def _build_tables(plan: AttentionPlan, call_cost: int) -> SegmentTables:
    tasks = map_tensors(segment_tasks(plan), Tensor.cpu)
    keys, queries = (tasks.globals + tasks.locals).numpy(), tasks.queries.numpy()
    is_segment = (tasks.local_start == tasks.query_start).numpy()
    members = _length_classes(np.flatnonzero(is_segment), keys, queries, call_cost)
    slots = [_slots(tasks, task_indices) for task_indices in members]
    query_rows = _concatenate([queries.ravel() for queries, _ in slots])
    output_slots = np.zeros(tasks.rows.numel(), dtype=np.int32)
    output_slots[query_rows] = np.arange(len(query_rows), dtype=np.int32)
    example_ends = np.cumsum(plan.packing.lengths).tolist()
    return SegmentTables(
        blocks=tasks.blocks,
        classes=tuple(_task_class(*pair, keys[own]) for pair, own in zip(slots, members, strict=True)),
        slots=torch.from_numpy(_concatenate([_projections(*pair, tasks.blocks) for pair in slots])),
        output_slots=torch.from_numpy(output_slots),
        globals=_global_tokens(tasks, example_ends),
        spans=tuple(zip([0, *example_ends], example_ends, strict=False)),
    )


def _task_class(query_rows: Ints, key_rows: Ints, key_counts: Ints) -> TaskClass:
    (tasks, queries), keys = query_rows.shape, key_rows.shape[1]
    return TaskClass(tasks, queries, keys, torch.from_numpy(key_counts), bool((key_counts < keys).any()))


def _concatenate(arrays: list[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, dtype=np.int32), *arrays])


def _length_classes(segments: Ints, keys: Ints, queries: Ints, call_cost: int) -> list[Ints]:
    """Group segments with similar numbers of keys, to pad and compute each group in one call.

    Dynamic programming finds the groups with the minimum total cost of padding and of calls.
    """
    if not len(segments):
        return []
    segments = segments[np.argsort(keys[segments], kind="stable")]
    lengths, length_ends = np.unique(keys[segments], return_index=True)
    length_ends = np.append(length_ends, len(segments))
    pairs = lengths * np.maximum.accumulate(np.maximum.reduceat(queries[segments], length_ends[:-1]))
    lowest_cost, class_start = np.zeros(len(length_ends)), np.zeros(len(length_ends), dtype=np.int64)
    for class_end in range(1, len(length_ends)):
        padding = np.where(np.arange(class_end) == class_end - 1, 1.0, PADDING_COST)
        area = (length_ends[class_end] - length_ends[:class_end]) * pairs[class_end - 1]
        cost = lowest_cost[:class_end] + area * padding + call_cost
        class_start[class_end] = cost.argmin()
        lowest_cost[class_end] = cost[class_start[class_end]]
    classes, class_end = [], len(length_ends) - 1
    while class_end:
        classes.append(segments[length_ends[class_start[class_end]] : length_ends[class_end]])
        class_end = class_start[class_end]
    return classes


def _slots(tasks: SegmentTasks, members: Ints) -> tuple[Ints, Ints]:
    """Return the output row of each query slot and key slot in a class of attention tasks.

    The shapes are [S, queries] and [S, keys].
    """
    rows = tasks.rows.numpy()
    start, queries, global_start, num_globals = (
        x.numpy()[members, None] for x in (tasks.query_start, tasks.queries, tasks.global_start, tasks.globals)
    )
    query = np.minimum(np.arange(queries.max()), queries - 1)
    key = np.minimum(np.arange((queries + num_globals).max()), queries + num_globals - 1)
    return rows[start + query], rows[np.where(key < num_globals, global_start, start - num_globals) + key]


def _projections(query_rows: Ints, key_rows: Ints, blocks: int) -> Ints:
    """Map each slot of a class of tasks to its row in the table of Q, K and V projections.

    If the output of a query is in row p * V + v, then the query is in row p * 3 * V + v of the table of projections,
    its key V rows and its value 2 * V rows after it.
    """
    queries, keys = (rows.ravel() + rows.ravel() // blocks * (2 * blocks) for rows in (query_rows, key_rows))
    return np.concatenate([queries, keys + blocks, keys + 2 * blocks])


def _global_tokens(tasks: SegmentTasks, example_ends: list[int]) -> tuple[Tensor, ...]:
    """Return the positions of each example's global tokens among the packed tokens of the batch.

    They are read from the rows of the first block of heads, which are sorted by example.
    """
    is_global_task = tasks.local_start > tasks.query_start
    positions = [torch.zeros(0, dtype=torch.int64)] * len(example_ends)
    starts, counts = (values[is_global_task].tolist() for values in (tasks.query_start, tasks.queries))
    for start, count in zip(starts, counts, strict=True):
        if example_ends and start < example_ends[-1]:
            tokens = tasks.rows[start : start + count].long() // tasks.blocks
            positions[int(np.searchsorted(example_ends, start, side="right"))] = tokens
    return tuple(positions)
