"""Timing of variants on one machine.

Variants are timed in turns in one process, so that a slow machine affects all variants equally.
"""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from mate_cli.errors import ConfigError, MateError

NO_MEMORY, NO_GPU_MEMORY = "can't allocate memory", "CUDA error: out of memory"
"""Text in out-of-memory errors of PyTorch on a CPU and on a GPU."""
MAX_REASON = 200
"""Maximum number of characters of a library's error message in a record."""

FORWARD = "forward"
DIRECTIONS = (FORWARD, "forward_backward")
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
FORGET_PEAK = "5"

Call = Callable[[], object]
Result = TypeVar("Result")
Clock = Callable[[], tuple[float, float]]
Figures = dict[str, float | str]
"""Measurements by name, as in a record.

Text values are not measured, for example the reason of a missing measurement.
"""


class Timing(NamedTuple):
    """Measured time and memory of an implementation: medians of the timed calls.

    Args:
        ms: wall time in milliseconds.
        cpu_ms: CPU time in milliseconds, summed over threads.
        rounds: number of timed calls, without the first call.
        peak_mb: additional memory of the first call in MB (10**6 bytes), None if it cannot be measured.
    """

    ms: float
    cpu_ms: float
    rounds: int
    peak_mb: float | None

    @classmethod
    def of(cls, samples: Sequence[tuple[float, float]], peak_mb: float | None) -> Timing:
        """Create a timing from (wall, CPU) seconds of each call, by taking their medians."""
        wall, on_cpu = (1000 * statistics.median(values) for values in zip(*samples, strict=True))
        return cls(wall, on_cpu, len(samples), peak_mb)


class NotRun(NamedTuple):
    """The reason why an implementation has no measurements, such as "out of memory"."""

    not_run: str


def clock(device: torch.device) -> Clock:
    """Create a function that waits for the device, and returns (wall, CPU) time in seconds."""

    def read() -> tuple[float, float]:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter(), time.process_time()

    return read


def time_turns(
    calls: Mapping[str, Call], *, rounds: int, seconds: float, device: torch.device
) -> dict[str, Timing | NotRun]:
    """Measure the time of several implementations in rounds, each called once per round.

    A slow phase of the machine therefore affects all implementations equally.

    The first call of each variant is a warm-up call, in which its memory is measured.

    Args:
        calls: functions to time, by name of the variant.
        rounds: maximum number of rounds. Fewer, but at least one, if all rounds would take longer than `seconds`.
        seconds: time limit of all rounds. A variant whose first call takes longer is not called again.
        device: device of the calls.

    Returns:
        The timing of each variant, or the reason why it has no timing, in the order of `calls`.
    """
    read_clock = clock(device)
    outcomes = {name: attempt(partial(time_first_call, call, read_clock, device)) for name, call in calls.items()}
    failures = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, NotRun)}
    first = {name: outcome for name, outcome in outcomes.items() if not isinstance(outcome, NotRun)}
    for name in [name for name, (spent, _) in first.items() if spent > seconds]:
        failures[name] = NotRun(f"one call took {first.pop(name)[0]:.1f} s, the limit is {seconds:g} s")
    rounds = max(1, min(rounds, int(seconds / max(sum(spent for spent, _ in first.values()), 1e-9))))
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in first}
    for _ in range(rounds):
        for name in [name for name in samples if name not in failures]:
            spent = attempt(partial(time_call, calls[name], read_clock))
            if isinstance(spent, NotRun):
                failures[name] = spent
            else:
                samples[name].append(spent)
    return {name: failures.get(name) or Timing.of(samples[name], first[name][1]) for name in calls}


def time_call(call: Call, read_clock: Clock) -> tuple[float, float]:
    """Return the wall time and the CPU time of one call in seconds."""
    wall, on_cpu = read_clock()
    call()
    wall_after, on_cpu_after = read_clock()
    return wall_after - wall, on_cpu_after - on_cpu


def time_first_call(call: Call, read_clock: Clock, device: torch.device) -> tuple[float, float | None]:
    """Measure wall time (s) and additional peak memory (MB) of an implementation's first call.

    The memory is None if it is unknown. On CUDA it is the memory allocated by PyTorch. On a CPU it is the peak of the
    process (VmHWM) minus the resident memory before the call. A large block that is freed and allocated again counts as
    new memory.

    Args:
        call: function to measure.
        read_clock: clock of the device.
        device: device of the call.
    """
    gc.collect()
    initial_mb = _reset_peak_mb(device)
    spent, _ = time_call(call, read_clock)
    if initial_mb is None:
        return spent, None
    peak = torch.cuda.max_memory_allocated(device) / 1e6 if device.type == "cuda" else _status_mb("VmHWM")
    return spent, max(0.0, peak - initial_mb)


def _reset_peak_mb(device: torch.device) -> float | None:
    """Reset the measured peak memory, and return the memory in use in MB, None if unknown.

    1 MB is 10**6 bytes.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device) / 1e6
    # Other C libraries lack `malloc_trim`. Reused free memory is then not counted.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        CLEAR.write_text(FORGET_PEAK)
        return _status_mb("VmRSS")
    return None


def _status_mb(key: str) -> float:
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(lines[key].split()[0]) * 1024 / 1e6


def attempt(call: Callable[[], Result]) -> Result | NotRun:
    """Return the result of `call()`, or a `NotRun` with the reason if the call fails.

    Failures are, for example, unsupported settings, compiler errors, out of memory and kernel errors.

    Raises:
        ConfigError: a key of the benchmark itself is invalid.
    """
    try:
        return call()
    except Exception as error:
        if isinstance(error, ConfigError) and (error.where or "").startswith("benchmark"):
            raise
        return NotRun(failure_text(error))


def failure_text(error: Exception) -> str:
    """Describe an exception of a benchmark in one line, such as "out of memory"."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    if isinstance(error, MateError):
        return error.problem
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or NO_MEMORY in text or NO_GPU_MEMORY in text:
        return "out of memory"
    if isinstance(error, NotImplementedError):
        return text or "not implemented"
    name = type(error).__name__
    return f"{name}: {text[:MAX_REASON]}" if text else name


class Variant(NamedTuple):
    """An implementation prepared for one input, with the functions to time and check.

    Args:
        forward: function that runs the implementation on the input.
        parameters: tensors for which the backward pass computes gradients.
        gflop: computed number of floating point operations, in 10**9, by direction.
        plan_ms: time to compute the attention plan of the input in milliseconds. None without a plan.
        exact: function that computes the exact output. None if the output is not compared.
        examples: number of examples of the input. 0 if no throughput is recorded.
    """

    forward: Callable[[], Tensor]
    parameters: Sequence[Tensor]
    gflop: Mapping[str, float]
    plan_ms: float | None = None
    exact: Callable[[], Tensor] | None = None
    examples: int = 0

    def call(self, direction: str) -> object:
        """Run the implementation forward without gradients, or forward and backward.

        The gradient of the output is the output itself.
        """
        if direction == FORWARD:
            with torch.no_grad():
                return self.forward()
        output = self.forward()
        return torch.autograd.grad(output, self.parameters, output.detach(), allow_unused=True)

    @torch.no_grad()
    def error(self) -> float:
        """Compute the largest absolute difference between the output and the exact float64 output."""
        assert self.exact is not None
        return float((self.forward().double() - self.exact()).abs().max())


@dataclass
class Pace:
    """Time limits of a benchmark, and measured speeds to predict which calls are too slow.

    Args:
        rounds: maximum number of rounds.
        seconds: approximate time in seconds of all rounds of one case and direction, and maximum time of a first call.
        device: device of the variants.
        peak: speed of matrix products in GFLOP per second.
        speeds: highest measured speed of each variant in GFLOP per second, by name. `measure_variants` updates it.
    """

    rounds: int
    seconds: float
    device: torch.device
    peak: float
    speeds: dict[str, float] = field(default_factory=dict)


def measure_variants(variants: Mapping[str, Variant], direction: str, pace: Pace) -> dict[str, Timing | NotRun]:
    """Measure the time of each implementation that is expected to stay in the time limit.

    The expected time of a variant is computed from its highest speed so far, or from the peak of the machine if the
    variant has not been timed.

    Args:
        variants: variants by name.
        direction: one of `DIRECTIONS`.
        pace: limits and measured speeds. The speeds are updated.

    Returns:
        The timing of each variant, or the reason why the variant was not run.
    """
    gflop = {name: variant.gflop[direction] for name, variant in variants.items()}
    expected = {name: work / pace.speeds.get(name, pace.peak) for name, work in gflop.items()}
    calls = {n: partial(v.call, direction) for n, v in variants.items() if expected[n] <= pace.seconds}
    timings = time_turns(calls, rounds=pace.rounds, seconds=pace.seconds, device=pace.device)
    for name, timing in timings.items():
        if isinstance(timing, Timing):
            pace.speeds[name] = max(pace.speeds.get(name, 0.0), gflop[name] / max(timing.ms / 1000, 1e-9))
    limit = f"the limit is {pace.seconds:g} s"
    return {n: timings.get(n) or NotRun(f"a call would take {s:.3g} s, {limit}") for n, s in expected.items()}


# On a GPU a smaller product would finish before the next one is launched.
SIDE, GPU_SIDE = 2048, 8192
PEAK_SECONDS = 0.5


def find_device(name: str) -> torch.device:
    """Return the PyTorch device with this name, after checking that CUDA is available.

    Raises:
        ConfigError: the device is CUDA, but CUDA is not available.
    """
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError("no CUDA device found", where="benchmark.device", remedy="Set benchmark.device=cpu")
    return device


@contextmanager
def threads(count: int | None) -> Iterator[int]:
    """Set the number of PyTorch threads inside the context, and yield the number.

    None keeps the current number. The previous number is restored on exit.
    """
    previous = torch.get_num_threads()
    torch.set_num_threads(count or previous)
    try:
        yield count or previous
    finally:
        torch.set_num_threads(previous)


def matmul_peak(device: torch.device, dtype: torch.dtype) -> float:
    """Return the highest measured speed of square matrix products, in GFLOP per second."""
    side = GPU_SIDE if device.type == "cuda" else SIDE
    product = partial(torch.mm, *(torch.randn(side, side, device=device).to(dtype) for _ in range(2)))
    times, read_clock, end = list[float](), clock(device), time.perf_counter() + PEAK_SECONDS
    while not times or time.perf_counter() < end:
        times.append(time_call(product, read_clock)[0])
    return 2 * side**3 / min(times) / 1e9


def machine_facts(pace: Pace) -> Figures:
    """Return facts about the machine, such as cores, threads, CPU, device and peak speed.

    All keys have the prefix `machine/`.
    """
    cuda = pace.device.type == "cuda"
    return {
        "machine/cores": float(os.cpu_count() or 0),
        "machine/threads": float(torch.get_num_threads()),
        "machine/cpu": cpu_model(),
        "machine/torch": torch.__version__,
        "machine/device": torch.cuda.get_device_name(pace.device) if cuda else pace.device.type,
        "machine/peak_gflops_per_second": pace.peak,
    }


def cpu_model() -> str:
    """Read the model name of the CPU."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
