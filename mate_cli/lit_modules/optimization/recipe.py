"""Optimizers and schedules as recipes, before there are any weights."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

import torch
from pydantic import Field
from torch import nn


class OptimizerRecipe(Protocol):
    """Builds an optimizer for a module."""

    def build(self, module: torch.nn.Module, *, fused: bool = True) -> torch.optim.Optimizer:
        """Return the optimizer; one that is not `fused` leaves the scaling of gradients to others."""


class ScheduleRecipe(Protocol):
    """Builds a learning-rate schedule for an optimizer."""

    def build(self, optimizer: torch.optim.Optimizer, total_steps: int) -> torch.optim.lr_scheduler.LRScheduler:
        """Return the schedule."""


@dataclass(frozen=True)
class Optimization:
    """The optimizer and the schedule of a run of `total_steps` optimizer steps."""

    optimizer: OptimizerRecipe
    schedule: ScheduleRecipe
    total_steps: int


Factors = Mapping[Literal["pretrained", "new"], Annotated[float, Field(ge=0)]]
"""Factors of the learning rate: of weights that were loaded, and of those that are new."""


def with_factors(recipe: OptimizerRecipe, factors: Factors, pretrained: Collection[str]) -> OptimizerRecipe:
    """Return an optimizer whose parts have rates of their own; the same one where no factor says so."""
    return _RatesPerPart(recipe, factors, pretrained) if any(factor != 1 for factor in factors.values()) else recipe


@dataclass(frozen=True)
class _RatesPerPart:
    """An optimizer whose groups are cut in two, new weights first; a schedule multiplies the rates of both alike."""

    recipe: OptimizerRecipe
    factors: Factors
    pretrained: Collection[str]

    def build(self, module: nn.Module, *, fused: bool = True) -> torch.optim.Optimizer:
        """Return the optimizer, its parameters in groups of one part each."""
        optimizer = self.recipe.build(module, fused=fused)
        loaded = {parameter for name, parameter in module.named_parameters() if name in self.pretrained}
        parts = ((False, self.factors.get("new", 1.0)), (True, self.factors.get("pretrained", 1.0)))
        groups = [_part(group, loaded, old, factor) for old, factor in parts for group in optimizer.param_groups]
        optimizer.param_groups[:] = [group for group in groups if group["params"]]
        return optimizer


def _part(group: Mapping[str, Any], loaded: Collection[nn.Parameter], old: bool, factor: float) -> dict[str, Any]:
    """Return what of a group was loaded, or is new, with its own rate."""
    params = [parameter for parameter in group["params"] if (parameter in loaded) == old]
    return {**group, "params": params, "lr": group["lr"] * factor}
