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
    "benchmark.padded=[mate_segments]",
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
    sample = ["~benchmark.real.hybridqa", "+benchmark.real.sample=in_the_package"]
    assert main(["benchmark", f"paths.outputs={outputs}", *TINY, *sample]) == 0
    (folder,) = outputs.glob("benchmark/training/*")
    return json.loads((folder / "record.json").read_text())["metrics"]


@pytest.mark.long
@pytest.mark.parametrize("order", ["random", "grouped"])
def test_steps_are_compared_with_both_peers(metrics, order):
    place = f"training/{{}}/96/sample/3_{order}/forward_backward"
    ours = metrics[f"{place.format('mate_segments')}/ms"]
    for peer in ("bert", "tapas"):
        theirs = metrics[f"{place.format(f'transformers_{peer}')}/ms"]
        assert metrics[f"{place.format('mate_segments')}/speedup_vs_{peer}"] == pytest.approx(theirs / ours)
    padded = metrics[f"{place.format('mate_segments_padded')}/ms"]
    assert metrics[f"{place.format('mate_segments')}/speedup_vs_padded"] == pytest.approx(padded / ours)


@pytest.mark.long
def test_speeds_are_those_of_a_step(metrics):
    place = "training/mate_segments/96/sample/3_random"
    ms = metrics[f"{place}/forward_backward/ms"]
    assert metrics[f"{place}/forward_backward/examples_per_second"] == pytest.approx(3000 / ms)
    assert 3 * 20_000 / ms < metrics[f"{place}/forward_backward/tokens_per_second"] <= 3 * 96_000 / ms
    share = metrics[f"{place}/plan/ms"] / ms
    assert metrics[f"{place}/plan/share_of_forward_backward"] == pytest.approx(share)


@pytest.mark.long
def test_steps_of_networks_that_read_fewer_tokens(metrics):
    work = {name: metrics[f"training/{name}/96/sample/3_random/forward_backward/gflop"] for name in VARIANTS}
    assert work["tapas@48"] < work["tapas"]
    assert 2 * work["tapas"] < work["dot_24"] < 3 * work["tapas"]


def test_a_dataset_that_is_not_there_is_named(tmp_path, capsys):
    arguments = [*TINY, f"benchmark.real.hybridqa={tmp_path}/none", f"paths.outputs={tmp_path}"]
    assert main(["benchmark", *arguments]) == 2
    assert f"{tmp_path}/none" in capsys.readouterr().err
