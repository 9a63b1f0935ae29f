import subprocess
import sys

import pytest

from mate_cli.runs.allocator import keep_freed_memory
from mate_cli.runs.callbacks import freed_memory

FAULTS = """
import resource, sys
import numpy
from mate_cli.runs.allocator import keep_freed_memory
kept = sys.argv[1] == "keep" and keep_freed_memory()
for _ in range(50):
    numpy.ones(8_000_000)  # 64 MB
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


HOLES = """
import numpy
from mate_cli.runs.allocator import give_back_freed_memory, keep_freed_memory
def megabytes():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
kept = keep_freed_memory()
blocks = [numpy.ones(100_000) for _ in range(500)]  # 0.8 MB each, 400 MB
del blocks[::2]
before = megabytes()
give_back_freed_memory()
print(kept, before - megabytes())
"""


def said(script, *words):
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    flag, count = done.stdout.split()
    return flag == "True", int(count)


def faults(choice):
    return said(FAULTS, choice)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc is told anything")
def test_memory_is_not_faulted_in_again():
    kept, fewer = faults("keep")
    if not kept:
        pytest.skip("this C library has no mallopt")
    _, before = faults("give back")
    assert before - fewer > 1000  # of 50 blocks of 64 MB, even if pages have 2 MB


def test_twice_is_as_good_as_once():
    assert keep_freed_memory() == keep_freed_memory()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc is told anything")
def test_what_is_free_between_blocks_in_use_is_given_back():
    kept, megabytes = said(HOLES)
    if not kept:
        pytest.skip("this C library has no mallopt")
    assert megabytes > 150, "of 200 MB"


def test_a_training_gives_back_every_so_often(monkeypatch):
    times = []
    monkeypatch.setattr(freed_memory, "give_back_freed_memory", lambda: times.append(clock[0]))
    clock = [0.0]
    monkeypatch.setattr(freed_memory, "monotonic", lambda: clock[0])
    callback = freed_memory.FreedMemory(seconds=30.0)
    for clock[0] in range(0, 100, 8):
        callback.on_train_batch_end()
    assert times == [32, 64, 96]
