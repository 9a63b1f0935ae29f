"""Transformer-XH: texts side by side, whose first tokens hop along the edges of a graph.

Source: Zhao et al., "Transformer-XH: Multi-Evidence Reasoning with Extra Hop Attention", ICLR 2020;
microsoft/Transformer-XH, `model.py`, `model_hotpotqa.py`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from mate_cli.attention.base import AttentionBackend, AttentionPlan
from mate_cli.attention.patterns import CandidateBlocks
from mate_cli.errors import ConfigError
from mate_cli.lit_modules.candidate_choice import first_tokens
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import EncoderLayer, LayerOptions, LayerSpec
from mate_cli.papers.transformer_xh.relations import RELATIONS
from mate_cli.tokenization.layout import TableBatch

SLOPE = 0.2
"""Slope of the leaky rectifier on additive scores."""
GAIN = 1.414
"""Gain of the normal distribution that the weights of graph attention are drawn from (Xavier's)."""

Combination = Literal["random", "identity"]
HopForm = Literal["after", "parallel"]
"""The states that hubs hop on: those that their layer has made (as released), or that it reads (as in the paper)."""


@dataclass(frozen=True)
class Nodes:
    """The graph of a batch, of K nodes in each example.

    Args:
        hubs: place of every hub in the packed stream, Int64 [hubs].
        slots: place of every hub among those of all examples, B * K, Int64 [hubs].
        visible: Bool [B, K, K], True where node i, which asks, relates to node j; one that relates to none sees itself.
    """

    hubs: Tensor
    slots: Tensor
    visible: Tensor

    def spread(self, values: Tensor) -> Tensor:
        """Return what belongs to hubs [hubs, D] to [B, K, D], zero where there is no node."""
        examples, count = self.visible.shape[:2]
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
    identity = torch.eye(count, dtype=torch.bool, device=node.device)
    visible = real[:, :, None] & real[:, None] & ~identity
    if stated is not None:
        size = stated.shape[1]
        related = torch.zeros_like(visible)
        related[:, :size, :size] = stated > 0
        visible &= related
    alone = ~visible.any(-1, keepdim=True)
    places = (batch.attention_mask.flatten().cumsum(0) - 1).view_as(batch.attention_mask)
    return Nodes(places[example, token], example * count + node, visible | (alone & identity))


class EdgeSoftmax(nn.Module):
    """The weights of what each node sees, which sum to one."""

    def forward(self, scores: Tensor, visible: Tensor) -> Tensor:
        """Return the scores [B, N, K, K] of node i for node j to weights, 0 where it is not seen [B, K, K]."""
        masked = scores.float().masked_fill(~visible[:, None], torch.finfo(torch.float32).min)
        return masked.softmax(-1).to(scores.dtype)


class Hop(nn.Module, ABC):
    """Attention among the hubs of a graph."""

    def __init__(self, size: EncoderSize) -> None:
        super().__init__()
        self.shape = (size.num_heads, size.head_size)
        self.softmax = EdgeSoftmax()

    @abstractmethod
    def forward(self, hubs: Tensor, nodes: Nodes) -> Tensor:
        """Return what the hubs [hubs, D] find where they hop, [hubs, D]."""

    def heads(self, hubs: Tensor, nodes: Nodes) -> Tensor:
        """Map [hubs, D] to [B, N, K, H]."""
        spread = nodes.spread(hubs)
        return spread.view(*spread.shape[:2], *self.shape).transpose(1, 2)


class GatHop(Hop):
    """A graph attention network, as released: scores are sums, and all heads share one projection.

    Of head h, with f = W h and the source s and destination t: the score is LeakyReLU(u . f_s + w . f_t), the result
    ReLU(sum of weight * f_s + R h_t). Dropout, which the released code has and never applies, is left out.
    """

    def __init__(self, size: EncoderSize) -> None:
        super().__init__(size)
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
        weights = self.softmax(leaky_relu(source[:, :, None] + destination[..., None], SLOPE), nodes.visible)
        output = (weights @ told + states @ self.residual.T).relu()
        return nodes.gather(output.transpose(1, 2).flatten(2))


class DotHop(Hop):
    """Scaled dot products of queries and keys of their own, as in the paper, and a dense layer on the values."""

    def __init__(self, size: EncoderSize) -> None:
        super().__init__(size)
        width = size.hidden_size
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(self, hubs: Tensor, nodes: Nodes) -> Tensor:
        """Return what the hubs find, see `Hop`."""
        query, key, value = (self.heads(layer(hubs), nodes) for layer in (self.query, self.key, self.value))
        weights = self.softmax(query @ key.transpose(-1, -2) / self.shape[1] ** 0.5, nodes.visible)
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


HOP = {"fc.weight": "projection", "res_fc.weight": "residual", "attn_l": "source", "attn_r": "destination"}
"""Names of the parameters of a graph layer; `attn_l` goes with the source of an edge."""
GRAPH_LAYER = re.compile(r"encoder\.graph_layers\.(\d+)\.(.+)")
LINEAR_LAYER = re.compile(r"encoder\.linear_layer(\d+)\.(.+)")
LAYER = re.compile(r"encoder\.layer\.(\d+)\.")


def hop_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with our names of what hops; names without the prefix of the encoder."""
    numbers = [int(match[1]) for name in tensors if (match := GRAPH_LAYER.fullmatch(name))]
    if not numbers:
        return dict(tensors)
    layers = 1 + max((int(match[1]) for name in tensors if (match := LAYER.match(name))), default=-1)
    first = layers - (max(numbers) + 1)
    return {_hop_name(name, first): tensor for name, tensor in tensors.items()}


def _hop_name(name: str, first: int) -> str:
    if (match := GRAPH_LAYER.fullmatch(name)) and match[2] in HOP:
        return f"encoder.layer.{first + int(match[1])}.hop.{HOP[match[2]]}"
    if match := LINEAR_LAYER.fullmatch(name):  # these are counted from 1
        return f"encoder.layer.{first + int(match[1]) - 1}.combine.{match[2]}"
    return name


RELEASED_HOPS = 3
"""Layers that hop in the released code, the last ones."""


class TransformerXh(TableEncoder):
    """BERT over the nodes of a graph, each read by itself, with hops between nodes after its last layers.

    Args:
        hop: "gat", the released code's graph attention; "dot", the paper's dot products.
        hop_form: "after", as released: hubs hop on the states of their layer; "parallel", as in the paper: on those of
            the layer before, which attention within the texts reads too.
        hop_layers: in how many layers, the last ones, hubs hop: what is so many steps away reaches a node. None for
            three, or all where there are fewer; of the parallel form, for all.
        combine: how the mixture of a hub and of what it found begins: "random" as released; "identity" leaves the hub
            as it was and adds what it found.

    Raises:
        ConfigError: there are not so many layers.
    """

    arrays = (RELATIONS,)

    def __init__(
        self,
        size: str | EncoderSize,
        *,
        attention: AttentionBackend,
        hop: Literal["gat", "dot"] = "gat",
        hop_form: HopForm = "after",
        hop_layers: Annotated[int, Field(ge=0)] | None = None,
        combine: Combination = "random",
        **options: Any,
    ) -> None:
        shape = encoder_size(size)
        most = shape.num_layers if hop_form == "parallel" else RELEASED_HOPS
        hops = min(most, shape.num_layers) if hop_layers is None else hop_layers
        if hops > shape.num_layers:
            raise ConfigError(
                f"hops after layers {hops} do not fit {shape.num_layers} layers",
                where="model.hop_layers",
                remedy=f"Use at most {shape.num_layers}, or another model.size",
            )
        pattern = CandidateBlocks(shape.num_heads)
        hopping = partial(HopLayer, hop=HOPS[hop], form=hop_form)
        layers = [LayerSpec(pattern, attention)] * (shape.num_layers - hops)
        layers += [LayerSpec(pattern, attention, hopping)] * hops
        super().__init__(size, layers, token_types=("segment_ids",), **options)
        if combine == "identity":
            for layer in self.hopping_layers:
                layer.initialize_hop()

    @classmethod
    def standard_names(cls, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the tensors with our names of what hops, see `hop_names`."""
        return hop_names(tensors)

    @property
    def hopping_layers(self) -> list[HopLayer]:
        """The layers after which hubs hop."""
        return [layer for layer in self.layers if isinstance(layer, HopLayer)]

    def edge_weights(self, batch: TableBatch) -> list[Tensor]:
        """Return how much of each node every node takes in each layer that hops: [B, N, K, K], each."""
        layer_weights: list[Tensor] = []
        softmaxes = [module.softmax for module in self.modules() if isinstance(module, Hop)]
        with torch.no_grad(), ExitStack() as hooks:
            for softmax in softmaxes:
                hooks.enter_context(softmax.register_forward_hook(lambda *call: layer_weights.append(call[-1])))
            self(batch)
        return layer_weights
