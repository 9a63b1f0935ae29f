"""`benchmark=attention`, as typed and in parts."""

import json
from pathlib import Path

import pytest
import torch
from batches import batches, projections
from hypothesis import given

from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.base import AttentionPlan
from mate_cli.attention.patterns import Full, RowColumnHeads
from mate_cli.benchmark.attention import attend_by_definition
from mate_cli.cli.app import main

TINY = [
    *("benchmark=attention", "benchmark.shapes=[tall]", "benchmark.lengths=[32,64]", "benchmark.batches=[1,mixed]"),
    *("benchmark.real=null", "benchmark.backends=[dense,bucketed,segments,eager,linformer]"),
    *("benchmark.longest.eager=32", "benchmark.heads=4", "benchmark.head_size=8", "benchmark.slots=8"),
    *("benchmark.checked=32", "benchmark.rounds=1", "benchmark.threads=1"),
]
COSTS = {"ms", "cpu_ms", "rounds", "gflop"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    outputs = tmp_path_factory.mktemp("benchmark")
    threads = torch.get_num_threads()
    assert main(["benchmark", f"paths.outputs={outputs}", *TINY]) == 0
    assert torch.get_num_threads() == threads
    (folder,) = outputs.glob("benchmark/attention/*")
    return folder


@pytest.fixture(scope="module")
def record(folder) -> dict:
    return json.loads((folder / "record.json").read_text())


def figures_of(record, place):
    return {name.removeprefix(f"{place}/") for name in record["metrics"] if name.startswith(f"{place}/")} - {"peak_mb"}


@pytest.mark.long
def test_figures_have_the_promised_names(record):
    assert record["status"] == "finished"
    assert figures_of(record, "attention/segments/tall/32/mixed/forward") == COSTS | {"max_error"}
    for name in ("segments", "dense", "linformer"):
        assert figures_of(record, f"attention/{name}/tall/64/1/forward_backward") == COSTS
    assert figures_of(record, "attention/segments/tall/64/1/plan") == {"ms"}


@pytest.mark.long
def test_figures_and_page_are_made_again_from_the_record_alone(folder, tmp_path, capsys):
    (tmp_path / "record.json").write_bytes((folder / "record.json").read_bytes())
    assert main(["benchmark", f"show={tmp_path}"]) == 0
    shown = capsys.readouterr().out
    assert "Attention, tall tables, 64 tokens, mixed batch" in shown
    assert "eager not run: more than 32 tokens take too much memory" in shown
    assert {path.name for path in tmp_path.glob("*.png")} == {"time.png", "flops.png", "memory.png"}


def test_unknown_names_are_refused_before_anything_is_measured(tmp_path, capsys):
    assert main(["benchmark", f"paths.outputs={tmp_path}", *TINY, "benchmark.backends=[dense,segmints]"]) == 2
    assert "unknown attention 'segmints'" in capsys.readouterr().err
    assert main(["benchmark", f"paths.outputs={tmp_path}", *TINY, "benchmark.lengths=[0]"]) == 2
    assert "benchmark.lengths" in capsys.readouterr().err


@pytest.mark.parametrize("pattern", [RowColumnHeads(4), Full(4)], ids=lambda pattern: type(pattern).__name__)
@given(batch=batches())
def test_the_definition_in_slices_is_the_definition(pattern, batch):
    plan = AttentionPlan(pattern, batch)
    inputs = torch.stack([x.detach() for x in projections(batch, dtype=torch.float64)])
    qkv = plan.packing.pack(inputs.permute(1, 3, 0, 2, 4))
    torch.testing.assert_close(attend_by_definition(qkv, plan), Eager().forward(qkv, plan))
