"""Collection of hidden states and attention weights of all layers of a network."""

from collections.abc import Collection
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
    encoder: TableEncoder,
    batch: TableBatch,
    *,
    hidden_states: bool,
    attentions: bool,
    layers: Collection[int] | None = None,
) -> tuple[EncoderOutput, LayerTensors, LayerTensors]:
    """Encode a batch, and collect hidden states and attention weights on request.

    Args:
        encoder: network.
        batch: batch to encode.
        hidden_states: collect the input of the first layer and the output of every layer, [B, T, D] each.
        attentions: collect the attention weights of query i and key j in every layer, [B, N, T, T] each.
        layers: layers to collect, from 1. 0 is the input of the first layer. None: all layers.

    Returns:
        The output of the network, the hidden states and the attention weights. The last two are None unless requested.

    Raises:
        ConfigError: attention weights are requested of a network without attention weights for pairs of tokens.
    """
    if not (hidden_states or attentions):
        return encoder(batch), None, None
    if attentions:
        require_attention_weights(encoder, "output_attentions")
    numbers = {id(layer): number for number, layer in enumerate(encoder.layers, 1)}
    selected_numbers = {0, *numbers.values()} if layers is None else layers
    states: list[Tensor] = []
    weights: list[Tensor] = []

    def record(
        layer: EncoderLayer, layer_input: Tensor, layer_output: Tensor, plan: AttentionPlan, key_bias: Tensor | None
    ) -> None:
        # Layers of networks inside this network have no number.
        number = numbers.get(id(layer))
        if number is None:
            return
        if hidden_states:
            by_number = {0: layer_input, number: layer_output} if number == 1 else {number: layer_output}
            states.extend(_token_states(state, plan) for key, state in by_number.items() if key in selected_numbers)
        if attentions and number in selected_numbers:
            weights.append(_attention_weights(layer, layer_input, plan, key_bias))

    with record_layers(record):
        output = encoder(batch)
    return output, tuple(states) if hidden_states else None, tuple(weights) if attentions else None


def require_attention_weights(encoder: TableEncoder, argument: str) -> None:
    """Check that a network has attention weights for pairs of tokens.

    Args:
        encoder: network.
        argument: argument that requests the weights, for the error message.

    Raises:
        ConfigError: an attention layer has no such weights.
    """
    backends = [layer.spec.backend for layer in encoder.layers]
    if not all(isinstance(backend, AttentionBackend) and backend.exact for backend in backends):
        problem = f"{type(encoder).__name__} has no attention weights for pairs of tokens"
        raise ConfigError(problem, where=argument, remedy="Leave it out")


def _token_states(states: Tensor, plan: AttentionPlan) -> Tensor:
    """Select the tokens from packed states of tokens and slots, and pad the states to [B, T, D]."""
    return plan.packing.unpack(states[: sum(plan.packing.lengths)])


def _attention_weights(layer: EncoderLayer, states: Tensor, plan: AttentionPlan, key_bias: Tensor | None) -> Tensor:
    """Recompute the attention weights [B, N, T, T] of one layer, for inspection.

    Pairs outside the attention pattern of the layer get 0.
    """
    attention = cast(SelfAttention, layer.attention["self"])
    qkv = attention.project(layer.sub_layers[0].before(states))
    return Eager().probabilities(qkv, plan, key_bias) * plan.mask
