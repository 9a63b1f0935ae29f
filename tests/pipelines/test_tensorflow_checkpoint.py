"""An unpacked TensorFlow release of TAPAS answers as the same weights in transformers do."""

import json
import re
import shutil

import pytest
from configurations import composed
from finished_runs import here
from released_tapas import RELEASES, release

from mate_cli.cli.app import main
from mate_cli.cli.config_dir import config_dir
from mate_cli.errors import CheckpointError
from mate_cli.models.checkpoints.settings import OPTIONS
from mate_cli.models.checkpoints.tensorflow import RELEASED_OPTIONS
from mate_cli.pipelines.evaluation.evaluation import predict
from mate_cli.pipelines.inference.checkpoint import open_checkpoint
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Cell, Table

QUESTIONS = ["which colour has the most?", "how many are left?", "what is the count of blue?", "red"]
TABLE = Table(
    "t",
    tuple(map(Cell, ["colour", "count", "left"])),
    tuple(tuple(map(Cell, row)) for row in (["red", "3", "5"], ["blue", "7", "1"], ["green ball", "12", "2"])),
)


def predictions(folder, cache):
    parts, config = open_checkpoint(str(folder), here(cache))
    examples = [TableExample(question, question, TABLE, None) for question in QUESTIONS]
    return predict(parts.task, parts.data.build_eval_loader(examples, "questions"), config), config


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_answers_as_its_weights_in_transformers(tmp_path, name):
    folder = release(tmp_path, name, tmp_path / "theirs")
    found, config = predictions(folder, tmp_path / "cache")
    expected, theirs = predictions(tmp_path / "theirs", tmp_path / "cache")
    assert found == expected
    assert config.encoding["reset_positions"] is theirs.encoding["reset_positions"] is name.endswith("_reset")
    assert config.task["_target_"] == theirs.task["_target_"]
    assert config.task.get("temperature") == theirs.task.get("temperature")


def test_one_of_several_checkpoints_is_named(tmp_path):
    folder = release(tmp_path, "tapas_sqa_inter_masklm_base_reset")
    expected, _ = predictions(folder / "model.ckpt", tmp_path / "cache")
    for path in list(folder.glob("model.ckpt.*")):
        shutil.copy(path, path.with_name(path.name.replace("model.ckpt", "model.ckpt-2")))
    with pytest.raises(CheckpointError, match="it has 2 TensorFlow checkpoints"):
        predictions(folder, tmp_path / "cache")
    found, config = predictions(folder / "model.ckpt-2", tmp_path / "cache")
    assert found == expected
    assert config.encoding["reset_positions"] is True


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
    "a name that says nothing": (rename, "does not state whether positions restart in each cell"),
    "no vocabulary": (drop("vocab.txt"), "no vocab.txt in it"),
    "no configuration": (drop("bert_config.json"), "bert_config.json: does not contain the size of the network"),
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


@pytest.mark.parametrize("data", RELEASED_OPTIONS)
def test_options_by_name_are_those_of_the_experiment(data):
    task = composed(config_dir(), "train", [f"experiment={data}_mate"]).task
    mine = {
        ours: RELEASED_OPTIONS[data][theirs] for ours, theirs in OPTIONS.items() if theirs in RELEASED_OPTIONS[data]
    }
    assert mine == {ours: task[ours] for ours in mine}
    assert RELEASED_OPTIONS[data].get("use_answer_as_supervision", False) is (task["aggregation"] == "weak")
