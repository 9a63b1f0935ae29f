"""Parameters that learn nothing, and low-rank adapters of dense layers: a small product is added to loaded weights.

Written here and not taken of `peft`, which renames the weights that it wraps: best weights are merged from a state,
which may be an average, not from a network.

Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022, section 4.1.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from mate_cli.errors import ConfigError

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


def freeze(network: nn.Module, patterns: str | Sequence[str] | None) -> None:
    """Train nothing in the parameters that a pattern matches; dropout stays as it is.

    Raises:
        ConfigError: a pattern matches nothing.
    """
    if patterns is None:
        return
    parameters = dict(network.named_parameters())
    for name in match_names(parameters, patterns, "model.freeze"):
        parameters[name].requires_grad_(False)


def match_names(names: Iterable[str], patterns: str | Sequence[str], where: str, *, parts: bool = True) -> list[str]:
    """Find the names that one of the patterns of a shell (`*`, `?`, `[0-3]`) matches, in their order.

    Args:
        names: with dots between their parts.
        patterns: one or several.
        where: the key that they were typed for.
        parts: a pattern may also match the first parts of a name, as those of a module.

    Raises:
        ConfigError: a pattern matches nothing; with the nearest names.
    """
    every = {name: _beginnings(name) if parts else [name] for name in names}
    result = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        matched = {name for name, prefixes in every.items() if any(fnmatchcase(prefix, pattern) for prefix in prefixes)}
        if not matched:
            known = list(dict.fromkeys(prefix for prefixes in every.values() for prefix in prefixes))
            near = difflib.get_close_matches(pattern, known, 3, cutoff=0.3) or known[:3]
            raise ConfigError(f"{pattern!r} matches no parameter", where=where, remedy=f"Near: {', '.join(near)}")
        result |= matched
    return [name for name in every if name in result]


def _beginnings(name: str) -> list[str]:
    """Return the name of a parameter, and before it those of the modules that it is in."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
