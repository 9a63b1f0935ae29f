"""Stages that runs share: trained once, by whoever comes first, and waited for by all others."""

import json
import threading
from pathlib import Path
from unittest.mock import patch

import forked_commands
import pytest

from mate_cli.cli.app import main
from mate_cli.cli.config.resolve import resolve
from mate_cli.errors import ConfigError
from mate_cli.pipelines import stages
from mate_cli.pipelines.stages import shared_folder
from mate_cli.runs.lock import LockedError
from mate_cli.terminal.console import Console

CHAIN = [
    *("experiment=hybridqa_pointr_pretrained", "data=sample", "init=random", "init.tokenizer=sample"),
    *("model.size=tiny", "encoding.max_tokens=64", "debug=fast", "logger=none", "hardware.threads=1"),
    *("stages.masked_lm.data.sources=[sample]", "stages.masked_lm.data.exclude=[sample/dev,sample/test]"),
]
ETC = ["stages.masked_lm.experiment=pretrain_etc", "stages.cell_selection.experiment=hybridqa_etc"]


def chain(outputs: Path, *more: str) -> int:
    return main(["train", *CHAIN, f"paths.outputs={outputs}", *more])


def trained(outputs: Path, experiment: str) -> list[dict]:
    return [json.loads(path.read_text()) for path in outputs.glob(f"train/{experiment}/*/record.json")]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory) -> Path:
    """Where the chain of one seed has been trained."""
    outputs = tmp_path_factory.mktemp("shared")
    assert chain(outputs, "seed=1") == 0
    return outputs


@pytest.mark.long
def test_another_seed_begins_with_the_same_weights_and_has_a_reader_of_its_own(outputs):
    # Two chains of three stages, ten seconds of one core: nothing shorter shows that the second trains less.
    (before,) = trained(outputs, "pretrain_mate")
    assert chain(outputs, "seed=2") == 0
    assert trained(outputs, "pretrain_mate") == [before], "it is not trained again"
    first, second = sorted(trained(outputs, "hybridqa_pointr_pretrained"), key=lambda record: record["seed"])
    assert first["stages"]["masked_lm"] == second["stages"]["masked_lm"]
    assert first["stages"]["span_reading"] != second["stages"]["span_reading"]
    assert [record["seed"] for record in (before, first, second)] == [1, 1, 2]
    assert sorted(record["seed"] for record in trained(outputs, "hybridqa_reader")) == [1, 2]
    assert main(["evaluate", f"run={Path(second['stages']['cell_selection']).parent}", "split=dev"]) == 0


@pytest.mark.long
def test_networks_have_one_reader(outputs):
    before = trained(outputs, "hybridqa_reader")
    assert chain(outputs, "seed=1", *ETC) == 0
    assert trained(outputs, "hybridqa_reader") == before
    assert len(trained(outputs, "pretrain_etc")) == 1
    assert chain(outputs, "seed=1", *ETC, "stages.masked_lm.optimizer.lr=1e-3") == 0
    assert len(trained(outputs, "pretrain_etc")) == 2, "other values are another run"


def test_a_run_that_was_trained_alone_is_taken(tmp_path):
    alone = [word for word in CHAIN if not word.startswith(("stages.", "experiment=", "data="))]
    own = [word.removeprefix("stages.masked_lm.") for word in CHAIN if word.startswith("stages.masked_lm.")]
    assert main(["train", "experiment=pretrain_mate", *alone, *own, f"paths.outputs={tmp_path}"]) == 0
    stage = resolve([*CHAIN, f"paths.outputs={tmp_path}"]).stages[0]
    (folder,) = tmp_path.glob("train/pretrain_mate/*")
    assert shared_folder(stage, Console()).path == folder


def test_who_comes_second_waits(tmp_path, capsys, monkeypatch):
    stage = resolve([*CHAIN, f"paths.outputs={tmp_path}"]).stages[0]
    monkeypatch.setattr(stages, "POLL", 0.01)
    free = threading.Event()

    def hold(folder):
        if not free.is_set():
            raise LockedError("another process is training this run", where=str(folder))

    with patch.object(stages, "acquire_lock", hold):
        waiting = threading.Thread(target=lambda: found.append(shared_folder(stage, Console())))
        found: list = []
        waiting.start()
        waiting.join(0.2)
        assert not found
        free.set()
        waiting.join(5)
    assert [one.path.parent.name for one in found] == ["pretrain_mate"]
    assert capsys.readouterr().out.count("in training by another process") == 1


@pytest.mark.long
def test_two_seeds_at_once_train_it_once(tmp_path):
    words = ["train", *CHAIN, f"paths.outputs={tmp_path}"]
    processes = [forked_commands.start(*words, f"seed={seed}", f"name=seed{seed}") for seed in (1, 2)]
    assert [process.wait(300) for process in processes] == [0, 0], [one.communicate() for one in processes]
    (record,) = trained(tmp_path, "pretrain_mate")
    assert (record["status"], record["resumed"]) == ("finished", 0)
    said = [process.communicate()[0] for process in processes]
    assert sum("is already finished" in text for text in said) == 1
    assert len(trained(tmp_path, "hybridqa_pointr_pretrained")) == 2


def test_pre_training_has_a_seed_of_its_own():
    def seeds(*words):
        return [stage.seed for stage in resolve([CHAIN[0], *words]).stages]

    assert seeds("seed=5") == [1, 5, 5]
    assert seeds("seed=5", "stages.masked_lm.seed=7") == [7, 5, 5]


def test_a_folder_is_that_of_values_alone(tmp_path):
    stage = resolve([*CHAIN, f"paths.outputs={tmp_path}"]).stages[0]
    hardware = stage.hardware.model_copy(update={"micro_batch": 1})
    other = stage.model_copy(update={"hardware": hardware})
    assert shared_folder(other, Console()).path == shared_folder(stage, Console()).path


def test_the_last_of_a_line_is_not_shared():
    with pytest.raises(ConfigError, match=r"stages.cell_selection.shared: the last stage must be trained by this run"):
        resolve(["experiment=hybridqa_mate_from_scratch", "stages.cell_selection.shared=true"])
