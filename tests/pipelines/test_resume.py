"""A run that was killed and resumed ends with the weights and rows of the run that was not."""

import json
import signal
from pathlib import Path

import forked_commands
import pytest
from finished_runs import only_run
from forked_commands import Command, finish, wait_for_step

ARGUMENTS = [
    *("experiment=quickstart_cells", "logger=none", "trainer.limit_train=48", "trainer.limit_dev=8"),
    *("trainer.batch_size=8", "trainer.max_steps=12", "trainer.val_every=1.1", "trainer.checkpoint_every=3"),
    *("trainer.log_every=2", "hardware.micro_batch=4", "hardware.threads=1", "model.hidden_dropout=0.1"),
    *("model.attention_dropout=0.1", "encoding.max_tokens=96"),
]


def start(folder: Path, *more: str) -> Command:
    return forked_commands.start("train", *ARGUMENTS, f"paths.outputs={folder}", *more)


def refused(process: Command) -> str:
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 2
    return " ".join(errors.split())


def rows(folder: Path) -> list[dict]:
    found = []
    for path in folder.glob("train/quickstart_cells/*/metrics.jsonl"):
        for line in path.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:  # the last line may be half written while the run goes on
                continue
    return found


def timeless(folder: Path) -> list[dict]:
    return [{k: v for k, v in row.items() if k != "time" and not k.endswith("per_second")} for row in rows(folder)]


def assert_equal_runs(folder: Path, other: Path) -> None:
    for name in ("final", "best"):
        file = f"checkpoints/{name}.safetensors"
        assert (only_run(folder) / file).read_bytes() == (only_run(other) / file).read_bytes()
    assert timeless(folder) == timeless(other)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "outputs"
    finish(start(folder))
    return folder


@pytest.mark.parametrize(
    ("step", "stop"),
    [
        pytest.param(2, signal.SIGKILL, marks=pytest.mark.long),
        (5, signal.SIGKILL),
        pytest.param(7, signal.SIGINT, marks=pytest.mark.long),
    ],
)
def test_resumed_equals_uninterrupted(whole, tmp_path, step, stop):
    folder = tmp_path / "outputs"
    process = start(folder)
    wait_for_step(folder, step, process)
    if step == 2:  # while it lives, nobody else writes into its folder
        assert "another process is training this run" in refused(start(folder, "resume=last"))
    process.send_signal(stop)
    output, errors = process.communicate(timeout=120)
    if stop == signal.SIGINT:
        assert process.returncode == 130, output
        assert json.loads((only_run(folder) / "record.json").read_text())["status"] == "interrupted"
    assert "Traceback" not in output + errors
    finish(start(folder, "resume=last"))
    assert_equal_runs(folder, whole)
    ours, theirs = only_run(folder), only_run(whole)
    record, expected = (json.loads((path / "record.json").read_text()) for path in (ours, theirs))
    assert record["status"] == "finished"
    assert record["metrics"] == expected["metrics"]
    assert record["facts"] == expected["facts"]
    assert record["weights_sha256"] == expected["weights_sha256"]


def test_a_finished_run_is_not_trained_again(whole):
    output = finish(start(whole, "resume=last"))
    assert "is already finished" in " ".join(output.split())
