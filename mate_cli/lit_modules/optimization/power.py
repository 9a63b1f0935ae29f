"""Decay by a power of what is left of the run, without a warm-up."""

from typing import Annotated

import torch
from pydantic import Field


class PowerSchedule:
    """Multiply the learning rate by (1 - t/T)^power in step t of T, from 1, and by no less than a floor.

    Args:
        power: 0.5 for the square root, 1 for a straight line.
        floor: the least share of the peak.

    Source: Xu et al. 2021, "Optimizing Deeper Transformers on Small Datasets", appendix C.5, and the released code.
    """

    def __init__(
        self, power: Annotated[float, Field(gt=0)] = 0.5, floor: Annotated[float, Field(ge=0, le=1)] = 0.0
    ) -> None:
        self.power, self.floor = power, floor

    def build(self, optimizer: torch.optim.Optimizer, total_steps: int) -> torch.optim.lr_scheduler.LRScheduler:
        """Return the schedule, to be advanced once per optimizer step."""

        def factor(done: int) -> float:
            left = max(0.0, 1 - (done + 1) / total_steps)
            return max(self.floor, float(left**self.power))

        return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
