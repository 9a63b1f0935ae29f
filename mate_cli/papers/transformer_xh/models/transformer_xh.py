"""Transformer-XH: parallel texts whose first tokens hop along the edges of a graph.

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
"""Negative slope of the leaky ReLU on additive attention scores."""
GAIN = 1.414
"""Gain of the Xavier normal initialization of the graph attention weights."""

Combination = Literal["random", "identity"]
HopForm = Literal["after", "parallel"]
"""Input of the hop.

"after", as released: the output of the hub's layer. "parallel", as in the paper: the input of the hub's layer.
"""


@dataclass(frozen=True)
class Nodes:
    """The graph of a batch: K nodes per example, each represented by its first token (hub).

    Args:
        hubs: index of every hub in the packed stream, Int64 [hubs].
        slots: index of every hub among the B * K nodes of all examples, Int64 [hubs].
        visible: Bool [B, K, K], True if node i (query) attends to node j. A node without relations attends to itself.
    """

    hubs: Tensor
    slots: Tensor
    visible: Tensor

    def spread(self, values: Tensor) -> Tensor:
        """Copy each hub token's value to its node, [hubs, D] to [B, K, D], zeros for padding.

        A hub token is the first token of a node.
        """
        examples, count = self.visible.shape[:2]
        empty = values.new_zeros(examples * count, values.shape[-1])
        return empty.index_copy(0, self.slots, values).view(examples, count, -1)

    def gather(self, values: Tensor) -> Tensor:
        """Gather the values of hub tokens [hubs, D] from the values of all nodes [B, K, D]."""
        return values.flatten(0, 1).index_select(0, self.slots)


def find_nodes(plan: AttentionPlan) -> Nodes:
    """Find the graph nodes of each example in a batch, and the nodes each node may attend to.

    Without relations in the batch, every node attends to all other nodes.
    """
    batch = plan.batch
    example, token = first_tokens(batch)
    node = batch.row_ids[example, token] - 1
    max_count = int(node.max()) + 1 if len(node) else 1
    relations = batch.more.get(RELATIONS)
    count = max_count if relations is None else max(max_count, relations.shape[1])
    is_node = torch.zeros(len(batch.row_ids), count, dtype=torch.bool, device=node.device)
    is_node[example, node] = True
    identity = torch.eye(count, dtype=torch.bool, device=node.device)
    visible = is_node[:, :, None] & is_node[:, None] & ~identity
    if relations is not None:
        size = relations.shape[1]
        is_related = torch.zeros_like(visible)
        is_related[:, :size, :size] = relations > 0
        visible &= is_related
    alone = ~visible.any(-1, keepdim=True)
    positions = (batch.attention_mask.flatten().cumsum(0) - 1).view_as(batch.attention_mask)
    return Nodes(positions[example, token], example * count + node, visible | (alone & identity))


class EdgeSoftmax(nn.Module):
    """Softmax over the nodes that each node attends to."""

    def forward(self, scores: Tensor, visible: Tensor) -> Tensor:
        """Map scores [B, N, K, K] of node i for node j to weights of the same shape.

        A weight is 0 where `visible` [B, K, K] is False.
        """
        masked = scores.float().masked_fill(~visible[:, None], torch.finfo(torch.float32).min)
        return masked.softmax(-1).to(scores.dtype)


class Hop(nn.Module, ABC):
    """Base class of attention between the nodes of a graph, computed on their hub tokens.

    The hub of a node is its first token.
    """

    def __init__(self, size: EncoderSize) -> None:
        super().__init__()
        self.shape = (size.num_heads, size.head_size)
        self.softmax = EdgeSoftmax()

    @abstractmethod
    def forward(self, hubs: Tensor, nodes: Nodes) -> Tensor:
        """Compute attention between the first tokens ("hubs") of linked nodes, [hubs, D]."""

    def heads(self, hubs: Tensor, nodes: Nodes) -> Tensor:
        """Scatter hub states to nodes and split them into attention heads, [B, N, K, H].

        The input is [hubs, D].
        """
        spread = nodes.spread(hubs)
        return spread.view(*spread.shape[:2], *self.shape).transpose(1, 2)


class GatHop(Hop):
    """Graph attention (GAT) as released: additive scores and one projection for all heads.

    For head h with f = W h, source s and destination t, the score is LeakyReLU(u . f_s + w . f_t) and the output is
    ReLU(sum of weight * f_s + R h_t). Dropout is omitted because the released code defines it but never applies it.
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
        """Compute graph attention (GAT) between the first tokens of linked nodes, [hubs, D]."""
        states = self.heads(hubs, nodes)
        projected = states @ self.projection.T
        source, destination = (
            (projected * vector.transpose(0, 1)).sum(-1) for vector in (self.source, self.destination)
        )
        weights = self.softmax(leaky_relu(source[:, :, None] + destination[..., None], SLOPE), nodes.visible)
        output = (weights @ projected + states @ self.residual.T).relu()
        return nodes.gather(output.transpose(1, 2).flatten(2))


class DotHop(Hop):
    """Scaled dot-product attention between linked nodes, computed on their hub tokens.

    Queries, keys, values and the output have separate projections.
    """

    def __init__(self, size: EncoderSize) -> None:
        super().__init__(size)
        width = size.hidden_size
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(self, hubs: Tensor, nodes: Nodes) -> Tensor:
        """Compute dot-product attention between the first tokens of linked nodes, [hubs, D]."""
        query, key, value = (self.heads(layer(hubs), nodes) for layer in (self.query, self.key, self.value))
        weights = self.softmax(query @ key.transpose(-1, -2) / self.shape[1] ** 0.5, nodes.visible)
        output: Tensor = self.output(nodes.gather((weights @ value).transpose(1, 2).flatten(2)))
        return output


HOPS: dict[str, type[Hop]] = {"gat": GatHop, "dot": DotHop}


class HopLayer(EncoderLayer):
    """Transformer layer whose hub outputs are combined with attention between nodes (a hop).

    Other tokens of the node attend to the combined hub in the next layer.

    Args:
        form: input of the hop, see `HopForm`.
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
        """Apply the transformer layer, then mix the hop output into the hub tokens, [P, D].

        A hub token is the first token of a node.
        """
        nodes, inputs = plan.derive("nodes", find_nodes), states
        states = super().forward(states, plan, key_bias)
        hubs = states.index_select(0, nodes.hubs)
        hopping = hubs if self.form == "after" else inputs.index_select(0, nodes.hubs)
        mixed = self.combine(torch.cat([self.hop(hopping, nodes), hubs], -1))
        return states.index_copy(0, nodes.hubs, mixed.to(states.dtype))

    def initialize_hop(self) -> None:
        """Initialize the layer that combines hop output and hub state as identity on the hub state.

        The weights of the hop output stay random.
        """
        width = self.combine.out_features
        with torch.no_grad():
            self.combine.weight[:, width:].copy_(torch.eye(width))


HOP = {"fc.weight": "projection", "res_fc.weight": "residual", "attn_l": "source", "attn_r": "destination"}
"""Parameter names of a graph layer. `attn_l` belongs to the source of an edge."""
GRAPH_LAYER = re.compile(r"encoder\.graph_layers\.(\d+)\.(.+)")
LINEAR_LAYER = re.compile(r"encoder\.linear_layer(\d+)\.(.+)")
LAYER = re.compile(r"encoder\.layer\.(\d+)\.")


def hop_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Map released tensors of hop layers, without their encoder prefix, to the parameter names of this network."""
    numbers = [int(match[1]) for name in tensors if (match := GRAPH_LAYER.fullmatch(name))]
    if not numbers:
        return dict(tensors)
    layers = 1 + max((int(match[1]) for name in tensors if (match := LAYER.match(name))), default=-1)
    first = layers - (max(numbers) + 1)
    return {_hop_name(name, first): tensor for name, tensor in tensors.items()}


def _hop_name(name: str, first: int) -> str:
    if (match := GRAPH_LAYER.fullmatch(name)) and match[2] in HOP:
        return f"encoder.layer.{first + int(match[1])}.hop.{HOP[match[2]]}"
    # The released names number linear layers from 1.
    if match := LINEAR_LAYER.fullmatch(name):
        return f"encoder.layer.{first + int(match[1]) - 1}.combine.{match[2]}"
    return name


RELEASED_HOPS = 3
"""Number of layers with hops in the released code, counted from the last layer."""


class TransformerXh(TableEncoder):
    """BERT that encodes each node of a graph separately, with hops between nodes at the end.

    Hops follow the last layers.

    Args:
        hop: "gat": graph attention of the released code; "dot": dot-product attention of the paper.
        hop_form: "after", as released: hubs hop on the output of their layer; "parallel", as in the paper: hubs hop on
            the output of the previous layer, which is also the input of attention within the texts.
        hop_layers: number of layers with hops, counted from the last layer. It limits the number of edges that
            information crosses. None: 3, or all layers if there are fewer; with the parallel form, all layers.
        combine: initialization of the layer that combines a hub with the output of its hop. "random": as released;
            "identity": adds the hop output to the unchanged hub.

    Raises:
        ConfigError: `hop_layers` exceeds the number of layers.
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
        default_hops = shape.num_layers if hop_form == "parallel" else RELEASED_HOPS
        hops = min(default_hops, shape.num_layers) if hop_layers is None else hop_layers
        if hops > shape.num_layers:
            problem = f"hops after layers {hops} do not fit {shape.num_layers} layers"
            hint = f"Use at most {shape.num_layers}, or another model.size"
            raise ConfigError(problem, where="model.hop_layers", remedy=hint)
        pattern = CandidateBlocks(shape.num_heads)
        hopping = partial(HopLayer, hop=HOPS[hop], form=hop_form)
        layers = [LayerSpec(pattern, attention)] * (shape.num_layers - hops)
        layers += [LayerSpec(pattern, attention, hopping)] * hops
        super().__init__(size, layers, token_types=("segment_ids",), **options)
        if combine == "identity":
            for layer in self.hopping_layers:
                layer.initialize_hop()

    @classmethod
    def convert_released_names(cls, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Rename the tensors of a released checkpoint to the parameters of this network.

        See `hop_names`.
        """
        return hop_names(tensors)

    @property
    def hopping_layers(self) -> list[HopLayer]:
        """Layers with attention between nodes (a hop), first layer first."""
        return [layer for layer in self.layers if isinstance(layer, HopLayer)]

    def edge_weights(self, batch: TableBatch) -> list[Tensor]:
        """Compute the attention weights of the hops between nodes, [B, N, K, K] for each hop layer."""
        layer_weights: list[Tensor] = []
        softmaxes = [module.softmax for module in self.modules() if isinstance(module, Hop)]
        with torch.no_grad(), ExitStack() as hooks:
            for softmax in softmaxes:
                hooks.enter_context(softmax.register_forward_hook(lambda *call: layer_weights.append(call[-1])))
            self(batch)
        return layer_weights
