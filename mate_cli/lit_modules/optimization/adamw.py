"""AdamW with BERT's parameter groups; and BERT's own, step by step as in the reference."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

Beta = Annotated[float, Field(ge=0, lt=1)]
"""Decay of a moment at every step."""
Factors = Mapping[Literal["pretrained", "new"], Annotated[float, Field(ge=0)]]
"""Factors of the learning rate: of weights that were loaded, and of those that are new."""


@dataclass(frozen=True)
class AdamW:
    """BERT's optimizer: weight decay on matrices, none on biases and LayerNorm.

    Source: google-research/tapas, `models/bert/optimization.py`, but with Adam's bias correction;
        `BertAdamW` does without.
    """

    lr: Annotated[float, Field(gt=0)] = 1e-5
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    eps: Annotated[float, Field(gt=0)] = 1e-6
    factors: Factors | None = None

    def build(self, module: nn.Module, *, fused: bool = True) -> torch.optim.Optimizer:
        """Return the optimizer of a module's trainable parameters; `fused` is faster, but unfit for loss scaling."""
        groups = parameter_groups(module, self.weight_decay)
        betas = (self.betas[0], self.betas[1])
        return torch.optim.AdamW(groups, lr=self.lr, betas=betas, eps=self.eps, fused=fused)


@dataclass(frozen=True)
class BertAdamW(AdamW):
    """BERT's optimizer with nothing added: Adam's moments start at zero and are not corrected for it.

    The norm of the whole gradient is clipped before (`trainer.gradient_clip`, 1.0 in the reference), single gradients
    here; after the former the latter rarely does anything.

    Source: google-research/tapas, `models/bert/optimization.py`.
    """

    clip_value: Annotated[float, Field(gt=0)] | None = 10.0

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


def parameter_groups(module: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return the trainable parameters that decay, and those that do not: biases, LayerNorm and weights of residuals."""
    named = [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]
    exempt = {name for name, _ in named if name.endswith(("bias", "omega")) or "LayerNorm" in name}
    return [
        {"params": [p for name, p in named if name not in exempt], "weight_decay": weight_decay},
        {"params": [p for name, p in named if name in exempt], "weight_decay": 0.0},
    ]
