"""How the weights of a run are moved: an optimizer and a schedule, before there are any weights."""

from dataclasses import dataclass
from typing import Protocol

import torch


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
    """How the weights of a run are moved, in `total_steps` optimizer steps."""

    optimizer: OptimizerRecipe
    schedule: ScheduleRecipe
    total_steps: int
