import subprocess
import sys

import pytest

from mate_cli.runs.allocator import keep_freed_memory

FAULTS = """
import resource, sys
import numpy
from mate_cli.runs.allocator import keep_freed_memory
kept = sys.argv[1] == "keep" and keep_freed_memory()
for _ in range(50):
    numpy.ones(8_000_000)  # 64 MB
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def faults(choice):
    done = subprocess.run([sys.executable, "-c", FAULTS, choice], capture_output=True, text=True, check=True)
    kept, count = done.stdout.split()
    return kept == "True", int(count)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc is told anything")
def test_memory_is_not_faulted_in_again():
    kept, fewer = faults("keep")
    if not kept:
        pytest.skip("this C library has no mallopt")
    _, before = faults("give back")
    assert before - fewer > 1000  # of 50 blocks of 64 MB, even if pages have 2 MB


def test_twice_is_as_good_as_once():
    assert keep_freed_memory() == keep_freed_memory()
