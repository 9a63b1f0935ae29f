"""Optimizers and schedules as recipes, before there are any weights: ours, or those of torch.

Those of torch are named by a configuration alone: `_target_: torch.optim.X`, `_partial_: true`.
"""

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, Protocol, TypeVar

import torch
from hydra.utils import instantiate
from pydantic import Field
from torch import nn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from mate_cli.errors import ConfigError


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


STEPS = ("T_max", "total_iters", "total_steps")
"""Names of the number of steps in torch's schedules."""
Made = TypeVar("Made")


def optimizer_recipe(node: Mapping[str, Any], pretrained: Collection[str] = ()) -> OptimizerRecipe:
    """Return what a configuration names: a recipe of ours, or one for an optimizer that still lacks its parameters."""
    factory = instantiate(node, _partial_=True)
    recipe: OptimizerRecipe = factory() if hasattr(factory.func, "build") else _TorchOptimizer(factory)
    return with_factors(recipe, getattr(recipe, "factors", None) or {}, pretrained)


def schedule_recipe(node: Mapping[str, Any]) -> ScheduleRecipe:
    """Return what a configuration names: a recipe of ours, or one for a schedule that still lacks its optimizer."""
    factory = instantiate(node, _partial_=True)
    return factory() if hasattr(factory.func, "build") else _TorchSchedule(factory)


@dataclass(frozen=True)
class _TorchOptimizer:
    """An optimizer as torch has it: what is configured holds for all trained parameters alike."""

    make: partial[torch.optim.Optimizer]

    def build(self, module: nn.Module, *, fused: bool = True) -> torch.optim.Optimizer:
        """Return the optimizer of a module's trainable parameters; torch decides whether it is fused, if it may be.

        Raises:
            ConfigError: torch refuses an option.
        """
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        held = {"fused": False} if not fused and "fused" in self.make.keywords else {}
        return _build(self.make, trained, held, "optimizer")


@dataclass(frozen=True)
class _TorchSchedule:
    """A schedule as torch has it; a number of steps that is not configured is that of the whole run."""

    make: partial[LRScheduler]

    def build(self, optimizer: torch.optim.Optimizer, total_steps: int) -> LRScheduler:
        """Return the schedule, to be advanced once per optimizer step.

        Raises:
            ConfigError: torch refuses an option, or the schedule waits for a metric.
        """
        open_steps = set(STEPS) & inspect.signature(self.make.func).parameters.keys() - self.make.keywords.keys()
        schedule = _build(self.make, optimizer, dict.fromkeys(open_steps, total_steps), "scheduler")
        if isinstance(schedule, ReduceLROnPlateau):
            raise ConfigError(
                "ReduceLROnPlateau needs a metric, but schedules advance at every step",
                where="scheduler",
                remedy="Use a schedule that depends on the step alone, such as torch.optim.lr_scheduler.StepLR",
            )
        return schedule


def _build(make: partial[Made], subject: object, options: Mapping[str, Any], where: str) -> Made:
    try:
        return make(subject, **options)
    except (TypeError, ValueError) as error:
        name = getattr(make.func, "__name__", "torch")
        raise ConfigError(f"{name} rejects its settings: {error}", where=where, remedy=f"Change {where}.*") from error
