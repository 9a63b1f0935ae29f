"""Signals by which terminals and schedulers end a command: it ends as after Ctrl-C, and its record says so."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupt_on_end() -> Iterator[None]:
    """Turn the signals that end a command into `KeyboardInterrupt`."""

    def stop() -> None:
        raise KeyboardInterrupt

    with handle_signals(ENDING, stop):
        yield


@contextmanager
def handle_signals(numbers: tuple[signal.Signals, ...], stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on signals, in this process alone: those that it forks end as they would without.

    A hang-up that is ignored, as below nohup, stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    process = os.getpid()

    def handle(number: int, frame: object) -> None:
        if os.getpid() == process:
            stop()
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    before = {number: signal.getsignal(number) for number in numbers}
    signals = [number for number in numbers if not (number == signal.SIGHUP and before[number] == signal.SIG_IGN)]
    for number in signals:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in signals:
            signal.signal(number, before[number] or signal.SIG_DFL)
