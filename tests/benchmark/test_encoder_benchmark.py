"""`benchmark=encoder`, as typed and in parts."""

import json

import numpy as np
import pytest
import torch
from batches import one_table, pad

from mate_cli.attention.patterns import RowColumnHeads, needed_pairs
from mate_cli.benchmark.encoder import declare_padding_real
from mate_cli.cli.app import main

TINY = [
    "benchmark=encoder",
    "benchmark.lengths=[64]",
    "benchmark.batches=[1,mixed]",
    "benchmark.real=null",
    "benchmark.max_tokens=64",
    "benchmark.size=tiny",
    "benchmark.layers=1",
    "+benchmark.networks.dot_16={model: dot, keep: 16, pruner.size: tiny}",
    "+benchmark.networks.dot_99={model: dot, keep: 99, pruner.size: tiny}",
    "benchmark.rounds=1",
    "benchmark.threads=1",
]
PEERS = "transformers_tapas,transformers_bert"


def measured(outputs, variants):
    words = [*TINY, f"benchmark.variants=[{PEERS},{variants}]", f"paths.outputs={outputs}"]
    assert main(["benchmark", *words]) == 0
    (folder,) = outputs.glob("benchmark/encoder/*")
    return json.loads((folder / "record.json").read_text())["metrics"]


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    return measured(tmp_path_factory.mktemp("benchmark"), "tapas,mate_segments,tapas@32,dot_16,dot_99")


def test_every_variant_is_compared_with_both_peers(metrics):
    are_compared(metrics, ("tapas", "mate_segments"))


@pytest.mark.long
def test_the_baselines_are_compared_with_both_peers(tmp_path):
    are_compared(measured(tmp_path, "sat,etc,linformer"), ("sat", "etc", "linformer"))


def are_compared(metrics, names):
    for name in names:
        for direction in ("forward", "forward_backward"):
            place = f"encoder/{name}/64/tall/1/{direction}"
            peers = {
                peer: metrics[f"encoder/transformers_{peer}/64/tall/1/{direction}/ms"] for peer in ("bert", "tapas")
            }
            for peer, ms in peers.items():
                assert metrics[f"{place}/speedup_vs_{peer}"] == pytest.approx(ms / metrics[f"{place}/ms"])


def test_padding_is_measured_where_there_is_some(metrics):
    place = "encoder/{}/64/tall/mixed/forward/ms"
    padded, packed = metrics[place.format("tapas_padded")], metrics[place.format("tapas")]
    assert metrics["encoder/tapas/64/tall/mixed/forward/speedup_vs_padded"] == pytest.approx(padded / packed)
    assert not [name for name in metrics if "_padded/64/tall/1/" in name]
    assert not [name for name in metrics if "bert_padded" in name]


def test_a_variant_can_read_fewer_tokens(metrics):
    work = {
        name: metrics[f"encoder/{name}/64/tall/1/forward/gflop"] for name in ("tapas", "tapas@32", "dot_16", "dot_99")
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
        place = f"encoder/dot_16/64/tall/mixed/{direction}"
        assert metrics[f"{place}/examples_per_second"] == pytest.approx(4000 / metrics[f"{place}/ms"])


def test_the_plan_is_a_figure_of_its_own(metrics):
    place = "encoder/mate_segments/64/tall/1"
    share = metrics[f"{place}/plan/ms"] / metrics[f"{place}/forward_backward/ms"]
    assert metrics[f"{place}/plan/share_of_forward_backward"] == pytest.approx(share)


def test_packed_streams_are_counted_without_padding(metrics):
    packed, padded = (metrics[f"encoder/{name}/64/tall/mixed/forward/gflop"] for name in ("tapas", "tapas_padded"))
    assert packed < padded == pytest.approx(metrics["encoder/transformers_bert/64/tall/mixed/forward/gflop"])


def test_padding_declared_real_asks_next_to_nothing_of_attention():
    random = np.random.default_rng(0)
    batch = pad([one_table(random, 3, 4, 3, 5), one_table(random, 5, 2, 2, 2)])
    filled, pattern = declare_padding_real(batch), RowColumnHeads(4)
    assert (filled.attention_mask == 1).all()
    padding = (batch.attention_mask == 0).sum(1)  # fewer than 64 tokens: one segment, or two where 64 divides
    globals_ = torch.tensor([3, 5])
    more = int((padding * (2 * globals_ + padding)).sum()) * 4
    assert needed_pairs(pattern, filled) == needed_pairs(pattern, batch) + more


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["benchmark.variants=[longformer]"], "unknown variant 'longformer'"),
        (["benchmark.variants=[tapas@all]"], "benchmark.variants: 'all' is not a number of tokens. Write tapas@256."),
        (
            ["benchmark.variants=[dot_99]", "+benchmark.networks.dot_99.kept=3"],
            "benchmark.networks: conf/model/dot.yaml has no key kept",
        ),
    ],
)
def test_an_unknown_variant_is_refused(words, problem, tmp_path, capsys):
    assert main(["benchmark", f"paths.outputs={tmp_path}", *TINY, *words]) == 2
    assert problem in capsys.readouterr().err
