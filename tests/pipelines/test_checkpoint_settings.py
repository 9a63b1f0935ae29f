"""A checkpoint's own configuration is believed or refused: nothing that changes numbers differs without a word."""

import json
import shutil

import pytest
import torch
from table_releases import write_wtq
from transformers import TapasConfig, TapasForQuestionAnswering

from mate_cli.cli.app import main
from mate_cli.data.datasets.hybridqa.reader import SAMPLE_ROOT

TAPAS = [
    *("experiment=wtq_tapas", "init=tapas", "model.size=tiny", "trainer.max_steps=1", "trainer.batch_size=2"),
    *("logger=none", "hardware=cpu"),
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A tiny TAPAS with the heads of WikiTableQuestions, as transformers saves it."""
    folder = tmp_path_factory.mktemp("released") / "tapas"
    torch.manual_seed(0)
    size = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512}
    config = TapasConfig(vocab_size=2281, max_position_embeddings=512, num_aggregation_labels=4, **size)
    TapasForQuestionAnswering(config).save_pretrained(folder)
    shutil.copy(SAMPLE_ROOT / "vocab.txt", folder / "vocab.txt")
    return folder


@pytest.fixture
def changed(checkpoint, tmp_path):
    """The checkpoint with another configuration beside the same weights."""

    def change(**settings):
        folder = shutil.copytree(checkpoint, tmp_path / "changed")
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **settings}))
        return folder

    return change


def train(folder, tmp_path, *words):
    data, init = write_wtq(tmp_path / "wtq"), [f"init.checkpoint={folder}", f"init.tokenizer={SAMPLE_ROOT}"]
    places = [f"data.root={data}", f"paths.outputs={tmp_path}", f"paths.cache={tmp_path / 'cache'}"]
    return main(["train", *TAPAS, *init, *places, *words])


AGGREGATIONS = {"0": "NONE", "1": "COUNT", "2": "SUM", "3": "AVERAGE"}
REFUSED = {
    "positions run on": ({"reset_position_index_per_cell": False}, "Set encoding.reset_positions=false"),
    "other aggregations": ({"aggregation_labels": AGGREGATIONS}, "its aggregations are none, count, sum, average"),
    "another activation": ({"hidden_act": "gelu_new"}, "Set model.activation=gelu_new"),
    "another epsilon": ({"layer_norm_eps": 1e-5}, "Set model.layer_norm_epsilon=1e-05"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", REFUSED)
def test_settings_of_another_meaning_are_refused(name, changed, tmp_path, capsys):
    settings, message = REFUSED[name]
    assert train(changed(**settings), tmp_path) == 2
    assert message in capsys.readouterr().err


def test_positions_that_run_on_are_taken_where_those_of_the_encoding_do(changed, tmp_path):
    assert train(changed(reset_position_index_per_cell=False), tmp_path, "encoding.reset_positions=false") == 0


def test_positions_restart_where_a_tapas_does_not_say(checkpoint, changed, tmp_path, capsys):
    folder = changed()
    config = json.loads((folder / "config.json").read_text())
    del config["reset_position_index_per_cell"]
    (folder / "config.json").write_text(json.dumps(config))
    assert train(folder, tmp_path, "encoding.reset_positions=false") == 2
    assert "restart in each cell" in capsys.readouterr().err


def test_what_else_differs_is_said_and_recorded(changed, tmp_path, capsys):
    settings = {"max_num_rows": 32, "use_gumbel_for_cells": True, "type_vocab_sizes": [3, 256, 256, 2, 256, 256, 16]}
    assert train(changed(**settings), tmp_path) == 0
    (record,) = tmp_path.glob("train/wtq_tapas/*/record.json")
    (said,) = [fact for name, fact in json.loads(record.read_text())["facts"].items() if name == "first weights"]
    for part in (
        *("temperature 1.0 (here 0.0352513)", "max_rows 32 (here 64)", "use_gumbel_for_cells (not here)"),
        "token types [3, 256, 256, 2, 256, 256, 16] (here [3, 256, 256, 2, 256, 256, 10])",
    ):
        assert part in said
    assert "select_one_column" not in said, "it is the same"
    assert "note:" in capsys.readouterr().out


def test_options_of_heads_that_are_not_taken_do_not_matter(checkpoint, tmp_path):
    assert train(checkpoint, tmp_path, "init.heads=false") == 0
    (record,) = tmp_path.glob("train/wtq_tapas/*/record.json")
    assert "first weights" not in json.loads(record.read_text())["facts"]


def test_positions_of_an_earlier_run_are_said(checkpoint, tmp_path):
    assert train(checkpoint, tmp_path) == 0
    (weights,) = tmp_path.glob("train/wtq_tapas/*/checkpoints/best.safetensors")
    assert train(weights, tmp_path, "init=path", "encoding.reset_positions=false", "name=again") == 0
    (record,) = tmp_path.glob("train/wtq_tapas/again*/record.json")
    said = json.loads(record.read_text())["facts"]["first weights"]
    assert said.endswith(
        "was trained with positions that restart in each cell (here they continue through the whole table)"
    )
