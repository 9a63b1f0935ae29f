"""Experiments train at the settings of the reference, number by number; small scales replace what fits large models."""

import csv
import json
import shlex
from pathlib import Path

import pytest
import yaml
from configurations import composed
from golden import tapas
from omegaconf import OmegaConf

from mate_cli.cli.config.resolve import resolve
from mate_cli.cli.config_dir import config_dir
from mate_cli.files.safe_load import to_yaml

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


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """Leave a folder as a finished run of an experiment would."""

    def leave(experiment, words):
        plan, folder = resolve(words), tmp_path / "outputs" / "train" / experiment / "2026-11-22"
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(to_yaml(plan.values()))
        known = {"command": "train", "overrides": [], "seed": 1, "status": "finished", **vars(plan.names)}
        (folder / "record.json").write_text(json.dumps(known))

    monkeypatch.chdir(tmp_path)
    return leave


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


@pytest.mark.parametrize(("name", "task"), [("hybridqa_mate", "HYBRIDQA"), ("hybridqa_reader", "HYBRIDQA_RC")])
def test_settings_of_both_stages_of_pointr_are_those_of_the_reference(name, task):
    config, reference = composed(config_dir(), "train", [f"experiment={name}"]), REFERENCE[task]
    assert (config.optimizer.lr, config.scheduler.warmup) == (reference["learning_rate"], reference["warmup_ratio"])
    assert (config.optimizer.clip_value, config.trainer.gradient_clip) == (reference["grad_clipping"], 1.0)
    steps = reference["num_train_examples"] // reference["train_batch_size"]
    assert (config.trainer.batch_size, config.trainer.max_steps) == (reference["train_batch_size"], steps)
    assert (config.trainer.max_epochs, config.optimizer.eps) == (None, 1e-6)


@pytest.mark.parametrize("name", TASKS)
def test_tapas_differs_from_mate_in_the_network_only(name):
    chosen = (composed(config_dir(), "train", [f"experiment={name}_{model}"]) for model in ("mate", "tapas"))
    mate, tapas = (OmegaConf.to_container(config, resolve=True) for config in chosen)
    assert mate["model"].pop("_target_").endswith("MateEncoder")
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


def test_table4_runs_every_row_from_the_weights_of_its_own_network(finished):
    rows = rows_of("table4")
    found = set()
    for words in rows:
        network = "mate" if "_mate_cs" in words[0] else "tapas"
        first, last = words[0].removeprefix("experiment=").split(f"_{network}_")
        assert last == "cs"
        without = [f"stages.masked_lm.run=pretrain_{network}", "stages.cs=null"]
        assert words[1:] in (without, ["stages.masked_lm=null", f"stages.cs.run=pretrain_both_{network}"])
        found.add((first, network, words[1:] != without))
    assert len(rows) == len(found) == 3 * 2 * 2
    finished("pretrain_both_tapas", ["experiment=pretrain_cs_tapas", "scale=small"])
    plan = resolve([*rows[2], "scale=small"])
    assert [stage.name for stage in plan.stages] == ["cs", "table_qa"]
    assert plan.names.init.endswith("+ cs")
    assert plan.stages[0].run.startswith("outputs/train/pretrain_both_tapas/")


def rows_of(name):
    """The rows of a sweep, each as the words of its jobs."""
    rows = OmegaConf.load(config_dir() / "sweep" / f"{name}.yaml").rows
    return [[f"{key}={'null' if value is None else value}" for key, value in row.items()] for row in rows]


NETWORKS = ("sat", "tapas", "etc", "linformer", "mate")


def test_tables_5_and_6_train_the_same_networks():
    others = [[f"experiment=hybridqa_{name}"] for name in ("table_only", "passage_only", "hybrider")]
    fifth, sixth = rows_of("hybridqa_table5"), rows_of("hybridqa_table6")
    assert (fifth[:3], sixth[:1]) == (others, others[2:])
    assert fifth[3:] == sixth[1 : 1 + len(NETWORKS)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("network", "scale"), [*((network, "paper") for network in NETWORKS), ("linformer", "small")])
def test_every_network_of_table_5_is_pre_trained_under_its_own_attention(network, scale):
    row = rows_of("hybridqa_table5")[3 + NETWORKS.index(network)]
    plan = resolve([*row, f"scale={scale}", "seed=4"])
    masked_lm, selector, reader = plan.stages
    experiments = [f"pretrain_{network}", f"hybridqa_{network}", "hybridqa_reader"]
    assert [stage.names.experiment for stage in plan.stages] == experiments
    assert masked_lm.model["_target_"] == selector.model["_target_"]
    assert masked_lm.names.init == ("bert" if scale == "paper" else "minilm")
    assert selector.names.init == f"{masked_lm.names.init} + masked_lm"
    assert [stage.seed for stage in plan.stages] == [1, 4, 4]
    assert (masked_lm.shared, selector.shared, reader.shared) == (True, False, True)
    assert plan.system["_target_"].endswith("PointR")
    if network == "linformer":
        assert masked_lm.encoding["max_tokens"] == selector.encoding["max_tokens"]


def test_the_ablations_are_the_four_of_table_6():
    rows = rows_of("hybridqa_table6")[1 + len(NETWORKS) :]
    dense = rows.pop(2)
    assert dense == ["experiment=hybridqa_pointr_pretrained", "stages.masked_lm.experiment=pretrain_tapas"]
    assert [stage.names.model for stage in resolve(dense).stages[:2]] == ["tapas", "mate"]
    selectors = [resolve(row).stages[1] for row in rows]
    assert [one.model["row_head_ratio"] for one in selectors] == [0.0, 1.0, 0.5]
    assert [one.task["drop_ambiguous"] for one in selectors] == [False, False, True]
    assert [{word.split(".")[1] for word in row[1:]} for row in rows] == [{"cell_selection"}] * 3, "pre-training is one"


def test_dot_and_both_of_its_transformers_alone_are_the_rows_of_its_table_2():
    found = []
    for row in rows_of("dot_table2"):
        config = resolve(row).last
        pruner, encoding = config.model.get("pruner"), config.encoding
        assert encoding["truncation"] == "cell_concatenation"
        assert config.init["checkpoint"] == f"google/tapas-{config.model['size']}-finetuned-sqa"
        if pruner:
            assert (pruner["size"], config.model["keep"]) == ("medium", 256)
            assert config.model["select"] == ("columns" if config.data["name"] == "wtq" else "tokens")
        found.append((config.data["name"], bool(pruner), config.model["size"], encoding["max_tokens"]))
    one = [(True, "large", 1024), (False, "large", 256), (False, "medium", 1024)]
    assert found == [(name, *row) for name in ("wikisql", "tabfact", "wtq") for row in one]


@pytest.mark.parametrize(
    "name",
    [
        "hybridqa_reader",
        "tabfact_mate_cs",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("pretrain_mate", "pretrain_cs_mate", "hybridqa_mate_from_scratch")
        ),
    ],
)
def test_what_the_mate_paper_trains_is_large_and_a_scale_makes_it_small(name):
    first, *later = resolve([f"experiment={name}"]).stages
    assert [stage.model["size"] for stage in (first, *later)] == ["large"] * (1 + len(later))
    assert (first.init["checkpoint"], first.tokenizer) == ("bert-large-uncased", "bert-base-uncased")
    for scale, size in (("small", "minilm:2"), ("minilm", "minilm")):
        first, *later = resolve([f"experiment={name}", f"scale={scale}"]).stages
        assert {stage.model["size"] for stage in (first, *later)} == {size}
        assert (first.init["checkpoint"], first.tokenizer) == (None, "minilm")


@pytest.mark.parametrize("name", ["hybridqa_page_reader", "hybridqa_ranking", "hotpotqa_xh"])
def test_what_other_papers_train_is_base(name):
    config = composed(config_dir(), "train", [f"experiment={name}"])
    assert (config.model.size, config.init.checkpoint) == ("base", "bert-base-uncased")


def test_first_weights_have_the_size_of_the_network():
    config = composed(config_dir(), "train", ["experiment=sqa_tapas", "model.size=small", "init=tapas_masklm"])
    assert config.init.checkpoint == config.init.tokenizer == "google/tapas-small-masklm"


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


with Path(__file__).with_name("paper_settings.csv").open(encoding="utf-8", newline="") as table:
    SETTINGS = list(csv.DictReader(table))
"""Every number that a paper gives for training, with its section, by the experiment and the key that hold it."""


@pytest.mark.parametrize("experiment", list(dict.fromkeys(row["experiment"] for row in SETTINGS)))
def test_settings_are_those_that_the_papers_print(experiment):
    config = composed(config_dir(), "train", shlex.split(f"experiment={experiment}"))
    for row in (row for row in SETTINGS if row["experiment"] == experiment):
        found, printed = OmegaConf.select(config, row["key"]), yaml.safe_load(row["value"])
        printed = float(printed) if isinstance(printed, str) and "e-" in printed else printed
        if row["paper"] == "DoT" and isinstance(printed, float):
            printed = pytest.approx(printed, rel=0.05)  # the paper prints one or two digits of TAPAS's settings
        assert found == printed, f"{row['key']} is {found}; {row['paper']}, {row['section']}, has {printed}"
