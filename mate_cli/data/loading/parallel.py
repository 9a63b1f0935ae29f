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
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from types import ModuleType
from typing import Any, TypeVar

from mate_cli.errors import DataError
from mate_cli.files.safe_path import protect_subprocesses

TRIAL, MIN_SECONDS = 1.0, 8.0
"""Seconds of work after which the rest is estimated, and the least of it for which processes are started."""
AHEAD = 2
"""Things that each process is given before the result of the first is taken."""
KILLED = "a process that prepares data was killed"
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
    workers: list[Worker] = []
    turns: deque[Worker] = deque()
    left = iter(items)
    try:
        with _starting():
            for _ in range(min(processes, len(items))):
                workers.append(Worker(work))
        for worker in workers * AHEAD:
            turns.extend(worker.take(item) for item in islice(left, 1))
        while turns:
            worker = turns.popleft()
            while not worker.results:
                ready = wait([one.connection for one in workers])
                for one in workers:
                    if one.connection in ready:
                        one.receive()
            turns.extend(worker.take(item) for item in islice(left, 1))
            yield worker.results.popleft()
    finally:
        for worker in workers:
            worker.end()


class Worker:
    """A process that works on items in their order, with a pipe of its own: its end leaves no lock to the others."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        context: Any = multiprocessing.get_context(method)
        self.results: deque[Any] = deque()
        self.connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, work), daemon=True)
        self._process.start()
        other.close()  # so that the pipe ends with the process

    def take(self, item: object) -> Worker:
        """Send an item to work on.

        Raises:
            DataError: the process was killed.
        """
        try:
            self.connection.send(item)
        except OSError as error:
            raise DataError(KILLED, remedy=REMEDY) from error
        return self

    def receive(self) -> None:
        """Receive a result, or raise the error that the work ended in.

        Raises:
            DataError: the process was killed.
        """
        try:
            result, error, trace = self.connection.recv()
        except (EOFError, OSError) as end:
            raise DataError(KILLED, remedy=REMEDY) from end
        if error is not None:
            raise error from RuntimeError(trace)  # of the other process, for whoever mends it
        self.results.append(result)

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.join()
        self.connection.close()


@contextmanager
def _starting() -> Iterator[None]:
    """Let processes begin that neither hear Ctrl-C, which this one does for them, nor run the main module again."""
    protect_subprocesses()
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


def _serve(connection: Connection, work: Callable[[Any], Any]) -> None:
    """Work on what is received until the other end is closed, in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    items: SimpleQueue[Any] = SimpleQueue()
    # Items are received while results are sent: else both ends could wait for each other.
    threading.Thread(target=_receive, args=(connection, items), daemon=True).start()
    while True:
        answer: tuple[Any, Exception | None, str]
        try:
            answer = work(items.get()), None, ""
        except Exception as error:  # raised again where the result is awaited
            answer = None, error, traceback.format_exc()
        connection.send(answer)


def _receive(connection: Connection, items: SimpleQueue[Any]) -> None:
    with suppress(EOFError, OSError):
        while True:
            items.put(connection.recv())
    os._exit(1)
