"""Transformer-XH: texts side by side, whose first tokens hop along the edges of a graph.

Source: Zhao et al., "Transformer-XH: Multi-Evidence Reasoning with Extra Hop Attention", ICLR 2020;
microsoft/Transformer-XH, `model.py`, `model_hotpotqa.py`.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from mate_cli.attention.base import AttentionBackend
from mate_cli.attention.patterns import CandidateBlocks
from mate_cli.errors import ConfigError
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import LayerSpec
from mate_cli.papers.transformer_xh.arrays import RELATIONS
from mate_cli.papers.transformer_xh.models.hop import HOPS, Combination, Hop, HopForm, HopLayer
from mate_cli.tokenization.layout import TableBatch

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
        relation_bias: learn what each kind of relation adds to the scores of a head; not in the paper.

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
        relation_bias: bool = False,
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
        hopping = partial(HopLayer, hop=partial(HOPS[hop], biased=relation_bias), form=hop_form)
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
        hooks = [
            softmax.register_forward_hook(lambda _, __, weights: layer_weights.append(weights)) for softmax in softmaxes
        ]
        try:
            with torch.no_grad():
                self(batch)
        finally:
            for hook in hooks:
                hook.remove()
        return layer_weights
