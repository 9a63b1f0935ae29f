"""Time on a GPU alone: dense attention of PyTorch, the same with MATE's mask, and the triton backend; in CUDA graphs.

python tools/benchmarks/gpu_kernels.py

`mate benchmark benchmark=attention benchmark.device=cuda` measures what a caller waits for, and so the processor too.
"""

from collections.abc import Callable
from itertools import product
from statistics import median

import torch
import triton
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as attend

from mate_cli.attention.backends import triton_op
from mate_cli.attention.backends.triton import Triton
from mate_cli.attention.base import AttentionPlan
from mate_cli.attention.patterns import RowColumnHeads
from mate_cli.benchmark.cases import draw_table, together

HEADS, HEAD_SIZE = 12, 64
SIZES = ((512, 8), (2048, 8), (8192, 4), (32768, 1))
"""Tokens and examples."""
LONGEST_MASK = 2048
CALLS, ROUNDS = 4, 5


def time_graph(call: Callable[[], object]) -> float:
    """Return the milliseconds of a call, as the GPU needs them: the median of replays of a graph of several calls."""
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        call()
    torch.cuda.synchronize()
    graph, times = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    for _ in range(ROUNDS + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / CALLS)
    return median(times[1:])


def time_dense(qkv: Tensor, examples: int, mask: Tensor | None = None) -> tuple[float, float]:
    """Return the milliseconds of PyTorch's kernel, forward, and forward and backward; qkv [P, 3, N, H]."""
    heads = qkv.view(examples, -1, *qkv.shape[1:]).permute(2, 0, 3, 1, 4).contiguous()
    query, key, value = (part.detach().requires_grad_() for part in heads)
    gradient = torch.randn_like(query)

    def attend_and_back() -> object:
        return torch.autograd.grad(attend(query, key, value, mask), (query, key, value), gradient)

    with torch.no_grad():
        forward = time_graph(lambda: attend(query, key, value, mask))
    return forward, time_graph(attend_and_back)


def time_triton(qkv: Tensor, plan: AttentionPlan) -> tuple[float, float]:
    """Return the milliseconds of the triton backend, forward, and forward and backward; qkv [P, 3, N, H]."""
    backend = Triton()
    tiling = backend._tiling(plan)
    given = (None, None, tiling.rows.cuda(), tiling.tiles.cuda(), backend.tile, backend.step, tiling.heads, 0.0)
    output, lse = triton_op.attend(qkv, *given)
    forward = time_graph(lambda: triton_op.attend(qkv, *given))
    return forward, forward + time_graph(lambda: triton_op.attend_backward(qkv, output, lse, output, *given))


def main() -> None:
    """Print a table."""
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, "Triton", triton.__version__)
    for shape, (tokens, examples) in product(("tall", "hybridqa_like"), SIZES):
        batch = together([draw_table(shape, tokens, seed) for seed in range(examples)])
        plan = AttentionPlan(RowColumnHeads(HEADS), batch)
        qkv = torch.randn(tokens * examples, 3, HEADS, HEAD_SIZE, device="cuda", dtype=torch.bfloat16)
        times = {"dense": time_dense(qkv, examples), "triton": time_triton(qkv, plan)}
        if tokens <= LONGEST_MASK:
            mask = plan.mask.expand(examples, HEADS, tokens, tokens).cuda()
            times["mask"] = time_dense(qkv, examples, mask)
        print(shape, tokens, examples, {name: [round(ms, 3) for ms in both] for name, both in times.items()})


if __name__ == "__main__":
    main()
