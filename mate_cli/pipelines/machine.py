"""Hardware settings, compiler checks, GPU memory, and runs moved from another machine."""

import os
import platform
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from mate_cli.errors import ConfigError, MateError, RunError
from mate_cli.files.targets import find_targets
from mate_cli.models.base.costs import TrainingMemory, training_memory
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.runs import ranks
from mate_cli.runs.configuration import Hardware, Paths, RunConfig, load_config
from mate_cli.runs.identity import hash_modules, warn_changed
from mate_cli.runs.ranks import PER_CORE, find_accelerator, missing_gpu_remedy
from mate_cli.runs.record import RunFolder

Config = TypeVar("Config", bound=RunConfig)
GPU_WORKERS = 2
"""Number of data loader workers on a GPU if `hardware.workers` is null."""


@cache
def open_cache(folder: str) -> Path:
    """Return the cache folder, or a temporary folder if the cache is not writable."""
    try:
        path = Path(folder).expanduser()
        with TemporaryFile(dir=next(entry for entry in (path, *path.absolute().parents) if entry.exists())):
            return path  # the folder is created on the first write
    # RuntimeError: the home directory is unknown.
    except (OSError, RuntimeError) as error:
        # Imported here, because the module imports Arrow.
        from mate_cli.data.loading.cache import open_temporary_cache

        return open_temporary_cache(Path(folder), error)


COMPILE = "trainer.compile"


def resolve_profile(hardware: Hardware, *, moved: bool = False) -> Hardware:
    """Replace `auto` and null in hardware settings by suitable values for this machine.

    The replaced settings are the device, the precision and the number of workers.

    Args:
        hardware: hardware settings.
        moved: the settings belong to a finished run, perhaps of another machine. An unsupported precision is replaced.

    Raises:
        ConfigError: the machine does not have the device, or does not support the precision.
    """
    limit = PER_CORE * (os.cpu_count() or 1)
    for key in ("workers", "prepare_workers", "threads"):
        if (count := getattr(hardware, key) or 0) > limit:
            problem = f"{count:,} are too many for the cores of this machine"
            raise ConfigError(problem, where=f"hardware.{key}", remedy=f"Use {limit} at most")
    accelerator = find_accelerator(hardware)
    if accelerator == "gpu" and not torch.cuda.is_available():
        hint = missing_gpu_remedy(hardware, "Use hardware=cpu")
        raise ConfigError("PyTorch finds no GPU here", where="hardware.accelerator", remedy=hint)
    if accelerator == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("PyTorch finds no Apple GPU here", where="hardware.accelerator", remedy="Use hardware=cpu")
    workers = hardware.workers
    if workers is None:
        workers = GPU_WORKERS if accelerator == "gpu" else 0
    values = {"accelerator": accelerator, "workers": workers, "precision": _precision(hardware, accelerator, moved)}
    return hardware.model_copy(update=values)


def resolve_hardware(config: Config) -> Config:
    """Return a configuration in which `auto` and null in the hardware settings are replaced.

    Evaluation on another machine then uses the same precision.

    Raises:
        ConfigError: see `resolve_profile`.
    """
    return config.model_copy(update={"hardware": resolve_profile(config.hardware)})


def get_device(hardware: Hardware) -> torch.device:
    """Return the torch device of this rank, such as `cuda:1` for local rank 1."""
    accelerator = resolve_profile(hardware, moved=True).accelerator
    if accelerator == "gpu":
        return torch.device("cuda", ranks.local_rank())
    return torch.device(accelerator)


def _precision(hardware: Hardware, accelerator: str, is_moved: bool) -> str:
    """Return the precision for a run on this machine, such as "bf16-mixed" (a Lightning name).

    For `auto`, or an unsupported precision of a moved run, return the fastest supported precision.
    """
    setting = hardware.precision
    if accelerator != "gpu":
        lacks = accelerator == "cpu" and setting == "bf16-mixed" and not has_bfloat16()
        if lacks and not is_moved:
            problem = "this processor has no native bfloat16: it would be slower"
            raise ConfigError(problem, where="hardware.precision", remedy="Use hardware=cpu")
        is_replaced = setting == "auto" or (is_moved and setting == "16-mixed")
        return "32-true" if is_replaced or lacks else setting
    if setting not in ("auto", "bf16-mixed"):
        return setting
    if torch.cuda.is_bf16_supported(including_emulation=False):
        return "bf16-mixed"
    if setting == "auto" or is_moved:
        return "16-mixed"
    problem = f"{torch.cuda.get_device_name()} has no bfloat16, only an emulation"
    raise ConfigError(problem, where="hardware.precision", remedy="Use hardware.precision=16-mixed")


def has_bfloat16() -> bool:
    """Return whether the CPU has native bfloat16 products: AVX-512 BF16, AMX, or Arm BF16."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    cpu: Any = torch.cpu
    return bool(cpu._is_avx512_bf16_supported() or cpu._is_amx_tile_supported())


def check_compiler(hardware: Hardware) -> None:
    """Raise an error if `torch.compile` does not work on this machine.

    Raises:
        ConfigError: the compiler for the device is missing, or the device is not supported.
    """
    accelerator = resolve_profile(hardware).accelerator
    if accelerator == "gpu" and find_spec("triton") is None:
        raise ConfigError("compiling for a GPU needs triton", where=COMPILE, remedy="Install it: pip install triton")
    if accelerator == "cpu":
        from torch._inductor.cpp_builder import get_cpp_compiler
        from torch._inductor.exc import InvalidCxxCompiler

        try:
            get_cpp_compiler()
        except InvalidCxxCompiler as error:
            hint = "Install g++ 12 or newer, or name a compiler in CXX"
            raise ConfigError("no C++ compiler found", where=COMPILE, remedy=hint) from error
    if accelerator == "mps":
        raise ConfigError("is not supported on Apple GPUs", where=COMPILE, remedy="Leave it out")


@dataclass(frozen=True)
class RuntimeOverrides:
    """Hardware, folders and data that replace the settings of a finished run on its use.

    Args:
        hardware: current hardware.
        paths: current folders.
        data: changed settings of the data, such as `root`. The value of the run is used for None.
        whole: whether to ignore `trainer.limit_dev` and `trainer.limit_test` of the run.
        trust: user-defined modules that may contain parts of the run.
    """

    hardware: Hardware
    paths: Paths
    data: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False
    trust: Sequence[str] = ()

    @property
    def changes(self) -> dict[str, Any]:
        """Replaced settings that may affect which questions of a dataset are scored.

        Empty if no such setting is replaced.
        """
        changed = {key: value for key, value in self.data.items() if value is not None}
        return changed | ({"whole": True} if self.whole else {})

    def config(self, folder: RunFolder) -> RunConfig:
        """Read the configuration of a finished run, and apply the settings of this command.

        These are the hardware, paths and data settings.
        """
        config = load_config(folder.path, self.trust).on_machine(self.hardware, self.paths)
        if folder.has_record() and (code := folder.read_record().code):
            warn_changed(code, hash_modules(find_targets(config.model_dump())), folder.path)
        changed = {key: value for key, value in self.data.items() if value is not None}
        if "root" in changed and "datasets" in config.data:
            changed["datasets"] = changed.pop("root")
        if unknown := [key for key in changed if key not in config.data]:
            hint = f"Known here: {', '.join(key for key in config.data if not key.startswith('_'))}"
            raise ConfigError("the dataset of this run has no such key", where=f"data.{unknown[0]}", remedy=hint)
        updates: dict[str, Any] = {"data": {**config.data, **changed}}
        ranked_by = config.encoding.get("ranked_by")
        # If the run was moved with its stages, the ranking stage is a sibling folder.
        if ranked_by and not Path(ranked_by).exists():
            updates["encoding"] = {**config.encoding, "ranked_by": str(folder.path.parent / Path(ranked_by).name)}
        if self.whole:
            updates["trainer"] = config.trainer.model_copy(update={"limit_dev": None, "limit_test": None})
        return config.model_copy(update=updates)


GIGABYTE = 10**9
CHECKPOINTING = "model.gradient_checkpointing=true"


def step_memory(task: nn.Module, encoder: TableEncoder, tokens: int, hardware: Hardware) -> TrainingMemory:
    """Estimate the GPU memory of a training step for the longest training example.

    `total(micro_batch)` of the result is the memory in bytes.

    Args:
        task: module with all trained parameters.
        encoder: network of the task.
        tokens: number of tokens of the longest training example.
        hardware: hardware settings.
    """
    parameters = sum(parameter.numel() for parameter in task.parameters())
    half = resolve_profile(hardware, moved=True).precision != "32-true"
    return training_memory(encoder, parameters, tokens, half=half)


def device_memory() -> float:
    """Return the total memory in bytes of the GPU that this process uses."""
    return float(torch.cuda.mem_get_info()[1])


def memory_error(memory: TrainingMemory, micro_batch: int, available: float) -> MateError:
    """Return the error for a training step that exceeds the GPU memory, with a hint.

    Args:
        memory: memory of a step.
        micro_batch: number of examples in a micro-batch.
        available: memory of the device in bytes.
    """
    demand, gpu = (f"{size / GIGABYTE:.1f} GB" for size in (memory.total(micro_batch), available))
    problem = f"micro-batches of {micro_batch} x {memory.tokens:,} tokens need about {demand}, this device has {gpu}"
    hint = _remedy(memory, micro_batch, available)
    return RunError(problem, where="hardware.micro_batch", remedy=hint)


def _remedy(memory: TrainingMemory, micro_batch: int, available: float) -> str:
    """Suggest how to reduce the memory of training, such as by gradient checkpointing."""
    lower = memory.with_checkpointing()
    size, lower_size = (
        _round_down(estimate.most_examples(available), micro_batch // 2) for estimate in (memory, lower)
    )
    choices = [f"hardware.micro_batch={size}"] if size else []
    if not memory.checkpointing:
        if lower.most_examples(available) >= micro_batch:
            choices.append(CHECKPOINTING)
        elif lower_size > size:
            choices.append(f"{CHECKPOINTING} hardware.micro_batch={lower_size}")
    if choices:
        return f"Set {' or '.join(choices)}; results stay the same"
    return "Set a smaller encoding.max_tokens or model.size, or use a device with more memory"


def _round_down(examples: int, limit: int) -> int:
    """Return the largest power of two that is at most both numbers.

    Return 0 if a number is below 1.
    """
    bound = min(examples, limit)
    return 1 << bound.bit_length() - 1 if bound > 0 else 0


@contextmanager
def keep_random_states() -> Iterator[None]:
    """Restore the random states of Python, NumPy and torch when the context ends.

    For example, loading a model in this context does not affect later sampling.
    """
    python, numpy = random.getstate(), np.random.get_state()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that the GPU memory is exhausted.

    Such errors come from PyTorch or from an NVIDIA library.
    """
    if isinstance(error, torch.OutOfMemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("CUDA error: out of memory" in text or "ALLOC_FAILED" in text)


@contextmanager
def explain_memory_errors(describe: Callable[[], MateError]) -> Iterator[None]:
    """Replace an out-of-memory error of a GPU by an error that suggests how to save memory.

    Args:
        describe: function that returns the error to raise.

    Raises:
        MateError: the result of `describe`.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise describe() from error


def prediction_advice(micro_batch: int) -> MateError:
    """Return the error for predictions that exceed the GPU memory.

    The error suggests a smaller micro-batch. Batches of predictions have twice the size of the micro-batch.
    """
    problem = f"predictions for batches of {2 * micro_batch} examples need more memory than this device has"
    smaller = _round_down(micro_batch - 1, micro_batch // 2)
    hint = f"Set hardware.micro_batch={smaller}" if smaller else "Use a device with more memory, or hardware=cpu"
    return RunError(problem, where="hardware.micro_batch", remedy=hint)
