"""BERT's own AdamW, step by step as in the reference: no bias correction, single gradients clipped."""

from collections.abc import Callable
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from mate_cli.lit_modules.optimization.adamw import AdamW, parameter_groups
from mate_cli.lit_modules.optimization.rates import Factors


class BertAdamW(AdamW):
    """BERT's optimizer with nothing added: Adam's moments start at zero and are not corrected for it.

    The norm of the whole gradient is clipped before (`trainer.gradient_clip`, 1.0 in the reference), single gradients
    here; after the former the latter rarely does anything.

    Args:
        clip_value: the largest single gradient, either way; None for no limit.

    Source: google-research/tapas, `models/bert/optimization.py`.
    """

    def __init__(
        self,
        lr: Annotated[float, Field(gt=0)] = 1e-5,
        weight_decay: Annotated[float, Field(ge=0)] = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: Annotated[float, Field(gt=0)] = 1e-6,
        clip_value: Annotated[float, Field(gt=0)] | None = 10.0,
        factors: Factors | None = None,
    ) -> None:
        super().__init__(lr, weight_decay, betas, eps, factors)
        self.clip_value = clip_value

    def build(self, module: nn.Module, *, fused: bool = True) -> torch.optim.Optimizer:
        """Return the optimizer of a module's trainable parameters; it is never fused."""
        groups = parameter_groups(module, self.weight_decay)
        options = {"lr": self.lr, "betas": tuple(self.betas), "eps": self.eps, "clip_value": self.clip_value}
        return UncorrectedAdamW(groups, options)


class UncorrectedAdamW(torch.optim.Optimizer):
    """Adam without bias correction, decay decoupled."""

    def __init__(self, groups: list[dict[str, Any]], options: dict[str, Any]) -> None:
        super().__init__(groups, options)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # noqa: ANN401 - as torch has it
        """Move every parameter that has a gradient; return what `closure` gives, where there is one."""
        with torch.enable_grad():
            loss = closure() if closure else None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, group)
        return loss

    def _move(self, parameter: Tensor, group: dict[str, Any]) -> None:
        gradient, clip, (first, second) = parameter.grad, group["clip_value"], group["betas"]
        assert gradient is not None
        if clip is not None:
            gradient = gradient.clamp(-clip, clip)
        state = self.state[parameter]
        if not state:
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        mean = state["exp_avg"].lerp_(gradient, 1 - first)
        square = state["exp_avg_sq"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        update = mean / square.sqrt().add_(group["eps"])
        parameter.sub_(update.add_(parameter, alpha=group["weight_decay"]).mul_(group["lr"]))
