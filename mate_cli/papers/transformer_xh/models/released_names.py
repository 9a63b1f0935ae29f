"""The weights that the authors of Transformer-XH release, with the names of `TransformerXh`.

Their layers that hop are the last ones, in the order of their graph layers. What the weights of BERT are called stays,
and so do the names of heads, see `transformers_names` of the heads over nodes.

Source: microsoft/Transformer-XH, `model.py`, `model_hotpotqa.py`.
"""

import re
from collections.abc import Mapping

from torch import Tensor

HOP = {"fc.weight": "projection", "res_fc.weight": "residual", "attn_l": "source", "attn_r": "destination"}
"""Names of the parameters of a graph layer; `attn_l` goes with the source of an edge."""
GRAPH_LAYER = re.compile(r"encoder\.graph_layers\.(\d+)\.(.+)")
LINEAR_LAYER = re.compile(r"encoder\.linear_layer(\d+)\.(.+)")
LAYER = re.compile(r"encoder\.layer\.(\d+)\.")


def hop_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with our names of what hops; names without the prefix of the encoder."""
    numbers = [int(found[1]) for name in tensors if (found := GRAPH_LAYER.fullmatch(name))]
    if not numbers:
        return dict(tensors)
    layers = 1 + max((int(found[1]) for name in tensors if (found := LAYER.match(name))), default=-1)
    first = layers - (max(numbers) + 1)
    return {_hop_name(name, first): tensor for name, tensor in tensors.items()}


def _hop_name(name: str, first: int) -> str:
    if (found := GRAPH_LAYER.fullmatch(name)) and found[2] in HOP:
        return f"encoder.layer.{first + int(found[1])}.hop.{HOP[found[2]]}"
    if found := LINEAR_LAYER.fullmatch(name):  # these are counted from 1
        return f"encoder.layer.{first + int(found[1]) - 1}.combine.{found[2]}"
    return name
