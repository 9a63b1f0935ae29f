"""How often a micro-batch waits for the device: what asks a tensor for its value is counted, and none may be added."""

import traceback
from pathlib import Path

import pytest
import torch
from configurations import run_config
from finished_runs import SMALL
from hydra.utils import instantiate
from pretended_gpu import pretended_gpu
from torch.utils._python_dispatch import TorchDispatchMode

from mate_cli.attention.base import Planner
from mate_cli.pipelines.assembly import assemble

WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "unique_dim", "_unique2"}
"""Operators whose result or its size depends on values: a GPU has to finish first."""


class Waits(TorchDispatchMode):
    """Counts operators that wait, by the file of ours that asks; an index by a mask is one of them."""

    def __init__(self):
        super().__init__()
        self.places = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        name = operator.overloadpacket.__name__
        indices = args[1] if name.startswith("index") and isinstance(args[1], (list, tuple)) else ()
        if name in WAITS or any(one is not None and one.dtype == torch.bool for one in indices):
            stack = [frame for frame in traceback.extract_stack() if not frame.name.startswith("<")]
            ours = [frame for frame in stack if "mate_cli" in Path(frame.filename).parts]
            self.places.append(f"{Path(ours[-1].filename).stem}.{ours[-1].name}")
        return operator(*args, **(kwargs or {}))


def waits_of(monkeypatch, card, *words):
    """The places that wait in a micro-batch, forward and backward, on a card that is pretended."""
    from mate_cli.attention.backends import triton, triton_op

    config = run_config([*SMALL, "task=cell_selection", *words])
    parts = assemble(config, instantiate(config.data))
    with pretended_gpu(card):
        planner = Planner(parts.task.encoder.planner.layers).on("cuda")
    object.__setattr__(parts.data.loading, "prepare", planner)
    batch = next(parts.data.sample_batches(8, 8))
    monkeypatch.setattr(triton_op, "_launch", lambda *_: None)
    monkeypatch.setattr(triton, "is_interpreted", lambda: True)
    monkeypatch.setattr("mate_cli.attention.base.AttentionPlan.__init__", planned_for_the_card)
    with Waits() as found:
        parts.task.loss(batch).backward()
    return sorted(found.places)


def planned_for_the_card(plan, pattern, batch, derived=None, device=None):
    plan.pattern, plan.batch, plan.device = pattern, batch, "cuda"
    plan.derived, plan.own = dict(batch.prepared) if derived is None else derived, {}
    plan.packing = plan.derived[pattern, "packing"]


HEAD = ["scores._index_cells"] * 2
"""Finds out how many cells there are."""


@pytest.mark.parametrize(
    ("card", "words", "waits"),
    [
        ("A100", [], HEAD),
        ("T4", ["attention=segments"], HEAD),
        ("T4", [], [*HEAD, *["sdpa._additive"] * 2]),
    ],
    ids=["triton", "segments", "dense"],
)
def test_a_micro_batch_waits_in_known_places_alone(card, words, waits, monkeypatch):
    assert waits_of(monkeypatch, card, *words) == sorted(waits)
