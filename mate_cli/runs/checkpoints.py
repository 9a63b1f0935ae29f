"""Atomic writing of weights as safetensors, and validation of the checkpoint `last.ckpt`.

`last.ckpt` is untrusted: it may be damaged, belong to another run, or come from another user.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from mate_cli.errors import CheckpointError, RunError
from mate_cli.files.atomic import replace_file
from mate_cli.files.io_errors import find_known_error, shorten_reason, wrap_file_errors
from mate_cli.files.safe_load import check_header, open_file
from mate_cli.runs import ranks

FROM_THE_BEGINNING = "Move it away to train this run from the beginning"


def save_module(module: torch.nn.Module, path: Path) -> None:
    """Write the weights of a module to a safetensors file, on rank 0 only."""
    save_weights(module.state_dict(), path)


def save_weights(state: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write a state dict to a safetensors file, atomically and on rank 0 only.

    Equal weights give files with equal bytes. All ranks may call this function.

    Raises:
        RunError: the disk is full or the folder is read-only. An existing file is unchanged.
    """
    if not ranks.is_rank_zero():
        return
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    problem, hint = "weights cannot be written", "Free space, then resume"
    with wrap_file_errors(path, RunError, problem, hint), replace_file(path) as draft:
        write_tensors(weights, draft)


def write_tensors(tensors: Mapping[str, torch.Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write contiguous tensors to a safetensors file with default file permissions.

    Args:
        tensors: contiguous tensors by name.
        path: file to write.
        metadata: metadata of the safetensors header. None for no metadata.

    Raises:
        OSError: the file cannot be written.
        SafetensorError: safetensors cannot write the file.
    """
    path.touch()
    # safetensors makes files readable only for their owner.
    mode = path.stat().st_mode
    save_file(dict(tensors), path, metadata=metadata)
    path.chmod(mode)


def check_finite(weights: Mapping[str, torch.Tensor], path: Path) -> None:
    """Check that all floating-point weights are finite.

    Raises:
        CheckpointError: a tensor has NaN or infinite values. The error names the first such tensor.
    """
    for name, tensor in weights.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            problem = f"{name} has values that are NaN or infinite"
            raise CheckpointError(problem, where=str(path), remedy="Train again, or take the weights of another run")


def load_module(module: torch.nn.Module, path: Path, remedy: str = "Train again") -> None:
    """Load the state dict of a module from a safetensors file, and check that the weights fit.

    Args:
        module: module that receives the weights.
        path: safetensors file.
        remedy: hint for damaged or missing weights.

    Raises:
        CheckpointError: the file is missing or damaged, has non-finite values, or belongs to another network.
    """
    with wrap_file_errors(path, CheckpointError, "weights cannot be read", remedy):
        check_header(path)
        weights = load_file(path)
    check_finite(weights, path)
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        first = shorten(str(error).split("\n", 1)[-1], 160, placeholder=" ...")
        problem = f"weights of another network: {first}"
        raise CheckpointError(problem, where=str(path), remedy="Use the run's own configuration") from error


def sha256(path: Path) -> str:
    """Return the SHA-256 digest of a file in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


KINDS: dict[str, type] = {
    "global_step": int,
    "state_dict": dict,
    "loops": dict,
    "callbacks": dict,
    "optimizer_states": list,
    "lr_schedulers": list,
}
"""Keys of `last.ckpt` that Lightning needs to resume a run, and the types of their values."""


def last_step(path: Path | None) -> int | None:
    """Return the optimizer step at which `last.ckpt` was saved, or None if `path` is None.

    Raises:
        CheckpointError: the file is damaged.
    """
    return None if path is None else int(read_state(path)["global_step"])


def read_start(path: Path) -> str | None:
    """Return the start time of a run from its `last.ckpt`, or None if it is not stored.

    The start time identifies the run that has saved the checkpoint.

    Raises:
        CheckpointError: the file is damaged.
    """
    state = read_state(path)["callbacks"].get("Checkpoints")
    return str(state["run"]) if isinstance(state, Mapping) and "run" in state else None


def read_state(path: Path) -> Mapping[str, Any]:
    """Read and validate `last.ckpt`.

    Tensors are memory-mapped and read on first use.

    Raises:
        CheckpointError: the file is damaged or is not a checkpoint.
    """
    with wrap_file_errors(path, CheckpointError, "the checkpoint is damaged", FROM_THE_BEGINNING):
        # `open_file` rejects a named pipe, on which `torch.load` would block.
        with open_file(path):
            pass
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        if not isinstance(state, dict):
            raise ValueError("it is not a mapping")
        for name, kind in KINDS.items():
            if not isinstance(state.get(name), kind) or state[name] is True or state[name] == []:
                raise ValueError(f"there is no {name} in it")
        if state["global_step"] < 0:
            raise ValueError("its step is negative")
        return state


@contextmanager
def wrap_resume_errors(path: Path | None, has_begun: Callable[[], bool]) -> Iterator[None]:
    """Raise `CheckpointError` for unexpected errors before the first step of a resumed run.

    The context manager surrounds training. Such an error usually means that the checkpoint does not fit the run.

    Args:
        path: checkpoint from which the run is resumed. None for a new run.
        has_begun: function that returns whether an optimizer step is done. Later errors are not converted.

    Raises:
        CheckpointError: the checkpoint does not fit the run.
    """
    try:
        yield
    except Exception as error:
        if path is None or find_known_error(error) or has_begun():
            raise
        problem = f"it does not fit this run: {shorten_reason(error)}"
        raise CheckpointError(problem, where=str(path), remedy=FROM_THE_BEGINNING) from error
