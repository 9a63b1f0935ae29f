"""The compiled backend: its blocks and tails, its dropout, the operator, and what happens without a compiler."""

import os
import warnings

import numpy as np
import pytest
import torch
from batches import attend_padded, batch_from, one_table, pad, projections
from torch.utils.checkpoint import checkpoint

from mate_cli.attention.backends import native
from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.backends.native import Native, _kernel_tasks, native_attention
from mate_cli.attention.backends.segments import Segments
from mate_cli.attention.base import AttentionPlan
from mate_cli.attention.patterns import Full, RowColumnHeads


@pytest.fixture
def compiled():
    if native.native_kernels() is None:
        pytest.skip(f"no kernels on this machine: {native._load()[1]}")


@pytest.fixture
def fresh():
    """Nothing is loaded or said before and after."""
    for cached in (native._load, native.warn_if_unavailable):
        cached.cache_clear()
    yield
    for cached in (native._load, native.warn_if_unavailable):
        cached.cache_clear()


def mixed_batch():
    random = np.random.default_rng(4)
    return pad([one_table(random, 9, 12, 3, 9), one_table(random, 2, 2, 6, 4), one_table(random, 0, 3, 2, 5)], extra=3)


def passes(plan, backend, qkv, **options):
    """Outputs and gradients of a fixed sum of them."""
    qkv = qkv.detach().requires_grad_()
    output = backend.forward(qkv, plan, **options)
    output.mul(torch.linspace(-1, 1, output.numel()).view(output.shape)).sum().backward()
    return output.detach(), qkv.grad


def stream(plan, heads=4, size=8):
    return torch.randn(sum(plan.packing.lengths), 3, heads, size, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("question", "rows", "columns", "cell", "size"),
    [(300, 2, 2, 300, 64), (5, 1, 1, 900, 16), (700, 0, 1, 0, 5), (24, 40, 6, 3, 80), (1, 9, 2, 70, 1)],
    ids=["many globals", "one long segment", "globals alone", "short segments", "single numbers"],
)
@pytest.mark.usefixtures("compiled")
def test_blocks_and_tails(question, rows, columns, cell, size):
    batch = pad(
        [
            one_table(np.random.default_rng(2), question, rows, columns, cell),
            one_table(np.random.default_rng(3), 3, 2, 2, 2),
        ]
    )
    plan, inputs = AttentionPlan(RowColumnHeads(2), batch), projections(batch, heads=2, size=size)
    for_eager = [x.detach().double().requires_grad_() for x in inputs]
    results = []
    for backend, given in ((Native(), inputs), (Eager(), for_eager)):
        output = attend_padded(backend, given, plan)
        probe = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view(output.shape)
        results.append([output, *torch.autograd.grad((output * probe).sum(), given)])
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got.double(), expected, atol=2e-5, rtol=2e-5)


@pytest.mark.usefixtures("compiled")
def test_the_number_of_threads_changes_nothing():
    plan = AttentionPlan(RowColumnHeads(4), mixed_batch())
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 3):
            torch.set_num_threads(threads)
            torch.manual_seed(0)
            results.append(passes(plan, Native(), stream(plan), dropout=0.1))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


@pytest.mark.usefixtures("compiled")
def test_gradients_of_dropped_weights():
    """With unit vectors as values, the outputs are the dropped weights, which tell what was dropped."""
    length, heads = 24, 2
    batch = batch_from(
        *np.array([[[0] * 4 + [1] * 9 + [2] * 11], [[0] * 4 + [1, 2] * 10], [[0] * 4 + [1] * 20], [[1] * length]])
    )
    plan = AttentionPlan(RowColumnHeads(heads), batch)
    qkv = stream(plan, heads, 32)
    probing = qkv.clone()
    probing[:, 2] = torch.eye(length, 32)[:, None]
    torch.manual_seed(5)
    weights = Native().forward(probing, plan, dropout=0.4)[..., :length].transpose(0, 1)
    torch.manual_seed(5)
    got = passes(plan, Native(), qkv, dropout=0.4)
    kept = weights.ne(0) / 0.6
    assert 0.5 < float(weights.ne(0).sum() / plan.mask[0].sum()) < 0.7

    class Reference:
        def forward(self, qkv, plan):
            query, key, value = qkv.permute(1, 2, 0, 3)
            scores = (query @ key.transpose(-1, -2) / 32**0.5).masked_fill(~plan.mask[0], -torch.inf)
            return (scores.softmax(-1) * kept @ value).transpose(0, 1)

    for a, b in zip(got, passes(plan, Reference(), qkv), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("compiled")
def test_activation_checkpointing_drops_the_same_again():
    plan = AttentionPlan(RowColumnHeads(4), mixed_batch())

    class Checkpointed:
        def forward(self, qkv, plan):
            return checkpoint(Native().forward, qkv, plan, None, 0.3, use_reentrant=False)

    torch.manual_seed(3)
    plain = passes(plan, Native(), stream(plan), dropout=0.3)
    torch.manual_seed(3)
    again = passes(plan, Checkpointed(), stream(plan))
    assert all(torch.equal(a, b) for a, b in zip(plain, again, strict=True))


@pytest.mark.usefixtures("compiled")
def test_a_bias_of_minus_infinity_hides_a_key():
    plan = AttentionPlan(Full(4), batch_from(*np.ones((4, 1, 20), int)))
    qkv, bias = stream(plan), torch.zeros(20)
    bias[5:] = -torch.inf
    alone = AttentionPlan(Full(4), batch_from(*np.ones((4, 1, 5), int)))
    expected = Native().forward(qkv[:5], alone)
    torch.testing.assert_close(Native().forward(qkv, plan, bias)[:5], expected)


@pytest.mark.long
@pytest.mark.usefixtures("compiled")
def test_the_operator_keeps_torchs_rules():
    plan = AttentionPlan(RowColumnHeads(4), pad([one_table(np.random.default_rng(1), 3, 2, 2, 3)]))
    (blocks, rows, tasks), seed = _kernel_tasks(plan), torch.tensor([1])
    qkv, bias = stream(plan).requires_grad_(), torch.zeros(sum(plan.packing.lengths)).requires_grad_()
    for given in (None, bias):
        arguments = (qkv, given, seed, rows, tasks, blocks, 0.1)
        assert set(torch.library.opcheck(native_attention, arguments).values()) == {"SUCCESS"}


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("compiler", "reason"), [("no-such-compiler", "no-such-compiler is not installed"), ("false", "false failed")]
)
def test_without_a_compiler_it_says_so_once_and_segments_computes(monkeypatch, compiler, reason):
    monkeypatch.setenv("CXX", compiler)
    plan = AttentionPlan(RowColumnHeads(4), mixed_batch())
    with pytest.warns(UserWarning, match=rf"{reason}.*attention=segments.*Install g\+\+"):
        Native().supports(plan.pattern)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Native().supports(plan.pattern)
        Native().prepare(plan)
        got, expected = (passes(plan, backend, stream(plan)) for backend in (Native(), Segments()))
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))


def test_compiles_once_for_each_processor(monkeypatch, tmp_path):
    compiler, log = tmp_path / "compiler.py", tmp_path / "log"
    compiler.write_text(
        "import os, pathlib, sys\n"
        "if '-E' in sys.argv: print(os.environ['PROCESSOR']); sys.exit()\n"
        f"pathlib.Path({str(log)!r}).open('a').write('compiled\\n')\n"
        "pathlib.Path(sys.argv[-1]).write_text('library')\n"
    )
    monkeypatch.setenv("CXX", f"python3 {compiler}")
    monkeypatch.setenv("MATE_CACHE", str(tmp_path / "cache"))
    for processor in ("old", "new", "old"):
        monkeypatch.setenv("PROCESSOR", processor)
        assert native._compiled().read_bytes().startswith(b"library")
    assert log.read_text().count("compiled") == 2
    assert sorted(path.suffix for path in (tmp_path / "cache" / "native").iterdir()) == [".so", ".so"]
    for damage in (lambda file: os.truncate(file, 9), lambda file: (file.unlink(), os.mkfifo(file))):
        damage(native._compiled())
        assert native._compiled().read_bytes().startswith(b"library")
    assert log.read_text().count("compiled") == 4
