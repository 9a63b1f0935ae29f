"""AdamW with BERT's parameter groups."""

from typing import Annotated, Any

import torch
from pydantic import Field
from torch import nn

from mate_cli.lit_modules.optimization.rates import Factors


class AdamW:
    """BERT's optimizer: weight decay on matrices, none on biases and LayerNorm.

    Args:
        lr: the learning rate at its peak.
        weight_decay: decoupled decay of the matrices and embeddings.
        betas: decay rates of the two moments.
        eps: added to the root of the second moment.
        factors: what the rate of a part is multiplied by, see `with_factors`; None for the same rate everywhere.

    Source: google-research/tapas, `models/bert/optimization.py`, but with Adam's bias correction;
        `BertAdamW` does without.
    """

    def __init__(
        self,
        lr: Annotated[float, Field(gt=0)] = 1e-5,
        weight_decay: Annotated[float, Field(ge=0)] = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: Annotated[float, Field(gt=0)] = 1e-6,
        factors: Factors | None = None,
    ) -> None:
        self.factors = factors
        self.lr, self.weight_decay, self.betas, self.eps = lr, weight_decay, betas, eps

    def build(self, module: nn.Module, *, fused: bool = True) -> torch.optim.Optimizer:
        """Return the optimizer of a module's trainable parameters; `fused` is faster, but unfit for loss scaling."""
        groups = parameter_groups(module, self.weight_decay)
        betas = (self.betas[0], self.betas[1])
        return torch.optim.AdamW(groups, lr=self.lr, betas=betas, eps=self.eps, fused=fused)


def parameter_groups(module: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """The trainable parameters that decay, and those that do not: biases, LayerNorm and weights of residuals."""
    named = [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]
    exempt = {name for name, _ in named if name.endswith(("bias", "omega")) or "LayerNorm" in name}
    return [
        {"params": [p for name, p in named if name not in exempt], "weight_decay": weight_decay},
        {"params": [p for name, p in named if name in exempt], "weight_decay": 0.0},
    ]
