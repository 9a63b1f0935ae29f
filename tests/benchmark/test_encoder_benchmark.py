"""`benchmark=encoder`, as typed and in parts."""

import json

import numpy as np
import pytest
import torch
from batches import one_table, pad

from mate_cli.attention.pairs import needed_pairs
from mate_cli.attention.patterns.row_column_heads import RowColumnHeads
from mate_cli.benchmark.encoder import with_padding_declared_real
from mate_cli.cli.app import main

TINY = [
    "benchmark=encoder",
    "benchmark.lengths=[64]",
    "benchmark.batches=[1,mixed]",
    "benchmark.real=null",
    "benchmark.max_tokens=64",
    "benchmark.size=tiny",
    "benchmark.layers=1",
    "benchmark.variants=[transformers_tapas,transformers_bert,tapas,mate_segments,linformer]",
    "benchmark.rounds=1",
    "benchmark.threads=1",
]


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    outputs = tmp_path_factory.mktemp("benchmark")
    assert main(["benchmark", f"paths.outputs={outputs}", *TINY]) == 0
    (folder,) = outputs.glob("benchmark/encoder/*")
    assert (folder / "benchmark.html").is_file()
    return json.loads((folder / "record.json").read_text())["metrics"]


def test_every_variant_is_compared_with_both_peers(metrics):
    for name in ("tapas", "mate_segments", "linformer"):
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
    filled, pattern = with_padding_declared_real(batch), RowColumnHeads(4)
    assert (filled.attention_mask == 1).all()
    padding = (batch.attention_mask == 0).sum(1)  # fewer than 64 tokens: one segment, or two where 64 divides
    globals_ = torch.tensor([3, 5])
    more = int((padding * (2 * globals_ + padding)).sum()) * 4
    assert needed_pairs(pattern, filled) == needed_pairs(pattern, batch) + more


def test_an_unknown_variant_is_refused(tmp_path, capsys):
    assert main(["benchmark", f"paths.outputs={tmp_path}", *TINY, "benchmark.variants=[longformer]"]) == 2
    assert "no variant is called 'longformer'" in capsys.readouterr().err
