"""States between the layers of a network, and what its heads attend to, while it reads a batch."""

from typing import cast

from torch import Tensor

from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.base import AttentionBackend, AttentionPlan
from mate_cli.errors import ConfigError
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder
from mate_cli.models.layers.encoder import EncoderLayer, SelfAttention, record_layers
from mate_cli.tokenization.layout import TableBatch

LayerTensors = tuple[Tensor, ...] | None


def encode_with_layers(
    encoder: TableEncoder, batch: TableBatch, *, hidden_states: bool, attentions: bool
) -> tuple[EncoderOutput, LayerTensors, LayerTensors]:
    """Encode a batch, and collect what is requested of this call.

    Args:
        encoder: the network.
        batch: what it reads.
        hidden_states: collect what goes into the first layer and what comes out of each, [B, T, D].
        attentions: collect how much query i attends to key j in each layer, [B, N, T, T].

    Raises:
        ConfigError: attention weights are requested of a network that has none for pairs of tokens.
    """
    if not (hidden_states or attentions):
        return encoder(batch), None, None
    layers = encoder.layers
    backends = [layer.spec.backend for layer in layers]
    if attentions and not all(isinstance(backend, AttentionBackend) and backend.exact for backend in backends):
        problem = f"{type(encoder).__name__} has no attention weights for pairs of tokens"
        raise ConfigError(problem, where="output_attentions", remedy="Leave it out")
    states: list[Tensor] = []
    weights: list[Tensor] = []

    def record(
        layer: EncoderLayer, before: Tensor, after: Tensor, plan: AttentionPlan, key_bias: Tensor | None
    ) -> None:
        if not any(layer is other for other in layers):  # of a network inside this one
            return
        if hidden_states:
            states.extend(_token_states(state, plan) for state in ((after,) if states else (before, after)))
        if attentions:
            weights.append(_attention_weights(layer, before, plan, key_bias))

    with record_layers(record):
        output = encoder(batch)
    return output, tuple(states) if hidden_states else None, tuple(weights) if attentions else None


def _token_states(states: Tensor, plan: AttentionPlan) -> Tensor:
    """Return the states of tokens with their padding, [B, T, D], without what a layer has beside tokens."""
    return plan.packing.unpack(states[: sum(plan.packing.lengths)])


def _attention_weights(layer: EncoderLayer, states: Tensor, plan: AttentionPlan, key_bias: Tensor | None) -> Tensor:
    """Return attention weights [B, N, T, T] as the pattern defines them; padding sees nothing."""
    attention = cast(SelfAttention, layer.attention["self"])
    qkv = attention.project(layer.sub_layers[0].before(states))
    return Eager().probabilities(qkv, plan, key_bias) * plan.mask
