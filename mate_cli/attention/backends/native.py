"""Exact attention by segments on a CPU, in compiled C++.

Every row and column is gathered into the CPU cache.
"""

import ctypes
import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mate_cli.attention.backends.segments import Segments
from mate_cli.attention.base import AttentionPlan, SegmentBackend, attention_dtype
from mate_cli.attention.patterns import AttentionPattern
from mate_cli.attention.segment_tasks import segment_tasks
from mate_cli.files.atomic import replace_file
from mate_cli.files.safe_load import read_bytes
from mate_cli.terminal.progress import Progress

LISTS = ("query_start", "queries", "global_start", "globals", "local_start", "locals")
"""Fields of `SegmentTasks` in the order in which the kernels read them."""


class Native(SegmentBackend):
    """Attention by C++ kernels without padding, compiled on first use.

    On a GPU or without a compiler, `segments` is used instead. The kernels compute in single precision, regardless of
    the precision of their inputs. The results do not depend on the number of threads.
    """

    def supports(self, pattern: AttentionPattern, dropout: float = 0.0) -> None:
        """Raise `ConfigError` if the pattern has no segments. Compile the kernels, so that training does not wait."""
        super().supports(pattern, dropout)
        warn_if_unavailable()

    def prepare(self, plan: AttentionPlan) -> None:
        """Compute and cache the kernel tasks of a batch, or the tables of `segments` without kernels."""
        if native_kernels() is None:
            Segments().prepare(plan)
        else:
            plan.derive("native", _kernel_tasks)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Map queries, keys and values of P tokens, [P, 3, N, H], to attention outputs [P, N, H].

        See `Attention.forward`.
        """
        if qkv.is_cuda or native_kernels() is None:
            return Segments().forward(qkv, plan, key_bias, dropout)
        blocks, rows, tasks = plan.derive("native", _kernel_tasks)
        bias = None if key_bias is None else key_bias.float().contiguous()
        # Sample the seed with torch, because torch.manual_seed and activation checkpointing control its generator.
        seed = torch.randint(2**31 - 1, (1,)) if dropout else torch.zeros(1, dtype=torch.int64)
        arguments = (bias, seed, rows, tasks, blocks, dropout)
        return native_attention(qkv.float().contiguous(), *arguments)[0].to(attention_dtype(qkv))


def _kernel_tasks(plan: AttentionPlan) -> tuple[int, Tensor, Tensor]:
    """Return the inputs of the C++ kernels: blocks of heads, table rows, and Int32 [6, tasks].

    The last tensor contains six fields of `SegmentTasks`.
    """
    tasks = segment_tasks(plan)
    return tasks.blocks, tasks.rows, torch.stack([getattr(tasks, name) for name in LISTS])


SOURCES = Path(__file__).with_name("native_cpp")

FLAGS = ("-O3", "-march=native", "-std=c++17", "-ffp-contract=fast", "-fopenmp", "-fPIC", "-shared")


class CannotCompileError(Exception):
    """Error if no C++ compiler is installed, or if the compilation of the kernels failed."""


def native_kernels() -> ctypes.CDLL | None:
    """Return the compiled kernels, or None if they cannot be compiled.

    The first call on a machine compiles them, in about three seconds.
    """
    return _load()[0]


@functools.cache
def warn_if_unavailable() -> None:
    """Warn, once per process, if the kernels are unavailable, with the reason and a hint."""
    kernels, reason = _load()
    if kernels is None:
        text = f"attention=native: {reason}; attention=segments is used instead: same results, slower."
        hint = "Install g++ 12 or newer (or name a compiler in CXX), or choose attention=segments."
        warnings.warn(f"{text} {hint}", stacklevel=3)


@functools.cache
def _load() -> tuple[ctypes.CDLL | None, str]:
    """Load the compiled C++ kernels as (library, ""), or return (None, reason)."""
    try:
        return ctypes.CDLL(str(_compiled())), ""
    except (CannotCompileError, OSError) as problem:
        return None, str(problem)


def _compiled() -> Path:
    """Compile the shared library if it is missing in the cache folder, and return its path."""
    command, files = [*_compiler(), *FLAGS], sorted(SOURCES.iterdir())
    # Machines may share a home folder. The macros identify the compiler version and the instruction set of the CPU.
    macros = _run([*command, "-dM", "-E", "-x", "c++", os.devnull])
    parts = [*command, macros, *(path.read_text(encoding="utf-8") for path in files)]
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16] + ".so"
    library = Path(os.environ.get("MATE_CACHE") or "~/.cache/mate").expanduser() / "native" / name
    if not _is_whole(library):
        library.unlink(missing_ok=True)  # It may be a pipe.
        with replace_file(library) as draft:
            with Progress("compiling attention kernels"):
                _run([*command, *(str(path) for path in files if path.suffix == ".cpp"), "-o", str(draft)])
            # The loader ignores the checksum behind the library.
            with draft.open("r+b") as file:
                file.write(hashlib.sha256(file.read()).digest())
    return library


def _is_whole(library: Path) -> bool:
    """Verify the checksum of a compiled library, because loading a damaged one crashes Python."""
    with suppress(OSError, ValueError):
        content = read_bytes(library)
        return hashlib.sha256(content[:-32]).digest() == content[-32:]
    return False


def _compiler() -> list[str]:
    command = shlex.split(os.environ.get("CXX", "")) or ["g++"]
    if shutil.which(command[0]) is None:
        raise CannotCompileError(f"the compiler {command[0]} is not installed")
    return command


def _run(command: list[str]) -> str:
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        lines = process.stderr.splitlines()
        errors = [line for line in lines if "error" in line] or lines or ["?"]
        raise CannotCompileError(f"{command[0]} failed ({errors[0].strip()})")
    return process.stdout


Tensors = tuple[Tensor, Tensor]

SIGNATURE = "Tensor qkv, Tensor? key_bias, Tensor seed, Tensor rows, Tensor tasks, int blocks, float dropout"


class KernelArguments(ctypes.Structure):
    """Arguments of both kernels. The fields are those of `Problem` in native_cpp/tasks.h."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("blocks", "heads", "size", "count", "threads", "seed")),
        ("dropout", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("rows", "tasks", "qkv", "key_bias")),
    )


@torch.library.custom_op("mate::native_attention", mutates_args=(), schema=f"({SIGNATURE}) -> (Tensor, Tensor)")
def native_attention(
    qkv: Tensor, key_bias: Tensor | None, seed: Tensor, rows: Tensor, tasks: Tensor, blocks: int, dropout: float
) -> Tensors:
    """Compute attention within segments (such as rows) and to global tokens with the C++ kernel.

    Args:
        qkv: query, key and value vectors of every token, contiguous, Float32 [P, 3, N, H].
        key_bias: bias of every key, Float32 [P]. None: no bias.
        seed: seed of the dropout, Int64 [1].
        rows: rows of the table, see `SegmentTasks`, Int32 [V * P].
        tasks: the fields `LISTS` of `SegmentTasks`, Int32 [6, tasks].
        blocks: number V of blocks of heads.
        dropout: dropout probability of attention weights.

    Returns:
        Attended values [P, N, H], and the log-sum-exp of the logits in base 2, [P, N].
    """
    outputs = _like_outputs(qkv)
    _call("mate_attend", (qkv, key_bias, seed, rows, tasks, blocks, dropout), outputs)
    return outputs


@native_attention.register_fake
def _(qkv: Tensor, *arguments: object) -> Tensors:
    return _like_outputs(qkv)


@torch.library.custom_op(
    "mate::native_attention_backward",
    mutates_args=(),
    schema=f"(Tensor output, Tensor lse, Tensor gradient, bool biased, {SIGNATURE}) -> (Tensor, Tensor)",
)
def native_attention_backward(
    output: Tensor,
    lse: Tensor,
    gradient: Tensor,
    biased: bool,
    qkv: Tensor,
    key_bias: Tensor | None,
    seed: Tensor,
    rows: Tensor,
    tasks: Tensor,
    blocks: int,
    dropout: float,
) -> Tensors:
    """Compute the gradients of the inputs of `native_attention` from the gradient of its output.

    Args:
        output: attended values, [P, N, H].
        lse: log-sum-exp of the logits in base 2, [P, N].
        gradient: gradient of `output`, [P, N, H].
        biased: whether to compute the gradient of `key_bias`.
        qkv: as in `native_attention`, like all following arguments.
        key_bias: bias of every key.
        seed: seed of the dropout.
        rows: rows of the table.
        tasks: fields of the tasks.
        blocks: number V of blocks of heads.
        dropout: dropout probability of attention weights.

    Returns:
        The gradient of `qkv` [P, 3, N, H], and the gradient of `key_bias` per head [P, N] (empty if not `biased`).
    """
    gradients = _like_gradients(qkv, lse, biased)
    arguments = (qkv, key_bias, seed, rows, tasks, blocks, dropout)
    _call("mate_attend_backward", arguments, (output, lse, gradient, gradients[0], gradients[1] if biased else None))
    return gradients


@native_attention_backward.register_fake
def _(output: Tensor, lse: Tensor, gradient: Tensor, biased: bool, qkv: Tensor, *arguments: object) -> Tensors:
    return _like_gradients(qkv, lse, biased)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensors) -> None:  # noqa: ANN401 - torch's own context
    *tensors, ctx.blocks, ctx.dropout = inputs
    ctx.save_for_backward(*output, *tensors)


def _differentiate(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own
    output, lse, *tensors = ctx.saved_tensors
    biased = ctx.needs_input_grad[1]
    arguments = (*tensors, ctx.blocks, ctx.dropout)
    qkv_gradient, by_head = native_attention_backward(output, lse, gradient.contiguous(), biased, *arguments)
    return qkv_gradient, by_head.sum(1) if biased else None, None, None, None, None, None


native_attention.register_autograd(_differentiate, setup_context=_save)


def _like_outputs(qkv: Tensor) -> Tensors:
    tokens, _, heads, size = qkv.shape
    return qkv.new_empty(tokens, heads, size), qkv.new_empty(tokens, heads)


def _like_gradients(qkv: Tensor, lse: Tensor, biased: bool) -> Tensors:
    return torch.empty_like(qkv), torch.empty_like(lse) if biased else lse.new_empty(0)


def _call(name: str, arguments: tuple[Any, ...], results: tuple[Tensor | None, ...]) -> None:
    """Call a C++ kernel through ctypes, which releases the global interpreter lock during the call."""
    qkv, key_bias, seed, rows, tasks, blocks, dropout = arguments
    kernels = native_kernels()
    assert kernels is not None
    problem = KernelArguments(
        blocks,
        qkv.shape[2] // blocks,
        qkv.shape[3],
        tasks.shape[1],
        torch.get_num_threads(),
        int(seed),
        dropout,
        *(_address(tensor) for tensor in (rows, tasks, qkv, key_bias)),
    )
    getattr(kernels, name)(ctypes.byref(problem), *(_address(tensor) for tensor in results))


def _address(tensor: Tensor | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())
