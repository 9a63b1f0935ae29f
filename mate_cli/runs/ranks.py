"""The processes that train one run together, their devices and messages; a run of one process is the plain case.

The first process alone writes and prints. All processes must call the functions of messages in the same order.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from mate_cli.errors import MateError, RunError, known_cause
from mate_cli.files.io_errors import find_machine_error
from mate_cli.runs.configuration import Hardware

T = TypeVar("T")
PER_CORE = 4
"""Processes or threads that one core may be asked to run."""
POLL = 0.02
"""Seconds between two looks at whether the others are here."""


def world_size() -> int:
    """Return the number of processes that train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return the number of this process, from 0."""
    return dist.get_rank() if world_size() > 1 else 0


def local_rank() -> int:
    """Return the number of this process among those of this machine, from 0: that of its GPU."""
    return dist.get_node_local_rank() if world_size() > 1 else 0


def is_rank_zero() -> bool:
    """Say whether this is the process that writes and prints."""
    return rank() == 0


def broadcast_from_rank_zero(make: Callable[[], T]) -> T:
    """Do something in the first process only, and have its result in all.

    Raises:
        MateError: what `make` raises, in the first process; the others end quietly.
    """
    if world_size() == 1:
        return make()
    told: list[Any] = [None, False]
    failure: Exception | None = None
    try:
        if is_rank_zero():
            told = [make(), True]
    except Exception as error:
        record_failure(error)  # before the others end
        failure = error
    wait_for_all()
    dist.broadcast_object_list(told, src=0, device=torch.device("cpu"))
    if failure:
        raise failure
    if not told[1]:
        raise SystemExit(MateError.exit_code)
    result: T = told[0]
    return result


def wait_for_all() -> None:
    """Wait until all processes are here; signals are heard meanwhile.

    Raises:
        RunError: one of them has ended.
    """
    if world_size() == 1:
        return
    arrival: Any = dist.all_reduce(torch.zeros(1), async_op=True)
    while not arrival.is_completed():
        time.sleep(POLL)
    try:
        arrival.wait()
    except RuntimeError as error:  # its connection has broken
        remedy = "Read what it has printed, and type the command again, of a training with resume=last"
        raise RunError("another process of this run has ended", remedy=remedy) from error


def require_agreement(facts: Mapping[str, object], remedy: str) -> None:
    """Refuse facts, by name, in which processes differ.

    Raises:
        RunError: naming a process and what it has, in the first process; the others end quietly.
    """
    if world_size() > 1:
        wait_for_all()
        shares: list[Any] = [None] * world_size()
        dist.all_gather_object(shares, dict(facts))
        broadcast_from_rank_zero(lambda: _compare(shares, remedy))


def _compare(shares: Sequence[Mapping[str, object]], remedy: str) -> None:
    for number, share in enumerate(shares):
        for name in [*shares[0], *share]:
            here, there = shares[0].get(name, "nothing"), share.get(name, "nothing")
            if here != there:
                raise RunError(f"process {number} has {name}: {there}, and process 0 has {here}", remedy=remedy)


def rank_zero_first(make: Callable[[], T]) -> T:
    """Do something in the first process, then in the others, which find what it has left in a cache.

    Raises:
        MateError: as `broadcast_from_rank_zero`.
    """
    if world_size() > 1:
        broadcast_from_rank_zero(lambda: bool(make()))
    return make()


def all_reduce_sum(values: list[float]) -> list[float]:
    """Return the sum of each value over all processes."""
    if world_size() == 1:
        return values
    tensor = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(tensor)
    return [float(value) for value in tensor]


def any_rank(fact: bool) -> bool:
    """Say whether something holds in any process."""
    return all_reduce_sum([float(fact)])[0] > 0


def record_failure(error: BaseException) -> None:
    """Leave why this process fails where torch's launcher looks for it; what it has left before stays."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if file and not Path(file).exists():
        from torch.distributed.elastic.multiprocessing.errors import get_error_handler

        get_error_handler().record_exception(known_cause(error) or find_machine_error(error) or error)


def find_accelerator(hardware: Hardware) -> str:
    """Return the accelerator of a profile: for `auto` the fastest that is here."""
    if hardware.accelerator != "auto":
        return hardware.accelerator
    if torch.cuda.is_available():
        return "gpu"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def is_login_node() -> bool:
    """Tell whether Slurm is here and this process is none of its jobs."""
    return shutil.which("sbatch") is not None and "SLURM_JOB_ID" not in os.environ


def missing_gpu_remedy(hardware: Hardware, usual: str) -> str:
    """Return what to do where GPUs are missing: let Slurm start the run, where it can."""
    if not is_login_node():
        return usual
    asked = f"srun --nodes={hardware.nodes} --ntasks-per-node={hardware.devices} --gpus-per-node={hardware.devices}"
    return f"This is a login node of Slurm: type {asked} mate train ..., or add -m hydra/launcher=submitit_slurm"
