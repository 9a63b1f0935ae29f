"""Weights on disk: safetensors, written atomically and read with a clear message."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from textwrap import shorten

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from mate_cli.errors import CheckpointError, RunError
from mate_cli.files.atomic import replace_file
from mate_cli.files.safe_load import open_file
from mate_cli.runs import ranks


def save_module(module: torch.nn.Module, path: Path) -> None:
    """Write all weights of a module, as `save_weights`."""
    save_weights(module.state_dict(), path)


def save_weights(state: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write weights; equal ones give equal bytes. Of several processes, all call this and the first writes.

    Raises:
        RunError: the disk is full or the folder is read-only; what was there stays.
    """
    if not ranks.is_rank_zero():
        return
    try:
        with replace_file(path) as draft:
            weights = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
            write_tensors(weights, draft)
    except (OSError, SafetensorError) as error:
        raise RunError(
            f"weights cannot be written: {error}", where=str(path), remedy="Free space, then resume"
        ) from error


def write_tensors(tensors: Mapping[str, torch.Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write tensors, contiguous ones; whoever may read other new files here may read this one, too.

    Raises:
        OSError: the file cannot be written.
        SafetensorError: likewise.
    """
    path.touch()
    mode = path.stat().st_mode  # safetensors would keep the file to its owner
    save_file(dict(tensors), path, metadata=metadata)
    path.chmod(mode)


def check_finite(weights: Mapping[str, torch.Tensor], path: Path) -> None:
    """Refuse weights with which nothing can be computed.

    Raises:
        CheckpointError: naming the first that is not a number, or infinite.
    """
    for name, tensor in weights.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            problem = f"{name} has values that are NaN or infinite"
            raise CheckpointError(problem, where=str(path), remedy="Train again, or take the weights of another run")


def load_module(module: torch.nn.Module, path: Path) -> None:
    """Read all weights of a module.

    Raises:
        CheckpointError: the file is missing or damaged, has NaN in it, or belongs to another network.
    """
    try:
        with open_file(path, links=True):  # or else it could wait for a pipe
            pass
        weights = load_file(path)
        check_finite(weights, path)
        module.load_state_dict(weights)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"weights cannot be read: {error}", where=str(path), remedy="Train again") from error
    except RuntimeError as error:
        first = shorten(str(error).split("\n", 1)[-1], 160, placeholder=" ...")
        raise CheckpointError(
            f"weights of another network: {first}", where=str(path), remedy="Use the run's own configuration"
        ) from error


def sha256(path: Path) -> str:
    """Return the digest of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
