"""The kind of device that a profile of hardware means on this machine."""

import torch

from mate_cli.runs.configuration import Hardware


def find_accelerator(hardware: Hardware) -> str:
    """Return the accelerator of a profile: for `auto` the fastest that is here."""
    if hardware.accelerator != "auto":
        return hardware.accelerator
    if torch.cuda.is_available():
        return "gpu"
    return "mps" if torch.backends.mps.is_available() else "cpu"
