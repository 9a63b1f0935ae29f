"""What the processes that train one run together tell each other; a run of one process is the plain case.

The first process alone chooses the folder, writes and prints. All functions but `cause` must be called by all
processes in the same order.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import Store

from mate_cli.errors import MateError, RunError

T = TypeVar("T")
PATIENCE = 5.0
"""Seconds in which the reason of another process reaches the first one after their connection broke."""
FAILED = "failed"
"""Key of the store under which the first reason stands."""
NOTICED = "noticed"
"""Key that is there once the first process has read it and ends by itself."""
_store: Store | None = None
_devices = 1


def world_size() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Which of them this is, from 0."""
    return dist.get_rank() if world_size() > 1 else 0


def is_first() -> bool:
    """Whether this is the process that writes and prints."""
    return rank() == 0


def devices() -> int:
    """How many of them this machine has."""
    return _devices


def from_first(make: Callable[[], T]) -> T:
    """Do something in the first process only, and have its result in all.

    Raises:
        MateError: what `make` raises, in the first process; the others end quietly.
    """
    if world_size() == 1:
        return make()
    told: list[Any] = [None, False]
    try:
        if is_first():
            told = [make(), True]
    finally:
        dist.broadcast_object_list(told, src=0, device=torch.device("cpu"))
    if not told[1]:
        raise SystemExit(MateError.exit_code)
    result: T = told[0]
    return result


def first_then_all(make: Callable[[], T]) -> T:
    """Do something in the first process, then in the others, which find what it has left in a cache.

    Raises:
        MateError: as `from_first`.
    """
    if world_size() > 1:
        from_first(lambda: bool(make()))
    return make()


def total(values: list[float]) -> list[float]:
    """The sum of each value over all processes."""
    if world_size() == 1:
        return values
    tensor = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(tensor)
    return [float(value) for value in tensor]


def anywhere(fact: bool) -> bool:
    """Whether something holds in any process."""
    return total([float(fact)])[0] > 0


@contextmanager
def speaking(store: Store, on_this_machine: int) -> Iterator[None]:
    """Give processes a store in which one that fails leaves the reason."""
    global _store, _devices
    _store, _devices = store, on_this_machine
    try:
        yield
    finally:
        _store, _devices = None, 1


def tell_failure(reason: str) -> None:
    """Leave the reason why this process ends, unless the first one, which keeps the store, has ended too."""
    try:
        if _store is not None and not _store.check([FAILED]):
            _store.set(FAILED, f"process {rank()} of {world_size()}: {reason}")
    except dist.DistError:
        return


def cause(error: BaseException) -> BaseException:
    """What an error in this process comes from: where another process has failed, connections break here."""
    if (
        world_size() == 1
        or _store is None
        or not isinstance(error, RuntimeError)
        or isinstance(error, torch.OutOfMemoryError)
    ):
        return error
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if _store.check([FAILED]):
            _store.set(NOTICED, "")
            return RunError(_store.get(FAILED).decode(), remedy="Go on with resume=last")
        time.sleep(0.1)
    return error
