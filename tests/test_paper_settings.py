"""Experiments train at the settings of the reference, number by number; small scales replace what fits large models."""

import json

import pytest
from configurations import composed
from golden import tapas
from omegaconf import OmegaConf

from mate_cli.cli.config_dir import config_dir

REFERENCE = json.loads(tapas("g13_hparams.json").read_text())
TASKS = {
    "sqa": "SQA",
    "wtq": "WTQ",
    "wikisql": "WIKISQL",
    "wikisql_supervised": "WIKISQL_SUPERVISED",
    "tabfact": "TABFACT",
}
OF_THE_TASK = {
    "temperature": "temperature",
    "cell_select_pref": "cell_selection_preference",
    "answer_loss_cutoff": "answer_loss_cutoff",
    "huber_loss_delta": "huber_delta",
    "select_one_column": "select_one_column",
    "allow_empty_column_selection": "allow_empty_column_selection",
    "init_cell_selection_weights_to_zero": "zero_cell_head",
}


@pytest.mark.parametrize("name", TASKS)
def test_settings_are_those_of_the_reference(name):
    config, reference = composed(config_dir(), "train", [f"experiment={name}_mate"]), REFERENCE[TASKS[name]]
    batch = reference["train_batch_size"]
    assert config.optimizer.lr == reference["learning_rate"]
    assert config.optimizer.clip_value == reference.get("grad_clipping")
    assert config.scheduler.warmup == reference["warmup_ratio"]
    assert (config.trainer.batch_size, config.trainer.max_steps) == (batch, reference["num_train_examples"] // batch)
    assert config.trainer.max_epochs is None
    assert config.encoding.max_tokens == 512
    assert config.model.hidden_dropout == reference.get("bert_config_hidden_dropout_prob", 0.1)
    assert config.model.attention_dropout == reference.get("bert_config_attention_probs_dropout_prob", 0.1)
    assert not config.model.lexical_features
    if name != "tabfact":
        known = {ours: reference[theirs] for theirs, ours in OF_THE_TASK.items() if theirs in reference}
        assert {ours: config.task[ours] for ours in known} == known
        assert config.task.aggregation == {"sqa": "none", "wikisql_supervised": "supervised"}.get(name, "weak")


@pytest.mark.parametrize("name", TASKS)
def test_tapas_differs_from_mate_in_the_network_only(name):
    chosen = (composed(config_dir(), "train", [f"experiment={name}_{model}"]) for model in ("mate", "tapas"))
    mate, tapas = (OmegaConf.to_container(config, resolve=True) for config in chosen)
    assert mate["model"].pop("_target_").endswith("Mate")
    assert tapas["model"].pop("_target_").endswith("Tapas")
    assert mate["model"].pop("row_head_ratio") == 0.5
    assert tapas == mate


@pytest.mark.parametrize("name", ["wtq", "tabfact"])
def test_a_small_scale_replaces_what_fits_large_models(name):
    config = composed(config_dir(), "train", [f"experiment={name}_mate", "scale=small"])
    assert (config.encoding.max_tokens, config.trainer.max_epochs) == (256, 1)
    assert (config.optimizer.lr, config.trainer.batch_size) == (1e-4, 16)
    assert config.model.lexical_features
    assert config.encoding.drop_rows_to_fit


def test_table4_runs_every_row():
    parameters = OmegaConf.load(config_dir() / "sweep" / "table4.yaml").hydra.sweeper.params
    rows = parameters.experiment.split(",")
    assert sorted(rows) == sorted(
        f"{name}_{model}" for name in ("sqa", "wtq", "tabfact") for model in ("mate", "tapas")
    )


@pytest.mark.parametrize("name", ["wtq", "wikisql", "tabfact"])
def test_dot_differs_from_tapas_in_the_network_its_input_and_first_weights_only(name):
    chosen = (composed(config_dir(), "train", [f"experiment={name}_{model}"]) for model in ("dot", "tapas"))
    dot, tapas = (OmegaConf.to_container(config, resolve=True) for config in chosen)
    size = "medium" if name == "wtq" else "small"
    assert dot["encoding"].pop("max_tokens") == 1024
    assert dot["encoding"].pop("truncation") == ("cell_concatenation" if name == "wtq" else "hem")
    assert (dot["model"]["keep"], dot["model"]["size"], dot["model"]["pruner"]["size"]) == (256, "large", size)
    assert dot["model"]["select"] == ("columns" if name == "wtq" else "tokens")
    assert dot["init"]["inner"]["pruner"]["checkpoint"] == f"google/tapas-{size}-finetuned-sqa"
    for key in ("hidden_dropout", "attention_dropout", "activation"):
        assert dot["model"][key] == tapas["model"][key]
    del tapas["encoding"]["max_tokens"], tapas["encoding"]["truncation"]
    for config in (dot, tapas):
        del config["model"], config["init"]
    assert dot == tapas


@pytest.mark.parametrize("name", ["hybridqa", "wtq", "wikisql", "tabfact"])
def test_a_small_scale_leaves_dot_something_to_prune(name):
    config = composed(config_dir(), "train", [f"experiment={name}_dot", "scale=small"])
    assert (config.encoding.max_tokens, config.encoding.reset_positions, config.model.keep) == (1024, True, 256)
    assert (config.model.size, config.model.pruner.size) == ("minilm", "minilm:1")
    assert (config.init.kind, config.init.inner) == ("minilm", None)
    assert (config.optimizer.lr, config.trainer.batch_size, config.model.lexical_features) == (1e-4, 16, True)
