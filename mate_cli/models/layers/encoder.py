"""A post-norm BERT encoder whose attention is handed in; parameters are named as in BERT and TAPAS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mate_cli.attention.base import AttentionBackend
from mate_cli.attention.plan import AttentionPlan
from mate_cli.errors import ConfigError
from mate_cli.models.layers.embeddings import LAYER_NORM_EPSILON
from mate_cli.models.sizes import EncoderSize


@dataclass(frozen=True)
class LayerOptions:
    """What all layers share besides their size.

    Args:
        attention: how attention is computed.
        activation: of the feed-forward layer; gelu in BERT, gelu_new (by tanh) in the TAPAS reference.
        hidden_dropout: after every dense layer.
        attention_dropout: on attention weights.
    """

    attention: AttentionBackend
    activation: str = "gelu"
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1


class SelfAttention(nn.Module):
    """Projects to queries, keys and values, and lets the backend attend."""

    def __init__(self, size: EncoderSize, options: LayerOptions) -> None:
        super().__init__()
        self.heads, self.head_size = size.num_heads, size.head_size
        self.backend, self.attention_dropout = options.attention, options.attention_dropout
        self.query = nn.Linear(size.hidden_size, size.hidden_size)
        self.key = nn.Linear(size.hidden_size, size.hidden_size)
        self.value = nn.Linear(size.hidden_size, size.hidden_size)

    def forward(self, states: Tensor, plan: AttentionPlan, key_bias: Tensor | None) -> Tensor:
        """States [B, T, D] to the concatenated heads [B, T, D]."""
        query, key, value = (
            dense(states).unflatten(-1, (self.heads, self.head_size)).transpose(1, 2)
            for dense in (self.query, self.key, self.value)
        )
        dropout = self.attention_dropout if self.training else 0.0
        context = self.backend.forward(query, key, value, plan, key_bias, dropout)
        return context.transpose(1, 2).flatten(2)


class ResidualOutput(nn.Module):
    """Dense layer, dropout, and the norm of the sum with what came in before."""

    def __init__(self, inputs: int, size: EncoderSize, dropout: float) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, size.hidden_size)
        self.LayerNorm = nn.LayerNorm(size.hidden_size, eps=LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, residual: Tensor) -> Tensor:
        """[B, T, inputs] and [B, T, D] to [B, T, D]."""
        return self.LayerNorm(self.dropout(self.dense(states)) + residual)


class EncoderLayer(nn.Module):
    """Attention and a feed-forward layer, each followed by a norm."""

    def __init__(self, size: EncoderSize, options: LayerOptions) -> None:
        super().__init__()
        self.attention = nn.ModuleDict(
            {
                "self": SelfAttention(size, options),
                "output": ResidualOutput(size.hidden_size, size, options.hidden_dropout),
            }
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(size.hidden_size, size.intermediate_size)})
        self.activation = _activation(options.activation)
        self.output = ResidualOutput(size.intermediate_size, size, options.hidden_dropout)

    def forward(self, states: Tensor, plan: AttentionPlan, key_bias: Tensor | None) -> Tensor:
        """States [B, T, D] to states [B, T, D]."""
        states = self.attention["output"](self.attention["self"](states, plan, key_bias), states)
        return self.output(self.activation(self.intermediate["dense"](states)), states)


class Encoder(nn.Module):
    """Layers, one after the other.

    Args:
        size: their number and shape.
        options: what they share.
        gradient_checkpointing: recompute layers in the backward pass instead of keeping their inner states.
    """

    def __init__(self, size: EncoderSize, options: LayerOptions, *, gradient_checkpointing: bool = False) -> None:
        super().__init__()
        self.layer = nn.ModuleList(EncoderLayer(size, options) for _ in range(size.num_layers))
        self.gradient_checkpointing = gradient_checkpointing

    def forward(self, states: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None) -> Tensor:
        """States [B, T, D] to states [B, T, D]; `key_bias` [B, T] is added to all scores of a key."""
        for layer in self.layer:
            if self.gradient_checkpointing and torch.is_grad_enabled():
                states = checkpoint(layer, states, plan, key_bias, use_reentrant=False)
            else:
                states = layer(states, plan, key_bias)
        return states


class Pooler(nn.Module):
    """The first token's state through a dense layer and tanh."""

    def __init__(self, size: EncoderSize) -> None:
        super().__init__()
        self.dense = nn.Linear(size.hidden_size, size.hidden_size)

    def forward(self, states: Tensor) -> Tensor:
        """[B, T, D] to [B, D]."""
        return self.dense(states[:, 0]).tanh()


def _activation(name: str) -> nn.Module:
    """The activation of this name in transformers.

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
            f"no activation is called {name!r}", where="init.activation", remedy=f"Choose from {', '.join(activations)}"
        )
    return activations[name]()
