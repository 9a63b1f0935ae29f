"""The time of training steps on this machine, by a few of them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import torch

from mate_cli.attention.backends.native_build import native_kernels
from mate_cli.lit_modules.optimization.from_torch import optimizer_recipe
from mate_cli.pipelines.assembly import Parts
from mate_cli.pipelines.machine import device_of, resolve_profile
from mate_cli.runs.configuration import RunConfig
from mate_cli.tokenization.layout import TableEncoding

MAX_BATCHES = 12
"""Batches that are timed where there is time."""
HALF = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
MAX_TIMED = 32
"""Examples of a batch that is timed; a larger micro-batch takes as long per token."""


@dataclass(frozen=True)
class Timing:
    """Duration of steps.

    Args:
        per_token: seconds of a forward and a backward pass, for each token.
        update: seconds of an optimizer step.
        batches: that were timed; 0 where not even one was done, and `per_token` is what it took at least.
    """

    per_token: float
    update: float
    batches: int


class _TimeIsUpError(Exception):
    """The time for a measurement has passed."""


def time_steps(config: RunConfig, parts: Parts, sample: Sequence[TableEncoding], size: int, seconds: float) -> Timing:
    """Time forward and backward passes on batches of similar length, and an update after each.

    Args:
        config: of the run.
        parts: its network, task and loaders; the weights are changed.
        sample: what batches are made of.
        size: examples of a micro-batch.
        seconds: after which it ends.
    """
    hardware, device, task = resolve_profile(config.hardware), device_of(config.hardware), parts.task
    if device.type == "cpu":
        native_kernels()  # compiled before the first batch is timed
    task.to(device).train()
    optimizer = optimizer_recipe(config.optimizer, set()).build(task, fused=hardware.precision != "16-mixed")
    batches = _spread(sorted(sample, key=len), min(size, MAX_TIMED))
    took: list[tuple[int, float, float]] = []
    began = time.perf_counter()
    try:
        with _alarm(seconds):
            for group in islice(cycle(batches), MAX_BATCHES):
                start = time.perf_counter()
                if took and start - began > seconds / 2:
                    break
                with _autocast(device, hardware.precision):
                    loss = task.loss(parts.data.loading.batch(group).to(device))
                loss.backward()  # type: ignore[no-untyped-call]
                _wait_for(device)
                passed = time.perf_counter()
                optimizer.step()
                optimizer.zero_grad()
                _wait_for(device)
                took.append((sum(map(len, group)), passed - start, time.perf_counter() - passed))
    except _TimeIsUpError:
        if not took:
            return Timing((time.perf_counter() - began) / sum(map(len, batches[0])), 0.0, 0)
    took = took[1:] or took  # the first one also makes room
    tokens, passes, updates = (sum(values) for values in zip(*took, strict=True))
    return Timing(passes / tokens, updates / len(took), len(took))


def _spread(encodings: Sequence[TableEncoding], size: int) -> list[list[TableEncoding]]:
    """Return batches of neighbours, those of middle length first; the last ones fill up a batch that is not full."""
    starts = [min(start, max(0, len(encodings) - size)) for start in range(0, len(encodings), size)]
    starts.sort(key=lambda start: abs(2 * start + size - len(encodings)))
    return [list(encodings[start : start + size]) for start in starts]


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise `_TimeIsUpError` after so many seconds; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise _TimeIsUpError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _autocast(device: torch.device, precision: str) -> Any:  # noqa: ANN401 - either of two contexts
    return torch.autocast(device.type, HALF[precision]) if precision in HALF else nullcontext()


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
