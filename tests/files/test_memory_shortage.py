"""Too little memory is one error with what to lower."""

import errno

import pytest
import torch

from mate_cli.errors import CheckpointError
from mate_cli.files.io_errors import REDUCE_MEMORY_HINT, find_known_error


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
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of any type
        SHORTAGES[kind]()
    assert str(find_known_error(raised.value)) == f"out of memory. {REDUCE_MEMORY_HINT}."


def test_other_errors_stay_what_they_are():
    assert find_known_error(RuntimeError("shapes cannot be multiplied")) is None
    known = CheckpointError("out of memory in a name")
    assert find_known_error(known) is known
