"""`benchmark=encoder`, as typed and in parts."""

import json

import pytest

from mate_cli.cli.app import main

TINY = [
    *("benchmark=encoder", "benchmark.lengths=[64]", "benchmark.batches=[1,mixed]", "benchmark.real=null"),
    *("benchmark.max_tokens=64", "benchmark.size=tiny", "benchmark.layers=1"),
    "+benchmark.networks.dot_16={model: dot, keep: 16, pruner.size: tiny}",
    "+benchmark.networks.dot_99={model: dot, keep: 99, pruner.size: tiny}",
    *("benchmark.rounds=1", "benchmark.threads=1"),
]


def measured(outputs, variants):
    words = [*TINY, f"benchmark.variants=[transformers_bert,{variants}]", f"paths.outputs={outputs}"]
    assert main(["benchmark", *words]) == 0
    (folder,) = outputs.glob("benchmark/encoder/*")
    return json.loads((folder / "record.json").read_text())["metrics"]


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    return measured(tmp_path_factory.mktemp("benchmark"), "tapas,mate_segments,tapas@32,dot_16,dot_99")


@pytest.mark.long
def test_every_variant_is_measured_in_both_directions(tmp_path):
    names = ("transformers_tapas", "tapas", "mate_segments", "sat", "etc", "linformer")
    metrics = measured(tmp_path, ",".join(names))
    for name in ("transformers_bert", *names):
        for direction in ("forward", "forward_backward"):
            assert metrics[f"encoder/{name}/tall/64/1/{direction}/ms"] > 0


def test_a_variant_can_read_fewer_tokens(metrics):
    work = {
        name: metrics[f"encoder/{name}/tall/64/1/forward/gflop"] for name in ("tapas", "tapas@32", "dot_16", "dot_99")
    }
    half, whole = (dense_attention(tokens) for tokens in (32, 64))
    assert work["tapas"] - whole == pytest.approx(2 * (work["tapas@32"] - half))
    assert work["tapas"] == pytest.approx(whole + 64 * 2 * (4 * 128**2 + 2 * 128 * 512) / 1e9)
    assert work["dot_99"] == pytest.approx(3 * work["tapas"])  # two layers that prune, one that answers
    assert work["dot_16"] == pytest.approx(2 * work["tapas"] + (work["tapas"] - whole) / 4 + dense_attention(16))


def dense_attention(tokens):
    return 4 * 128 * tokens**2 / 1e9


def test_examples_per_second_are_of_the_whole_batch(metrics):
    for direction in ("forward", "forward_backward"):
        place = f"encoder/dot_16/tall/64/mixed/{direction}"
        assert metrics[f"{place}/examples_per_second"] == pytest.approx(4000 / metrics[f"{place}/ms"])


def test_the_plan_is_a_figure_of_its_own(metrics):
    assert metrics["encoder/mate_segments/tall/64/1/plan/ms"] > 0
    assert "encoder/transformers_bert/tall/64/1/plan/ms" not in metrics


def test_packed_streams_are_counted_without_padding(metrics):
    ours, theirs = (metrics[f"encoder/{name}/tall/64/mixed/forward/gflop"] for name in ("tapas", "transformers_bert"))
    assert ours < theirs


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["benchmark.variants=[longformer]"], "benchmark.variants: unknown variant 'longformer'"),
        (["benchmark.variants=[tapas@all]"], "benchmark.variants: 'all'"),
        (
            ["benchmark.variants=[dot_99]", "+benchmark.networks.dot_99.kept=3"],
            "benchmark.networks: conf/model/dot.yaml has no key kept",
        ),
    ],
)
def test_an_unknown_variant_is_refused(words, problem, tmp_path, capsys):
    assert main(["benchmark", f"paths.outputs={tmp_path}", *TINY, *words]) == 2
    assert problem in capsys.readouterr().err
