"""Several processes train what one trains: the same losses, weights and metrics, in one run folder."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import forked_commands
import pytest
from finished_runs import assert_same_weights, only_run
from forked_commands import Command

ARGUMENTS = [
    *("experiment=quickstart_cells", "logger=none", "trainer.limit_train=64", "trainer.limit_dev=10"),
    *("trainer.batch_size=8", "trainer.max_steps=10", "trainer.val_every=0.7", "trainer.checkpoint_every=2"),
    *("trainer.log_every=1", "hardware.micro_batch=2", "hardware.threads=1"),
    # Dropout too, for its masks follow from the seed and the number of the micro-batch alone.
    *("model.hidden_dropout=0.1", "model.attention_dropout=0.1"),
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


def workers(process: Command) -> list[int]:
    """The processes that a command has started, by rank."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        pytest.skip("the system does not list the children of a process")
    numbers = children.read_text().split()
    assert len(numbers) == 2
    return sorted(map(int, numbers), key=lambda number: b"\0RANK=1\0" in Path(f"/proc/{number}/environ").read_bytes())


def ended(numbers: list[int]) -> bool:
    return not any(Path(f"/proc/{number}").exists() for number in numbers)


def assert_same_training(ours: Path, theirs: Path) -> None:
    assert_same_weights(only_run(ours), only_run(theirs))
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
def test_a_signal_stops_both_and_one_process_goes_on(one, tmp_path):
    folder = tmp_path / "outputs"
    process = start(folder, TWO)
    wait_for_checkpoint(folder, process)
    numbers = workers(process)
    process.send_signal(signal.SIGUSR1)  # as schedulers announce the end of a job
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 130, output + errors
    assert output.count("Stopping at the next optimizer step") == 1
    assert errors == ""
    assert record(folder)["status"] == "interrupted"
    assert ended(numbers)
    finish(start(folder, "resume=last"))
    assert_same_training(folder, one[0])
    assert record(folder)["resumed"] == 1


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_ends_both_and_the_run_goes_on(one, tmp_path, rank):
    folder = tmp_path / "outputs"
    process = start(folder, TWO)
    wait_for_checkpoint(folder, process)
    numbers = workers(process)
    os.kill(numbers[rank], signal.SIGKILL)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 2, output + errors
    assert errors == f"error: process {rank} of 2 was killed by SIGKILL. Continue with resume=last.\n"
    assert record(folder)["status"] == "failed"
    assert "SIGKILL" in record(folder)["reason"]
    assert ended(numbers)
    finish(start(folder, TWO, "resume=last"))
    assert_same_training(folder, one[0])
