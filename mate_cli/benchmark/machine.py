"""The machine that figures come from, and what it can do at most."""

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from mate_cli.errors import ConfigError

SIDE = 2048
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def find_device(name: str) -> torch.device:
    """Return the device of this name.

    Raises:
        ConfigError: it is CUDA, and there is none.
    """
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError("there is no CUDA device", where="benchmark.device", remedy="Set benchmark.device=cpu")
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


def matmul_peak(device: torch.device, dtype: torch.dtype, *, side: int = SIDE, seconds: float = 0.5) -> float:
    """Return the highest speed of square matrix products, in GFLOP per second of wall time."""
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end or best == float("inf"):
        start = time.perf_counter()
        torch.mm(left, right)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - start)
    return 2 * side**3 / best / 1e9


def machine_facts(device: torch.device) -> dict[str, float | str]:
    """Cores, threads, and the names of CPU, device and PyTorch, as `machine/...`."""
    facts: dict[str, float | str] = {
        "machine/cores": float(os.cpu_count() or 0),
        "machine/threads": float(torch.get_num_threads()),
        "machine/cpu": cpu_model(),
        "machine/torch": torch.__version__,
        "machine/device": device.type,
    }
    if device.type == "cuda":
        facts["machine/device"] = torch.cuda.get_device_name(device)
    return facts


def cpu_model() -> str:
    """Return what the processor calls itself."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
