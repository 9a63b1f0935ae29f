"""Parallel map over many items on all CPU cores, with results in the order of the items.

Worker processes are spawned, because a process with threads must not be forked. A worker ends when this process ends,
even if this process is killed.
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
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any, TypeVar

from mate_cli.errors import DataError
from mate_cli.files.safe_path import protect_subprocesses

TRIAL_SECONDS, MIN_SECONDS = 1.0, 8.0
"""Seconds before the remaining time is estimated, and minimum remaining seconds for which processes are started."""
PREFETCH = 2
"""Number of items per process that are submitted in advance."""
ENDS_BROKEN_POOLS = sys.version_info >= (3, 11, 5)
"""Whether this Python version detects a killed worker process. Older versions can wait for it forever."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_on_cores(work: Callable[[Item], Result], items: Sequence[Item], processes: int) -> Generator[Result]:
    """Yield the result of `work` for each item, in order.

    The results do not depend on the number of processes. Short work runs in this process. Worker processes are started
    only if the remaining time is at least `MIN_SECONDS`.

    Args:
        work: function of one item, which must be picklable.
        items: N picklable items. The pickles of an item and of its result have at most 4 kB.
        processes: maximum number of worker processes. With 1, all work runs in this process.

    Raises:
        DataError: a worker process was killed.
    """
    start = time.monotonic()
    for index, item in enumerate(items):
        spent = time.monotonic() - start
        is_long = spent >= TRIAL_SECONDS and spent * (len(items) - index) >= MIN_SECONDS * index
        if processes > 1 and is_long and ENDS_BROKEN_POOLS:
            yield from _share(work, items[index:], processes)
            return
        yield work(item)


def _share(function: Callable[[Item], Result], items: Sequence[Item], processes: int) -> Iterator[Result]:
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context: Any = multiprocessing.get_context(method)
    lifeline, sender = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(processes, context, _start, (function, lifeline))
    futures: deque[Future[Result]] = deque()
    queue = iter(items)

    def submit(count: int) -> None:
        with _starting():
            futures.extend(pool.submit(_call, item) for item in islice(queue, count))

    try:
        submit(PREFETCH * processes)
        while futures:
            result = futures.popleft().result()
            submit(1)
            yield result
    except BrokenProcessPool as error:
        hint = "Memory may be short: set hardware.prepare_workers=1, or fewer than this machine has cores"
        raise DataError("a process that prepares data was killed", remedy=hint) from error
    finally:
        sender.close()  # Closing this end of the pipe terminates all workers, even busy workers.
        pool.shutdown(cancel_futures=True)
        lifeline.close()


@contextmanager
def _starting() -> Iterator[None]:
    """Protect the start of worker processes from SIGINT and from importing the main module.

    The workers then do not import the main module, and only this process handles Ctrl-C.
    """
    protect_subprocesses()
    main, mask = sys.modules["__main__"], signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _start(function: Callable[[Any], Any], lifeline: Connection) -> None:
    """Initialize a worker process, which exits once the other end of `lifeline` is closed."""
    global _work
    _work = function  # The function is sent once per process instead of once per item.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    threading.Thread(target=lambda: (lifeline.poll(None), os._exit(1)), daemon=True).start()


_work: Callable[[Any], Any]


def _call(item: Any) -> Any:  # noqa: ANN401 - any item and result
    return _work(item)
