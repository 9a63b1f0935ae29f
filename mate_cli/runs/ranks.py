"""Ranks of a run, their devices and collective operations.

All functions also work in a single process.

Only rank 0 writes and prints. All ranks must call the collective functions in the same order.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from mate_cli.errors import MateError, RunError
from mate_cli.files.io_errors import find_known_error
from mate_cli.runs.configuration import Hardware

T = TypeVar("T")
PER_CORE = 4
"""Maximum number of processes or threads per CPU core."""
POLL = 0.02
"""Seconds between two checks of whether a collective operation is complete."""


def world_size() -> int:
    """Return the number of ranks, or 1 without a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return the rank of this process, from 0."""
    return dist.get_rank() if world_size() > 1 else 0


def local_rank() -> int:
    """Return the rank of this process among the processes on its machine, from 0.

    The local rank is also the index of the GPU of this process.
    """
    return dist.get_node_local_rank() if world_size() > 1 else 0


def is_rank_zero() -> bool:
    """Return whether this process is rank 0, which writes and prints."""
    return rank() == 0


def broadcast_from_rank_zero(make: Callable[[], T]) -> T:
    """Call `make` on rank 0 only, and return its result on all ranks.

    Raises:
        MateError: `make` raised this error on rank 0. All other ranks exit without a message.
    """
    if world_size() == 1:
        return make()
    outcome: list[Any] = [None, False]
    failure: Exception | None = None
    try:
        if is_rank_zero():
            outcome = [make(), True]
    except Exception as error:
        # The failure must be recorded before the other ranks exit.
        record_failure(error)
        failure = error
    wait_for_all()
    dist.broadcast_object_list(outcome, src=0, device=torch.device("cpu"))
    if failure:
        raise failure
    if not outcome[1]:
        raise SystemExit(MateError.exit_code)
    result: T = outcome[0]
    return result


def wait_for_all() -> None:
    """Wait until all ranks have called this function.

    Signals are handled meanwhile.

    Raises:
        RunError: another rank has ended.
    """
    if world_size() == 1:
        return
    arrival: Any = dist.all_reduce(torch.zeros(1), async_op=True)
    while not arrival.is_completed():
        time.sleep(POLL)
    try:
        arrival.wait()
    except RuntimeError as error:  # the connection to another rank is broken
        hint = "Read its output, and run the command again, with resume=last for training"
        raise RunError("another rank of this run has ended", remedy=hint) from error


def require_agreement(facts: Mapping[str, object], remedy: str) -> None:
    """Raise an error unless given values, such as hashes of the data, are equal on all ranks.

    Args:
        facts: values of this rank, by name.
        remedy: hint for the error message.

    Raises:
        RunError: a value differs from rank 0. Raised on rank 0. All other ranks exit without a message.
    """
    if world_size() > 1:
        wait_for_all()
        shares: list[Any] = [None] * world_size()
        dist.all_gather_object(shares, dict(facts))
        broadcast_from_rank_zero(lambda: _compare(shares, remedy))


def _compare(shares: Sequence[Mapping[str, object]], hint: str) -> None:
    for number, share in enumerate(shares):
        for name in [*shares[0], *share]:
            expected, value = shares[0].get(name, "nothing"), share.get(name, "nothing")
            if expected != value:
                raise RunError(f"rank {number} has {name}: {value}, but rank 0 has {expected}", remedy=hint)


def rank_zero_first(make: Callable[[], T]) -> T:
    """Call `make` on rank 0 first, so that its files and caches exist for the other ranks.

    All ranks then call `make`. The result of this rank's call is returned.

    Raises:
        MateError: see `broadcast_from_rank_zero`.
    """
    if world_size() > 1:
        broadcast_from_rank_zero(lambda: bool(make()))
    return make()


def all_reduce_sum(values: list[float]) -> list[float]:
    """Sum each value over all ranks, and return the sums on every rank."""
    if world_size() == 1:
        return values
    tensor = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(tensor)
    return [float(value) for value in tensor]


def any_rank(fact: bool) -> bool:
    """Return on every rank whether at least one rank has passed a true `fact`."""
    return all_reduce_sum([float(fact)])[0] > 0


def record_failure(error: BaseException) -> None:
    """Write an error to the error file of torchrun, unless the file exists."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if file and not Path(file).exists():
        from torch.distributed.elastic.multiprocessing.errors import get_error_handler

        get_error_handler().record_exception(find_known_error(error) or error)


def find_accelerator(hardware: Hardware) -> str:
    """Return the configured accelerator, or the fastest available accelerator for `auto`."""
    if hardware.accelerator != "auto":
        return hardware.accelerator
    if torch.cuda.is_available():
        return "gpu"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def missing_gpu_remedy(hardware: Hardware, usual: str) -> str:
    """Return the hint for an error about missing GPUs.

    On a Slurm login node, the hint is an srun command, elsewhere it is `usual`.
    """
    if shutil.which("sbatch") is None or "SLURM_JOB_ID" in os.environ:
        return usual
    command = f"srun --nodes={hardware.nodes} --ntasks-per-node={hardware.devices} --gpus-per-node={hardware.devices}"
    return f"This is a login node of Slurm: type {command} mate train ..., or add -m hydra/launcher=submitit_slurm"
