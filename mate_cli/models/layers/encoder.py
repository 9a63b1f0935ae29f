"""An encoder whose attention is handed in, post-norm as in BERT by default; parameters are named as in BERT."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mate_cli.attention.base import Attention, AttentionBackend, AttentionPlan, Plans, attention_dtype
from mate_cli.attention.patterns import AttentionPattern
from mate_cli.errors import ConfigError
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.layers.embeddings import LAYER_NORM_EPSILON, FastDropout, is_plain


@dataclass(frozen=True)
class LayerSpec:
    """The properties in which a layer may differ from its neighbours.

    Args:
        pattern: what each of its heads may see.
        backend: how that is computed.
        layer: its class, or what makes it of the same arguments; None for the ordinary one.
    """

    pattern: AttentionPattern
    backend: Attention
    layer: Callable[[EncoderSize, LayerSpec, LayerOptions], EncoderLayer] | None = None

    @property
    def prepared(self) -> tuple[AttentionPattern, AttentionBackend | None]:
        """The pattern with what prepares batches for it: no backend where it belongs to the network's weights."""
        return self.pattern, self.backend if isinstance(self.backend, AttentionBackend) else None

    def build(self, size: EncoderSize, options: LayerOptions) -> EncoderLayer:
        """Make the layer, with random weights.

        Raises:
            ConfigError: the backend cannot compute the pattern.
        """
        self.backend.supports(self.pattern, options.attention_dropout)
        return (self.layer or EncoderLayer)(size, self, options)


Dropout = Annotated[float, Field(ge=0, lt=1)]
"""The probability of dropping a number."""
Norm = Literal["post", "pre", "none"]
"""The place of LayerNorms: after each sum LN(x + f(x)), before each sub-layer x + f(LN(x)), or nowhere."""


@dataclass(frozen=True)
class LayerOptions:
    """Options that all layers of a network share, besides their size.

    Args:
        activation: of the feed-forward layer; gelu in BERT, gelu_new (by tanh) in the TAPAS reference.
        norm: where the LayerNorms are; one that is not used does not exist.
        omega: learn a weight of what each sub-layer is added to, one at first: LN(omega * x + f(x)).
        projection_bias: queries, keys and values have one.
    """

    activation: str = "gelu"
    hidden_dropout: Dropout = 0.1
    attention_dropout: Dropout = 0.1
    norm: Norm = "post"
    omega: bool = False
    projection_bias: bool = True
    epsilon: float = LAYER_NORM_EPSILON


def attend(backend: Attention, *arguments: Any) -> Tensor:
    """Call a backend."""
    return backend.forward(*arguments)


class SelfAttention(nn.Module):
    """Projects to queries, keys and values, in layers named as in BERT, and lets the backend attend.

    Attributes:
        attend: calls the backend; outside of the graph where the layer is compiled.
    """

    attend: Callable[..., Tensor] = staticmethod(attend)

    def __init__(self, size: EncoderSize, backend: Attention, dropout: float, *, bias: bool = True) -> None:
        super().__init__()
        self.shape = (size.num_heads, size.head_size)
        self.backend, self.attention_dropout = backend, dropout
        self.query, self.key, self.value = (nn.Linear(size.hidden_size, size.hidden_size, bias=bias) for _ in range(3))

    def project(self, states: Tensor) -> Tensor:
        """Map states [P, D] to their queries, keys and values, [P, 3, N, H]."""
        states = states.to(attention_dtype(states))  # once: each layer would keep a copy of its own for the gradient
        layers = (self.query, self.key, self.value)
        if not all(is_plain(layer, nn.Linear) for layer in layers):
            return torch.stack([layer(states).unflatten(-1, self.shape) for layer in layers], 1)
        weight = torch.cat([layer.weight for layer in layers])
        bias = None if self.query.bias is None else torch.cat([layer.bias for layer in layers])
        return nn.functional.linear(states, weight, bias).view(*states.shape[:-1], 3, *self.shape)

    def forward(self, states: Tensor, plan: AttentionPlan, key_bias: Tensor | None) -> Tensor:
        """Map states [P, D] to the concatenated heads [P, D]."""
        dropout = self.attention_dropout if self.training else 0.0
        return self.attend(self.backend, self.project(states), plan, key_bias, dropout).flatten(1)


class ResidualOutput(nn.Module):
    """The end of a sub-layer: dense layer, dropout, and the sum with what came in before; and where the norm is."""

    def __init__(self, inputs: int, size: EncoderSize, options: LayerOptions) -> None:
        super().__init__()
        self.norm = options.norm
        self.dense = nn.Linear(inputs, size.hidden_size)
        if self.norm != "none":
            self.LayerNorm = nn.LayerNorm(size.hidden_size, eps=options.epsilon)
        self.omega = nn.Parameter(torch.ones(size.hidden_size)) if options.omega else None
        self.dropout = FastDropout(options.hidden_dropout)

    def before(self, states: Tensor) -> Tensor:
        """Return what the sub-layer is given of the states, both [P, D]: a norm of them, where the norm is before."""
        return self.LayerNorm(states) if self.norm == "pre" else states

    def forward(self, states: Tensor, residual: Tensor) -> Tensor:
        """Map [P, inputs] and [P, D] to [P, D]."""
        if self.omega is not None:
            residual = self.omega * residual
        total = self.dropout(self.dense(states)) + residual
        return self.LayerNorm(total) if self.norm == "post" else total


class EncoderLayer(nn.Module):
    """Attention and a feed-forward layer, each added to what it was given, each with a norm or none."""

    def __init__(self, size: EncoderSize, spec: LayerSpec, options: LayerOptions) -> None:
        super().__init__()
        self.size, self.spec = size, spec
        attention = SelfAttention(size, spec.backend, options.attention_dropout, bias=options.projection_bias)
        self.attention = nn.ModuleDict(
            {"self": attention, "output": ResidualOutput(size.hidden_size, size, options)},
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(size.hidden_size, size.intermediate_size)})
        self.activation = find_activation(options.activation)
        self.output = ResidualOutput(size.intermediate_size, size, options)

    @property
    def sub_layers(self) -> tuple[ResidualOutput, ResidualOutput]:
        """The ends of attention and of the feed-forward layer."""
        attended = self.attention["output"]
        assert isinstance(attended, ResidualOutput)
        return attended, self.output

    def forward(self, states: Tensor, plan: AttentionPlan, key_bias: Tensor | None) -> Tensor:
        """Map states [P, D] to states [P, D]."""
        attended, output = self.sub_layers
        arguments = attended.before(states), plan, key_bias
        states = attended(self.attention["self"](*arguments), states)
        return output(self.activation(self.intermediate["dense"](output.before(states))), states)


class Encoder(nn.Module):
    """Layers, one after the other."""

    def __init__(self, layers: Iterable[EncoderLayer], *, gradient_checkpointing: bool = False) -> None:
        super().__init__()
        self.layer = nn.ModuleList(layers)
        self.gradient_checkpointing = gradient_checkpointing

    @property
    def layers(self) -> list[EncoderLayer]:
        """The layers, in their order."""
        layers: Iterable[Any] = self.layer
        return list(layers)

    @property
    def specs(self) -> list[LayerSpec]:
        """The specification of each layer."""
        return [layer.spec for layer in self.layers]

    def forward(self, states: Tensor, plans: Plans, key_bias: Tensor | None = None) -> Tensor:
        """Map states [P, D] to states [P, D]; `key_bias` [P] is added to all scores of a key.

        Raises:
            ConfigError: there is one, and attention does not support it.
        """
        for spec in self.specs if key_bias is not None else ():
            if not spec.backend.takes_key_bias:
                problem = f"{type(spec.backend).__name__} does not support weights of single keys"
                raise ConfigError(problem, where="model", remedy="Use model=mate or tapas")
        record = getattr(_CALL, "record", None)
        for layer, spec in zip(self.layers, self.specs, strict=True):
            plan, before = plans[spec.pattern], states
            if self.gradient_checkpointing and torch.is_grad_enabled():
                states = checkpoint(layer, before, plan, key_bias, use_reentrant=False)
            else:
                states = layer(before, plan, key_bias)
            if record is not None:  # outside of what is computed again in the backward pass
                record(layer, before, states, plan, key_bias)
        return states


LayerRecord = Callable[[EncoderLayer, Tensor, Tensor, AttentionPlan, Tensor | None], None]
"""Receives a layer, the states before and after it, its plan, and the bias of keys."""
_CALL = threading.local()


@contextmanager
def record_layers(record: LayerRecord) -> Iterator[None]:
    """Hand over what each layer reads and returns; in this thread alone, as others may use the same network."""
    outer, _CALL.record = getattr(_CALL, "record", None), record
    try:
        yield
    finally:
        _CALL.record = outer


class Pooler(nn.Module):
    """The first token's state through a dense layer and tanh."""

    def __init__(self, size: EncoderSize) -> None:
        super().__init__()
        self.dense = nn.Linear(size.hidden_size, size.hidden_size)

    def forward(self, states: Tensor) -> Tensor:
        """Map [B, T, D] to [B, D]."""
        return self.dense(states[:, 0]).tanh()


class FirstState(nn.Module):
    """The first token's state as it is, in place of a `Pooler` that nothing would learn from."""

    def forward(self, states: Tensor) -> Tensor:
        """Map [B, T, D] to [B, D]."""
        return states[:, 0]


def find_activation(name: str) -> nn.Module:
    """Return the activation of this name in transformers.

    Raises:
        ConfigError: there is none of this name.
    """
    activations: dict[str, Callable[[], nn.Module]] = {
        "gelu": nn.GELU,
        "gelu_new": partial(nn.GELU, approximate="tanh"),
        "relu": nn.ReLU,
    }
    if name not in activations:
        raise ConfigError(
            f"unknown activation {name!r}",
            where="model.activation",
            remedy=f"Choose from {', '.join(activations)}",
        )
    return activations[name]()
