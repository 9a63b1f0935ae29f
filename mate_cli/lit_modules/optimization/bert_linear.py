"""The reference's linear warm-up and decay, which do not meet."""

from typing import Annotated

import torch
from pydantic import Field


class BertLinear:
    """Decay linearly to zero over all steps, and for the first of them rise linearly to the full rate instead.

    After the warm-up the rate falls at once to where the decay is by then. Updates are counted from 1, so that the
    first one is not lost.

    Args:
        warmup: the share of all steps that warms up.

    Source: google-research/tapas, `models/bert/optimization.py`; `LinearSchedule` is without the fall.
    """

    def __init__(self, warmup: Annotated[float, Field(ge=0, le=1)] = 0.05) -> None:
        self.warmup = warmup

    def build(self, optimizer: torch.optim.Optimizer, total_steps: int) -> torch.optim.lr_scheduler.LRScheduler:
        """Return the schedule, to be advanced once per optimizer step."""
        rising = int(total_steps * self.warmup)

        def factor(done: int) -> float:
            step = done + 1
            return step / rising if step < rising else max(0.0, 1 - step / total_steps)

        return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
