"""An unpacked TensorFlow release of TAPAS answers as the same weights in transformers do."""

import json
import re
import shutil

import pytest
import torch
import yaml
from bundles import write
from finished_runs import here
from transformers import TapasConfig, TapasForQuestionAnswering, TapasForSequenceClassification

from mate_cli.cli.app import main
from mate_cli.cli.config_dir import config_dir
from mate_cli.data.datasets.sample.reader import SAMPLE_ROOT
from mate_cli.errors import CheckpointError
from mate_cli.models.checkpoints.settings import OPTIONS
from mate_cli.models.checkpoints.tensorflow import TRAINED
from mate_cli.pipelines.evaluation.evaluation import predict
from mate_cli.pipelines.inference.checkpoint import open_checkpoint
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Cell, Table

SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
WTQ = {
    "num_aggregation_labels": 4,
    "use_answer_as_supervision": True,
    "temperature": 0.0352513,
    "cell_selection_preference": 0.207951,
    "huber_loss_delta": 0.121194,
    "answer_loss_cutoff": 0.664694,
}
RELEASES = {
    "tapas_wtq_wikisql_sqa_inter_masklm_tiny_reset": (TapasForQuestionAnswering, WTQ, True),
    "tapas_wtq_wikisql_sqa_masklm_tiny": (TapasForQuestionAnswering, WTQ, False),
    "tapas_sqa_inter_masklm_base_reset": (TapasForQuestionAnswering, {}, True),
    "tapas_tabfact_inter_masklm_large": (TapasForSequenceClassification, {}, False),
}
HEADS = {
    "aggregation_classifier.weight": "output_weights_agg",
    "aggregation_classifier.bias": "output_bias_agg",
    "classifier.weight": "output_weights_cls",
    "classifier.bias": "output_bias_cls",
}
QUESTIONS = ["which colour has the most?", "how many are left?", "what is the count of blue?", "red"]
TABLE = Table(
    "t",
    tuple(map(Cell, ["colour", "count", "left"])),
    tuple(tuple(map(Cell, row)) for row in (["red", "3", "5"], ["blue", "7", "1"], ["green ball", "12", "2"])),
)


def tensorflow_name(name):
    """What the authors' code calls a weight of transformers."""
    if name in HEADS:
        return HEADS[name]
    inner = re.sub(r"\.layer\.(\d+)\.", r"/layer_\1/", name.removeprefix("tapas.")).replace(".", "/")
    inner = re.sub(r"(embeddings(_\d)?)/weight$", r"\1", inner)
    leaf = "gamma" if "LayerNorm" in inner else "kernel"
    inner = re.sub(r"/weight$", f"/{leaf}", inner)
    inner = re.sub(r"LayerNorm/bias$", "LayerNorm/beta", inner)
    return f"bert/{inner}" if name.startswith("tapas.") else inner


def release(root, name, theirs=None):
    """Weights at random, as transformers and as TensorFlow have them; the folder of the latter."""
    network, options, reset = RELEASES[name]
    torch.manual_seed(4)
    config = TapasConfig(
        vocab_size=2281,
        max_position_embeddings=80,
        hidden_act="gelu_new",
        reset_position_index_per_cell=reset,
        **SIZE,
        **options,
    )
    model = network(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    folder = root / name
    folder.mkdir(parents=True)
    turned = {tensorflow_name(key): value for key, value in model.state_dict().items() if "position_ids" not in key}
    values = {key: (value.T if key.endswith("/kernel") else value).numpy().copy() for key, value in turned.items()}
    write(folder, values)
    bert = {**SIZE, "hidden_act": "gelu", "max_position_embeddings": 80, "vocab_size": 2281}
    bert |= {"type_vocab_size": [3, 256, 256, 2, 256, 256, 10]}
    (folder / "bert_config.json").write_text(json.dumps(bert))
    shutil.copy(SAMPLE_ROOT / "vocab.txt", folder / "vocab.txt")
    if theirs is not None:
        model.save_pretrained(theirs)
        shutil.copy(SAMPLE_ROOT / "vocab.txt", theirs / "vocab.txt")
    return folder


def predictions(folder, cache):
    parts, config = open_checkpoint(str(folder), here(cache))
    examples = [TableExample(question, question, TABLE, None) for question in QUESTIONS]
    return predict(parts.task, parts.data.loader_of(examples, "questions"), config), config


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_answers_as_its_weights_in_transformers(tmp_path, name):
    folder = release(tmp_path, name, tmp_path / "theirs")
    found, config = predictions(folder, tmp_path / "cache")
    expected, theirs = predictions(tmp_path / "theirs", tmp_path / "cache")
    assert found == expected
    assert config.encoding["reset_positions"] is theirs.encoding["reset_positions"] is name.endswith("_reset")
    assert config.task["_target_"] == theirs.task["_target_"]
    assert config.task.get("temperature") == theirs.task.get("temperature")


def test_a_release_answers_from_the_command_line(tmp_path, capsys):
    folder = release(tmp_path, "tapas_sqa_inter_masklm_base_reset")
    table = tmp_path / "sales.csv"
    table.write_text("region,sales\nnorth,3\nsouth,5\n")
    assert main(["predict", f"checkpoint={folder}", f"table={table}", "question=which region?"]) == 0
    assert "which region?" in capsys.readouterr().out


def rename(folder):
    return folder.rename(folder.with_name("mine"))


def drop(*parts):
    def change(folder):
        path = folder.joinpath(*parts)
        path.unlink()
        return folder

    return change


def configure(**settings):
    def change(folder):
        file = folder / "bert_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
        return folder

    return change


def archive(folder):
    shutil.make_archive(str(folder), "zip", folder.parent, folder.name)
    return folder.with_name(f"{folder.name}.zip")


REFUSED = {
    "a name that says nothing": (rename, "does not say whether positions restart in each cell"),
    "no vocabulary": (drop("vocab.txt"), "no vocab.txt in it"),
    "no configuration": (drop("bert_config.json"), "bert_config.json: says nothing of the network's size"),
    "no data": (drop("model.ckpt.data-00000-of-00001"), "the TensorFlow checkpoint cannot be read"),
    "another temperature": (configure(softmax_temperature=2.0), "softmax_temperature is not 1"),
    "other token types": (configure(type_vocab_size=[3, 256]), "its token types are"),
    "an archive": (archive, "this is an archive. Unpack it, and name its folder: "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_release_lacks_is_named(tmp_path, name):
    change, message = REFUSED[name]
    folder = change(release(tmp_path, "tapas_wtq_wikisql_sqa_masklm_tiny"))
    with pytest.raises(CheckpointError, match=re.escape(message)):
        open_checkpoint(str(folder), here(tmp_path / "cache"))


def test_a_name_that_says_nothing_is_made_up_for_by_the_configuration(tmp_path):
    folder = rename(release(tmp_path, "tapas_sqa_inter_masklm_base_reset"))
    configure(reset_position_index_per_cell=False, temperature=0.5)(folder)
    _, config = predictions(folder, tmp_path / "cache")
    assert config.encoding["reset_positions"] is False
    assert config.task["temperature"] == 0.5


@pytest.mark.parametrize("data", TRAINED)
def test_options_by_name_are_those_of_the_experiment(data):
    task = yaml.safe_load((config_dir() / "experiment" / f"{data}_mate.yaml").read_text())["task"]
    mine = {ours: TRAINED[data][theirs] for ours, theirs in OPTIONS.items() if theirs in TRAINED[data]}
    assert mine == {ours: task[ours] for ours in mine}
    assert TRAINED[data].get("use_answer_as_supervision", False) is (task["aggregation"] == "weak")
