"""Simulation of full disks without a separate file system."""

import resource
import sys
from contextlib import contextmanager


@contextmanager
def room(size):
    """Limit the size of files to `size` bytes, as on a full disk."""
    before, bytecode = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # or else the bytecode of a module could be cut short, for all that import it later
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        sys.dont_write_bytecode = bytecode
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
