"""The kind of device that a profile of hardware means on this machine."""

import os
import shutil

import torch

from mate_cli.runs.configuration import Hardware


def find_accelerator(hardware: Hardware) -> str:
    """Return the accelerator of a profile: for `auto` the fastest that is here."""
    if hardware.accelerator != "auto":
        return hardware.accelerator
    if torch.cuda.is_available():
        return "gpu"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def is_login_node() -> bool:
    """Tell whether Slurm is here and this process is none of its jobs."""
    return shutil.which("sbatch") is not None and "SLURM_JOB_ID" not in os.environ


def missing_gpu_remedy(hardware: Hardware, usual: str) -> str:
    """Return what to do where GPUs are missing: let Slurm start the run, where it can."""
    if not is_login_node():
        return usual
    asked = f"srun --nodes={hardware.nodes} --ntasks-per-node={hardware.devices} --gpus-per-node={hardware.devices}"
    return f"This is a login node of Slurm: type {asked} mate train ..., or add -m hydra/launcher=submitit_slurm"
