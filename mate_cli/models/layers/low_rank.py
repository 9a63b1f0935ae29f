"""Frozen parameters, and low-rank adapters (LoRA) of dense layers.

`peft` is not used because it renames the weights that it wraps. Here the best checkpoint is merged from a state dict,
which may be an average of weights, and not from a network.

Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022, section 4.1.
"""

from __future__ import annotations

import difflib
import fnmatch
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from mate_cli.errors import ConfigError

DOWN, UP = "lora_A", "lora_B"
"""Names of the two factors of an adapter, as in peft."""


@dataclass(frozen=True)
class Lora:
    """Configuration of low-rank adapters (LoRA) of linear layers.

    Args:
        rank: rank of the product that is added to a weight. None: no adapters.
        alpha: scale of the update, which is multiplied by alpha / rank.
        layers: names of dense layers with adapters, or patterns as for `freeze`. The default is all projections to
            queries, keys and values.
    """

    rank: PositiveInt | None = None
    alpha: PositiveFloat = 16.0
    layers: str | Sequence[str] = ("*.self.query", "*.self.key", "*.self.value")

    @property
    def scale(self) -> float:
        """The factor alpha / rank of the low-rank product, 0 without adapters."""
        return self.alpha / self.rank if self.rank else 0.0


class LowRankLinear(nn.Linear):
    """A linear layer with a LoRA adapter: W x + scale * B A x.

    B is initialized to zero, so the output is unchanged before training.
    """

    def __init__(self, dense: nn.Linear, rank: int, scale: float) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features, self.scale = dense.in_features, dense.out_features, scale
        self.weight, self.bias = dense.weight, dense.bias
        self.lora_A = nn.Parameter(torch.empty(rank, dense.in_features))
        self.lora_B = nn.Parameter(torch.zeros(dense.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, states: Tensor) -> Tensor:
        """Apply the linear layer and its low-rank adapter: [..., in] to [..., out]."""
        update = nn.functional.linear(nn.functional.linear(states, self.lora_A), self.lora_B)
        return super().forward(states) + self.scale * update


def add_adapters(encoder: nn.Module, lora: Lora, loaded: Collection[str]) -> None:
    """Add LoRA adapters to linear layers, and freeze the parameters that were loaded from a checkpoint.

    Randomly initialized parameters and adapters are trained.

    Args:
        encoder: network, changed in place.
        lora: options of the adapters. Without a rank, nothing is changed.
        loaded: names of the parameters that were loaded from a checkpoint.

    Raises:
        ConfigError: a pattern matches no dense layer, or nothing was loaded.
    """
    if lora.rank is None:
        return
    key = "model.lora.layers"
    dense = {name: module for name, module in encoder.named_modules() if type(module) is nn.Linear}
    layer_names = match_names(dense, lora.layers, key, parts=False)
    frozen = [parameter for name, parameter in encoder.named_parameters() if name in loaded]
    if not frozen:
        problem = "adapters need loaded weights, but all weights are random"
        raise ConfigError(problem, where="model.lora.rank", remedy="Choose init=bert, minilm, tapas or path")
    for parameter in frozen:
        parameter.requires_grad_(False)
    for name in layer_names:
        owner, _, leaf = name.rpartition(".")
        parent = encoder.get_submodule(owner)
        setattr(parent, leaf, LowRankLinear(dense[name], lora.rank, lora.scale))


def merge_state(state: Mapping[str, Tensor], scale: float) -> dict[str, Tensor]:
    """Return a copy of a state dict in which LoRA adapters are merged into the weights.

    Args:
        state: state dict, possibly without adapters.
        scale: factor alpha / rank of the low-rank product, `Lora.scale`.
    """
    weights = dict(state)
    for name in [name for name in state if name.endswith(f".{DOWN}")]:
        layer = name.removesuffix(f".{DOWN}")
        update = scale * (weights.pop(f"{layer}.{UP}") @ weights.pop(name))
        weights[f"{layer}.weight"] = weights[f"{layer}.weight"] + update
    return weights


def merge_adapters(network: nn.Module) -> None:
    """Merge LoRA adapters into the weights of a network in place, so that its layers are `nn.Linear` again."""
    for parent in list(network.modules()):
        for name, module in list(parent.named_children()):
            if isinstance(module, LowRankLinear):
                merged = nn.Linear(module.in_features, module.out_features, device="meta")
                merged.weight, merged.bias = module.weight, module.bias
                with torch.no_grad():
                    merged.weight += module.scale * (module.lora_B @ module.lora_A)
                setattr(parent, name, merged)


def freeze(network: nn.Module, patterns: str | Sequence[str] | None) -> None:
    """Freeze the parameters whose names match a pattern. Dropout remains active.

    Args:
        network: network, changed in place.
        patterns: names or patterns of parameters or modules. None: freeze nothing.

    Raises:
        ConfigError: a pattern matches nothing.
    """
    if patterns is None:
        return
    parameters = dict(network.named_parameters())
    for name in match_names(parameters, patterns, "model.freeze"):
        parameters[name].requires_grad_(False)


def match_names(names: Iterable[str], patterns: str | Sequence[str], where: str, *, parts: bool = True) -> list[str]:
    """Find the names that a shell pattern (`*`, `?`, `[0-3]`) matches, in their order.

    Args:
        names: names with dots between their parts.
        patterns: one pattern, or several.
        where: configuration key of the patterns, for error messages.
        parts: whether a pattern may also match the name of an enclosing module, such as "encoder" in "encoder.weight".

    Raises:
        ConfigError: a pattern matches nothing. The message suggests the most similar names.
    """
    prefixes_by_name = {name: [*accumulate(name.split("."), "{}.{}".format)] if parts else [name] for name in names}
    result = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        matched_names = {name for name, prefixes in prefixes_by_name.items() if fnmatch.filter(prefixes, pattern)}
        if not matched_names:
            candidates = list(dict.fromkeys(prefix for prefixes in prefixes_by_name.values() for prefix in prefixes))
            suggestions = difflib.get_close_matches(pattern, candidates, 3, cutoff=0.3) or candidates[:3]
            hint = f"Near: {', '.join(suggestions)}"
            raise ConfigError(f"{pattern!r} matches no parameter", where=where, remedy=hint)
        result |= matched_names
    return [name for name in prefixes_by_name if name in result]
