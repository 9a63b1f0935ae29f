"""A run of two encoders from one command: killed, resumed and asked again."""

import json
import signal
import time
from pathlib import Path

import forked_commands
import pytest
from safetensors.torch import load_file

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


def start(folder: Path, *more: str):
    return forked_commands.start("train", *ARGUMENTS, f"paths.outputs={folder}", *more)


def finish(process) -> str:
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, output + errors
    return output


def only_run(folder: Path) -> Path:
    (path,) = folder.glob("train/quickstart_dot/*")
    return path


def wait_for_step(folder: Path, step: int, process) -> None:
    for _ in range(6000):
        assert process.poll() is None, process.communicate()
        found = [path.read_text() for path in folder.glob("train/quickstart_dot/*/metrics.jsonl")]
        if any(f'"step": {step}' in text for text in found):
            return
        time.sleep(0.02)
    pytest.fail(f"step {step} was never reached")


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


def test_what_is_saved_has_both_encoders_and_what_scores(whole):
    names = load_file(whole / "checkpoints" / "best.safetensors")
    for part in ("encoder.encoder.layer.0.", "encoder.pruner.encoder.layer.0.", "encoder.scores.tokens."):
        assert any(name.startswith(part) for name in names), part
    assert not any(name.startswith("encoder.pruner.pooler") for name in names)
    record = json.loads((whole / "record.json").read_text())
    assert record["status"] == "finished"
