"""The heads of a task and what checkpoints of TAPAS call them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mate_cli.errors import CheckpointError, ConfigError

INSIDE = ("encoder.", "early_head.")
"""Prefixes of parameters that have first weights of their own; all others of a task are its heads'."""


class LoadedHeads(NamedTuple):
    """The heads that were loaded, and those that were not.

    Args:
        loaded: our parameters that were filled.
        new: those that were not.
        used: names in the checkpoint of what filled them.
    """

    loaded: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    used: frozenset[str] = frozenset()


def head_names(task: nn.Module) -> dict[str, str]:
    """Return the parameters of a task's heads that released checkpoints have, and the names there.

    They are the `transformers_names` of a class. In TAPAS a single score has one axis less.
    """
    parameters = dict(task.named_parameters())
    names = _names_of_classes(task, "transformers_names")
    return {ours: theirs for ours, theirs in names.items() if ours in parameters and not ours.startswith(INSIDE)}


def _names_of_classes(task: nn.Module, attribute: str) -> dict[str, Any]:
    """Return what an attribute of their classes says of parameters, by their whole names."""
    return {
        f"{place}.{ours}": theirs
        for place, module in task.named_modules()
        for ours, theirs in getattr(module, attribute, {}).items()
    }


def heads_inside(network: nn.Module) -> nn.ModuleDict:
    """Return what of a network is a head itself, such as what chooses tokens.

    It begins as the head of an inner encoder.
    """
    return nn.ModuleDict({name: head for name, head in network.named_children() if hasattr(head, "transformers_names")})


@torch.no_grad()
def load_heads(task: nn.Module, tensors: Mapping[str, Tensor], wanted: bool | str) -> LoadedHeads:
    """Fill the heads of a task from a checkpoint of TAPAS, or from an earlier run of the same task.

    The reference fills all that it finds, also heads that were to begin at zero.

    Args:
        task: with the heads.
        tensors: of the checkpoint, by name.
        wanted: True demands all heads, False takes none, "auto" takes those that are there and have the right shape.

    Raises:
        ConfigError: all are demanded of a task that has no such head.
        CheckpointError: all are demanded and one does not fit or is not there.
    """
    names = head_names(task)
    if wanted == "auto":
        names |= {n: n for n in task.state_dict() if n in tensors and not n.startswith(INSIDE)}
    if wanted is True and not names:
        raise ConfigError("this task has no heads that a checkpoint can provide", where="init.heads", remedy="Use auto")
    others = _names_of_classes(task, "run_names")  # of earlier runs of other tasks
    sources = {name: (name, theirs, *others.get(name, ())) for name, theirs in names.items()}
    first = {name: next((alias for alias in known if alias in tensors), None) for name, known in sources.items()}
    choices = {} if wanted is False else first
    parameters = task.state_dict(keep_vars=True)  # and buffers, such as a fitted threshold
    fitting = {name: source for name, source in choices.items() if source and fits(parameters[name], tensors[source])}
    missing = [name for name in names if name not in fitting]
    if wanted is True and missing:
        raise CheckpointError(
            f"{missing[0]} of this task is not in it, or has another shape",
            where="init.checkpoint",
            remedy="Use init.heads=auto",
        )
    for name, source in fitting.items():
        parameters[name].copy_(tensors[source].reshape(parameters[name].shape))
    return LoadedHeads(tuple(fitting), tuple(missing), frozenset(fitting.values()))


def fits(ours: Tensor, theirs: Tensor) -> bool:
    """Tell whether the shapes are alike, but for axes of one."""
    shapes = ([size for size in tensor.shape if size > 1] for tensor in (ours, theirs))
    return next(shapes) == next(shapes)
