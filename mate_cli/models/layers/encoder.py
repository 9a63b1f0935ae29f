"""Transformer encoder with pluggable attention, post-norm by default.

Parameters are named as in BERT.
"""

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

LAYER_NORM_EPSILON = 1e-12
DROPOUT_STEPS = 1 << 16
"""Dropout probabilities are rounded to multiples of 1 / DROPOUT_STEPS."""


class FastDropout(nn.Dropout):
    """`nn.Dropout` that samples only 16 random bits per number on a CPU."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply dropout to a tensor in training, as `nn.Dropout` does."""
        if not (self.training and self.p and input.device.type == "cpu") or torch.compiler.is_compiling():
            return super().forward(input)
        dropped = min(round(self.p * DROPOUT_STEPS), DROPOUT_STEPS - 1)
        words = torch.empty((input.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
        numbers = words.view(torch.int16)[: input.numel()].view(input.shape)
        mask = torch.empty(input.shape, dtype=input.dtype)
        torch.ge(numbers, dropped - DROPOUT_STEPS // 2, out=mask)
        return input * mask.mul_(DROPOUT_STEPS / (DROPOUT_STEPS - dropped))


@dataclass(frozen=True)
class LayerSpec:
    """The specification of a transformer layer: attention pattern, attention backend and layer class.

    Args:
        pattern: attention pattern of the heads.
        backend: attention that computes the pattern.
        layer: class of the layer, or a function with the same arguments. None: `EncoderLayer`.
    """

    pattern: AttentionPattern
    backend: Attention
    layer: Callable[[EncoderSize, LayerSpec, LayerOptions], EncoderLayer] | None = None

    @property
    def prepared(self) -> tuple[AttentionPattern, AttentionBackend | None]:
        """Attention pattern, and the backend that plans batches (None if the attention has weights)."""
        return self.pattern, self.backend if isinstance(self.backend, AttentionBackend) else None

    def build(self, size: EncoderSize, options: LayerOptions) -> EncoderLayer:
        """Build the layer, with random weights.

        Raises:
            ConfigError: the backend cannot compute the pattern.
        """
        self.backend.supports(self.pattern, options.attention_dropout)
        return (self.layer or EncoderLayer)(size, self, options)


Dropout = Annotated[float, Field(ge=0, lt=1)]
"""Dropout probability."""
Norm = Literal["post", "pre", "none"]
"""Position of LayerNorms: after each sum, LN(x + f(x)), before each sub-layer, x + f(LN(x)), or none."""


@dataclass(frozen=True)
class LayerOptions:
    """Options that all layers of a network share, in addition to their size.

    Args:
        activation: activation of the feed-forward layer: gelu in BERT, gelu_new (tanh) in google-research/tapas.
        hidden_dropout: dropout probability after every dense layer.
        attention_dropout: dropout probability of attention weights.
        norm: position of the LayerNorms, or "none" for a layer without LayerNorms.
        omega: whether to learn a weight of the residual of each sub-layer, initialized to 1: LN(omega * x + f(x)).
        projection_bias: whether the projections to queries, keys and values have biases.
        epsilon: epsilon of the LayerNorms.
    """

    activation: str = "gelu"
    hidden_dropout: Dropout = 0.1
    attention_dropout: Dropout = 0.1
    norm: Norm = "post"
    omega: bool = False
    projection_bias: bool = True
    epsilon: float = LAYER_NORM_EPSILON


def attend(backend: Attention, *arguments: Any) -> Tensor:
    """Call `backend.forward`. `torch.compile` can exclude this function from the graph."""
    return backend.forward(*arguments)


def are_plain(kind: type[nn.Module], *modules: nn.Module) -> bool:
    """Return whether all modules have exactly the type `kind`, no hooks and no replaced `forward`.

    Only then may their weights be used without calling the modules.
    """
    return not any(
        type(module) is not kind
        or module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or "forward" in vars(module)
        for module in modules
    )


class SelfAttention(nn.Module):
    """Multi-head self-attention: projections as in BERT, followed by a configurable attention backend.

    Attributes:
        attend: function that calls the attention, outside of the graph if the layer is compiled.
    """

    attend: Callable[..., Tensor] = staticmethod(attend)

    def __init__(self, size: EncoderSize, backend: Attention, dropout: float, *, bias: bool = True) -> None:
        super().__init__()
        self.shape = (size.num_heads, size.head_size)
        self.backend, self.attention_dropout = backend, dropout
        self.query, self.key, self.value = (nn.Linear(size.hidden_size, size.hidden_size, bias=bias) for _ in range(3))

    def project(self, states: Tensor) -> Tensor:
        """Project hidden states [P, D] to queries, keys and values, [P, 3, N, H]."""
        # Cast once, because each of the three projections would otherwise store a separate copy for its gradient.
        states = states.to(attention_dtype(states))
        layers = (self.query, self.key, self.value)
        if not are_plain(nn.Linear, *layers):
            return torch.stack([layer(states).unflatten(-1, self.shape) for layer in layers], 1)
        weight = torch.cat([layer.weight for layer in layers])
        bias = None if self.query.bias is None else torch.cat([layer.bias for layer in layers])
        return nn.functional.linear(states, weight, bias).view(*states.shape[:-1], 3, *self.shape)

    def forward(self, states: Tensor, plan: AttentionPlan, key_bias: Tensor | None) -> Tensor:
        """Compute self-attention: the concatenated outputs of all attention heads, [P, D].

        Args:
            states: hidden states, [P, D].
            plan: attention plan of the batch.
            key_bias: bias added to the attention logits of every key, [P]. None: no bias.
        """
        dropout = self.attention_dropout if self.training else 0.0
        return self.attend(self.backend, self.project(states), plan, key_bias, dropout).flatten(1)


class ResidualOutput(nn.Module):
    """The end of an attention or feed-forward sub-layer: linear layer, dropout, residual and LayerNorm."""

    def __init__(self, inputs: int, size: EncoderSize, options: LayerOptions) -> None:
        super().__init__()
        self.norm = options.norm
        self.dense = nn.Linear(inputs, size.hidden_size)
        if self.norm != "none":
            self.LayerNorm = nn.LayerNorm(size.hidden_size, eps=options.epsilon)
        self.omega = nn.Parameter(torch.ones(size.hidden_size)) if options.omega else None
        self.dropout = FastDropout(options.hidden_dropout)

    def before(self, states: Tensor) -> Tensor:
        """Return the input of the sub-layer: the states [P, D], normalized if `norm` is "pre"."""
        return self.LayerNorm(states) if self.norm == "pre" else states

    def forward(self, states: Tensor, residual: Tensor) -> Tensor:
        """Project the sub-layer states [P, inputs], add the residual [P, D], and normalize with post-norm."""
        if self.omega is not None:
            residual = self.omega * residual
        total = self.dropout(self.dense(states)) + residual
        return self.LayerNorm(total) if self.norm == "post" else total


class EncoderLayer(nn.Module):
    """A transformer layer: self-attention and a feed-forward layer, with residuals and LayerNorms.

    Args:
        size: size of the encoder.
        spec: attention pattern and backend of the layer.
        options: activation, dropout and LayerNorm options, which all layers share.
    """

    def __init__(self, size: EncoderSize, spec: LayerSpec, options: LayerOptions) -> None:
        super().__init__()
        self.size, self.spec = size, spec
        attention = SelfAttention(size, spec.backend, options.attention_dropout, bias=options.projection_bias)
        self.attention = nn.ModuleDict({"self": attention, "output": ResidualOutput(size.hidden_size, size, options)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(size.hidden_size, size.intermediate_size)})
        self.activation = find_activation(options.activation)
        self.output = ResidualOutput(size.intermediate_size, size, options)

    @property
    def sub_layers(self) -> tuple[ResidualOutput, ResidualOutput]:
        """Output modules of the attention and the feed-forward sub-layer, in this order."""
        attended = self.attention["output"]
        assert isinstance(attended, ResidualOutput)
        return attended, self.output

    def forward(self, states: Tensor, plan: AttentionPlan, key_bias: Tensor | None) -> Tensor:
        """Apply the attention and feed-forward sub-layers to the hidden states [P, D] of P tokens.

        Args:
            states: hidden states of the previous layer.
            plan: attention plan of the batch.
            key_bias: bias added to the attention logits of every key, [P]. None: no bias.
        """
        attended, output = self.sub_layers
        arguments = attended.before(states), plan, key_bias
        states = attended(self.attention["self"](*arguments), states)
        return output(self.activation(self.intermediate["dense"](output.before(states))), states)


class Encoder(nn.Module):
    """A stack of transformer layers, each with an attention plan for its pattern."""

    def __init__(self, layers: Iterable[EncoderLayer], *, gradient_checkpointing: bool = False) -> None:
        super().__init__()
        self.layer = nn.ModuleList(layers)
        self.gradient_checkpointing = gradient_checkpointing

    @property
    def layers(self) -> list[EncoderLayer]:
        """The transformer layers of the stack, first layer first."""
        layers: Iterable[Any] = self.layer
        return list(layers)

    @property
    def specs(self) -> list[LayerSpec]:
        """The specification (attention pattern, backend and class) of each layer."""
        return [layer.spec for layer in self.layers]

    def forward(self, states: Tensor, plans: Plans, key_bias: Tensor | None = None) -> Tensor:
        """Apply all layers in order to the hidden states [P, D] of P tokens.

        Args:
            states: embeddings, or hidden states of preceding layers.
            plans: attention plans of the batch.
            key_bias: bias added to the attention logits of every key, [P]. None: no bias.

        Raises:
            ConfigError: `key_bias` is set, but the attention of a layer does not support it.
        """
        for spec in self.specs if key_bias is not None else ():
            if not spec.backend.takes_key_bias:
                problem = f"{type(spec.backend).__name__} does not support weights of single keys"
                raise ConfigError(problem, where="model", remedy="Use model=mate or tapas")
        record = getattr(_CALL, "record", None)
        plan: AttentionPlan | None = None
        for layer in self.layers:
            # Hash a pattern only if it changes, because each lookup delays the kernels of a GPU.
            if plan is None or plan.pattern is not layer.spec.pattern:
                plan = plans[layer.spec.pattern]
            layer_input = states
            if self.gradient_checkpointing and torch.is_grad_enabled():
                states = checkpoint(layer, layer_input, plan, key_bias, use_reentrant=False)
            else:
                states = layer(layer_input, plan, key_bias)
            # Record outside of the checkpointed function, which the backward pass runs again.
            if record is not None:
                record(layer, layer_input, states, plan, key_bias)
        return states


LayerRecord = Callable[[EncoderLayer, Tensor, Tensor, AttentionPlan, Tensor | None], None]
"""Function that receives a layer, its input and output states, its attention plan, and the bias of keys."""
_CALL = threading.local()


@contextmanager
def record_layers(record: LayerRecord) -> Iterator[None]:
    """Call `record` after each layer of any `Encoder` within the context, only in this thread.

    Other threads may use the same network without being recorded.
    """
    previous, _CALL.record = getattr(_CALL, "record", None), record
    try:
        yield
    finally:
        _CALL.record = previous


class Pooler(nn.Module):
    """A pooler that applies a dense layer and tanh to the state of the first token."""

    def __init__(self, size: EncoderSize) -> None:
        super().__init__()
        self.dense = nn.Linear(size.hidden_size, size.hidden_size)

    def forward(self, states: Tensor) -> Tensor:
        """Pool hidden states [B, T, D] to one vector per example, [B, D], from its first token."""
        return self.dense(states[:, 0]).tanh()


class FirstState(nn.Module):
    """Pooler without weights: the pooled state is the hidden state of the first token."""

    def forward(self, states: Tensor) -> Tensor:
        """Return the hidden state of the first token of each example: [B, T, D] to [B, D]."""
        return states[:, 0]


def find_activation(name: str) -> nn.Module:
    """Return the activation module with a name of transformers: gelu, gelu_new or relu.

    Raises:
        ConfigError: the name is unknown.
    """
    activations: dict[str, Callable[[], nn.Module]] = {
        "gelu": nn.GELU,
        "gelu_new": partial(nn.GELU, approximate="tanh"),
        "relu": nn.ReLU,
    }
    if name not in activations:
        hint = f"Choose from {', '.join(activations)}"
        raise ConfigError(f"unknown activation {name!r}", where="model.activation", remedy=hint)
    return activations[name]()
