"""Pre-training and fine-tuning in one go, as typed: weights are handed on, finished stages are skipped or shared."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mate_cli.cli.app import main
from mate_cli.data.loading.stream import TableStream
from mate_cli.errors import Interrupted
from mate_cli.lit_modules.lit_task import LitTask

OF_STAGES = {
    "data.sources": "[sample]",
    "data.exclude": "[]",
    "trainer.batch_size": "8",
    "trainer.max_steps": "3",
    "trainer.val_every": "9",
}
FIRST = ["init=random", "model.size=tiny", "init.tokenizer=sample"]
"""What only a stage that begins without weights takes."""
TYPED = [
    *("experiment=three_stages", "data=sample", "hardware.threads=1", "hardware.micro_batch=4", "logger=none"),
    *("encoding.max_tokens=64", "trainer.limit_dev=8", "stages.cell_selection.trainer.limit_train=16"),
    *("stages.cell_selection.trainer.batch_size=8", "stages.cell_selection.trainer.max_steps=2"),
]


def words_of(name: str) -> list[str]:
    """What is typed for one stage alone."""
    return [f"stages.{name}.{key}={value}" for key, value in OF_STAGES.items()]


CS = [*FIRST, *words_of("masked_lm"), *words_of("cs")]
"""Two stages come first, the second with statements."""
EXPERIMENT = """# @package _global_
stages:
  masked_lm: {experiment: pretrain_mate, after: weights, keeps: [data, encoding, task]}
  cs: {experiment: pretrain_cs_mate, after: weights, keeps: [data, encoding, task]}
  cell_selection: {experiment: hybridqa_mate}
"""


@pytest.fixture(scope="module", autouse=True)
def own_experiment(tmp_path_factory):
    """A folder in which an experiment of one's own has three stages."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "conf" / "experiment").mkdir(parents=True)
    (folder / "conf" / "experiment" / "three_stages.yaml").write_text(EXPERIMENT)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield


def run(outputs: Path, *more: str) -> Path:
    assert main(["train", *TYPED, f"paths.outputs={outputs}", *more]) == 0
    return sorted(outputs.glob("train/three_stages/*"))[-1]


@pytest.fixture(scope="module")
def chain(tmp_path_factory) -> Path:
    return run(tmp_path_factory.mktemp("chain"), *CS)


def record(folder: Path) -> dict:
    return json.loads((folder / "record.json").read_text())


def encoder(file: Path) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in load_file(file).items() if name.startswith("encoder.")}


def test_a_run_says_what_it_was_pre_trained_by(chain):
    own = record(chain)
    assert own["status"] == "finished"
    assert own["pretraining"] == {"masked_lm": str(chain / "masked_lm"), "cs": str(chain / "cs")}
    assert own["init"] == "random + masked_lm + cs"
    assert "dev/hits@1" in own["metrics"]
    assert [record(chain / name)["init"] for name in ("masked_lm", "cs")] == ["random", "random + masked_lm"]
    assert [record(chain / name)["task"] for name in ("masked_lm", "cs")] == ["masked_lm", "entailment"]
    assert [record(chain / name)["total_steps"] for name in ("masked_lm", "cs")] == [3, 3]
    assert {"dev/accuracy", "dev/accuracy/synthetic"} <= record(chain / "cs")["metrics"].keys()


@pytest.mark.long
def test_each_stage_begins_with_the_weights_of_the_one_before(chain, tmp_path, monkeypatch):
    begun = []
    fit = LitTask.on_train_start

    def note(task):
        begun.append({name: tensor.clone() for name, tensor in task.state_dict().items()})
        fit(task)

    monkeypatch.setattr(LitTask, "on_train_start", note)
    taken = [f"stages.masked_lm.run={chain / 'masked_lm'}", "stages.cs=null"]
    again = run(tmp_path, *taken)
    assert record(again)["init"] == "random + masked_lm"
    assert record(again)["pretraining"] == {"masked_lm": str(chain / "masked_lm")}
    assert [path.name for path in again.iterdir() if path.is_dir()].count("masked_lm") == 0
    (own,) = begun
    theirs = encoder(chain / "masked_lm" / "checkpoints" / "final.safetensors")
    assert theirs
    assert [name for name in theirs if name in own and not torch.equal(own[name], theirs[name])] == []
    assert len([name for name in theirs if name in own]) > 10


@pytest.mark.long
def test_a_stage_that_was_interrupted_goes_on(chain, tmp_path, monkeypatch, capsys):
    whole = TableStream.__getitem__

    def until_five(stream, number):
        if number == 5:  # the last of three steps of two micro-batches
            raise Interrupted
        return whole(stream, number)

    often = "stages.masked_lm.trainer.checkpoint_every=1"
    words = ["train", *TYPED, f"paths.outputs={tmp_path}", *CS, often]
    monkeypatch.setattr(TableStream, "__getitem__", until_five)
    assert main(words) != 0
    monkeypatch.undo()
    (folder,) = tmp_path.glob("train/three_stages/*")
    assert [record(folder / name)["status"] for name in (".", "masked_lm")] == ["interrupted"] * 2
    advice = [line for line in capsys.readouterr().out.splitlines() if "type mate run" in line]
    assert advice == [f"interrupted; to continue, type mate run {folder}"]  # the whole, not the stage
    assert not (folder / "cs").exists()
    assert main([*words, "resume=last"]) == 0
    assert record(folder / "masked_lm")["resumed"] == 1
    for name in (".", "masked_lm", "cs"):
        final = f"{name}/checkpoints/final.safetensors"
        assert (folder / final).read_bytes() == (chain / final).read_bytes()


def test_the_last_weights_are_scored_and_compared_like_those_of_any_run(chain, tmp_path):
    assert main(["evaluate", f"run={chain}", "split=dev", "hardware.threads=1"]) == 0
    own = {name: value for name, value in record(chain)["metrics"].items() if name.startswith("dev/")}
    again = json.loads((chain / "evaluation" / "dev.json").read_text())
    assert {name: again[name] for name in own} == own
    found = tmp_path / "found.json"
    assert main(["compare", str(chain), "html=null", f"json={found}"]) == 0
    assert "random + masked_lm + cs" in found.read_text()
