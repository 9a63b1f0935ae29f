"""A function applied to many things on all cores, with the results in their order.

Processes are started afresh, as one that has threads must not be forked. None outlives this one, however it ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from types import ModuleType
from typing import Any, TypeVar

from mate_cli.errors import DataError

TRIAL, MIN_SECONDS = 1.0, 8.0
"""Seconds of work after which the rest is estimated, and the least of it for which processes are started."""
AHEAD = 2
"""Things that each process is given before the result of the first is taken."""
REMEDY = "Memory may be short: set hardware.prepare_workers=1, or fewer than this machine has cores"

Item = TypeVar("Item")
Result = TypeVar("Result")


def count_cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_on_cores(work: Callable[[Item], Result], items: Sequence[Item], processes: int) -> Generator[Result]:
    """Yield the result of each item, in order; the same for any number of processes.

    Work that ends soon is done in this process.

    Args:
        work: what can be pickled, as can items and results.
        items: N things.
        processes: how many share the work.

    Raises:
        DataError: a process was killed.
    """
    began = time.monotonic()
    for place, item in enumerate(items):
        spent = time.monotonic() - began
        if processes > 1 and spent >= TRIAL and spent * (len(items) - place) >= MIN_SECONDS * place:
            yield from _share(work, items[place:], processes)
            return
        yield work(item)


def _share(work: Callable[[Item], Result], items: Sequence[Item], processes: int) -> Iterator[Result]:
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context, others = multiprocessing.get_context(method), {*multiprocessing.active_children()}
    executor = ProcessPoolExecutor(min(processes, len(items)), context, _begin, (work,))
    left = iter(items)
    try:
        with _starting():
            waiting = deque(executor.submit(_work_on, item) for item in islice(left, AHEAD * processes))
        while waiting:
            result = waiting.popleft().result()
            waiting.extend(executor.submit(_work_on, item) for item in islice(left, 1))
            yield result
    except BaseException as error:
        for child in {*multiprocessing.active_children()} - others:
            child.kill()
        if isinstance(error, BrokenProcessPool):
            raise DataError("a process that prepares data was killed", remedy=REMEDY) from error
        raise
    finally:
        executor.shutdown(cancel_futures=True)


@contextmanager
def _starting() -> Iterator[None]:
    """Let processes begin that neither hear Ctrl-C, which this one does for them, nor run the main module again."""
    main, before = sys.modules["__main__"], None
    if threading.current_thread() is threading.main_thread():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


_work: Callable[[Any], Any]
"""The function of this process."""


def _begin(work: Callable[[Any], Any]) -> None:
    """Get ready, in a process that shares work: it has one thread, and ends when the one that started it has."""
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work_on(item: Any) -> Any:  # noqa: ANN401 - whatever the function takes and gives
    return _work(item)
