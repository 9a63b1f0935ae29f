"""Transformer-XL's line of segments: the special case of Transformer-XH in which texts follow one another.

Source: Dai et al., "Transformer-XL: Attentive Language Models beyond a Fixed-Length Context", ACL 2019, section 3.2:
of segment r in layer l, queries are of H_r, keys and
values of [SG(H_{r-1}); H_r], all of layer l - 1. Positions there are relative; here they restart in each segment.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout as drop

from mate_cli.attention.base import Attention, AttentionBackend, AttentionPlan
from mate_cli.attention.patterns import PreviousSegment
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import EncoderLayer, LayerOptions, LayerSpec, SelfAttention


def find_segments(plan: AttentionPlan) -> tuple[Tensor, Tensor]:
    """Return what the tokens of a plan's batch see: of their own segment, and of the one before, Bool [B, 1, T, T]."""
    rows = plan.batch.row_ids
    visible, same = plan.mask, (rows[:, :, None] == rows[:, None, :])[:, None]
    return visible & same, visible & ~same


class SegmentMemory(Attention):
    """One softmax over the own segment and the one before, whose keys and values may come from elsewhere."""

    takes_key_bias = False

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Attend, where the memory learns like everything else, see `Attention`."""
        return self.attend(qkv, qkv, plan, dropout)

    def attend(self, qkv: Tensor, memory: Tensor, plan: AttentionPlan, dropout: float) -> Tensor:
        """Attend with keys and values of the segment before from `memory`, both [P, 3, N, H]; to [P, N, H]."""
        of_own, of_last = plan.derive("segments", find_segments)
        query, *current = plan.heads(qkv)
        _, *before = plan.heads(memory)
        scores = [
            (query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5).masked_fill(~mask, torch.finfo(query.dtype).min)
            for (key, _), mask in ((current, of_own), (before, of_last))
        ]
        weights = drop(torch.cat(scores, -1).softmax(-1), dropout)
        return plan.pack_heads(weights @ torch.cat([current[1], before[1]], 2))


class MemoryAttention(SelfAttention):
    """Self-attention in which no gradient flows into the states of the segment before."""

    backend: SegmentMemory

    def forward(self, states: Tensor, plan: AttentionPlan, key_bias: Tensor | None) -> Tensor:
        """Map states [P, D] to the concatenated heads [P, D]."""
        qkv, memory = (self.project(x) for x in (states, states.detach()))
        dropout = self.attention_dropout if self.training else 0.0
        return self.backend.attend(qkv, memory, plan, dropout).flatten(1)


class MemoryLayer(EncoderLayer):
    """A layer over segments, of which each has the states of the one before as a memory."""

    def __init__(self, size: EncoderSize, spec: LayerSpec, options: LayerOptions) -> None:
        super().__init__(size, spec, options)
        self.attention["self"] = MemoryAttention(size, spec.backend, options.attention_dropout)


class TransformerXl(TableEncoder):
    """BERT over segments side by side, each of which sees all tokens of the one before.

    What is n segments back is seen after n layers. Positions restart in each segment; they are absolute, so that
    weights of BERT fit, not relative as in the paper.

    Args:
        attention: how attention is computed; not used with a memory.
        memory: the states of the segment before are a memory, into which no gradient flows, as in the paper.
    """

    def __init__(
        self, size: str | EncoderSize, *, attention: AttentionBackend, memory: bool = True, **options: Any
    ) -> None:
        shape = encoder_size(size)
        pattern = PreviousSegment(shape.num_heads)
        layer = LayerSpec(pattern, SegmentMemory(), MemoryLayer) if memory else LayerSpec(pattern, attention)
        super().__init__(size, [layer] * shape.num_layers, token_types=("segment_ids",), **options)
