"""Initialization of the layers that are added to a network: how they are drawn and scaled, and where their norms are.

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
    """A scheme for the first weights of added layers; all draw matrices by Xavier and leave biases as torch draws them.

    Args:
        norm: where the layers have their LayerNorms; with post or pre another one follows the last layer.
        omega: the layers weigh what a sub-layer is added to.
        measure: returns what the data say of layers that were added to a network in evaluation, in numbers.
        apply: changes drawn layers in place by what was measured; says what was done, or nothing.
    """

    norm: Norm = "none"
    omega: bool = False
    measure: Callable[[DeepenedNetwork, Sequence[EncoderLayer], Iterable[TableBatch]], list[float]] = lambda *_: []
    apply: Callable[[Sequence[EncoderLayer], Sequence[float]], str] = lambda *_: ""


def scale_by_depth(layers: Sequence[EncoderLayer], _: Sequence[float]) -> str:
    """Scale the weights of values and of what follows them by the depth alone, to the power of -1/4 (T-Fixup).

    It counts on inputs that are drawn small, which those from other layers are not: the paper of DT-Fixup has it fail.
    """
    factor = t_fixup_factor(len(layers))
    _scale(layers, factor)
    return f"factor {factor:.3g}"


def scale_by_norm(layers: Sequence[EncoderLayer], measured: Sequence[float]) -> str:
    """Scale the same by depth and mu, so that an update changes the output alike at any depth (DT-Fixup).

    The tables of relations that values have are scaled too.
    """
    (mu,) = measured
    relational = any(layer.spec.backend.value_tables() for layer in layers)
    factor = (relational_factor if relational else vanilla_factor)(mu, len(layers))
    _scale(layers, factor)
    return f"mu {mu:.3g}, factor {factor:.3g}"


def measure_omegas(
    network: DeepenedNetwork, layers: Sequence[EncoderLayer], batches: Iterable[TableBatch]
) -> list[float]:
    """Return the omega of each sub-layer, from the variances of what the ones before it add (Admin)."""
    variances = _variances(network, layers, batches)
    omegas: list[float] = (torch.tensor(variances, dtype=torch.float64)[:-1].cumsum(0) ** 0.5).tolist()
    return omegas


def set_omegas(layers: Sequence[EncoderLayer], measured: Sequence[float]) -> str:
    """Let what a sub-layer is added to weigh as much as all that was added to it before (Admin)."""
    ends = [end for layer in layers for end in layer.sub_layers]
    for end, omega in zip(ends, measured, strict=True):
        assert end.omega is not None
        end.omega.detach().fill_(omega)
    return f"omega {measured[0]:.3g} to {measured[-1]:.3g}"


SCHEMES: dict[str, Scheme] = {
    "standard": Scheme("post"),
    "dt_fixup": Scheme(measure=lambda network, _, batches: [mu_of(network, batches)], apply=scale_by_norm),
    "t_fixup": Scheme(apply=scale_by_depth),
    "admin": Scheme("post", omega=True, measure=measure_omegas, apply=set_omegas),
}
"""By name; "standard" leaves layers as they are drawn, each sub-layer followed by a norm, and wants a warm-up."""


def find_scheme(name: str) -> Scheme:
    """Return the scheme of this name.

    Raises:
        ConfigError: there is none.
    """
    if name not in SCHEMES:
        raise ConfigError(
            f"unknown scheme {name!r}", where="model.extra.scheme", remedy=f"Choose from {', '.join(SCHEMES)}"
        )
    return SCHEMES[name]


def vanilla_factor(mu: float, layers: int) -> float:
    """Return DT-Fixup's factor for N ordinary layers, N^(-1/2) / (2 mu)."""
    return layers**-0.5 / (2 * mu)


def relational_factor(mu: float, layers: int) -> float:
    """Return DT-Fixup's factor for N layers whose values know relations, (N (4 mu^2 + 2 mu + 2))^(-1/2)."""
    return float((layers * (4 * mu**2 + 2 * mu + 2)) ** -0.5)


def t_fixup_factor(layers: int) -> float:
    """Return T-Fixup's factor for N layers of an encoder, 0.67 N^(-1/4)."""
    return 0.67 * layers**-0.25


def draw(module: nn.Module) -> None:
    """Draw every matrix of a module by Xavier's normal distribution; vectors, biases among them, stay as they are.

    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010.
    """
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_normal_(parameter)


def scaled_weights(layer: EncoderLayer) -> list[Tensor]:
    """Return what factors multiply: the projection to values, tables of relations of values, and three dense layers."""
    attended, output = layer.sub_layers
    value = layer.attention["self"].get_parameter("value.weight")
    inner = layer.intermediate["dense"].get_parameter("weight")
    return [value, attended.dense.weight, inner, output.dense.weight, *layer.spec.backend.value_tables()]


def mu_of(network: DeepenedNetwork, batches: Iterable[TableBatch]) -> float:
    """Return the largest L2 norm of an input of the added layers, over all real tokens of all batches.

    Without dropout.
    """
    with evaluation_mode(network):
        norms = [vectors.norm(dim=-1).max() for batch in batches for vectors in network.extra_inputs(batch)]
    if not norms:
        raise ConfigError(
            "the scheme needs at least one training example", where="model.extra.scheme", remedy="Add data"
        )
    return float(torch.stack([norm.double().cpu() for norm in norms]).max())


@contextmanager
def evaluation_mode(network: object) -> Iterator[None]:
    """Ask a network without dropout and without gradients, and leave it as it was."""
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
    """Return the variance of what comes in, and of what each sub-layer adds, in order; means over tokens."""
    totals, counts = [0.0] * (2 * len(layers) + 1), [0] * (2 * len(layers) + 1)

    def add(place: int, states: Tensor) -> None:
        totals[place] += float(states.double().var(-1, correction=0).sum())
        counts[place] += len(states)

    ends = [end for layer in layers for end in layer.sub_layers]
    with evaluation_mode(network), ExitStack() as hooks:
        hooks.enter_context(ends[0].register_forward_pre_hook(lambda _, inputs: add(0, inputs[1])))
        for place, end in enumerate(ends, 1):
            hook = end.dense.register_forward_hook(lambda _, __, output, place=place: add(place, output))
            hooks.enter_context(hook)
        for batch in batches:
            network(batch)
    return [total / max(1, count) for total, count in zip(totals, counts, strict=True)]
