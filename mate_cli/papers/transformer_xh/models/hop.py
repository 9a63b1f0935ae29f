"""Extra hops: the first token of a text, its hub, attends to the hubs of the texts that it relates to.

Source: Zhao et al., "Transformer-XH: Multi-Evidence Reasoning with Extra Hop Attention", ICLR 2020, equations 8 and 9;
microsoft/Transformer-XH, `model.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from mate_cli.attention.base import AttentionPlan
from mate_cli.lit_modules.candidate_choice import first_tokens
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.layers.encoder import EncoderLayer, LayerOptions, LayerSpec
from mate_cli.papers.transformer_xh.arrays import RELATIONS
from mate_cli.papers.transformer_xh.relations import KINDS

SLOPE = 0.2
"""Slope of the leaky rectifier on additive scores."""
GAIN = 1.414
"""Gain of the normal distribution that the weights of graph attention are drawn from (Xavier's)."""
EVERY = KINDS.index("all") + 1

Combination = Literal["random", "identity"]
HopForm = Literal["after", "parallel"]
"""The states that hubs hop on: those that their layer has made (as released), or that it reads (as in the paper)."""


@dataclass(frozen=True)
class Nodes:
    """The graph of a batch, of K nodes in each example.

    Args:
        hubs: place of every hub in the packed stream, Int64 [hubs].
        slots: place of every hub among those of all examples, B * K, Int64 [hubs].
        relations: how node i, which asks, relates to node j, which is asked, Int64 [B, K, K].
        visible: Bool [B, K, K], True where it does; a node that relates to none sees itself.
    """

    hubs: Tensor
    slots: Tensor
    relations: Tensor
    visible: Tensor

    def spread(self, values: Tensor) -> Tensor:
        """Return what belongs to hubs [hubs, D] to [B, K, D], zero where there is no node."""
        examples, count = self.relations.shape[:2]
        empty = values.new_zeros(examples * count, values.shape[-1])
        return empty.index_copy(0, self.slots, values).view(examples, count, -1)

    def gather(self, values: Tensor) -> Tensor:
        """Return what belongs to nodes [B, K, D] to [hubs, D]."""
        return values.flatten(0, 1).index_select(0, self.slots)


def find_nodes(plan: AttentionPlan) -> Nodes:
    """Return the graph of a plan's batch; without relations every node relates to every other."""
    batch = plan.batch
    example, token = first_tokens(batch)
    node = batch.row_ids[example, token] - 1
    most = int(node.max()) + 1 if len(node) else 1
    stated = batch.more.get(RELATIONS)
    count = most if stated is None else max(most, stated.shape[1])
    real = torch.zeros(len(batch.row_ids), count, dtype=torch.bool, device=node.device)
    real[example, node] = True
    between = real[:, :, None] & real[:, None] & ~torch.eye(count, dtype=torch.bool, device=node.device)
    relations = between.long() * EVERY
    if stated is not None:
        size = stated.shape[1]
        relations = torch.zeros_like(relations)
        relations[:, :size, :size] = stated
        relations *= between
    visible = relations > 0
    alone = ~visible.any(-1, keepdim=True)
    places = (batch.attention_mask.flatten().cumsum(0) - 1).view_as(batch.attention_mask)
    identity = torch.eye(count, dtype=torch.bool, device=node.device)
    return Nodes(places[example, token], example * count + node, relations, visible | (alone & identity))


class EdgeSoftmax(nn.Module):
    """The weights of what each node sees, which sum to one."""

    def forward(self, scores: Tensor, visible: Tensor) -> Tensor:
        """Return the scores [B, N, K, K] of node i for node j to weights, 0 where it is not seen [B, K, K]."""
        masked = scores.float().masked_fill(~visible[:, None], torch.finfo(torch.float32).min)
        return masked.softmax(-1).to(scores.dtype)


class Hop(nn.Module, ABC):
    """Attention among the hubs of a graph.

    Args:
        biased: learn what each kind of relation adds to the score of a head; zero at first.
    """

    def __init__(self, size: EncoderSize, *, biased: bool = False) -> None:
        super().__init__()
        self.shape = (size.num_heads, size.head_size)
        self.softmax = EdgeSoftmax()
        self.bias = nn.Parameter(torch.zeros(len(KINDS) + 1, size.num_heads)) if biased else None

    @abstractmethod
    def forward(self, hubs: Tensor, nodes: Nodes) -> Tensor:
        """Return what the hubs [hubs, D] find where they hop, [hubs, D]."""

    def weights(self, scores: Tensor, nodes: Nodes) -> Tensor:
        """Return weights of scores, both [B, N, K, K]."""
        if self.bias is not None:
            scores = scores + self.bias[nodes.relations].permute(0, 3, 1, 2)
        weights: Tensor = self.softmax(scores, nodes.visible)
        return weights

    def heads(self, hubs: Tensor, nodes: Nodes) -> Tensor:
        """Map [hubs, D] to [B, N, K, H]."""
        spread = nodes.spread(hubs)
        return spread.view(*spread.shape[:2], *self.shape).transpose(1, 2)


class GatHop(Hop):
    """A graph attention network, as released: scores are sums, and all heads share one projection.

    Of head h, with f = W h and the source s and destination t: the score is LeakyReLU(u . f_s + w . f_t), the result
    ReLU(sum of weight * f_s + R h_t). Dropout, which the released code has and never applies, is left out.

    The arguments are those of `Hop`.
    """

    def __init__(self, size: EncoderSize, *, biased: bool = False) -> None:
        super().__init__(size, biased=biased)
        self.projection = nn.Parameter(torch.empty(size.head_size, size.head_size))
        self.residual = nn.Parameter(torch.empty(size.head_size, size.head_size))
        self.source = nn.Parameter(torch.empty(1, *self.shape))
        self.destination = nn.Parameter(torch.empty(1, *self.shape))
        for weight in (self.projection, self.residual, self.source, self.destination):
            nn.init.xavier_normal_(weight, gain=GAIN)

    def forward(self, hubs: Tensor, nodes: Nodes) -> Tensor:
        """Return what the hubs find, see `Hop`."""
        states = self.heads(hubs, nodes)
        told = states @ self.projection.T
        source, destination = ((told * vector.transpose(0, 1)).sum(-1) for vector in (self.source, self.destination))
        weights = self.weights(leaky_relu(source[:, :, None] + destination[..., None], SLOPE), nodes)
        output = (weights @ told + states @ self.residual.T).relu()
        return nodes.gather(output.transpose(1, 2).flatten(2))


class DotHop(Hop):
    """Scaled dot products of queries and keys of their own, as in the paper, and a dense layer on the values.

    The arguments are those of `Hop`.
    """

    def __init__(self, size: EncoderSize, *, biased: bool = False) -> None:
        super().__init__(size, biased=biased)
        width = size.hidden_size
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(self, hubs: Tensor, nodes: Nodes) -> Tensor:
        """Return what the hubs find, see `Hop`."""
        query, key, value = (self.heads(layer(hubs), nodes) for layer in (self.query, self.key, self.value))
        weights = self.weights(query @ key.transpose(-1, -2) / self.shape[1] ** 0.5, nodes)
        output: Tensor = self.output(nodes.gather((weights @ value).transpose(1, 2).flatten(2)))
        return output


HOPS: dict[str, type[Hop]] = {"gat": GatHop, "dot": DotHop}


class HopLayer(EncoderLayer):
    """A layer after which every hub becomes a mixture of itself and of what it found where it hops.

    Other tokens see the new hub in the next layer.

    Args:
        form: see `HopForm`.
    """

    def __init__(
        self,
        size: EncoderSize,
        spec: LayerSpec,
        options: LayerOptions,
        *,
        hop: Callable[[EncoderSize], Hop],
        form: HopForm = "after",
    ) -> None:
        super().__init__(size, spec, options)
        self.form = form
        self.hop = hop(size)
        self.combine = nn.Linear(2 * size.hidden_size, size.hidden_size)

    def forward(self, states: Tensor, plan: AttentionPlan, key_bias: Tensor | None) -> Tensor:
        """Map states [P, D] to states [P, D]."""
        nodes, before = plan.derive("nodes", find_nodes), states
        states = super().forward(states, plan, key_bias)
        hubs = states.index_select(0, nodes.hubs)
        hopping = hubs if self.form == "after" else before.index_select(0, nodes.hubs)
        mixed = self.combine(torch.cat([self.hop(hopping, nodes), hubs], -1))
        return states.index_copy(0, nodes.hubs, mixed.to(states.dtype))

    def initialize_hop(self) -> None:
        """Let hubs begin as what their own text made them, beside what they find."""
        width = self.combine.out_features
        with torch.no_grad():
            self.combine.weight[:, width:].copy_(torch.eye(width))
