"""Linformer: keys and values are projected to a fixed number of slots.

Source: Wang et al., "Linformer: Self-Attention with Linear Complexity", 2020; the MATE paper's baseline with 256 slots.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from mate_cli.attention.base import Attention, AttentionBackend, AttentionPlan, Work
from mate_cli.attention.patterns import Full
from mate_cli.errors import ConfigError
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import LayerSpec

Sharing = Literal["headwise", "key_value", "layerwise"]

INITIAL_GAIN = 0.5**0.5
"""Gain of the initial mixing weights, from the official code (fairseq). Mixed keys have the scale of keys."""


class Linformer(TableEncoder):
    """A table encoder with Linformer's attention, whose cost is linear in the input length.

    The weights depend on the maximum length. Every token attends to the same slots, regardless of its row and column.
    Padding does not contribute to slots.

    Args:
        attention: ignored, because this network has a specialized attention. A specific backend is rejected earlier.
        length: number n of tokens of the longest input. Shorter inputs use the first positions.
        slots: number k of slots to which keys and values are projected.
        sharing: sharing of mixing weights: headwise (all heads of a layer), key_value (also keys and values), layerwise
            (also all layers).
    """

    shape_remedies: ClassVar[Mapping[str, str]] = {
        "mixers": "Set encoding.max_tokens and model.slots to the values of the weights' training"
    }

    def __init__(
        self,
        size: str | EncoderSize,
        *,
        attention: AttentionBackend | None = None,
        length: Annotated[int, Field(gt=0)],
        slots: Annotated[int, Field(gt=0)] = 256,
        sharing: Sharing = "key_value",
        **options: Any,
    ) -> None:
        shape = encoder_size(size)
        count = 1 if sharing == "layerwise" else shape.num_layers
        mixers = [Mixer(length, slots, sharing != "headwise") for _ in range(count)]
        backends = [MixedAttention(mixers[layer % len(mixers)]) for layer in range(shape.num_layers)]
        super().__init__(size, [LayerSpec(Full(shape.num_heads), backend) for backend in backends], **options)
        self.mixers, self.max_tokens = nn.ModuleList(mixers), length


class Mixer(nn.Module):
    """Linear projection of n positions to k slots, for keys and for values.

    Args:
        length: number n of positions.
        slots: number k of slots.
        shared: whether keys and values share the weights.
    """

    def __init__(self, length: int, slots: int, shared: bool) -> None:
        super().__init__()
        self.keys = nn.Parameter(nn.init.xavier_uniform_(torch.empty(slots, length), INITIAL_GAIN))
        self.values: nn.Parameter | None = None
        if not shared:
            self.values = nn.Parameter(nn.init.xavier_uniform_(torch.empty(slots, length), INITIAL_GAIN))

    def forward(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Mix the keys and values of T tokens into k slots, [B, N, T, H] to [B, N, k, H].

        Args:
            key: keys, zero on padding.
            value: values, zero on padding.

        Raises:
            ConfigError: the input has more tokens than positions.
        """
        tokens, length = key.shape[2], self.keys.shape[1]
        if tokens > length:
            problem = f"an input has {tokens} tokens, this Linformer has a length of {length}"
            hint = f"Set encoding.max_tokens={length}, or train with a greater length"
            raise ConfigError(problem, where="model.length", remedy=hint)
        of_values = self.keys if self.values is None else self.values
        return _mix(self.keys[:, :tokens], key), _mix(of_values[:, :tokens], value)


class MixedAttention(Attention):
    """Linformer attention of one layer: tokens attend to k averages of all tokens ("slots").

    The mixer is not a submodule of the attention, so layers can share a mixer, and it is saved once.
    """

    among_tokens, takes_key_bias = False, False

    def __init__(self, mixer: Mixer) -> None:
        self.mixer = mixer

    def count_operations(self, plan: AttentionPlan) -> Work:
        """Count the token-slot pairs of mixing tokens into slots and of attention to slots.

        Padding is included.
        """
        examples, tokens = plan.packing.shape
        pairs = plan.pattern.num_heads * examples * tokens * len(self.mixer.keys)
        return Work(pairs, mixed=pairs)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Compute attention from P tokens to the k slots of `mixer`: [P, 3, N, H] to [P, N, H].

        Arguments: see `Attention.forward`. Keys and values of padding are zero, without the bias of their projection.

        Raises:
            ConfigError: the input has more tokens than positions.
        """
        query, key, value = plan.heads(qkv)
        keys, values = self.mixer(key, value)
        return plan.pack_heads(scaled_dot_product_attention(query, keys, values, dropout_p=dropout))


def _mix(weights: Tensor, states: Tensor) -> Tensor:
    """Average T token states into k slots by learned weights: [B, N, T, H] to [B, N, k, H].

    `weights` is [k, T]. float16 inputs are summed in float32.
    """
    if states.dtype != torch.float16:
        return weights @ states
    with torch.autocast(states.device.type, enabled=False):
        return (weights.float() @ states.float()).to(states.dtype)
