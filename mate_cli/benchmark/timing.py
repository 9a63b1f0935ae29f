"""Timing of variants, and facts of the machine.

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
"""Maximum characters of a library error in a record."""

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
FORGET_PEAK = "5"

Call = Callable[[], object]
Result = TypeVar("Result")
Clock = Callable[[], tuple[float, float]]
Figures = dict[str, float | str]
"""Measurements by name, as in a record. Text values are facts, such as the reason of a missing measurement."""


class Timing(NamedTuple):
    """Time and memory of one call. Times are medians of all rounds.

    Args:
        ms: wall time in milliseconds.
        cpu_ms: CPU time in milliseconds, summed over threads.
        rounds: number of timed calls, without the first call.
        peak_mb: additional memory of the first call in MB (10**6 bytes); None if it cannot be measured.
    """

    ms: float
    cpu_ms: float
    rounds: int
    peak_mb: float | None


class NotRun(NamedTuple):
    """The reason why a variant has no measurements."""

    not_run: str


def clock(device: torch.device) -> Clock:
    """Return a clock of (wall, CPU) seconds that first synchronizes the device."""

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
    """Time variants in turns.

    Each variant has one warm-up call, in which memory is measured, then rounds of timed calls.

    Args:
        calls: calls by name of the variant.
        rounds: maximum number of rounds. Fewer, but at least one, if all rounds would take longer than `seconds`.
        seconds: time limit. A variant whose first call takes longer is not called again.
        device: device of the calls.
        read: clock; None for the clock of the device.

    Returns:
        The timing of each variant, or the reason why it has no timing, in the order of `calls`.
    """
    read = read or clock(device)
    first = {name: warm_up(call, read, device) for name, call in calls.items()}
    refused = {name: outcome for name, outcome in first.items() if isinstance(outcome, NotRun)}
    ready = {name: outcome for name, outcome in first.items() if not isinstance(outcome, NotRun)}
    for name in [name for name, (spent, _) in ready.items() if spent > seconds]:
        refused[name] = NotRun(f"one call took {ready.pop(name)[0]:.1f} s, the limit is {seconds:g} s")
    rounds = max(1, min(rounds, int(seconds / max(sum(spent for spent, _ in ready.values()), 1e-9))))
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in ready}
    for _ in range(rounds):
        for name in list(samples):
            spent = attempt(partial(time_call, calls[name], read))
            if isinstance(spent, NotRun):
                refused[name] = spent
                del samples[name]
            else:
                samples[name].append(spent)
    timings = {name: _median(times, ready[name][1]) for name, times in samples.items()}
    return {name: timings.get(name) or refused[name] for name in calls}


def _median(times: Sequence[tuple[float, float]], memory: float | None) -> Timing:
    wall, on_cpu = (1000 * statistics.median(values) for values in zip(*times, strict=True))
    return Timing(wall, on_cpu, len(times), memory)


def time_call(call: Call, read: Clock) -> tuple[float, float]:
    """Return the wall and CPU seconds of one call."""
    wall, on_cpu = read()
    call()
    wall_after, on_cpu_after = read()
    return wall_after - wall, on_cpu_after - on_cpu


def warm_up(call: Call, read: Clock, device: torch.device) -> tuple[float, float | None] | NotRun:
    """Run the first call of a variant.

    Args:
        call: call to measure.
        read: clock of the device.
        device: device of the call.

    Returns:
        The wall time in seconds and the additional memory in MB (None if unknown), or the reason of a failure.
    """
    spent: list[tuple[float, float]] = []
    memory = attempt(lambda: peak_mb(lambda: spent.append(time_call(call, read)), device))
    return memory if isinstance(memory, NotRun) else (spent[0][0], memory)


def attempt(call: Callable[[], Result]) -> Result | NotRun:
    """Return the result of a call, or the reason of its failure.

    Failures are for example unsupported settings, compiler errors, too little memory and kernel errors.

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
    """Return the reason of a failure as one line."""
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
    """Return the additional peak memory of a call in MB (10**6 bytes).

    Return None if it cannot be measured.

    On CUDA this is the memory allocated by PyTorch. On a CPU it is the peak of the process (VmHWM, reset before the
    call) minus its size before the call. A large block that is freed and allocated again counts as new memory.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return (torch.cuda.max_memory_allocated(device) - before) / 1e6
    return _process_peak(call)


def _process_peak(call: Call) -> float | None:
    # Other C libraries lack `malloc_trim`. Reused free memory is then not counted.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        CLEAR.write_text(FORGET_PEAK)
        before = _status_mb("VmRSS")
        call()
        return max(0.0, _status_mb("VmHWM") - before)
    except OSError:
        return None


def _status_mb(key: str) -> float:
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(lines[key].split()[0]) * 1024 / 1e6


class Variant(NamedTuple):
    """One implementation of a case in one direction.

    Args:
        call: function to time.
        gflop: computed number of operations, in 10**9.
    """

    call: Call
    gflop: float


@dataclass
class Pace:
    """Limits of measurements, and the speeds measured so far.

    Args:
        rounds: maximum number of rounds.
        seconds: approximate time of all rounds of one case and direction, and maximum time of a first call.
        device: device of the variants.
        peak: speed of matrix products in GFLOP per second.
        speeds: highest measured speed of each variant in GFLOP per second.
    """

    rounds: int
    seconds: float
    device: torch.device
    peak: float
    speeds: dict[str, float]


def measure_variants(variants: Mapping[str, Variant], pace: Pace) -> dict[str, Timing | NotRun]:
    """Time variants in turns, except variants that are expected to exceed the time limit.

    The expected speed of a variant is its highest speed so far, or the peak of the machine for its first case.
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
    """Return the measurements of one case and direction by their names in a record.

    Args:
        timings: timing of each variant, or the reason why it has no timing.
        variants: variants by name.
        prefix: returns the first part of the names for a variant.
    """
    named: Figures = {}
    for name, timing in timings.items():
        values = timing._asdict() if isinstance(timing, NotRun) else timing._asdict() | {"gflop": variants[name].gflop}
        named |= {f"{prefix(name)}/{figure}": value for figure, value in values.items() if value is not None}
    return named


# On a GPU a smaller product would finish before the next one is launched.
SIDE, GPU_SIDE = 2048, 8192
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def find_device(name: str) -> torch.device:
    """Return the device with this name.

    Raises:
        ConfigError: the device is CUDA, but CUDA is not available.
    """
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError("no CUDA device found", where="benchmark.device", remedy="Set benchmark.device=cpu")
    return device


@contextmanager
def threads(count: int | None) -> Iterator[int]:
    """Set the threads of PyTorch (None: unchanged), yield their number and restore it on exit."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield count or before
    finally:
        torch.set_num_threads(before)


def matmul_peak(device: torch.device, dtype: torch.dtype, *, side: int | None = None, seconds: float = 0.5) -> float:
    """Return the highest speed of square matrix products in GFLOP per second of wall time.

    Args:
        device: device of the matrices.
        dtype: type of the matrices.
        side: number of rows and columns; None for 8192 on a GPU and 2048 on a CPU.
        seconds: duration of the measurement in seconds.
    """
    side = side or (GPU_SIDE if device.type == "cuda" else SIDE)
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end or best == float("inf"):
        start = time.perf_counter()
        torch.mm(left, right)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - start)
    return 2 * side**3 / best / 1e9


def machine_facts(pace: Pace) -> Figures:
    """Return cores, threads, peak, and the names of CPU, device and PyTorch, as `machine/...`."""
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
    """Return the model name of the CPU."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
