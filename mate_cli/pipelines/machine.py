"""The machine: a profile of hardware, its device and compiler, too little memory on it, and runs moved to it."""

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
from typing import Any

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

GPU_WORKERS = 2
"""Loading processes of a GPU when the profile leaves their number open: one fills the queue while another works."""


@cache
def open_cache(folder: str) -> Path:
    """Return the folder of encodings; a temporary one if it cannot be written."""
    try:
        path = Path(folder).expanduser()
        with TemporaryFile(dir=next(place for place in (path, *path.absolute().parents) if place.exists())):
            return path  # made once something is kept in it
    except (OSError, RuntimeError) as error:  # the latter where nobody knows the home of the user
        from mate_cli.data.loading.cache import open_temporary_cache  # loads Arrow

        return open_temporary_cache(Path(folder), error)


COMPILE = "trainer.compile"


def resolve_profile(hardware: Hardware, *, moved: bool = False) -> Hardware:
    """Return the profile with a device, a precision and workers in place of `auto` and null.

    Args:
        hardware: the profile.
        moved: of a finished run, perhaps trained elsewhere: a precision that this machine lacks is replaced.

    Raises:
        ConfigError: the machine has no such device, or it cannot compute in this precision.
    """
    limit = PER_CORE * (os.cpu_count() or 1)
    for key in ("workers", "prepare_workers", "threads"):
        if (count := getattr(hardware, key) or 0) > limit:
            problem = f"{count:,} are too many for the cores of this machine"
            raise ConfigError(problem, where=f"hardware.{key}", remedy=f"Use {limit} at most")
    accelerator = find_accelerator(hardware)
    if accelerator == "gpu" and not torch.cuda.is_available():
        remedy = missing_gpu_remedy(hardware, "Use hardware=cpu")
        raise ConfigError("torch sees no GPU here", where="hardware.accelerator", remedy=remedy)
    if accelerator == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("torch sees no Apple GPU", where="hardware.accelerator", remedy="Use hardware=cpu")
    workers = hardware.workers
    if workers is None:
        workers = GPU_WORKERS if accelerator == "gpu" else 0
    values = {"accelerator": accelerator, "workers": workers, "precision": _precision(hardware, accelerator, moved)}
    return hardware.model_copy(update=values)


def resolve_hardware(config: RunConfig) -> RunConfig:
    """Return a configuration with the hardware that it trains on, so that it computes in this precision elsewhere too.

    Raises:
        ConfigError: as `resolve_profile`.
    """
    return config.model_copy(update={"hardware": resolve_profile(config.hardware)})


def device_of(hardware: Hardware) -> torch.device:
    """Return the device that this process computes on."""
    accelerator = resolve_profile(hardware, moved=True).accelerator
    if accelerator == "gpu":
        return torch.device("cuda", ranks.local_rank())
    return torch.device(accelerator)


def _precision(hardware: Hardware, accelerator: str, moved: bool) -> str:
    """Return the precision that is asked for, or the best that the device has where it may be chosen."""
    asked = hardware.precision
    if accelerator != "gpu":
        lacks = accelerator == "cpu" and asked == "bf16-mixed" and not has_bfloat16()
        if lacks and not moved:
            raise ConfigError(
                "this processor has no native bfloat16: it would be slower",
                where="hardware.precision",
                remedy="Use hardware=cpu",
            )
        replaced = asked == "auto" or (moved and asked == "16-mixed")
        return "32-true" if replaced or lacks else asked
    if asked not in ("auto", "bf16-mixed"):
        return asked
    if torch.cuda.is_bf16_supported(including_emulation=False):
        return "bf16-mixed"
    if asked == "auto" or moved:
        return "16-mixed"
    raise ConfigError(
        f"{torch.cuda.get_device_name()} has no bfloat16, only an emulation",
        where="hardware.precision",
        remedy="Use hardware.precision=16-mixed",
    )


def has_bfloat16() -> bool:
    """Tell whether the processor multiplies in bfloat16: by AVX-512, AMX, or on Arm."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    cpu: Any = torch.cpu  # elsewhere torch emulates it
    return bool(cpu._is_avx512_bf16_supported() or cpu._is_amx_tile_supported())


def check_compiler(hardware: Hardware) -> None:
    """Refuse a machine on which torch cannot compile.

    Raises:
        ConfigError: it lacks what compiles for its device.
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
            remedy = "Install g++ 12 or newer, or name a compiler in CXX"
            raise ConfigError("no C++ compiler found", where=COMPILE, remedy=remedy) from error
    if accelerator == "mps":
        raise ConfigError("is not supported on Apple GPUs", where=COMPILE, remedy="Leave it out")


@dataclass(frozen=True)
class RuntimeOverrides:
    """The machine, folders and data on which a finished run is used now.

    Args:
        data: what is otherwise of the data than it was, such as `root`; None leaves a key as it was.
        whole: also what `trainer.limit_dev` left out.
        trust: modules of the user's own that the run's parts may come from.
    """

    hardware: Hardware
    paths: Paths
    data: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False
    trust: Sequence[str] = ()

    @property
    def changes(self) -> dict[str, Any]:
        """Changes since training that change which questions are scored; empty where there are none."""
        changed = {key: value for key, value in self.data.items() if value is not None}
        return changed | ({"whole": True} if self.whole else {})

    def config(self, folder: RunFolder) -> RunConfig:
        """Return the configuration of a run on the hardware and paths of now."""
        config = load_config(folder.path, self.trust).on_machine(self.hardware, self.paths)
        if folder.has_record() and (code := folder.read_record().code):
            warn_changed(code, hash_modules(find_targets(config.model_dump())), folder.path)
        changed = {key: value for key, value in self.data.items() if value is not None}
        if "root" in changed and "datasets" in config.data:
            changed["datasets"] = changed.pop("root")
        if unknown := [key for key in changed if key not in config.data]:
            remedy = f"Known here: {', '.join(key for key in config.data if not key.startswith('_'))}"
            raise ConfigError("the dataset of this run has no such key", where=f"data.{unknown[0]}", remedy=remedy)
        if changed:
            config = config.model_copy(update={"data": {**config.data, **changed}})
        ranked_by = config.encoding.get("ranked_by")
        if ranked_by and not Path(ranked_by).exists():  # a stage beside this one, when both were moved
            encoding = {**config.encoding, "ranked_by": str(folder.path.parent / Path(ranked_by).name)}
            config = config.model_copy(update={"encoding": encoding})
        if self.whole:
            config = config.model_copy(
                update={"trainer": config.trainer.model_copy(update={"limit_dev": None, "limit_test": None})}
            )
        return config


GIGABYTE = 10**9
CHECKPOINTING = "model.gradient_checkpointing=true"


def step_memory(task: nn.Module, encoder: TableEncoder, tokens: int, hardware: Hardware) -> TrainingMemory:
    """Return the memory of a run's steps; `total(hardware.micro_batch)` is what they need.

    Args:
        task: all that is trained.
        encoder: the network in it.
        tokens: of the longest training example.
        hardware: the machine.
    """
    parameters = sum(parameter.numel() for parameter in task.parameters())
    half = resolve_profile(hardware, moved=True).precision != "32-true"
    return training_memory(encoder, parameters, tokens, half=half)


def device_memory() -> float:
    """Return the bytes of this process's GPU."""
    return float(torch.cuda.mem_get_info()[1])


def memory_error(memory: TrainingMemory, micro_batch: int, available: float) -> MateError:
    """Advise on memory: what a step needs, what the device has, and what to type so that it fits.

    Args:
        memory: of the steps.
        micro_batch: examples in each.
        available: bytes of the device.
    """
    needed, has = (f"{size / GIGABYTE:.1f} GB" for size in (memory.total(micro_batch), available))
    problem = f"micro-batches of {micro_batch} x {memory.tokens:,} tokens need about {needed}, this device has {has}"
    remedy = _remedy(memory, micro_batch, available)
    return RunError(problem, where="hardware.micro_batch", remedy=remedy)


def _remedy(memory: TrainingMemory, micro_batch: int, available: float) -> str:
    """Find less than was tried: smaller micro-batches, layers computed again, both, or fewer tokens."""
    again = memory.with_checkpointing()
    fits, fits_again = (_at_most(estimate.most_examples(available), micro_batch // 2) for estimate in (memory, again))
    choices = [f"hardware.micro_batch={fits}"] if fits else []
    if not memory.checkpointing:
        if again.most_examples(available) >= micro_batch:
            choices.append(CHECKPOINTING)
        elif fits_again > fits:
            choices.append(f"{CHECKPOINTING} hardware.micro_batch={fits_again}")
    if choices:
        return f"Set {' or '.join(choices)}; results stay the same"
    return "Set a smaller encoding.max_tokens or model.size, or use a device with more memory"


def _at_most(examples: int, most: int) -> int:
    """Return the largest power of two that is no more than either."""
    bound = min(examples, most)
    return 1 << bound.bit_length() - 1 if bound > 0 else 0


@contextmanager
def keep_random_states() -> Iterator[None]:
    """Restore the random states of Python, NumPy and torch afterwards, so that reading a model changes no result."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether a GPU had too little memory, as PyTorch or a library of NVIDIA's says it."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("CUDA error: out of memory" in text or "ALLOC_FAILED" in text)


@contextmanager
def explain_memory_errors(describe: Callable[[], MateError]) -> Iterator[None]:
    """Turn a GPU's error of too little memory into one line.

    Raises:
        MateError: what `describe` makes of it.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise describe() from error


def prediction_advice(micro_batch: int) -> MateError:
    """Advise on what to type where predictions need more memory than there is; batches are twice the micro-batch."""
    problem = f"predictions for batches of {2 * micro_batch} examples need more memory than this device has"
    smaller = _at_most(micro_batch - 1, micro_batch // 2)
    remedy = f"Set hardware.micro_batch={smaller}" if smaller else "Use a device with more memory, or hardware=cpu"
    return RunError(problem, where="hardware.micro_batch", remedy=remedy)
