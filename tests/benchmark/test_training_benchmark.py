"""`benchmark=training`, as typed and in parts."""

import json

import pytest

from mate_cli.cli.app import main

TINY = [
    "benchmark=training",
    "benchmark.tokenizer=sample",
    "benchmark.size=tiny",
    "benchmark.layers=1",
    "benchmark.variants=[transformers_tapas,transformers_bert,tapas,mate_segments,tapas@48,dot_24]",
    "+benchmark.networks.dot_24={model: dot, keep: 24, pruner.size: tiny}",
    "benchmark.max_tokens=96",
    "benchmark.batch_size=3",
    "benchmark.steps=2",
    "benchmark.rounds=1",
    "benchmark.threads=1",
]

VARIANTS = ("tapas", "tapas@48", "dot_24")


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    outputs = tmp_path_factory.mktemp("benchmark")
    sample = ["benchmark.real=[sample]"]
    assert main(["benchmark", f"paths.outputs={outputs}", *TINY, *sample]) == 0
    (folder,) = outputs.glob("benchmark/training/*")
    return json.loads((folder / "record.json").read_text())["metrics"]


@pytest.mark.long
@pytest.mark.parametrize("order", ["random", "grouped"])
def test_examples_per_second_are_those_of_a_step(metrics, order):
    for name in ("mate_segments", "transformers_bert", "transformers_tapas"):
        place = f"training/{name}/sample/96/3_{order}/forward_backward"
        assert metrics[f"{place}/examples_per_second"] == pytest.approx(3000 / metrics[f"{place}/ms"])
    assert metrics[f"training/mate_segments/sample/96/3_{order}/plan/ms"] > 0


@pytest.mark.long
def test_steps_of_networks_that_read_fewer_tokens(metrics):
    work = {name: metrics[f"training/{name}/sample/96/3_random/forward_backward/gflop"] for name in VARIANTS}
    assert work["tapas@48"] < work["tapas"]
    assert 2 * work["tapas"] < work["dot_24"] < 3 * work["tapas"]
