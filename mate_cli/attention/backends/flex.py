"""Exact attention by segments through PyTorch's FlexAttention: tokens sorted by segment, empty tiles left out."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from mate_cli.attention.base import AttentionPlan, SegmentBackend, attention_dtype
from mate_cli.attention.patterns import AttentionPattern
from mate_cli.attention.segment_tasks import segment_tasks
from mate_cli.errors import ConfigError

TILE = 128
"""Tokens on each side of a tile: what FlexAttention's own sizes divide."""

GLOBAL, PADDING = 0, -1
"""Segments that no task has."""


@dataclass(frozen=True)
class SortedViews:
    """A batch as FlexAttention takes it: each of V views sorted and padded to L tokens, in tiles of 128.

    Args:
        order: the table row (token * V + view) at every place, Int32 [V * L]; padding repeats row 0.
        places: where every table row went, Int32 [P * V].
        example: the example at every place, one more for padding, Int32 [V, L].
        segment: the segment at every place, `GLOBAL` and `PADDING` among them, Int32 [V, L].
        tiles: number and indices of the tiles that need the mask, then of those that do not; Int32 [V, 1, L / 128]
            and [V, 1, L / 128, L / 128].
    """

    order: Tensor
    places: Tensor
    example: Tensor
    segment: Tensor
    tiles: tuple[Tensor, Tensor, Tensor, Tensor]


class Flex(SegmentBackend):
    """FlexAttention on every view sorted by segment, with tiles found from the segments' ends; compiled once.

    On an H200 slower than the triton backend at 512 tokens; longer tables have not been measured.
    """

    def supports(self, pattern: AttentionPattern, dropout: float = 0.0) -> None:
        """Accept patterns made of segments on a CUDA device, without dropout."""
        super().supports(pattern, dropout)
        if dropout:
            remedy = "Set model.attention_dropout=0, or use attention=segments"
            raise ConfigError("flex does not support attention dropout", where="attention", remedy=remedy)
        self.check_machine("cuda")

    def check_machine(self, device: str) -> None:
        """Accept CUDA devices."""
        if device != "cuda" or not torch.cuda.is_available():
            remedy = "Use attention=auto or attention=segments"
            raise ConfigError("flex needs a CUDA device", where="attention", remedy=remedy)

    def prepare(self, plan: AttentionPlan) -> None:
        """Sort the views and find their tiles."""
        _views(plan)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Attend: [P, 3, N, H] to [P, N, H]."""
        views, mask = _views(plan), plan.derive("flex mask", _block_mask)
        tokens, _, heads, size = qkv.shape
        if not tokens:
            return qkv[:, 0]
        count, length = views.segment.shape
        table = qkv.to(attention_dtype(qkv)).reshape(tokens, 3, count, -1).transpose(1, 2).reshape(tokens * count, -1)
        projections = _reorder(table, views.order, views.places).view(count, length, 3, heads // count, size)
        query, key, value = projections.permute(2, 0, 3, 1, 4).unbind()
        attend = compiled_flex_attention()
        output = attend(query, key, value, score_mod=_score_mod(key_bias, views), block_mask=mask)
        output = output.transpose(1, 2).reshape(count * length, -1)
        return _reorder(output, views.places, views.order).view(tokens, heads, size)


@cache
def compiled_flex_attention() -> Callable[..., Any]:
    """Compile FlexAttention for any length; uncompiled it would make the whole matrix of scores."""
    from torch.nn.attention.flex_attention import flex_attention

    compiled: Callable[..., Any] = torch.compile(flex_attention, dynamic=True)
    return compiled


class _Reorder(torch.autograd.Function):
    """Rows in another order, some repeated; the gradient takes every row back from one place, and adds nothing."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, order: Tensor, places: Tensor) -> Tensor:  # noqa: ANN401 - torch's own context
        ctx.save_for_backward(places)
        return table.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401 - torch's own context
        (places,) = ctx.saved_tensors
        return gradient.index_select(0, places), None, None


def _reorder(table: Tensor, order: Tensor, places: Tensor) -> Tensor:
    return _Reorder.apply(table, order, places)  # type: ignore[no-untyped-call]


def _score_mod(key_bias: Tensor | None, views: SortedViews) -> Callable[..., Tensor] | None:
    """Return what adds the bias [P] of a key to its scores."""
    if key_bias is None:
        return None
    count = len(views.segment)
    rows = key_bias.float()[:, None].expand(-1, count).reshape(-1, 1)
    bias = _reorder(rows, views.order, views.places).view(count, -1)

    def add(score: Tensor, view: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return score + bias[view, key]

    return add


def _block_mask(plan: AttentionPlan) -> BlockMask:
    """Return the tiles as FlexAttention takes them, with the definition for those that are neither full nor empty."""
    from torch.nn.attention.flex_attention import BlockMask

    views = _views(plan)
    example, segment = views.example, views.segment

    def allowed(view: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        query_segment, key_segment = segment[view, query], segment[view, key]
        related = (query_segment == key_segment) | (query_segment == GLOBAL) | (key_segment == GLOBAL)
        return related & (example[view, query] == example[view, key])

    return BlockMask.from_kv_blocks(*views.tiles, BLOCK_SIZE=TILE, mask_mod=allowed)


def _views(plan: AttentionPlan) -> SortedViews:
    return plan.derive("flex", _sort_views)


def _sort_views(plan: AttentionPlan) -> SortedViews:
    """Place the rows of the tasks, which are sorted already, and pad every view."""
    tasks = segment_tasks(plan)
    starts, queries, local_start, rows = (
        x.cpu().numpy() for x in (tasks.query_start, tasks.queries, tasks.local_start, tasks.rows)
    )
    tokens = len(rows) // tasks.blocks
    padding = ((0, 0), (0, -tokens % TILE))
    lengths = plan.packing.lengths
    # Only the task of the globals has other keys than its own queries.
    segments = np.where(starts == local_start, np.arange(1, len(starts) + 1), GLOBAL).repeat(queries)
    segment = np.pad(segments.reshape(tasks.blocks, tokens), padding, constant_values=PADDING)
    owners = np.tile(np.arange(len(lengths)).repeat(lengths), (tasks.blocks, 1))
    example = np.pad(owners, padding, constant_values=len(lengths))
    order = np.pad(rows.reshape(tasks.blocks, tokens), padding)
    places = np.empty(len(rows), dtype=np.int32)
    places[rows] = np.arange(order.size).reshape(order.shape)[:, :tokens].ravel()
    arrays = (order.ravel(), places, example, segment, _tiles(example, segment))
    return SortedViews(*map(_tensors, arrays))


def _tensors(value: Any) -> Any:  # noqa: ANN401 - an array, or a tuple of these
    return tuple(map(_tensors, value)) if isinstance(value, tuple) else torch.from_numpy(value.astype(np.int32))


def _tiles(example: NDArray[Any], segment: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return which tiles hold pairs to attend to, by the first and last tokens of every stretch of 128.

    Partial, then full.
    """
    example, segment = (x.reshape(len(x), -1, TILE) for x in (example, segment))
    first, last = example[..., 0], example[..., -1]
    # In sorted order two stretches share at most one example: the last of the one and the first of the other.
    has_global = ((segment == GLOBAL) & (example == last[..., None])).any(-1)
    linked = has_global[..., :, None] | (segment[..., None, :, 0] == GLOBAL)
    linked |= segment[..., :, None, -1] == segment[..., None, :, 0]
    later = np.triu(linked & (last[..., :, None] == first[..., None, :]), 1)
    touched = later | later.swapaxes(-1, -2) | np.eye(first.shape[-1], dtype=bool)
    lowest = np.where(segment == GLOBAL, np.iinfo(segment.dtype).max, segment).min(-1)
    highest = np.where(segment == GLOBAL, np.iinfo(segment.dtype).min, segment).max(-1)
    all_global, single = (segment == GLOBAL).all(-1), lowest == highest
    same = single[..., :, None] & single[..., None, :] & (lowest[..., :, None] == lowest[..., None, :])
    full = all_global[..., :, None] | all_global[..., None, :] | same
    one_example = first == last
    full &= one_example[..., :, None] & one_example[..., None, :] & (first[..., :, None] == first[..., None, :])
    return (*_listed(touched & ~full), *_listed(full))


def _listed(chosen: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return how many tiles of each row are chosen, and their indices before those of the others."""
    return chosen.sum(-1)[:, None], np.argsort(~chosen, axis=-1, kind="stable")[:, None]
