"""Peak memory of one call."""

import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
FORGET_PEAK = "5"


def peak_mb(call: Callable[[], object], device: torch.device) -> float | None:
    """What a call needs beyond what was there before it, in MB (10**6 bytes); None where it cannot be measured.

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


def _process_peak(call: Callable[[], object]) -> float | None:
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
