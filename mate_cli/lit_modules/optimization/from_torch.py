"""Optimizers and schedules of torch by a configuration alone: `_target_: torch.optim.X`, `_partial_: true`."""

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from hydra.utils import instantiate
from torch import nn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from mate_cli.errors import ConfigError
from mate_cli.lit_modules.optimization.recipe import OptimizerRecipe, ScheduleRecipe, with_factors

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
