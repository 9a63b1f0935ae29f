"""What `auto` takes on which kind of device, with a GPU pretended where one is needed."""

import numpy as np
import pytest
import torch
from batches import attend_padded, one_table, pad, projections
from pretended_gpu import pretended_gpu

from mate_cli.attention.backends.auto import Auto, with_fallback
from mate_cli.attention.backends.native import Native, native_kernels
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.backends.segments import Segments
from mate_cli.attention.backends.triton import Triton
from mate_cli.attention.base import AttentionPlan, Planner
from mate_cli.attention.patterns import RowColumnHeads, SameRowOrColumn
from mate_cli.benchmark.cases import draw_table, together
from mate_cli.tokenization.tensor_buffer import map_tensors

PATTERN = RowColumnHeads(16)


def planned(device, batch, pattern=PATTERN):
    """The backend, and the plan that the device would get."""
    auto = Auto()
    prepared = Planner(((pattern, auto),)).for_device(device)(batch)
    return auto, AttentionPlan(pattern, prepared, device)


def long_tables(shape="hybridqa_like", tokens=2048, count=16):
    return together([draw_table(shape, tokens, seed) for seed in range(count)])


def short_tables():
    return long_tables(tokens=256, count=2)


@pytest.mark.parametrize(
    ("card", "device", "names"),
    [
        *((card, "cuda", ["triton", "triton"]) for card in ("A100", "RTX 4090", "H100")),
        *((card, "cuda", ["segments", "sdpa"]) for card in ("T4", "V100")),
        *((card, "cpu", ["native" if native_kernels() else "segments"]) for card in ("T4", "A100")),
    ],
)
def test_each_machine_and_length_has_its_backend(card, device, names, monkeypatch):
    with pretended_gpu(card):
        for batch, name in zip((long_tables(count=2), short_tables()), names, strict=False):
            auto, plan = planned(device, batch)
            assert auto.choose(plan) == name
            assert (("triton", 64) in plan.derived) == (name == "triton")
        monkeypatch.setattr("mate_cli.attention.backends.triton.find_spec", lambda name: None)
        auto, plan = planned("cuda", long_tables(count=2))
        assert auto.choose(plan) == "segments", "without the package"


def test_loading_processes_never_ask_the_card(monkeypatch):
    auto, batch = Auto(), long_tables(count=1)
    with pretended_gpu():
        planner = Planner(((PATTERN, auto),)).for_device("cuda")

    def refused(*_):
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")

    monkeypatch.setattr(torch.cuda, "get_device_capability", refused)
    assert planner(batch).plan.derived[PATTERN]["auto", "cuda"] == "triton"


def test_patterns_of_several_segments_stay_dense():
    with pretended_gpu():
        auto, plan = planned("cuda", short_tables(), SameRowOrColumn(16))
        assert auto.choose(plan) == "sdpa"


def test_a_plan_for_another_device_changes_nothing_but_time():
    batch = pad([one_table(np.random.default_rng(0), 20, 20, 6, 16)])
    pattern, inputs, auto = RowColumnHeads(4), projections(batch), Auto()
    with pretended_gpu():
        there = Planner(((pattern, auto),)).for_device("cuda")(batch)
    here = AttentionPlan(pattern, there)
    expected = attend_padded(Sdpa(), inputs, AttentionPlan(pattern, batch))
    torch.testing.assert_close(attend_padded(auto, inputs, here), expected, atol=1e-5, rtol=1e-5)


def test_a_prepared_plan_has_all_that_a_card_would_ask_for():
    """What is derived on the card instead would be counted there, and copied."""
    with pretended_gpu():
        _, plan = planned("cuda", long_tables(count=2))
        before = set(plan.derived)
        Triton()._tiling(plan)
        found = []
        map_tensors(tuple(plan.derived.values()), found.append)
    assert set(plan.derived) == before
    assert len(found) < 20


def test_what_a_machine_lacks_is_replaced(monkeypatch):
    backend = Triton()
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert isinstance(with_fallback(backend, "cpu"), Auto)
    with pretended_gpu("A100"):
        assert with_fallback(backend, "cuda") is backend
        assert isinstance(with_fallback(backend, "cpu"), Auto)
    with pretended_gpu("T4"):
        assert isinstance(with_fallback(backend, "cuda"), Auto)


@pytest.mark.parametrize("backend", [Sdpa(), Segments(), Native(), Auto()], ids=lambda one: type(one).__name__)
def test_what_runs_anywhere_stays(backend):
    assert with_fallback(backend, "cpu") is backend
    with pretended_gpu("T4"):
        assert with_fallback(backend, "cuda") is backend
