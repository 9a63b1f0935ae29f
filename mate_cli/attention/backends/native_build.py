"""Compiles the native backend's kernels, once for every source, compiler and processor."""

import ctypes
import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

from mate_cli.terminal.progress import Progress

SOURCES = Path(__file__).with_name("native_cpp")

FLAGS = ("-O3", "-march=native", "-std=c++17", "-ffp-contract=fast", "-fopenmp", "-fPIC", "-shared")


class CannotCompileError(Exception):
    """There is no compiler, or it refused."""


def native_kernels() -> ctypes.CDLL | None:
    """Return the kernels, compiled in about three seconds by the first call on a machine.

    None where that cannot be done.
    """
    return _load()[0]


@functools.cache
def say_if_missing() -> None:
    """Warn, once in a process, that there are no kernels: why, and what would help."""
    kernels, reason = _load()
    if kernels is None:
        text = f"attention=native: {reason}; attention=segments is used instead: same results, slower."
        remedy = "Install g++ 12 or newer (or name a compiler in CXX), or choose attention=segments."
        warnings.warn(f"{text} {remedy}", stacklevel=3)


@functools.cache
def _load() -> tuple[ctypes.CDLL | None, str]:
    """Return the kernels, or why there are none."""
    try:
        return ctypes.CDLL(str(_compiled())), ""
    except (CannotCompileError, OSError) as problem:
        return None, str(problem)


def _compiled() -> Path:
    """Return the shared library in the cache, compiled if it is not there yet."""
    command, files = [*_compiler(), *FLAGS], sorted(SOURCES.iterdir())
    # The macros tell the compiler's version and the processor's instructions: a home folder may serve many machines.
    macros = _run([*command, "-dM", "-E", "-x", "c++", os.devnull])
    parts = [*command, macros, *(path.read_text(encoding="utf-8") for path in files)]
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16] + ".so"
    library = Path(os.environ.get("MATE_CACHE") or "~/.cache/mate").expanduser() / "native" / name
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            fresh = Path(folder, name)
            with Progress("compiling attention kernels"):
                _run([*command, *(str(path) for path in files if path.suffix == ".cpp"), "-o", str(fresh)])
            fresh.replace(library)  # at once: another process may be looking
    return library


def _compiler() -> list[str]:
    command = shlex.split(os.environ.get("CXX", "")) or ["g++"]
    if shutil.which(command[0]) is None:
        raise CannotCompileError(f"the compiler {command[0]} is not installed")
    return command


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or ["?"]
        raise CannotCompileError(f"{command[0]} failed ({errors[0].strip()})")
    return done.stdout
