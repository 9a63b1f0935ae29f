"""Learning-rate schedules: linear ones with a warm-up, and a power of what is left."""

from typing import Annotated

import torch
from pydantic import Field


class LinearSchedule:
    """Raise the learning rate to its peak over the first steps, then lower it to zero at the last.

    Args:
        warmup: the share of all steps that warms up.

    Source: google-research/tapas, `models/bert/optimization.py`.
    """

    def __init__(self, warmup: Annotated[float, Field(ge=0, le=1)] = 0.05) -> None:
        self.warmup = warmup

    def build(self, optimizer: torch.optim.Optimizer, total_steps: int) -> torch.optim.lr_scheduler.LRScheduler:
        """Return the schedule, to be advanced once per optimizer step."""
        rising = int(total_steps * self.warmup)
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: self.factor(step, rising, total_steps))

    def factor(self, step: int, rising: int, total_steps: int) -> float:
        """Return the share of the peak in a step, from 0; the first `rising` ones warm up."""
        if step < rising:
            return (step + 1) / (rising + 1)
        return max(0.0, (total_steps - step) / max(1, total_steps - rising))


class BertLinear(LinearSchedule):
    """Decay linearly to zero over all steps, and for the first of them rise linearly to the full rate instead.

    After the warm-up the rate falls at once to where the decay is by then. Updates are counted from 0; the first one,
    whose rate would be 0, has that of the second.

    Args:
        warmup: the share of all steps that warms up.

    Source: google-research/tapas, `models/bert/optimization.py`; `LinearSchedule` is without the fall.
    """

    def factor(self, step: int, rising: int, total_steps: int) -> float:
        """Return the share of the peak in a step, from 0."""
        return max(step, 1) / rising if step < rising else max(0.0, 1 - step / total_steps)


class PowerSchedule(LinearSchedule):
    """Raise the learning rate to its peak, then multiply it by (1 - t/T)^power in step t of T, from 1.

    It is never less than a floor after the warm-up. The last step, whose rate would be 0, has that of the step before.

    Args:
        power: 0.5 for the square root, 1 for a straight line.
        floor: the least share of the peak.
        warmup: the share of all steps that warms up; T are those that follow.

    Source: Xu et al. 2021, "Optimizing Deeper Transformers on Small Datasets", appendix C.5, and the released code,
    without a warm-up; Wang et al. 2020 (RAT-SQL), the released code, for the warm-up.
    """

    def __init__(
        self,
        power: Annotated[float, Field(gt=0)] = 0.5,
        floor: Annotated[float, Field(ge=0, le=1)] = 0.0,
        warmup: Annotated[float, Field(ge=0, le=1)] = 0.0,
    ) -> None:
        super().__init__(warmup)
        self.power, self.floor = power, floor

    def factor(self, step: int, rising: int, total_steps: int) -> float:
        """Return the share of the peak in a step, from 0."""
        if step < rising:
            return super().factor(step, rising, total_steps)
        left = max(1, total_steps - step - 1) / max(1, total_steps - rising)
        return max(self.floor, float(left**self.power))
