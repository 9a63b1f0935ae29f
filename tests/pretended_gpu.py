"""Simulated GPU properties of `torch.cuda`."""

from contextlib import contextmanager

import pytest
import torch

KINDS = {"T4": (7, 5), "V100": (7, 0), "A100": (8, 0), "RTX 4090": (8, 9), "H100": (9, 0)}
"""Compute capabilities by GPU name."""


@contextmanager
def pretended_gpu(name="A100", gigabytes=40):
    """Patch `torch.cuda` to report one GPU of a type. No computation is possible."""
    capability = KINDS[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "device_count", lambda: 1)
        patch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
        patch.setattr(torch.cuda, "get_device_name", lambda *_: name)
        patch.setattr(torch.cuda, "mem_get_info", lambda *_: (gigabytes * 10**9, gigabytes * 10**9))
        # Emulation counts unless it is left out, as with the real ones.
        patch.setattr(
            torch.cuda,
            "is_bf16_supported",
            lambda including_emulation=True: including_emulation or capability >= (8, 0),
        )
        yield
