"""Disks that have no room left, without a file system of their own."""

import resource
from contextlib import contextmanager


@contextmanager
def room(size):
    """No file can grow beyond so many bytes, as on a disk that has no more."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
