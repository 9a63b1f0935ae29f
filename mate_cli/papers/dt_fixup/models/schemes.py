"""Weight initialization of added layers: distribution, scale and LayerNorm position.

Sources: Xu et al., "Optimizing Deeper Transformers on Small Datasets", ACL 2021 (DT-Fixup); Huang et al., "Improving
Transformer Optimization Through Better Initialization", ICML 2020 (T-Fixup); Liu et al., "Understanding the Difficulty
of Training Transformers", EMNLP 2020 (ADMIN).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mate_cli.errors import ConfigError
from mate_cli.models.layers.added import DeepenedNetwork
from mate_cli.models.layers.encoder import EncoderLayer, Norm
from mate_cli.tokenization.layout import TableBatch


@dataclass(frozen=True)
class Scheme:
    """An initialization scheme, which rescales the weights of added transformer layers.

    All schemes start from Xavier initialization of matrices and torch's default for biases.

    Args:
        norm: position of the LayerNorms in the layers. With post or pre, one more LayerNorm follows the last layer.
        omega: if true, every sub-layer scales its residual input by learned weights.
        measure: returns measurements of the added layers of a network in eval mode.
        apply: changes initialized layers in place by the measurements, and returns a summary or "".
    """

    norm: Norm = "none"
    omega: bool = False
    measure: Callable[[DeepenedNetwork, Sequence[EncoderLayer], Iterable[TableBatch]], list[float]] = lambda *_: []
    apply: Callable[[Sequence[EncoderLayer], Sequence[float]], str] = lambda *_: ""


def scale_by_depth(layers: Sequence[EncoderLayer], _: Sequence[float]) -> str:
    """Scale value projections and subsequent layers by depth to the power of -1/4 (T-Fixup).

    The factor assumes small initial inputs. Outputs of other layers are not small, so the scheme fails in the paper of
    DT-Fixup.
    """
    factor = t_fixup_factor(len(layers))
    _scale(layers, factor)
    return f"factor {factor:.3g}"


def scale_by_norm(layers: Sequence[EncoderLayer], measurements: Sequence[float]) -> str:
    """Scale value projections and subsequent layers by depth and mu, the largest input norm (DT-Fixup).

    An update then changes the output by the same amount at any depth. The relation tables of values are scaled too.
    """
    (mu,) = measurements
    relational = any(layer.spec.backend.value_tables() for layer in layers)
    factor = (relational_factor if relational else vanilla_factor)(mu, len(layers))
    _scale(layers, factor)
    return f"mu {mu:.3g}, factor {factor:.3g}"


def measure_omegas(
    network: DeepenedNetwork, layers: Sequence[EncoderLayer], batches: Iterable[TableBatch]
) -> list[float]:
    """Compute the residual weights (omega) that Admin initializes, one per sub-layer.

    Omega is computed from the output variances of earlier sub-layers.

    Args:
        network: network that contains the layers.
        layers: the added layers.
        batches: batches of the training split.
    """
    variances = _variances(network, layers, batches)
    omegas: list[float] = (torch.tensor(variances, dtype=torch.float64)[:-1].cumsum(0) ** 0.5).tolist()
    return omegas


def set_omegas(layers: Sequence[EncoderLayer], omegas: Sequence[float]) -> str:
    """Set the residual weights of all sub-layers to the measured omegas (Admin)."""
    sub_layers = [sub_layer for layer in layers for sub_layer in layer.sub_layers]
    for sub_layer, omega in zip(sub_layers, omegas, strict=True):
        assert sub_layer.omega is not None
        sub_layer.omega.detach().fill_(omega)
    return f"omega {omegas[0]:.3g} to {omegas[-1]:.3g}"


SCHEMES: dict[str, Scheme] = {
    "standard": Scheme("post"),
    "dt_fixup": Scheme(measure=lambda network, _, batches: [mu_of(network, batches)], apply=scale_by_norm),
    "t_fixup": Scheme(apply=scale_by_depth),
    "admin": Scheme("post", omega=True, measure=measure_omegas, apply=set_omegas),
}
"""Schemes by name. "standard" is post-norm without scaling and requires warm-up."""


def find_scheme(name: str) -> Scheme:
    """Return the initialization scheme with this name, see `SCHEMES`.

    Raises:
        ConfigError: the name is unknown.
    """
    if name not in SCHEMES:
        hint = f"Choose from {', '.join(SCHEMES)}"
        raise ConfigError(f"unknown scheme {name!r}", where="model.extra.scheme", remedy=hint)
    return SCHEMES[name]


def vanilla_factor(mu: float, layers: int) -> float:
    """Compute the factor by which DT-Fixup scales the weights of N ordinary layers, N^(-1/2) / (2 mu)."""
    return layers**-0.5 / (2 * mu)


def relational_factor(mu: float, layers: int) -> float:
    """Compute the factor by which DT-Fixup scales the weights of N layers with relation vectors on values.

    The factor is (N (4 mu^2 + 2 mu + 2))^(-1/2).
    """
    return float((layers * (4 * mu**2 + 2 * mu + 2)) ** -0.5)


def t_fixup_factor(layers: int) -> float:
    """Compute the factor by which T-Fixup scales the weights of N encoder layers, 0.67 N^(-1/4)."""
    return 0.67 * layers**-0.25


def draw(module: nn.Module) -> None:
    """Initialize the matrices of a module with Xavier normal. Vectors and biases are unchanged.

    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010.
    """
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_normal_(parameter)


def scaled_weights(layer: EncoderLayer) -> list[Tensor]:
    """Return the weights of a layer that DT-Fixup and T-Fixup scale.

    These are the value projection, the relation tables of values, and three linear layers.
    """
    attended, output = layer.sub_layers
    value = layer.attention["self"].get_parameter("value.weight")
    intermediate = layer.intermediate["dense"].get_parameter("weight")
    return [value, attended.dense.weight, intermediate, output.dense.weight, *layer.spec.backend.value_tables()]


def mu_of(network: DeepenedNetwork, batches: Iterable[TableBatch]) -> float:
    """Compute mu of DT-Fixup: the largest L2 norm of the inputs of the added layers, in eval mode.

    The maximum is over all tokens of all batches, without padding.
    """
    with evaluation_mode(network):
        norms = [vectors.norm(dim=-1).max() for batch in batches for vectors in network.extra_inputs(batch)]
    if not norms:
        problem = "the scheme needs at least one training example"
        raise ConfigError(problem, where="model.extra.scheme", remedy="Add data")
    return float(torch.stack([norm.double().cpu() for norm in norms]).max())


@contextmanager
def evaluation_mode(network: object) -> Iterator[None]:
    """Run a network in eval mode without gradients, and restore its mode afterwards."""
    assert isinstance(network, nn.Module)
    training = network.training
    network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        network.train(training)


def _scale(layers: Iterable[EncoderLayer], factor: float) -> None:
    with torch.no_grad():
        for layer in layers:
            for weight in scaled_weights(layer):
                weight.mul_(factor)


def _variances(network: DeepenedNetwork, layers: Sequence[EncoderLayer], batches: Iterable[TableBatch]) -> list[float]:
    """Measure the mean variances of the input and of each sub-layer's output."""
    totals, counts = [0.0] * (2 * len(layers) + 1), [0] * (2 * len(layers) + 1)

    def add(index: int, states: Tensor) -> None:
        totals[index] += float(states.double().var(-1, correction=0).sum())
        counts[index] += len(states)

    sub_layers = [sub_layer for layer in layers for sub_layer in layer.sub_layers]
    with evaluation_mode(network), ExitStack() as hooks:
        hooks.enter_context(sub_layers[0].register_forward_pre_hook(lambda _, inputs: add(0, inputs[1])))
        for index, sub_layer in enumerate(sub_layers, 1):
            hook = sub_layer.dense.register_forward_hook(lambda _, __, output, index=index: add(index, output))
            hooks.enter_context(hook)
        for batch in batches:
            network(batch)
    return [total / max(1, count) for total, count in zip(totals, counts, strict=True)]
