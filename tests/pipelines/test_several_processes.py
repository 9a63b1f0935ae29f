"""Several processes train what one trains: the same losses, weights and metrics, in one run folder."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import forked_commands
import pytest
import torch
from forked_commands import Command
from safetensors.torch import load_file

ARGUMENTS = [
    "experiment=quickstart_cells",
    "logger=none",
    "trainer.limit_train=64",
    "trainer.limit_dev=10",
    "trainer.batch_size=8",
    "trainer.max_steps=10",
    "trainer.val_every=0.7",
    "trainer.checkpoint_every=2",
    "trainer.log_every=1",
    "hardware.micro_batch=2",
    "hardware.threads=1",
    # Dropout too, for its masks follow from the seed and the number of the micro-batch alone.
    "model.hidden_dropout=0.1",
    "model.attention_dropout=0.1",
]
TWO = "hardware.devices=2"


def start(folder: Path, *more: str) -> Command:
    return forked_commands.start("train", *ARGUMENTS, f"paths.outputs={folder}", *more)


def finish(process: Command) -> str:
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, output + errors
    assert "Warning" not in errors, errors
    return output


def settled(output: str) -> list[str]:
    """The lines but those that come every some seconds."""
    return [line for line in output.splitlines() if not line.endswith((" min left", " s left"))]


def only_run(folder: Path) -> Path:
    (path,) = folder.glob("train/quickstart_cells/*")
    return path


def rows(folder: Path) -> list[dict]:
    text = (only_run(folder) / "metrics.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def record(folder: Path) -> dict:
    return json.loads((only_run(folder) / "record.json").read_text())


def wait_for_checkpoint(folder: Path, process: Command) -> None:
    for _ in range(6000):
        assert process.poll() is None, process.communicate()
        if list(folder.glob("train/quickstart_cells/*/checkpoints/last.ckpt")):
            return
        time.sleep(0.02)
    pytest.fail("no checkpoint was ever saved")


def others(process: Command) -> list[int]:
    """The processes that a first one has started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        pytest.skip("the system does not list the children of a process")
    return [int(number) for number in children.read_text().split()]


def assert_same_training(ours: Path, theirs: Path) -> None:
    for name in ("final", "best"):
        first, second = (load_file(only_run(path) / f"checkpoints/{name}.safetensors") for path in (ours, theirs))
        torch.testing.assert_close(first, second, rtol=0, atol=2e-5)
    names = ("step", "epoch", "train/loss", "train/lr", "dev/hits@1", "dev/hits@5")
    for one, other in zip(rows(ours), rows(theirs), strict=True):
        assert {k: one[k] for k in names if k in one} == pytest.approx(
            {k: other[k] for k in names if k in other}, abs=1e-5
        )
    assert record(ours)["metrics"] == pytest.approx(record(theirs)["metrics"])
    for split in ("dev", "test"):
        first, second = (json.loads((only_run(p) / f"predictions/{split}.json").read_text()) for p in (ours, theirs))
        assert [(row["question_id"], row["pred"]) for row in first] == [
            (row["question_id"], row["pred"]) for row in second
        ]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one") / "outputs"
    return folder, finish(start(folder))


@pytest.mark.long
def test_two_processes_train_what_one_does(one, tmp_path):
    folder = tmp_path / "outputs"
    output = finish(start(folder, TWO))
    assert_same_training(folder, one[0])
    assert record(folder)["status"] == "finished"
    assert record(folder)["device"].startswith("2 x cpu")
    assert "10 steps of 8 = 2 x 2 x 2 processes" in output
    assert len(settled(output)) == len(settled(one[1]))  # nothing is printed twice


@pytest.mark.long
def test_shards_change_nothing(one, tmp_path):
    folder = tmp_path / "outputs"
    finish(start(folder, TWO, "hardware.strategy=fsdp"))
    assert_same_training(folder, one[0])


@pytest.mark.long
def test_a_signal_to_one_process_stops_both_and_another_strategy_goes_on(one, tmp_path):
    folder = tmp_path / "outputs"
    process = start(folder, TWO)
    wait_for_checkpoint(folder, process)
    process.send_signal(signal.SIGUSR1)  # as schedulers announce the end of a job
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 130, output + errors
    assert output.count("Stopping at the next optimizer step") == 1
    assert "Traceback" not in errors
    assert record(folder)["status"] == "interrupted"
    finish(start(folder, "hardware.strategy=fsdp", "resume=last"))  # in one process, as a world of its own
    assert_same_training(folder, one[0])
    assert record(folder)["resumed"] == 1


@pytest.mark.long
def test_the_first_process_tells_how_another_died(tmp_path):
    folder = tmp_path / "outputs"
    process = start(folder, TWO, "trainer.max_steps=500", "trainer.max_epochs=null")
    wait_for_checkpoint(folder, process)
    os.kill(others(process)[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "error: process 1 of 2 was killed by SIGKILL" in errors
    assert "Traceback" not in errors
    assert record(folder)["status"] == "failed"
    assert "SIGKILL" in record(folder)["reason"]


@pytest.mark.long
def test_a_halted_process_does_not_keep_the_others_from_ending(tmp_path):
    run = start(tmp_path, TWO, "trainer.max_steps=5000")
    while not list(tmp_path.glob("train/*/*/checkpoints/last.ckpt")):
        assert run.poll() is None, run.communicate()
        time.sleep(0.1)
    (other,) = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    os.kill(int(other), signal.SIGSTOP)
    run.send_signal(signal.SIGINT)
    said = "".join(run.communicate(timeout=120))  # 30 seconds where no other process is at work
    assert (run.returncode, "Traceback" in said) == (2, False), said
    assert "Go on with resume=last" in said
    assert json.loads((only_run(tmp_path) / "record.json").read_text())["status"] == "failed"
