"""AdamW with the parameter groups of BERT, with and without bias correction."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

Beta = Annotated[float, Field(ge=0, lt=1)]
"""Decay rate of a moment per step."""
Factors = Mapping[Literal["pretrained", "new"], Annotated[float, Field(ge=0)]]
"""Factors of the learning rate for weights that were loaded from a checkpoint and for new weights."""


@dataclass(frozen=True)
class AdamW:
    """Configuration of `torch.optim.AdamW` with the parameter groups and defaults of BERT.

    Biases and LayerNorms have no weight decay.

    Args:
        lr: peak learning rate.
        weight_decay: decoupled weight decay of matrices and embeddings.
        betas: decay rates of the two moments.
        eps: constant added to the root of the second moment.
        factors: factors of the learning rate for loaded and new weights. None: 1.

    Source: google-research/tapas, `models/bert/optimization.py`, except for the bias correction. `BertAdamW` has none.
    """

    lr: Annotated[float, Field(gt=0)] = 1e-5
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    eps: Annotated[float, Field(gt=0)] = 1e-6
    factors: Factors | None = None

    def build(self, module: nn.Module, *, fused: bool = True) -> torch.optim.Optimizer:
        """Build the optimizer of the trainable parameters of a module.

        Args:
            module: module to train.
            fused: whether to use the fused implementation, which is faster but incompatible with loss scaling.
        """
        groups = parameter_groups(module, self.weight_decay)
        betas = (self.betas[0], self.betas[1])
        return torch.optim.AdamW(groups, lr=self.lr, betas=betas, eps=self.eps, fused=fused)


@dataclass(frozen=True)
class BertAdamW(AdamW):
    """Configuration of the original optimizer of BERT: AdamW without bias correction of the moments.

    `trainer.gradient_clip` clips the norm of the gradient of all parameters first (1.0 in google-research/tapas). This
    optimizer then clips single gradients, which rarely has an effect.

    Args:
        clip_value: maximum absolute value of a single gradient. None: no limit.

    Source: google-research/tapas, `models/bert/optimization.py`.
    """

    clip_value: Annotated[float, Field(gt=0)] | None = 10.0

    def build(self, module: nn.Module, *, fused: bool = True) -> torch.optim.Optimizer:
        """Build the optimizer of the trainable parameters of a module. `fused` is ignored."""
        groups = parameter_groups(module, self.weight_decay)
        options = {"lr": self.lr, "betas": tuple(self.betas), "eps": self.eps, "clip_value": self.clip_value}
        return UncorrectedAdamW(groups, options)


class UncorrectedAdamW(torch.optim.Optimizer):
    """Adam without bias correction, with decoupled weight decay."""

    def __init__(self, groups: list[dict[str, Any]], options: dict[str, Any]) -> None:
        super().__init__(groups, options)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # noqa: ANN401 - as torch has it
        """Apply an Adam update without bias correction to every parameter that has a gradient.

        Args:
            closure: function that computes the gradients and returns the loss. None: the gradients are computed before.

        Returns:
            The loss of `closure`, or None without a closure.
        """
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
    """Split the trainable parameters of a module into a group with and a group without weight decay.

    Biases, LayerNorms and residual weights (`omega`) have no weight decay.
    """
    parameters = [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]
    exempt = {name for name, _ in parameters if name.endswith(("bias", "omega")) or "LayerNorm" in name}
    return [
        {"params": [p for name, p in parameters if name not in exempt], "weight_decay": weight_decay},
        {"params": [p for name, p in parameters if name in exempt], "weight_decay": 0.0},
    ]
