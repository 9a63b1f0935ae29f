"""Linear warm-up, then linear decay to zero."""

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

        def factor(step: int) -> float:
            if step < rising:
                return (step + 1) / (rising + 1)
            return max(0.0, (total_steps - step) / max(1, total_steps - rising))

        return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
