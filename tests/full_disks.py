"""Disks that have no room left, without a file system of their own."""

import resource
import sys
from contextlib import contextmanager


@contextmanager
def room(size):
    """No file can grow beyond so many bytes, as on a disk that has no more."""
    before, bytecode = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # or else the bytecode of a module could be cut short, for all that import it later
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        sys.dont_write_bytecode = bytecode
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
