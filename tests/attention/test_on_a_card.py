"""What only a card can show of the backends that are made for it; on a CPU, that the comparison is right."""

import pytest
import torch
from batches import attend_padded, refuses

from mate_cli.attention.backends.auto import Auto
from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.backends.segments import Segments
from mate_cli.attention.backends.triton import Triton
from mate_cli.attention.base import AttentionPlan, Planner
from mate_cli.attention.patterns import RowColumnHeads
from mate_cli.benchmark.cases import draw_table, together

PATTERN = RowColumnHeads(4)
CARD = [Triton(), Segments(), Auto()]
TABLES = {"wide": ("hybridqa_like", 384), "tall": ("tall", 700)}
"""Long cells in few rows, and columns that are longer than a tile."""


def results(backend, batch, inputs, device, dropout=0.0):
    """Outputs and gradients, planned as for training and moved as Lightning moves them; on the CPU in 32 bits."""
    plan = AttentionPlan(PATTERN, Planner(((PATTERN, backend),)).for_device(device)(batch).to(device))
    inputs = [one.detach().to(device).requires_grad_() for one in inputs]
    output = attend_padded(backend, inputs, plan, dropout=dropout)
    probe = torch.linspace(-1, 1, output.numel(), device=device).view(output.shape)
    found = [output, *torch.autograd.grad((output.float() * probe).sum(), inputs)]
    return [one.detach().float().cpu() for one in found]


def drawn(name, head_size, dtype):
    shape, tokens = TABLES[name]
    batch = together([draw_table(shape, tokens, 0), draw_table(shape, tokens // 2, 1)])
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(3, 2, 4, tokens, head_size, generator=generator).to(dtype)
    return batch, list(inputs)


def errors(got, expected):
    return [float((one - other).abs().max()) for one, other in zip(got, expected, strict=True)]


def check(backend, device, name, head_size, dtype):
    """No further from the definition in 64 bits than PyTorch's kernel, but for a few roundings."""
    batch, inputs = drawn(name, head_size, dtype)
    exact = results(Eager(), batch, [one.double() for one in inputs], "cpu")
    own = errors(results(backend, batch, inputs, device), exact)
    usual = errors(results(Sdpa(), batch, inputs, device), exact)
    assert all(one <= 3 * other + 1e-5 for one, other in zip(own, usual, strict=True)), (own, usual)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("head_size", [64, 128])
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("backend", CARD, ids=lambda one: type(one).__name__)
def test_a_card_is_as_exact_as_its_own_kernel(backend, name, head_size, dtype):
    if refuses(backend, PATTERN):
        pytest.skip("this card cannot run it")
    check(backend, "cuda", name, head_size, dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("backend", [Triton(), Segments(), Auto()], ids=lambda one: type(one).__name__)
def test_dropout_on_a_card_follows_the_seed_and_keeps_the_mean(backend):
    if refuses(backend, PATTERN, dropout=0.3):
        pytest.skip("this card cannot run it")
    batch, inputs = drawn("wide", 64, torch.bfloat16)

    def dropped(seed):
        torch.manual_seed(seed)
        return results(backend, batch, inputs, "cuda", dropout=0.3)

    for one, other in zip(dropped(1), dropped(1), strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(dropped(1)[0], dropped(2)[0])
    mean = torch.stack([dropped(seed)[0] for seed in range(64)]).mean(0)
    assert float((mean - results(backend, batch, inputs, "cuda")[0]).abs().mean()) < 0.05


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_comparison_itself(name, dtype):
    check(Segments(), "cpu", name, 64, dtype)
    with pytest.raises(AssertionError):
        check(_Wrong(), "cpu", name, 64, dtype)


class _Wrong(Sdpa):
    def forward(self, qkv, plan, key_bias=None, dropout=0.0):
        return super().forward(qkv * 1.1, plan, key_bias, dropout)
