"""A run of two encoders from one command: killed, resumed and asked again."""

import json
import signal
from pathlib import Path

import forked_commands
import pytest
from finished_runs import assert_same_weights, only_run
from forked_commands import finish, wait_for_step
from safetensors.torch import load_file

from mate_cli.cli.app import main

ARGUMENTS = [
    "experiment=quickstart_dot",
    "logger=none",
    "trainer.limit_train=16",
    "trainer.limit_dev=4",
    "trainer.batch_size=4",
    "trainer.max_steps=8",
    "trainer.checkpoint_every=2",
    "trainer.log_every=1",
    "hardware.micro_batch=4",
    "hardware.threads=1",
    "model.keep=40",
    "model.hidden_dropout=0.1",
]


TABLE = "region,month,sales\nNorth,March,1204\nSouth,March,870\nNorth,April,980\n"


def start(folder: Path, *more: str):
    return forked_commands.start("train", *ARGUMENTS, f"paths.outputs={folder}", *more)


def assert_same_training(ours: Path, theirs: Path) -> None:
    assert_same_weights(ours, theirs)
    first, second = (json.loads((path / "record.json").read_text())["metrics"] for path in (ours, theirs))
    assert first == pytest.approx(second, abs=1e-5)  # margins are means of 32-bit logits


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "outputs"
    finish(start(folder))
    return only_run(folder)


@pytest.mark.long
def test_killed_and_resumed_it_ends_with_the_same_weights(whole, tmp_path):
    process = start(tmp_path)
    wait_for_step(tmp_path, 4, process)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=120)
    finish(start(tmp_path, "resume=last"))
    for name in ("final", "best"):
        file = f"checkpoints/{name}.safetensors"
        assert (only_run(tmp_path) / file).read_bytes() == (whole / file).read_bytes()


@pytest.mark.long
@pytest.mark.parametrize(("learn", "select"), [("pruning", "tokens"), ("both", "columns")])
def test_several_processes_train_what_one_does(learn, select, tmp_path):
    chosen = [f"model.learn={learn}", f"model.select={select}", "hardware.micro_batch=2"]
    finish(start(tmp_path / "one", *chosen))
    output = finish(start(tmp_path / "two", *chosen, "hardware.devices=2"))
    assert "2 processes" in output
    assert_same_training(only_run(tmp_path / "two"), only_run(tmp_path / "one"))


@pytest.mark.long
def test_it_answers_the_same_from_its_folder_and_its_export(whole, tmp_path):
    here = ["hardware.threads=1"]
    assert main(["evaluate", f"run={whole}", "split=test", *here]) == 0
    again = json.loads((whole / "evaluation" / "test.json").read_text())
    metrics = json.loads((whole / "record.json").read_text())["metrics"]
    assert again == {name: value for name, value in metrics.items() if name.startswith("test/")}
    assert main(["export", f"run={whole}", f"to={tmp_path / 'exported'}", *here]) == 0
    table = tmp_path / "sales.csv"
    table.write_text(TABLE)
    found = []
    for model in (f"run={whole}", f"checkpoint={tmp_path / 'exported'}"):
        output = tmp_path / f"{len(found)}.json"
        asked = [f"table={table}", "question=who sold the most ?", f"output={output}"]
        assert main(["predict", model, *asked, *here]) == 0
        found.append(json.loads(output.read_text())["answers"])
    assert found[0] == found[1]
    assert found[0][0]["cells"]


@pytest.mark.long
def test_it_selects_the_cells_for_a_reader(tmp_path):
    small = [*ARGUMENTS[1:-2], "trainer.max_steps=2", f"paths.outputs={tmp_path}"]
    dot = ["stages.cell_selection.experiment=quickstart_dot", "stages.cell_selection.model.keep=40"]
    assert main(["train", "experiment=quickstart", *small, *dot]) == 0
    (run,) = tmp_path.glob("train/quickstart/*")
    metrics = json.loads((run / "record.json").read_text())["metrics"]
    assert {"test/em", "test/f1"} <= metrics.keys()
    names = load_file(run / "cell_selection" / "checkpoints" / "best.safetensors")
    assert any(name.startswith("encoder.pruner.") for name in names)


@pytest.mark.long
def test_what_is_saved_has_both_encoders_and_what_scores(whole):
    names = load_file(whole / "checkpoints" / "best.safetensors")
    for part in ("encoder.encoder.layer.0.", "encoder.pruner.encoder.layer.0.", "encoder.scores.tokens."):
        assert any(name.startswith(part) for name in names), part
    assert not any(name.startswith("encoder.pruner.pooler") for name in names)
    record = json.loads((whole / "record.json").read_text())
    assert record["status"] == "finished"
