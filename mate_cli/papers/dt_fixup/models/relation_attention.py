"""Relation-aware attention among nodes, with learned relation vectors for keys and values.

Source: Shaw et al., "Self-Attention with Relative Position Representations", NAACL 2018; Wang et al., "RAT-SQL", ACL
2020, equation 1; Xu et al., "Optimizing Deeper Transformers on Small Datasets", ACL 2021, section 2.1.
"""

import ctypes
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop

from mate_cli.attention.backends.native import native_kernels
from mate_cli.attention.base import Attention, AttentionPlan, Work, attention_dtype
from mate_cli.attention.patterns import all_pairs
from mate_cli.errors import ConfigError
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.papers.dt_fixup.schema.relations import NODE_RELATIONS


@dataclass(frozen=True)
class NodeRelations:
    """The relations of the nodes of a batch, and the mask of nodes.

    Args:
        ids: relation of node i (query) to node j (key), UInt8 [B, K, K].
        real: UInt8 [B, K], 1 for nodes, 0 for padding.
    """

    ids: Tensor
    real: Tensor

    @cached_property
    def index(self) -> Tensor:
        """The relations as torch indices, Int64 [B, 1, K, K]."""
        return self.ids.long()[:, None]


class _Problem(ctypes.Structure):
    """Arguments of both kernels. The fields must match `Relate` in native_cpp/relate.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("examples", "heads", "nodes", "relations", "threads")),
        *((name, ctypes.c_void_p) for name in ("ids", "real")),
    )


def _call(name: str, related: NodeRelations, of_relations: Tensor, *tensors: Tensor) -> None:
    """Run a kernel on contiguous tensors. ctypes releases the GIL."""
    examples, heads, nodes, relations = of_relations.shape
    pointers = [tensor.data_ptr() for tensor in (related.ids, related.real)]
    problem = _Problem(examples, heads, nodes, relations, torch.get_num_threads(), *pointers)
    getattr(native_kernels(), name)(ctypes.byref(problem), *(ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors))


class RelationAttention(nn.Module, Attention):
    """Attention of one layer whose heads share two vectors, rK and rV, per relation.

    The score of node i for node j is q_i . (k_j + rK) / sqrt(H), and the output of i is the weighted sum of v_j + rV.
    rK and rV belong to the relation of i to j. No [K, K, H] tensor is created. Queries are multiplied with all relation
    vectors before the scores are gathered, and weights are summed by relation before they are multiplied with rV.
    """

    among_tokens, takes_key_bias = False, False

    def __init__(self, size: EncoderSize, relations: int) -> None:
        super().__init__()
        self.relation_key = nn.Parameter(torch.empty(relations, size.head_size))
        self.relation_value = nn.Parameter(torch.empty(relations, size.head_size))
        nn.init.xavier_normal_(self.relation_key)
        nn.init.xavier_normal_(self.relation_value)

    def work(self, plan: AttentionPlan) -> Work:
        """Count all query-key pairs, plus one pair per query and relation."""
        pairs = all_pairs(plan.pattern, plan.batch)
        queries = pairs // plan.batch.input_ids.shape[1]
        return Work(pairs + queries * len(self.relation_key))

    def value_tables(self) -> tuple[Tensor, ...]:
        """Return the relation vectors of values."""
        return (self.relation_value,)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Attend among the nodes of a batch: [P, 3, N, H] to [P, N, H].

        Args:
            qkv: queries, keys and values [P, 3, N, H].
            plan: plan of a batch of nodes.
            key_bias: unused.
            dropout: dropout probability of the weights.

        Raises:
            ConfigError: the batch has no relations.
        """
        related = plan.derive("relations", find_relations)
        query, key, value = plan.heads(qkv)
        of_keys, of_values = self.relation_key.to(qkv.dtype), self.relation_value.to(qkv.dtype)
        suits_kernels = qkv.device.type == "cpu" and attention_dtype(qkv) == torch.float32
        if dropout or not suits_kernels or native_kernels() is None:
            return plan.pack_heads(attend_in_steps(query, key, value, of_keys, of_values, related, dropout))
        output: Tensor = _Attend.apply(query, key, value, of_keys, of_values, related)  # type: ignore[no-untyped-call]
        return plan.pack_heads(output)


def attend_in_steps(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    relation_key: Tensor,
    relation_value: Tensor,
    related: NodeRelations,
    dropout: float,
) -> Tensor:
    """Attend with PyTorch operations, to [B, N, K, H].

    Args:
        query: queries [B, N, K, H].
        key: keys [B, N, K, H].
        value: values [B, N, K, H].
        relation_key: relation vectors of keys [R, H].
        relation_value: relation vectors of values [R, H].
        related: relations and mask of the nodes.
        dropout: dropout probability of the weights.
    """
    ids = related.index.expand(-1, query.shape[1], -1, -1)
    query = query / query.shape[-1] ** 0.5
    scores = query @ key.transpose(-1, -2) + (query @ relation_key.T).gather(-1, ids)
    hidden = ~related.real.bool()[:, None, None]
    weights = drop(scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1), dropout)
    sums = weights.new_zeros(*weights.shape[:-1], len(relation_value)).scatter_add(-1, ids, weights)
    return weights @ value + sums @ relation_value


class _Attend(torch.autograd.Function):
    """Attention by native kernels.

    Saves projections, weights and weight sums for the gradient.
    """

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:  # noqa: ANN401 - torch's own context
        query, key, value, relation_key, relation_value, related = arguments
        query = query / query.shape[-1] ** 0.5
        weights, of_relations = query @ key.transpose(-1, -2), query @ relation_key.T
        sums = torch.empty_like(of_relations)
        _call("mate_relate", related, of_relations, weights, of_relations, sums)  # overwrites the scores with weights
        ctx.save_for_backward(query, key, value, relation_key, relation_value, weights, sums)
        ctx.related = related
        return weights @ value + sums @ relation_value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own context
        query, key, value, relation_key, relation_value, weights, sums = ctx.saved_tensors
        of_scores, of_sums = gradient @ value.transpose(-1, -2), gradient @ relation_value.T
        of_relations = torch.empty_like(of_sums)
        _call("mate_relate_backward", ctx.related, of_sums, weights, of_scores, of_sums, of_relations)
        of_query = (of_scores @ key + of_relations @ relation_key) / query.shape[-1] ** 0.5
        of_key = of_scores.transpose(-1, -2) @ query
        of_value = weights.transpose(-1, -2) @ gradient
        of_tables = (_summed(by_relation, states) for by_relation, states in ((of_relations, query), (sums, gradient)))
        return of_query, of_key, of_value, *of_tables, None


def _summed(by_relation: Tensor, states: Tensor) -> Tensor:
    """Return the gradient of a relation table: [B, N, K, R] and [B, N, K, H] to [R, H]."""
    return by_relation.flatten(0, 2).T @ states.flatten(0, 2)


def find_relations(plan: AttentionPlan) -> NodeRelations:
    """Return the relations of the nodes of a plan's batch.

    Raises:
        ConfigError: the batch has no relations.
    """
    batch = plan.batch
    if NODE_RELATIONS not in batch.more:
        raise ConfigError("these encodings have no relations", where="encoding", remedy="Use encoding=schema")
    return NodeRelations(batch.more[NODE_RELATIONS].to(torch.uint8), batch.attention_mask.to(torch.uint8))
