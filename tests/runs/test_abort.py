"""Too little memory: said in one line, also where a library aborts."""

import errno
import subprocess
import sys

import pytest
import torch

from mate_cli.errors import CheckpointError, MateError
from mate_cli.files.door import LOWER, on_machine

RUN = """
import ctypes, os, sys, threading
from pathlib import Path
from mate_cli.runs.abort import leaving_on_abort
with leaving_on_abort(Path(sys.argv[1]).write_text):
    {}
"""
ABORTS = {
    "of Python": "os.abort()",
    "without the lock of Python": "ctypes.CDLL(None).abort()",
    "with it": "ctypes.PyDLL(None).abort()",
    "in another thread": "t = threading.Thread(target=ctypes.CDLL(None).abort); t.start(); t.join()",
}


@pytest.mark.parametrize("how", ABORTS)
def test_an_abort_leaves_its_reason(tmp_path, how):
    command = [sys.executable, "-c", RUN.format(ABORTS[how]), str(tmp_path / "reason")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert done.stderr == f"error: {(tmp_path / 'reason').read_text()}\n"
    assert LOWER in done.stderr


def test_an_abort_after_the_run_ends_as_without(tmp_path):
    code = RUN.format("pass") + "os.abort()"
    assert subprocess.run([sys.executable, "-c", code, "x"], capture_output=True, timeout=120).returncode == -6


def allocate_tensor():
    torch.empty(1 << 60)


def wrap(error):
    try:
        raise error
    except type(error) as cause:
        raise ValueError("in a library's own words") from cause


SHORTAGES = {
    "python": lambda: bytearray(1 << 62),
    "torch": allocate_tensor,
    "gpu": lambda: (_ for _ in ()).throw(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")),
    "cublas": lambda: (_ for _ in ()).throw(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling")),
    "system": lambda: (_ for _ in ()).throw(OSError(errno.ENOMEM, "Cannot allocate memory")),
    "wrapped": lambda: wrap(MemoryError()),
}


@pytest.mark.parametrize("kind", SHORTAGES)
def test_too_little_memory_is_one_error_with_what_to_lower(kind):
    with pytest.raises(MateError, match=rf"^there is too little memory\. {LOWER}\.$"), on_machine():
        SHORTAGES[kind]()


def test_other_errors_stay_what_they_are():
    with pytest.raises(RuntimeError, match="shapes"), on_machine():
        raise RuntimeError("shapes cannot be multiplied")
    with pytest.raises(CheckpointError), on_machine():
        raise CheckpointError("out of memory in a name")
