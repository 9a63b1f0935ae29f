"""Low-rank adapters of dense layers: weights that were loaded stay, and a small product is added to them.

Written here and not taken of `peft`, which renames the weights that it wraps: best weights are merged from a state,
which may be an average, not from a network.

Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022, section 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from mate_cli.errors import ConfigError
from mate_cli.models.base.freezing import match_names

DOWN, UP = "lora_A", "lora_B"
"""Names of the two factors, as in peft."""


@dataclass(frozen=True)
class Lora:
    """Low-rank adapters of a network (LoRA).

    Args:
        rank: of the product that is added to a weight; None for no adapters.
        alpha: the update is multiplied by alpha / rank.
        layers: names of dense layers that get one, or patterns as for `freeze`; those of queries, keys and values.
    """

    rank: PositiveInt | None = None
    alpha: PositiveFloat = 16.0
    layers: str | Sequence[str] = ("*.self.query", "*.self.key", "*.self.value")

    @property
    def scale(self) -> float:
        """The factor of the product."""
        return self.alpha / self.rank if self.rank else 0.0


class LowRankLinear(nn.Linear):
    """A dense layer W x + scale * B A x; B is zero at first, so that nothing changes before the first step."""

    def __init__(self, dense: nn.Linear, rank: int, scale: float) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features, self.scale = dense.in_features, dense.out_features, scale
        self.weight, self.bias = dense.weight, dense.bias
        self.lora_A = nn.Parameter(torch.empty(rank, dense.in_features))
        self.lora_B = nn.Parameter(torch.zeros(dense.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, states: Tensor) -> Tensor:
        """Map [..., in] to [..., out]."""
        change = nn.functional.linear(nn.functional.linear(states, self.lora_A), self.lora_B)
        return super().forward(states) + self.scale * change


def add_adapters(encoder: nn.Module, lora: Lora, loaded: Collection[str]) -> None:
    """Give dense layers adapters, and freeze the parameters that were loaded; new ones learn as ever.

    Raises:
        ConfigError: a pattern matches no dense layer, or nothing was loaded.
    """
    if lora.rank is None:
        return
    where = "model.lora.layers"
    dense = {name: module for name, module in encoder.named_modules() if type(module) is nn.Linear}
    chosen = match_names(dense, lora.layers, where, parts=False)
    frozen = [parameter for name, parameter in encoder.named_parameters() if name in loaded]
    if not frozen:
        problem = "adapters need loaded weights, but all weights are random"
        raise ConfigError(problem, where="model.lora.rank", remedy="Choose init=bert, minilm, tapas or path")
    for parameter in frozen:
        parameter.requires_grad_(False)
    for name in chosen:
        owner, _, leaf = name.rpartition(".")
        parent = encoder.get_submodule(owner)
        setattr(parent, leaf, LowRankLinear(dense[name], lora.rank, lora.scale))


def merge_state(state: Mapping[str, Tensor], scale: float) -> dict[str, Tensor]:
    """Add the product of adapters to the weights of a state, which has none of them afterwards."""
    weights = dict(state)
    for name in [name for name in state if name.endswith(f".{DOWN}")]:
        layer = name.removesuffix(f".{DOWN}")
        change = scale * (weights.pop(f"{layer}.{UP}") @ weights.pop(name))
        weights[f"{layer}.weight"] = weights[f"{layer}.weight"] + change
    return weights


def merge_adapters(network: nn.Module) -> None:
    """Add the product of adapters to the weights of a network, whose layers are plain ones afterwards."""
    for parent in list(network.modules()):
        for name, module in list(parent.named_children()):
            if isinstance(module, LowRankLinear):
                plain = nn.Linear(module.in_features, module.out_features, device="meta")
                plain.weight, plain.bias = module.weight, module.bias
                with torch.no_grad():
                    plain.weight += module.scale * (module.lora_B @ module.lora_A)
                setattr(parent, name, plain)
