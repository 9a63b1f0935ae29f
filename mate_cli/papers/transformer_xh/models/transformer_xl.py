"""Transformer-XL: the special case of Transformer-XH with consecutive segments as nodes.

Source: Dai et al., "Transformer-XL: Attentive Language Models beyond a Fixed-Length Context", ACL 2019, section 3.2. In
layer l, the queries of segment r are computed from H_r, and the keys and values from [SG(H_{r-1}); H_r], all of layer l
- 1. The paper uses relative positions. This implementation uses absolute positions that restart in each segment.
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
    """Split the attention mask into current and previous segment, both Bool [B, 1, T, T].

    An entry is True if the query token attends to the key token.
    """
    rows = plan.batch.row_ids
    visible, same_segment = plan.mask, (rows[:, :, None] == rows[:, None, :])[:, None]
    return visible & same_segment, visible & ~same_segment


class SegmentMemory(Attention):
    """Attention with a joint softmax over the current and the previous segment.

    Keys and values of the previous segment may be passed separately.
    """

    takes_key_bias = False

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Attend to the current and the previous segment, with gradients through both segments.

        See `Attention`.
        """
        return self.attend(qkv, qkv, plan, dropout)

    def attend(self, qkv: Tensor, memory: Tensor, plan: AttentionPlan, dropout: float) -> Tensor:
        """Attend to the current segment in `qkv` and to the previous segment in `memory`.

        Args:
            qkv: queries, keys and values [P, 3, N, H].
            memory: projections whose keys and values are used for the previous segment [P, 3, N, H].
            plan: plan of the batch.
            dropout: dropout probability of the weights.

        Returns:
            The output [P, N, H].
        """
        current_mask, previous_mask = plan.derive("segments", find_segments)
        query, *current = plan.heads(qkv)
        _, *previous = plan.heads(memory)
        scores = [
            (query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5).masked_fill(~mask, torch.finfo(query.dtype).min)
            for (key, _), mask in ((current, current_mask), (previous, previous_mask))
        ]
        weights = drop(torch.cat(scores, -1).softmax(-1), dropout)
        return plan.pack_heads(weights @ torch.cat([current[1], previous[1]], 2))


class MemoryAttention(SelfAttention):
    """Self-attention without gradients into the hidden states of the previous segment."""

    backend: SegmentMemory

    def forward(self, states: Tensor, plan: AttentionPlan, key_bias: Tensor | None) -> Tensor:
        """Compute self-attention of P tokens: states [P, D] to concatenated attention heads [P, D]."""
        qkv, memory = (self.project(x) for x in (states, states.detach()))
        dropout = self.attention_dropout if self.training else 0.0
        return self.backend.attend(qkv, memory, plan, dropout).flatten(1)


class MemoryLayer(EncoderLayer):
    """Transformer layer that attends to its segment and, without gradient, the previous one."""

    def __init__(self, size: EncoderSize, spec: LayerSpec, options: LayerOptions) -> None:
        super().__init__(size, spec, options)
        self.attention["self"] = MemoryAttention(size, spec.backend, options.attention_dropout)


class TransformerXl(TableEncoder):
    """BERT over parallel segments. Each segment attends to all tokens of the previous segment.

    The segment n steps back affects a token after n layers. Positions restart in each segment. They are absolute,
    unlike the paper's relative positions, so that BERT weights can be loaded.

    Args:
        attention: attention implementation; unused with a memory.
        memory: if true, no gradient flows into the hidden states of the previous segment, as in the paper.
    """

    def __init__(
        self, size: str | EncoderSize, *, attention: AttentionBackend, memory: bool = True, **options: Any
    ) -> None:
        shape = encoder_size(size)
        pattern = PreviousSegment(shape.num_heads)
        layer = LayerSpec(pattern, SegmentMemory(), MemoryLayer) if memory else LayerSpec(pattern, attention)
        super().__init__(size, [layer] * shape.num_layers, token_types=("segment_ids",), **options)
