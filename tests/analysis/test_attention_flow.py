"""Observed attention flow: of networks whose attention is known, of MATE's heads, and of a run as it is typed."""

import json
import re

import numpy as np
import pytest
import torch
from batches import batch_from, one_table, pad
from finished_runs import finished_run

from mate_cli.analysis.attention_flow import TARGETS, observe, refuse_slots, target_kinds
from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.patterns import AttentionPattern
from mate_cli.cli.app import main
from mate_cli.errors import ConfigError
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import LayerSpec
from mate_cli.models.linformer import Linformer
from mate_cli.models.mate import MateEncoder
from mate_cli.models.table_etc import TableEtc
from mate_cli.reports.attention_flow import PAPER, network_flows, read_flows
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.page import render_page

CLS = 101


class OwnCell(AttentionPattern):
    """Every token sees its own cell and nothing else."""

    def group_masks(self, batch):
        """Bool [B, 1, T, T]."""
        same = [ids[:, :, None] == ids[:, None, :] for ids in (batch.row_ids, batch.column_ids)]
        return (same[0] & same[1] & (batch.attention_mask == 1)[:, None, :])[:, None]


def batch(extra=0, tables=((4, 3, 3, 2), (2, 4, 2, 3))):
    random = np.random.default_rng(0)
    found = pad([one_table(random, *table) for table in tables], extra)
    words = np.random.default_rng(1).integers(1, 99, found.input_ids.shape)
    words[:, 0] = CLS
    ids = (found.row_ids, found.column_ids, found.segment_ids, found.attention_mask)
    return batch_from(*ids, input_ids=words)


def flow(encoder, *batches):
    return observe(encoder.eval(), batches, CLS)[""].content()


def every(pattern_of):
    torch.manual_seed(1)
    return TableEncoder("tiny", [LayerSpec(pattern_of(2), Eager())] * 2, vocab_size=128)


def test_kinds_of_keys_are_what_their_places_say():
    given = batch(extra=3)
    kinds = target_kinds(given, CLS)
    for b in range(2):
        for i in range(kinds.shape[1]):
            for j in range(kinds.shape[2]):
                assert kinds[b, i, j] == expected_kind(given, b, i, j)


def expected_kind(given, b, i, j):
    if not given.attention_mask[b, j]:
        return len(TARGETS)
    if given.segment_ids[b, j] == 0:
        return TARGETS.index("[CLS]" if given.input_ids[b, j] == CLS else "question")
    row, column = (ids[b, i] == ids[b, j] for ids in (given.row_ids, given.column_ids))
    if given.row_ids[b, j] == 0:
        return TARGETS.index("header, own column" if column else "header, other column")
    names = {(0, 0): "neither", (1, 0): "same row", (0, 1): "same column", (1, 1): "same cell"}
    return TARGETS.index(f"table, {names[int(row), int(column)]}")


def test_uniform_attention_is_uniform_whatever_the_padding():
    from mate_cli.attention.patterns import Full

    encoder = every(Full)
    for layer in encoder.encoder.layer:
        attention = layer.attention["self"]
        for projection in (attention.query, attention.key, attention.value):
            torch.nn.init.zeros_(projection.weight)
    found = flow(encoder, batch())
    for heads in found["attention"]:
        for shares in heads:
            assert shares == pytest.approx(found["uniform"], abs=1e-6)
    assert sum(found["uniform"]) == pytest.approx(1, abs=1e-6)
    padded = flow(encoder, batch(extra=7))
    assert padded["uniform"] == pytest.approx(found["uniform"], abs=1e-6)
    alone = flow(encoder, batch(tables=((4, 3, 3, 2),)))
    assert (
        flow(encoder, batch(tables=((4, 3, 3, 2),) * 2), batch(tables=((4, 3, 3, 2),)))["uniform"] != alone["uniform"]
    )
    assert found["groups"] == []


def test_a_network_that_sees_its_own_cell_alone_looks_nowhere_else():
    found = flow(every(OwnCell), batch())
    shares = torch.tensor(found["attention"])
    assert torch.allclose(shares[..., TARGETS.index("table, same cell")], torch.ones(2, 2), atol=1e-6)
    assert shares.sum(-1) == pytest.approx(torch.ones(2, 2), abs=1e-6)


def test_row_heads_and_column_heads_of_mate_are_told_apart():
    found = flow(MateEncoder("tiny", attention=Eager(), vocab_size=128), batch())
    assert found["groups"] == [
        {"label": "1 row head", "heads": [(0, 0), (1, 0)]},
        {"label": "1 column head", "heads": [(0, 1), (1, 1)]},
    ]
    (network,) = network_flows({"split": "dev", "examples": 2, "targets": TARGETS, "networks": [{"name": "", **found}]})
    both, rows, columns = network.panels.values()
    assert (rows["table, same column"], columns["table, same row"]) == (0, 0)
    assert rows["header, own column"] == rows["table, neither"] == 0
    assert min(rows["table, same row"], columns["header, own column"]) > 0
    for shares in (network.uniform, *network.panels.values()):
        assert sum(shares.values()) == pytest.approx(100, abs=1e-3)
    assert both["question"] == pytest.approx((rows["question"] + columns["question"]) / 2)


@pytest.mark.parametrize("network", [lambda: Linformer("tiny", length=64, vocab_size=9), lambda: TableEtc("tiny")])
def test_what_attends_to_slots_is_refused(network):
    with pytest.raises(ConfigError, match="no plain token-to-token attention"):
        refuse_slots(network())


def test_the_targets_and_sums_are_those_of_the_paper():
    assert tuple(PAPER) == TARGETS
    for column in (0, 1):
        assert sum(figures[column] for figures in PAPER.values()) == pytest.approx(100, abs=0.02)


@pytest.mark.long
def test_a_run_is_analysed_and_shown(tmp_path, capsys):
    run = finished_run(tmp_path / "run", ["model=mate"])
    words = [f"run={run}", "split=dev", "analysis=attention_flow", "analysis.examples=4", "hardware.threads=1"]
    assert main(["evaluate", *words, f"paths.cache={tmp_path / 'cache'}"]) == 0
    said = capsys.readouterr().out
    assert "Attention flow on dev, 4 examples" in said
    assert "table, same cell" in said
    found = json.loads((run / "analysis" / "attention_flow.json").read_text())
    assert (found["examples"], found["split"], len(found["networks"])) == (4, "dev", 1)
    drawn = {path.name for path in (run / "analysis").glob("*.png")}
    assert drawn == {"attention_flow_heads.png"}
    page = render_page(build_report([tmp_path]), tmp_path)
    assert '<section id="flow">' in page
    names = re.findall(r'\bid="([^"]+)"', page)
    assert len(set(names)) == len(names)
    for damaged in ("{", "[]", '{"targets": []}', json.dumps({**found, "networks": [{"name": ""}]})):
        (run / "analysis" / "attention_flow.json").write_text(damaged)
        assert read_flows(run) == []
    assert '<section id="flow">' not in render_page(build_report([tmp_path]), tmp_path)
