"""Too little memory is one error with what to lower."""

import errno

import pytest
import torch

from mate_cli.errors import CheckpointError, MateError
from mate_cli.files.io_errors import LOWER, wrap_machine_errors


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
    with pytest.raises(MateError, match=rf"^out of memory\. {LOWER}\.$"), wrap_machine_errors():
        SHORTAGES[kind]()


def test_other_errors_stay_what_they_are():
    with pytest.raises(RuntimeError, match="shapes"), wrap_machine_errors():
        raise RuntimeError("shapes cannot be multiplied")
    with pytest.raises(CheckpointError), wrap_machine_errors():
        raise CheckpointError("out of memory in a name")
