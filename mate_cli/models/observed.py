"""What is between the layers of a network, and what its heads attend to, while it reads a batch."""

from contextlib import ExitStack
from typing import Any, cast

from torch import Tensor, nn

from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.base import AttentionBackend
from mate_cli.attention.plan import AttentionPlan
from mate_cli.errors import ConfigError
from mate_cli.models.base.encoder_output import EncoderOutput
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import SelfAttention
from mate_cli.tokenization.layout import TableBatch

Observed = tuple[Tensor, ...] | None


def observed(
    encoder: TableEncoder, batch: TableBatch, *, hidden_states: bool, attentions: bool
) -> tuple[EncoderOutput, Observed, Observed]:
    """Encode a batch, and keep what is asked for.

    Args:
        encoder: the network.
        batch: what it reads.
        hidden_states: keep what goes into the first layer and what comes out of each, [B, T, D].
        attentions: keep how much query i attends to key j in each layer, [B, N, T, T].

    Raises:
        ConfigError: attention weights are asked for of a network that has none for pairs of tokens.
    """
    with ExitStack() as stack:
        states = _kept_states(encoder, stack) if hidden_states else None
        weights = _kept_weights(encoder, stack) if attentions else None
        output = encoder(batch)
    return output, None if states is None else tuple(states), None if weights is None else tuple(weights)


def _kept_states(encoder: TableEncoder, stack: ExitStack) -> list[Tensor]:
    """Where the states between layers will be while the stack is open; without what is there beside tokens."""
    kept: list[Tensor] = []

    def keep(states: Tensor, plan: AttentionPlan) -> None:
        kept.append(plan.packing.unpack(states[: sum(plan.packing.lengths)]))

    def keep_output(module: nn.Module, given: tuple[Any, ...], made: Tensor) -> None:
        if not kept:
            keep(given[0], given[1])
        keep(made, given[1])

    for layer in encoder.layers:
        stack.callback(layer.register_forward_hook(keep_output).remove)
    return kept


def _kept_weights(encoder: TableEncoder, stack: ExitStack) -> list[Tensor]:
    """Where attention weights will be while the stack is open, as the patterns define them.

    Raises:
        ConfigError: a layer attends to something else than tokens, or only nearly as its pattern says.
    """
    kept: list[Tensor] = []

    def keep(module: nn.Module, given: tuple[Any, ...]) -> None:
        own, (states, plan, key_bias) = cast(SelfAttention, module), given
        weights = Eager().probabilities(own.projections(states).unflatten(-1, own.shape), plan, key_bias)
        kept.append(weights * plan.mask)  # padding sees nothing

    for layer in encoder.layers:
        backend = layer.spec.backend
        if not isinstance(backend, AttentionBackend) or not backend.exact:
            problem = f"{type(encoder).__name__} has no attention weights for pairs of tokens"
            raise ConfigError(problem, where="output_attentions", remedy="Leave it out")
        stack.callback(layer.attention["self"].register_forward_pre_hook(keep).remove)
    return kept
