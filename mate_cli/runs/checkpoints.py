"""Weights on disk, safetensors that are written atomically and read with a clear message, and the last state of a run.

The last state, `last.ckpt`, may be damaged, of another run, or written by somebody else.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from mate_cli.errors import CheckpointError, MateError, RunError
from mate_cli.files.atomic import replace_file
from mate_cli.files.io_errors import find_machine_error, shorten_reason, wrap_read_errors
from mate_cli.files.safe_load import check_header, open_file
from mate_cli.runs import ranks

FROM_THE_BEGINNING = "Move it away to train this run from the beginning"


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
    with wrap_read_errors(path, CheckpointError, "weights cannot be read", "Train again"):
        check_header(path)
        weights = load_file(path)
    check_finite(weights, path)
    try:
        module.load_state_dict(weights)
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


KINDS: dict[str, type] = {
    "global_step": int,
    "state_dict": dict,
    "loops": dict,
    "callbacks": dict,
    "optimizer_states": list,
    "lr_schedulers": list,
}
"""Parts of a checkpoint that Lightning goes on from, and their types."""


def last_step(path: Path | None) -> int | None:
    """Return the optimizer step of a last state, or None without one.

    Raises:
        CheckpointError: the file is damaged.
    """
    return None if path is None else int(read_state(path)["global_step"])


def read_start(path: Path) -> str | None:
    """Return when the run was started that a last state belongs to, by which it knows its run.

    Raises:
        CheckpointError: the file is damaged.
    """
    state = read_state(path)["callbacks"].get("Checkpoints")
    return str(state["run"]) if isinstance(state, Mapping) and "run" in state else None


def read_state(path: Path) -> Mapping[str, Any]:
    """Read the parts of a last state; its tensors are read when they are used.

    Raises:
        CheckpointError: the file is damaged, or holds something else.
    """
    with wrap_read_errors(path, CheckpointError, "the checkpoint is damaged", FROM_THE_BEGINNING):
        with open_file(path):  # or else it could wait for a pipe
            pass
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        if not isinstance(state, dict):
            raise _damaged(path, "it is not a mapping")
        for name, kind in KINDS.items():
            if not isinstance(state.get(name), kind) or state[name] is True or state[name] == []:
                raise _damaged(path, f"there is no {name} in it")
        if state["global_step"] < 0:
            raise _damaged(path, "its step is negative")
        return state


@contextmanager
def wrap_resume_errors(path: Path | None, has_begun: Callable[[], bool]) -> Iterator[None]:
    """Go on from a last state; until the first step is done, what fails without a name is its misfit.

    Raises:
        CheckpointError: the state does not fit the run.
    """
    try:
        yield
    except Exception as error:
        if path is None or isinstance(error, MateError) or find_machine_error(error) or has_begun():
            raise
        raise CheckpointError(
            f"it does not fit this run: {shorten_reason(error)}", where=str(path), remedy=FROM_THE_BEGINNING
        ) from error


def _damaged(path: Path, problem: str) -> CheckpointError:
    return CheckpointError(f"the checkpoint is damaged: {problem}", where=str(path), remedy=FROM_THE_BEGINNING)
