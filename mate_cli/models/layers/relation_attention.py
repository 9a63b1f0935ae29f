"""Attention among nodes that knows how each pair is related: a vector per relation on keys, another one on values.

Source: Shaw et al., "Self-Attention with Relative Position Representations", NAACL 2018; Wang et al., "RAT-SQL", ACL
2020, equation 1; Xu et al., "Optimizing Deeper Transformers on Small Datasets", ACL 2021, section 2.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop

from mate_cli.attention.base import Attention, Work
from mate_cli.attention.pairs import all_pairs
from mate_cli.errors import ConfigError

if TYPE_CHECKING:
    from mate_cli.attention.plan import AttentionPlan
    from mate_cli.models.sizes import EncoderSize


class RelationAttention(nn.Module, Attention):
    """The attention of one layer, whose heads share two vectors, rK and rV, for each relation.

    Of every head, the score of node i for node j is q_i . (k_j + rK) / sqrt(H), and i gets the weighted sum of v_j + rV;
    rK and rV are those of the relation of i to j. No [K, K, H] tensor is made: queries meet all relations before the
    right one is chosen, and weights are summed by relation before they meet the vectors.

    Args:
        size: number N and size H of heads.
        relations: their number R.
    """

    def __init__(self, size: EncoderSize, relations: int) -> None:
        super().__init__()
        self.relation_key = nn.Parameter(torch.empty(relations, size.head_size))
        self.relation_value = nn.Parameter(torch.empty(relations, size.head_size))
        nn.init.xavier_normal_(self.relation_key)
        nn.init.xavier_normal_(self.relation_value)

    def work(self, plan: AttentionPlan) -> Work:
        """All pairs, and of every query as many pairs as there are relations."""
        pairs = all_pairs(plan.pattern, plan.batch)
        queries = pairs // plan.batch.input_ids.shape[1]
        return Work(pairs + queries * len(self.relation_key))

    def value_tables(self) -> tuple[Tensor, ...]:
        """The vectors that are added to values."""
        return (self.relation_value,)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Attend among the nodes of a batch: [P, 3, N, H] to [P, N, H].

        Raises:
            ConfigError: the batch has no relations.
        """
        query, key, value = plan.heads(qkv)
        ids = plan.derive("relation ids", find_relations).expand(-1, query.shape[1], -1, -1)
        scores = query @ key.transpose(-1, -2) + (query @ self.relation_key.T).gather(-1, ids)
        scores = scores / query.shape[-1] ** 0.5
        if key_bias is not None:
            scores = scores + plan.packing.unpack(key_bias)[:, None, None, :]
        weights = scores.masked_fill(~plan.mask, torch.finfo(scores.dtype).min).softmax(-1)
        return plan.pack_heads(self.gathered(drop(weights, dropout), value, ids))

    def gathered(self, weights: Tensor, value: Tensor, ids: Tensor) -> Tensor:
        """What weights [B, N, K, K] take of values [B, N, K, H] and of relations by their ids [B, N, K, K]."""
        shares = weights.new_zeros(*weights.shape[:-1], len(self.relation_value))
        return weights @ value + shares.scatter_add(-1, ids, weights) @ self.relation_value


def find_relations(plan: AttentionPlan) -> Tensor:
    """How node i is related to node j, in a plan's batch: Int64 [B, 1, K, K].

    Raises:
        ConfigError: nobody says.
    """
    if plan.batch.relations is None:
        raise ConfigError("these encodings relate nothing", where="encoding", remedy="Use encoding=schema")
    return plan.batch.relations.long()[:, None]
