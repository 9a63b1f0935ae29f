"""Cheap gradients of a loop over time: weights that get their gradient once, and states that are looked up.

Autograd would add a gradient of the size of the weight in every step, and keep every state in a growing stack.
"""

from typing import Any

import torch
from torch import Tensor


class TimedLinear:
    """A dense layer without bias for many steps, whose weight gets its gradient in one product after all of them."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight.detach()
        self.inputs: list[Tensor] = []
        self.gradients: list[Tensor] = []
        self._steps: Tensor = _Sum.apply(weight, self)  # type: ignore[no-untyped-call]

    def __call__(self, inputs: Tensor) -> Tensor:
        """Map [B, inputs] to [B, outputs]."""
        outputs: Tensor = _Step.apply(inputs, self._steps, self)  # type: ignore[no-untyped-call]
        return outputs


class _Sum(torch.autograd.Function):
    """A number that every step depends on, so that its gradient comes after those of all steps."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, layer: TimedLinear) -> Tensor:  # noqa: ANN401 - torch's own context
        ctx.layer = layer
        return weight.new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's own context
        layer: TimedLinear = ctx.layer
        gradient = torch.cat(layer.gradients).T @ torch.cat(layer.inputs)
        layer.gradients, layer.inputs = [], []
        return gradient, None


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, steps: Tensor, layer: TimedLinear) -> Tensor:  # noqa: ANN401
        ctx.layer, ctx.nothing = layer, torch.zeros_like(steps)
        ctx.save_for_backward(inputs)
        return inputs @ layer.weight.T

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:  # noqa: ANN401 - torch's own context
        ctx.layer.inputs.append(ctx.saved_tensors[0])
        ctx.layer.gradients.append(gradient)
        return gradient @ ctx.layer.weight, ctx.nothing, None


class History:
    """The states of all steps so far, of which every example looks up another one."""

    def __init__(self, steps: int, like: Tensor) -> None:
        self.states = like.new_zeros(steps, *like.shape)
        self.gradients: Tensor | None = None
        self.rows = torch.arange(len(like), device=like.device)

    def keep(self, step: int, state: Tensor) -> Tensor:
        """Return the state [B, D] of a step, to be used from here on in its place."""
        kept: Tensor = _Keep.apply(state, self, step)  # type: ignore[no-untyped-call]
        return kept

    def at(self, steps: Tensor, last: Tensor) -> Tensor:
        """Return the states [B, D] of earlier steps [B]; `last` is the one that was kept last."""
        found: Tensor = _Find.apply(last, self, steps)  # type: ignore[no-untyped-call]
        return found

    def learn(self, steps: Tensor, gradient: Tensor) -> None:
        """Add what was learnt of states that were looked up."""
        if self.gradients is None:
            self.gradients = torch.zeros_like(self.states)
        self.gradients.index_put_((steps, self.rows), gradient, accumulate=True)


class _Keep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, state: Tensor, history: History, step: int) -> Tensor:  # noqa: ANN401
        history.states[step] = state
        ctx.history, ctx.step = history, step
        return state.view_as(state)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401 - torch's own context
        learnt = ctx.history.gradients
        return gradient if learnt is None else gradient + learnt[ctx.step], None, None


class _Find(torch.autograd.Function):
    """Lookup that depends on the last state, so that its gradient comes before that of any earlier state."""

    @staticmethod
    def forward(ctx: Any, last: Tensor, history: History, steps: Tensor) -> Tensor:  # noqa: ANN401
        ctx.history, ctx.steps = history, steps
        return history.states[steps, history.rows]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None]:  # noqa: ANN401 - torch's own context
        ctx.history.learn(ctx.steps, gradient)
        return None, None, None
