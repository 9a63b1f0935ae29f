"""The condition of theorem 3.2 of DT-Fixup, measured: what bounds the change of a single layer by one step of SGD.

A layer of N may change by about 1/N. Without relations the squares of equation 8, |v x|^2 + |w x|^2, are added up over
both sub-layers; with them they are those of equation 7. As the theorem speaks of numbers, a matrix counts as the factor
by which it lengthens a vector of random direction, and a table of relations as the length of what it adds to a value.

Source: Xu et al., "Optimizing Deeper Transformers on Small Datasets", ACL 2021, section 3.2 and appendix B.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from mate_cli.models.initialization.schemes import asking, scaled_weights
from mate_cli.models.layers.encoder import EncoderLayer


def layer_bound(network: nn.Module, layers: Sequence[EncoderLayer], run: Callable[[], object]) -> float:
    """N times the left side of the theorem's condition, the largest of all layers; about 1 where all is as it demands.

    Args:
        network: that the layers are part of.
        layers: N of them.
        run: runs the network once.
    """
    given: dict[nn.Module, float] = {}
    inputs = [(layer.attention["self"], layer.intermediate["dense"]) for layer in layers]
    hooks = [
        module.register_forward_pre_hook(lambda module, args: given.update({module: _longest(args[0])}))
        for pair in inputs
        for module in pair
    ]
    try:
        with asking(network):
            run()
    finally:
        for hook in hooks:
            hook.remove()
    bounds = [_bound(layer, *(given[module] for module in pair)) for layer, pair in zip(layers, inputs, strict=True)]
    return len(layers) * max(bounds)


def _bound(layer: EncoderLayer, attended: float, fed: float) -> float:
    """The left side of the condition for a layer, of inputs of its attention and of its feed-forward layer so long."""
    value, output, inner, outer, *tables = scaled_weights(layer)
    v, w, v_inner, w_outer = map(_factor, (value, output, inner, outer))
    added = sum(float(table.detach().square().sum(-1).mean()) * layer.spec.pattern.num_heads for table in tables) ** 0.5
    of_attention = (v * attended + added) ** 2 + w**2 * (attended**2 + bool(tables))
    return of_attention + (v_inner**2 + w_outer**2) * fed**2


def _factor(matrix: Tensor) -> float:
    """How much longer a matrix [out, in] makes a vector, the root of the mean square over directions."""
    return float(matrix.detach().square().sum() / matrix.shape[1]) ** 0.5


def _longest(states: Tensor) -> float:
    return float(torch.linalg.vector_norm(states, dim=-1).max())
