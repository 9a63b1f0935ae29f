"""Too little memory on a device, in one line: what a step needs by count, and what would fit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from mate_cli.errors import MateError, RunError
from mate_cli.models.base.memory import TrainingMemory, training_memory
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.pipelines.machine import resolve_profile
from mate_cli.runs.configuration import Hardware

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
