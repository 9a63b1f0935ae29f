"""Timing of variants on one machine.

Variants are timed in turns in one process, so that a slow machine affects all variants equally.
"""

import ctypes
import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch

from mate_cli.errors import ConfigError, MateError

NO_MEMORY, NO_GPU_MEMORY = "can't allocate memory", "CUDA error: out of memory"
"""Text in out-of-memory errors of PyTorch on a CPU and on a GPU."""
MAX_REASON = 200
"""Maximum number of characters of a library's error message in a record."""

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
    """Time and memory of one call of an implementation. Times are medians over all rounds.

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


class NotRun(NamedTuple):
    """The reason why an implementation has no measurements, such as "out of memory"."""

    not_run: str


def clock(device: torch.device) -> Clock:
    """Create a clock function, which synchronizes the device and returns (wall, CPU) seconds."""

    def read() -> tuple[float, float]:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter(), time.process_time()

    return read


def time_turns(
    calls: Mapping[str, Call],
    *,
    rounds: int,
    seconds: float,
    device: torch.device,
    read: Clock | None = None,
) -> dict[str, Timing | NotRun]:
    """Measure the time of several implementations, calling each implementation once per round.

    The first call of each variant is a warm-up call, in which its memory is measured.

    Args:
        calls: functions to time, by name of the variant.
        rounds: maximum number of rounds. Fewer, but at least one, if all rounds would take longer than `seconds`.
        seconds: time limit of all rounds. A variant whose first call takes longer is not called again.
        device: device of the calls.
        read: clock, None for the clock of the device.

    Returns:
        The timing of each variant, or the reason why it has no timing, in the order of `calls`.
    """
    read = read or clock(device)
    first = {name: warm_up(call, read, device) for name, call in calls.items()}
    failures = {name: outcome for name, outcome in first.items() if isinstance(outcome, NotRun)}
    warm = {name: outcome for name, outcome in first.items() if not isinstance(outcome, NotRun)}
    for name in [name for name, (spent, _) in warm.items() if spent > seconds]:
        failures[name] = NotRun(f"one call took {warm.pop(name)[0]:.1f} s, the limit is {seconds:g} s")
    rounds = max(1, min(rounds, int(seconds / max(sum(spent for spent, _ in warm.values()), 1e-9))))
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in warm}
    for _ in range(rounds):
        for name in list(samples):
            spent = attempt(partial(time_call, calls[name], read))
            if isinstance(spent, NotRun):
                failures[name] = spent
                del samples[name]
            else:
                samples[name].append(spent)
    timings = {name: _median(times, warm[name][1]) for name, times in samples.items()}
    return {name: timings.get(name) or failures[name] for name in calls}


def _median(times: Sequence[tuple[float, float]], memory: float | None) -> Timing:
    wall, on_cpu = (1000 * statistics.median(values) for values in zip(*times, strict=True))
    return Timing(wall, on_cpu, len(times), memory)


def time_call(call: Call, read: Clock) -> tuple[float, float]:
    """Return the wall time and the CPU time of one call in seconds."""
    wall, on_cpu = read()
    call()
    wall_after, on_cpu_after = read()
    return wall_after - wall, on_cpu_after - on_cpu


def warm_up(call: Call, read: Clock, device: torch.device) -> tuple[float, float | None] | NotRun:
    """Run the first call of an implementation, and return its time and memory.

    Args:
        call: function to measure.
        read: clock of the device.
        device: device of the call.

    Returns:
        The wall time in seconds and the additional memory in MB (None if unknown), or the reason why the call failed.
    """
    spent: list[tuple[float, float]] = []
    memory = attempt(lambda: peak_mb(lambda: spent.append(time_call(call, read)), device))
    return memory if isinstance(memory, NotRun) else (spent[0][0], memory)


def attempt(call: Callable[[], Result]) -> Result | NotRun:
    """Call a function, and return its result, or a `NotRun` with the reason if the call fails.

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


def peak_mb(call: Call, device: torch.device) -> float | None:
    """Return the additional peak memory of a call in MB (10**6 bytes), or None if it is unknown.

    On CUDA this is the memory allocated by PyTorch. On a CPU it is the peak of the process (VmHWM, reset before the
    call) minus the resident memory before the call. A large block that is freed and allocated again counts as new
    memory.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        baseline = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return (torch.cuda.max_memory_allocated(device) - baseline) / 1e6
    return _process_peak(call)


def _process_peak(call: Call) -> float | None:
    # Other C libraries lack `malloc_trim`. Reused free memory is then not counted.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        CLEAR.write_text(FORGET_PEAK)
        baseline = _status_mb("VmRSS")
        call()
        return max(0.0, _status_mb("VmHWM") - baseline)
    except OSError:
        return None


def _status_mb(key: str) -> float:
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(lines[key].split()[0]) * 1024 / 1e6


class Variant(NamedTuple):
    """A benchmarked implementation, ready to be called on one input, forward or with backward.

    Args:
        call: function to time.
        gflop: computed number of floating point operations, in 10**9.
    """

    call: Call
    gflop: float


@dataclass
class Pace:
    """Time limits of a benchmark, and the highest speed measured for each implementation.

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
    speeds: dict[str, float]


def measure_variants(variants: Mapping[str, Variant], pace: Pace) -> dict[str, Timing | NotRun]:
    """Measure the time of implementations, except those that are expected to exceed the time limit.

    The expected time of a variant is computed from its highest speed so far, or from the peak of the machine if the
    variant has not been timed.

    Args:
        variants: variants by name.
        pace: limits and measured speeds. The speeds are updated.

    Returns:
        The timing of each variant, or the reason why the variant was not run.
    """
    expected = {name: variant.gflop / pace.speeds.get(name, pace.peak) for name, variant in variants.items()}
    slow = {name: seconds for name, seconds in expected.items() if seconds > pace.seconds}
    calls = {name: variant.call for name, variant in variants.items() if name not in slow}
    timings = time_turns(calls, rounds=pace.rounds, seconds=pace.seconds, device=pace.device)
    for name, timing in timings.items():
        if isinstance(timing, Timing):
            speed = variants[name].gflop / max(timing.ms / 1000, 1e-9)
            pace.speeds[name] = max(pace.speeds.get(name, 0.0), speed)
    late = {name: NotRun(f"a call would take {s:.3g} s, the limit is {pace.seconds:g} s") for name, s in slow.items()}
    return {name: timings.get(name) or late[name] for name in variants}


def name_figures(
    timings: Mapping[str, Timing | NotRun], variants: Mapping[str, Variant], prefix: Callable[[str], str]
) -> Figures:
    """Convert the measurements of one case to a dict for the record, with keys `prefix/measurement`.

    Args:
        timings: timing of each variant, or the reason why the variant has no timing.
        variants: variants by name.
        prefix: function from the name of a variant to the first part of the names.
    """
    results: Figures = {}
    for name, timing in timings.items():
        values = timing._asdict() if isinstance(timing, NotRun) else timing._asdict() | {"gflop": variants[name].gflop}
        results |= {f"{prefix(name)}/{figure}": value for figure, value in values.items() if value is not None}
    return results


# On a GPU a smaller product would finish before the next one is launched.
SIDE, GPU_SIDE = 2048, 8192
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


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


def matmul_peak(device: torch.device, dtype: torch.dtype, *, side: int | None = None, seconds: float = 0.5) -> float:
    """Return the highest measured speed of square matrix products, in GFLOP per second.

    Args:
        device: device of the matrices.
        dtype: type of the matrices.
        side: number of rows and columns. None means 8192 on a GPU and 2048 on a CPU.
        seconds: duration of the measurement in seconds.
    """
    side = side or (GPU_SIDE if device.type == "cuda" else SIDE)
    a, b = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    shortest, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end or shortest == float("inf"):
        start = time.perf_counter()
        torch.mm(a, b)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        shortest = min(shortest, time.perf_counter() - start)
    return 2 * side**3 / shortest / 1e9


def machine_facts(pace: Pace) -> Figures:
    """Return facts about the machine: cores, threads, peak speed, and names of CPU and device.

    The keys begin with `machine/`.
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
