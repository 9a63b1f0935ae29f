"""Loading the output heads of a task from checkpoints of TAPAS or of earlier runs."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mate_cli.errors import CheckpointError, ConfigError

NON_HEAD_PREFIXES = ("encoder.", "early_head.")
"""Prefixes of task parameters that belong to no head. All other parameters belong to the heads."""


class LoadedHeads(NamedTuple):
    """Names of head parameters that were loaded from a checkpoint or initialized randomly.

    Args:
        loaded: names of the parameters that were loaded.
        new: names of the parameters that were not loaded.
        used: names of the loaded tensors in the checkpoint.
    """

    loaded: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    used: frozenset[str] = frozenset()


def head_names(task: nn.Module) -> dict[str, str]:
    """Map the name of each head parameter in mate to its name in checkpoints of transformers.

    The names come from `transformers_names` of the head classes. In TAPAS a head with one output has one axis less.
    """
    head_parameters = {name for name, _ in task.named_parameters() if not name.startswith(NON_HEAD_PREFIXES)}
    names = _names_of_classes(task, "transformers_names")
    return {name: released_name for name, released_name in names.items() if name in head_parameters}


def _names_of_classes(task: nn.Module, attribute: str) -> dict[str, Any]:
    """Merge a class attribute, a dictionary by parameter name, over all modules of a task.

    The keys of the result are full parameter names.
    """
    return {
        f"{module_name}.{name}": value
        for module_name, module in task.named_modules()
        for name, value in getattr(module, attribute, {}).items()
    }


def heads_inside(network: nn.Module) -> nn.ModuleDict:
    """Return the submodules of a network that can load weights of an output head.

    An example is a token scorer. They are initialized from the checkpoint of an inner encoder, such as the pruning
    transformer.
    """
    return nn.ModuleDict({name: head for name, head in network.named_children() if hasattr(head, "transformers_names")})


@torch.no_grad()
def load_heads(task: nn.Module, tensors: Mapping[str, Tensor], wanted: bool | str) -> LoadedHeads:
    """Load the heads of a task from a checkpoint of TAPAS, or from an earlier run.

    As in google-research/tapas, all heads found are loaded, including heads configured to start at zero.

    Args:
        task: task with the heads.
        tensors: tensors of the checkpoint, by name.
        wanted: True requires all heads, False loads none, "auto" loads the heads that exist with the same shape.

    Raises:
        ConfigError: `wanted` is True and no released checkpoint has a head of this task.
        CheckpointError: `wanted` is True and a head is missing or has another shape.
    """
    names = head_names(task)
    if wanted == "auto":
        names |= {n: n for n in task.state_dict() if n in tensors and not n.startswith(NON_HEAD_PREFIXES)}
    if wanted is True and not names:
        raise ConfigError("this task has no heads that a checkpoint can provide", where="init.heads", remedy="Use auto")
    # Names of the same parameters in earlier runs of other tasks.
    run_names = _names_of_classes(task, "run_names")
    sources = {name: (name, released_name, *run_names.get(name, ())) for name, released_name in names.items()}
    aliases = {name: next((alias for alias in names if alias in tensors), None) for name, names in sources.items()}
    found = {} if wanted is False else {name: source for name, source in aliases.items() if source}
    # The state dict also contains buffers, such as a fitted threshold.
    parameters = task.state_dict(keep_vars=True)
    loaded_sources = {name: x for name, x in found.items() if shapes_match(parameters[name], tensors[x])}
    missing_names = [name for name in names if name not in loaded_sources]
    if wanted is True and missing_names:
        problem = f"{missing_names[0]} of this task is not in it, or has another shape"
        raise CheckpointError(problem, where="init.checkpoint", remedy="Use init.heads=auto")
    for name, source in loaded_sources.items():
        parameters[name].copy_(tensors[source].reshape(parameters[name].shape))
    return LoadedHeads(tuple(loaded_sources), tuple(missing_names), frozenset(loaded_sources.values()))


def shapes_match(ours: Tensor, theirs: Tensor) -> bool:
    """Return whether two tensors have the same shape, ignoring axes of size 1."""
    shapes = ([size for size in tensor.shape if size > 1] for tensor in (ours, theirs))
    return next(shapes) == next(shapes)
