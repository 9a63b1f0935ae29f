"""The last state of a run, `last.ckpt`: it may be damaged, of another run, or written by somebody else."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from mate_cli.errors import CheckpointError, MateError
from mate_cli.files.io_errors import find_machine_error, shorten_reason, wrap_read_errors
from mate_cli.files.safe_load import open_file

REMEDY = "Move it away to train this run from the beginning"
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
    with wrap_read_errors(path, CheckpointError, "the checkpoint is damaged", REMEDY):
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
            f"it does not fit this run: {shorten_reason(error)}", where=str(path), remedy=REMEDY
        ) from error


def _damaged(path: Path, problem: str) -> CheckpointError:
    return CheckpointError(f"the checkpoint is damaged: {problem}", where=str(path), remedy=REMEDY)
