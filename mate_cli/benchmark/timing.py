"""Timing of variants in turns in one process, as a slow machine slows all of them down; and facts of the machine."""

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
"""In PyTorch's errors where a CPU or a GPU has not enough."""
MAX_REASON = 200
"""Letters of an error of a library in a record."""

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
FORGET_PEAK = "5"

Call = Callable[[], object]
Result = TypeVar("Result")
Clock = Callable[[], tuple[float, float]]
Figures = dict[str, float | str]
"""Numbers by name, as they stand in a record; a text says why there is none."""


class Timing(NamedTuple):
    """Time and memory of one call, the median of all rounds.

    Args:
        ms: wall time.
        cpu_ms: time on CPU cores, of all threads together.
        rounds: how often it was called, not counting the first call.
        peak_mb: memory that the first call needed; None where it cannot be measured.
    """

    ms: float
    cpu_ms: float
    rounds: int
    peak_mb: float | None


class NotRun(NamedTuple):
    """The reason why a variant has no figures."""

    not_run: str


def clock(device: torch.device) -> Clock:
    """Return a clock of (wall, on-CPU) seconds, read when the device has done what it was given."""

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
    """Time variants: one call each to warm up, which also shows the memory they need, then round after round.

    Args:
        calls: by name.
        rounds: at most so many; fewer, but at least one, where all of them would take longer than `seconds`.
        seconds: a variant whose first call takes longer is not called again.
        device: where the calls work.
        read: the clock, that of the device when left out.

    Returns:
        The timing of every variant, or why there is none, in the order of `calls`.
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
    """Return the wall and on-CPU seconds of one call."""
    wall, on_cpu = read()
    call()
    wall_after, on_cpu_after = read()
    return wall_after - wall, on_cpu_after - on_cpu


def warm_up(call: Call, read: Clock, device: torch.device) -> tuple[float, float | None] | NotRun:
    """Return the wall seconds and MB of the first call, or why it failed."""
    spent: list[tuple[float, float]] = []
    memory = attempt(lambda: peak_mb(lambda: spent.append(time_call(call, read)), device))
    return memory if isinstance(memory, NotRun) else (spent[0][0], memory)


def attempt(call: Callable[[], Result]) -> Result | NotRun:
    """Return the result of a call, or why it failed.

    A refusal, a compiler's error, too little memory, a fault of a kernel.

    Raises:
        ConfigError: a key of the benchmark itself is wrong.
    """
    try:
        return call()
    except Exception as error:
        if isinstance(error, ConfigError) and (error.where or "").startswith("benchmark"):
            raise
        return NotRun(failure_text(error))


def failure_text(error: Exception) -> str:
    """Write the reason of a failure in one line."""
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
    """Return what a call needs beyond what was there before it, in MB (10**6 bytes); None where it cannot be measured.

    On CUDA this is what PyTorch allocated. On a CPU it is the peak of the whole process (VmHWM, set back before the
    call) minus its size before; to the operating system a large block that was freed and taken again is new.
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
    with suppress(OSError, AttributeError):  # another C library: memory that was freed may then be used unseen
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
    """One way to do the work of a case in one direction; `gflop` are the operations it takes, counted, in 10**9."""

    call: Call
    gflop: float


@dataclass
class Pace:
    """Limits of measurements, and the speeds known so far.

    Args:
        rounds: at most so many.
        seconds: about so long in all rounds of one case and direction; the most that a first call may take.
        device: where variants work.
        peak: GFLOP per second of matrix products.
        speeds: the highest speed seen of each variant, in GFLOP per second.
    """

    rounds: int
    seconds: float
    device: torch.device
    peak: float
    speeds: dict[str, float]


def measure_variants(variants: Mapping[str, Variant], pace: Pace) -> dict[str, Timing | NotRun]:
    """Time variants in turns, without those that are known to take too long.

    A variant is expected to be as fast as it ever was in this run, or as the machine's peak at its first case.
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
    """Name what was measured in one case and direction, by what the names of a variant's figures begin with."""
    named: Figures = {}
    for name, timing in timings.items():
        values = timing._asdict() if isinstance(timing, NotRun) else timing._asdict() | {"gflop": variants[name].gflop}
        named |= {f"{prefix(name)}/{figure}": value for figure, value in values.items() if value is not None}
    return named


SIDE, GPU_SIDE = 2048, 8192  # a smaller product on a GPU is over before the next one is asked for
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def find_device(name: str) -> torch.device:
    """Return the device of this name.

    Raises:
        ConfigError: it is CUDA, and there is none.
    """
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError("no CUDA device found", where="benchmark.device", remedy="Set benchmark.device=cpu")
    return device


@contextmanager
def threads(count: int | None) -> Iterator[int]:
    """Let PyTorch use so many threads for a while (None: as many as it likes); yields how many that is."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield count or before
    finally:
        torch.set_num_threads(before)


def matmul_peak(device: torch.device, dtype: torch.dtype, *, side: int | None = None, seconds: float = 0.5) -> float:
    """Return the highest speed of square matrix products, in GFLOP per second of wall time."""
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
    """Return what the processor calls itself."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
