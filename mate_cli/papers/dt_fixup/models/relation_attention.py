"""Relation-aware attention among nodes, with learned relation vectors for keys and values.

Source: Shaw et al., "Self-Attention with Relative Position Representations", NAACL 2018; Wang et al., "RAT-SQL", ACL
2020, equation 1; Xu et al., "Optimizing Deeper Transformers on Small Datasets", ACL 2021, section 2.1.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop

from mate_cli.attention.base import Attention, AttentionPlan, Work
from mate_cli.attention.patterns import all_pairs
from mate_cli.errors import ConfigError
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.papers.dt_fixup.schema.relations import NODE_RELATIONS


class NodeRelations(NamedTuple):
    """Relation ids between the nodes of each example of a batch, and the node padding mask.

    Args:
        ids: relation of node i (query) to node j (key), Int64 [B, 1, K, K].
        hidden: Bool [B, 1, 1, K], true for padding.
    """

    ids: Tensor
    hidden: Tensor


class RelationAttention(nn.Module, Attention):
    """Attention of one layer with learned relation vectors, shared by all its heads.

    Each relation has a key vector rK and a value vector rV. The score of node i for node j is q_i . (k_j + rK) /
    sqrt(H), and the output of i is the weighted sum of v_j + rV. rK and rV belong to the relation of i to j. No [K, K,
    H] tensor is created. Queries are multiplied with all relation vectors before the scores are gathered, and weights
    are summed by relation before they are multiplied with rV.
    """

    among_tokens, takes_key_bias = False, False

    def __init__(self, size: EncoderSize, relations: int) -> None:
        super().__init__()
        self.relation_key = nn.Parameter(torch.empty(relations, size.head_size))
        self.relation_value = nn.Parameter(torch.empty(relations, size.head_size))
        nn.init.xavier_normal_(self.relation_key)
        nn.init.xavier_normal_(self.relation_value)

    def count_operations(self, plan: AttentionPlan) -> Work:
        """Count all query-key pairs, plus one pair per query and relation."""
        pairs = all_pairs(plan.pattern, plan.batch)
        queries = pairs // plan.batch.input_ids.shape[1]
        return Work(pairs + queries * len(self.relation_key))

    def value_tables(self) -> tuple[Tensor, ...]:
        """Return the relation vectors rV that attention adds to the values.

        DT-Fixup scales these vectors, too.
        """
        return (self.relation_value,)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Compute attention among the P nodes of a batch: projections [P, 3, N, H] to [P, N, H].

        Args:
            qkv: queries, keys and values [P, 3, N, H].
            plan: plan of a batch of nodes.
            key_bias: unused.
            dropout: dropout probability of the weights.

        Raises:
            ConfigError: the batch has no relations.
        """
        ids, hidden = plan.derive("relations", find_relations)
        query, key, value = plan.heads(qkv)
        ids, query = ids.expand(-1, query.shape[1], -1, -1), query / query.shape[-1] ** 0.5
        of_keys, of_values = self.relation_key.to(qkv.dtype), self.relation_value.to(qkv.dtype)
        scores = query @ key.transpose(-1, -2) + (query @ of_keys.T).gather(-1, ids)
        weights = drop(scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1), dropout)
        sums = weights.new_zeros(*weights.shape[:-1], len(of_values)).scatter_add(-1, ids, weights)
        return plan.pack_heads(weights @ value + sums @ of_values)


def find_relations(plan: AttentionPlan) -> NodeRelations:
    """Return the relation ids between nodes, and the padding mask, for the batch of an attention plan.

    Raises:
        ConfigError: the batch has no relations.
    """
    batch = plan.batch
    if NODE_RELATIONS not in batch.more:
        raise ConfigError("these encodings have no relations", where="encoding", remedy="Use encoding=schema")
    return NodeRelations(batch.more[NODE_RELATIONS].long()[:, None], batch.attention_mask[:, None, None] == 0)
