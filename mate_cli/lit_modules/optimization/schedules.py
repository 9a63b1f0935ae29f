"""Learning rate schedules with warm-up: linear decay, and decay by a power."""

from typing import Annotated

import torch
from pydantic import Field


class LinearSchedule:
    """Linear warm-up to the peak learning rate, then linear decay to zero at the last step.

    Args:
        warmup: fraction of all steps used for warm-up.

    Source: google-research/tapas, `models/bert/optimization.py`.
    """

    def __init__(self, warmup: Annotated[float, Field(ge=0, le=1)] = 0.05) -> None:
        self.warmup = warmup

    def build(self, optimizer: torch.optim.Optimizer, total_steps: int) -> torch.optim.lr_scheduler.LRScheduler:
        """Build the schedule, which is advanced once per optimizer step."""
        rising = int(total_steps * self.warmup)
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: self.factor(step, rising, total_steps))

    def factor(self, step: int, rising: int, total_steps: int) -> float:
        """Return the learning rate at a step, as a fraction of the peak learning rate.

        Args:
            step: index of the step, from 0.
            rising: number of warm-up steps.
            total_steps: number of steps of the run.
        """
        if step < rising:
            return (step + 1) / (rising + 1)
        return max(0.0, (total_steps - step) / max(1, total_steps - rising))


class BertLinear(LinearSchedule):
    """Linear decay over all steps, replaced by a linear warm-up in the first steps, as in BERT.

    The decay ends at zero. After the warm-up, the rate drops to the value of the decay at that step. Steps are counted
    from 0. The first step, whose rate would be 0, has the rate of the second step.

    Args:
        warmup: fraction of all steps used for warm-up.

    Source: google-research/tapas, `models/bert/optimization.py`. `LinearSchedule` avoids the drop.
    """

    def factor(self, step: int, rising: int, total_steps: int) -> float:
        """Return the learning rate at a step, as a fraction of the peak learning rate.

        Arguments: see `LinearSchedule.factor`.
        """
        return max(step, 1) / rising if step < rising else max(0.0, 1 - step / total_steps)


class PowerSchedule(LinearSchedule):
    """Linear warm-up, then decay by a power of the remaining steps.

    At step t of the T steps after the warm-up, from 1, the rate is the peak times (1 - t/T)^power. After the warm-up,
    the rate is at least `floor` times the peak. The last step, whose rate would be 0, has the rate of the previous
    step.

    Args:
        power: exponent of the decay: 0.5 for the square root, 1 for linear decay.
        floor: minimum fraction of the peak after the warm-up.
        warmup: fraction of all steps used for warm-up.

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
        """Return the learning rate at a step, as a fraction of the peak learning rate.

        Arguments: see `LinearSchedule.factor`.
        """
        if step < rising:
            return super().factor(step, rising, total_steps)
        remaining_fraction = max(1, total_steps - step - 1) / max(1, total_steps - rising)
        return max(self.floor, float(remaining_fraction**self.power))
