"""Messages between the processes that train one run together; a run of one process is the plain case.

The first process alone writes and prints. All processes must call these functions in the same order.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from mate_cli.errors import MateError, known_cause
from mate_cli.files.io_errors import find_machine_error

T = TypeVar("T")


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
    try:
        if is_rank_zero():
            told = [make(), True]
    except Exception as error:
        record_failure(error)  # before the others end
        raise
    finally:
        dist.broadcast_object_list(told, src=0, device=torch.device("cpu"))
    if not told[1]:
        raise SystemExit(MateError.exit_code)
    result: T = told[0]
    return result


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
