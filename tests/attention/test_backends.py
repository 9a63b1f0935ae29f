"""Every backend computes the definition: the same outputs and gradients on real tokens, whatever the table."""

import pickle

import hydra
import numpy as np
import pytest
import torch
from batches import BACKENDS, attend_padded, batch_from, batches, exact_backends, one_table, pad, projections, refuses
from hypothesis import given
from omegaconf import OmegaConf

from mate_cli.attention.backends.auto import Auto
from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.backends.native import native_kernels
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.backends.segments import Segments
from mate_cli.attention.base import AttentionPlan, Planner
from mate_cli.attention.patterns import CandidateBlocks, Full, RowColumnHeads
from mate_cli.errors import ConfigError

PATTERNS = [Full(4), CandidateBlocks(4), *(RowColumnHeads(4, ratio) for ratio in (0.0, 0.25, 0.5, 1.0))]


def exact_buckets(batch):
    """The smallest first section and buckets with which the approximation is exact on this batch."""
    real = batch.attention_mask == 1
    first = int((real & ((batch.segment_ids == 0) | (batch.row_ids == 0))).sum(1).max())
    counts = [ids[real].unique(return_counts=True)[1] for ids in (batch.row_ids, batch.column_ids)]
    return {
        "first_section": max(first, 1),
        "bucket_size": max([1, *(int(count.max()) for count in counts if len(count))]),
    }


def make(path, batch):
    options = exact_buckets(batch) if path.stem == "bucketed" else {}
    backend = hydra.utils.instantiate(OmegaConf.load(path), **options)
    if refuses(backend, RowColumnHeads(4)):
        pytest.skip(f"{path.stem} refuses row and column heads on this machine")
    return backend


def attend(backend, pattern, batch, inputs, **options):
    """Outputs at real tokens and the gradients of a fixed sum of them."""
    output = attend_padded(backend, inputs, AttentionPlan(pattern, batch), **options)
    real = (batch.attention_mask == 1)[:, None, :, None]
    assert output.isfinite().all()
    output = output.masked_fill(~real, 0)
    probe = torch.linspace(-1, 1, output.numel(), dtype=output.dtype, device=output.device).view(output.shape)
    gradients = torch.autograd.grad((output * probe).sum(), inputs)
    return [output, *gradients]


def assert_same(got, expected, tolerance=1e-5):
    for name, a, b in zip(("output", "query", "key", "value"), got, expected, strict=True):
        assert a.isfinite().all(), name
        torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance, msg=lambda text, name=name: f"{name}: {text}")


def both(path, pattern, batch):
    """Outputs and gradients of a backend, and those of the definition."""
    backend, inputs = make(path, batch), projections(batch)
    if refuses(backend, pattern):
        pytest.skip(f"{path.stem} refuses this pattern")
    return attend(backend, pattern, batch, inputs), attend(Eager(), pattern, batch, inputs)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "pattern",
    [*PATTERNS[:-2], pytest.param(PATTERNS[-2], marks=pytest.mark.long), PATTERNS[-1]],
    ids=lambda p: f"{type(p).__name__}{p.head_groups}",
)
@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.stem)
@given(batch=batches())
def test_equals_the_definition(path, pattern, batch):
    assert_same(*both(path, pattern, batch))


TABLES = {
    "one row": (5, 1, 6, 3),
    "one column": (5, 7, 1, 3),
    "header only": (5, 0, 4, 3),
    "question only": (7, 0, 1, 0),
    "no question": (0, 4, 4, 3),
    "question longer than the paper's first section": (130, 3, 3, 4),
    "cells of 600 tokens": (4, 1, 2, 600),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.stem)
def test_odd_tables(path, table):
    random = np.random.default_rng(3)
    batch = pad([one_table(random, *TABLES[table]), one_table(random, 3, 2, 2, 2)])
    assert_same(*both(path, RowColumnHeads(4), batch))


@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.stem)
def test_a_cell_of_one_token(path):
    assert_same(*both(path, RowColumnHeads(4), batch_from([[1]], [[1]], [[1]], [[1]])))


@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.stem)
def test_an_example_of_padding_alone_gives_no_nan(path):
    batch = batch_from(*np.zeros((4, 2, 6), int))
    inputs = projections(batch)
    output = attend_padded(make(path, batch), inputs, AttentionPlan(RowColumnHeads(4), batch))
    output.sum().backward()
    assert output.isfinite().all()
    assert all(x.grad is None or x.grad.isfinite().all() for x in inputs)


@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.stem)
def test_padding_never_reaches_a_real_token(path):
    random = np.random.default_rng(5)
    batch = pad([one_table(random, 5, 3, 3, 4), one_table(random, 2, 2, 2, 2)], extra=4)
    pattern, inputs = RowColumnHeads(4), projections(batch)
    before = attend(make(path, batch), pattern, batch, inputs)
    padding = (batch.attention_mask == 0)[:, None, :, None]
    changed = [x.detach().masked_fill(padding, 1e4).requires_grad_() for x in inputs]
    assert_same(attend(make(path, batch), pattern, batch, changed), before, 0)
    assert all(not gradient[padding.expand_as(gradient)].any() for gradient in before[1:])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.stem)
@given(batch=batches())
def test_a_bias_on_keys(path, batch):
    inputs = projections(batch)
    bias = torch.linspace(-2, 0, batch.input_ids.numel()).view(batch.input_ids.shape).requires_grad_()
    results = []
    for backend in (make(path, batch), Eager()):
        output = attend_padded(backend, inputs, AttentionPlan(RowColumnHeads(4), batch), key_bias=bias)
        output = output * (batch.attention_mask == 1)[:, None, :, None]
        results.append([output, *torch.autograd.grad(output.square().sum(), [bias, *inputs[1:]])])
    assert_same(*results, 1e-4)


@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.stem)
@pytest.mark.long
def test_dropout_keeps_the_mean_and_follows_the_seed(path):
    batch = pad([one_table(np.random.default_rng(1), 4, 3, 3, 3)], extra=2)
    inputs = [x.detach() for x in projections(batch)]
    plan, backend = AttentionPlan(RowColumnHeads(4), batch), make(path, batch)
    if refuses(backend, RowColumnHeads(4), dropout=0.3):
        pytest.skip(f"{path.stem} does not drop attention weights")

    def dropped(seed):
        torch.manual_seed(seed)
        return attend_padded(backend, inputs, plan, dropout=0.3)

    exact = attend_padded(backend, inputs, plan)
    assert torch.equal(dropped(1), dropped(1))
    assert not torch.equal(dropped(1), dropped(2))
    mean = torch.stack([dropped(seed) for seed in range(400)]).mean(0)
    assert (mean - exact)[:, :, : int(batch.attention_mask.sum())].abs().mean() < 0.05


@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.stem)
def test_bfloat16_autocast(path):
    random = np.random.default_rng(7)
    batch = pad([one_table(random, 6, 5, 3, 5), one_table(random, 3, 2, 4, 6)], extra=3)
    pattern, inputs = RowColumnHeads(4), projections(batch)
    with torch.autocast("cpu", torch.bfloat16):
        got = attend(make(path, batch), pattern, batch, inputs)
    assert_same([x.float() for x in got], attend(Eager(), pattern, batch, inputs), 0.05)


def error(backend, pattern, batch, dtype):
    """The largest error of outputs and gradients in a type, against the definition in double precision."""
    exact = attend(Eager(), pattern, batch, projections(batch, dtype=torch.float64))
    rounded = [x.detach().to(dtype).requires_grad_() for x in projections(batch, dtype=torch.float64)]
    got = attend(backend, pattern, batch, rounded)
    return max((a.detach().double() - b.detach()).abs().max().item() for a, b in zip(got, exact, strict=True))


@pytest.mark.parametrize("name", exact_backends(RowColumnHeads(4)))
def test_bfloat16_is_no_worse_than_torch(name):
    random, pattern = np.random.default_rng(12), RowColumnHeads(4)
    batch = pad([one_table(random, 10, 8, 4, 9), one_table(random, 5, 20, 3, 5)], extra=3)
    backend = exact_backends(pattern)[name]
    assert error(backend, pattern, batch, torch.bfloat16) <= 1.2 * error(Sdpa(), pattern, batch, torch.bfloat16)


@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.stem)
def test_a_plan_made_in_a_worker_gives_the_same(path):
    random = np.random.default_rng(13)
    batch = pad([one_table(random, 5, 8, 3, 9), one_table(random, 3, 2, 4, 6)], extra=3)
    pattern, inputs, backend = RowColumnHeads(4), projections(batch), make(path, batch)
    planned = pickle.loads(pickle.dumps(Planner(((pattern, backend),))(batch))).to(torch.device("cpu"))
    assert set(planned.plan.derived) == {pattern}
    assert_same(attend(backend, pattern, planned, inputs), attend(backend, pattern, batch, inputs), 0)


def test_segments_names_the_remedy_for_other_patterns():
    class Odd(Full):
        pass

    class Other:
        head_groups = (4,)

    Segments().supports(Odd(4))
    with pytest.raises(ConfigError, match="attention=sdpa"):
        Segments().supports(Other())


@pytest.mark.gpu
@pytest.mark.parametrize("path", BACKENDS, ids=lambda path: path.stem)
def test_a_gpu_gives_the_same(path):
    random = np.random.default_rng(9)
    batch = pad([one_table(random, 5, 4, 3, 4), one_table(random, 3, 2, 5, 9)], extra=3)
    inputs = projections(batch, 4, 16)
    expected = attend(Eager(), RowColumnHeads(4), batch, inputs)
    there = [x.detach().cuda().requires_grad_() for x in inputs]
    got = attend(make(path, batch), RowColumnHeads(4), batch.to("cuda"), there)
    assert_same([x.cpu() for x in got], expected, 1e-4)


def test_auto_is_dense_for_short_tables_and_segmented_for_long_ones():
    random, pattern, auto = np.random.default_rng(4), RowColumnHeads(4), Auto()
    short = pad([one_table(random, 5, 3, 3, 4)])
    long = pad([one_table(random, 20, 20, 6, 16)])
    one_row = pad([one_table(random, 20, 0, 1, 1600)])
    plans = [AttentionPlan(pattern, batch) for batch in (short, long, one_row)]
    fast = "native" if native_kernels() else "segments"
    assert [auto.choose(plan) for plan in plans] == ["sdpa", fast, "sdpa"]
    for plan in plans:
        for _ in range(2):  # two layers count as one batch
            attend_padded(auto, projections(plan.batch), plan)
    assert auto.describe_usage()["attention"] == f"sdpa in 2, {fast} in 1 of 3 batches"
