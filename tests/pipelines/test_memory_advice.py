"""A card with too little memory ends a run in one line that says what fits."""

import json

import pytest
import torch
from configurations import run_config
from finished_runs import SMALL
from hydra.utils import instantiate
from pretended_gpu import pretended_gpu

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.cli.app import main
from mate_cli.errors import RunError
from mate_cli.models.base.costs import TrainingMemory
from mate_cli.models.base.sizes import SIZES
from mate_cli.models.mate import MateEncoder
from mate_cli.pipelines import machine, training
from mate_cli.pipelines.assembly import assemble
from mate_cli.pipelines.evaluation.evaluation import predict
from mate_cli.pipelines.machine import (
    explain_memory_errors,
    is_out_of_memory,
    memory_error,
    prediction_advice,
    step_memory,
)

LARGE = TrainingMemory((SIZES["large"],) * 24, 336_203_776, 2048)
FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nSee the manual")


def test_it_says_what_is_needed_and_what_fits():
    text = str(memory_error(LARGE, 16, 40e9))
    assert text == (
        "hardware.micro_batch: micro-batches of 16 x 2,048 tokens need about 38.1 GB, this device has 40.0 GB. "
        "Set hardware.micro_batch=8 or model.gradient_checkpointing=true; results stay the same."
    )


@pytest.mark.parametrize(
    ("tried", "card", "remedy"),
    [
        (16, 24e9, "hardware.micro_batch=4 or model.gradient_checkpointing=true;"),
        (16, 16e9, "hardware.micro_batch=2 or model.gradient_checkpointing=true;"),
        (64, 16e9, "hardware.micro_batch=2 or model.gradient_checkpointing=true hardware.micro_batch=16;"),
        (1, 8e9, "Set model.gradient_checkpointing=true;"),
        (1, 6e9, "Set a smaller encoding.max_tokens or model.size"),
        (8, 80e9, "hardware.micro_batch=4 or"),  # by count all is well: something else is on the card
    ],
)
def test_the_remedy_fits_the_card(tried, card, remedy):
    assert remedy in str(memory_error(LARGE, tried, card))


def test_what_is_checkpointed_already_is_not_proposed():
    assert "checkpointing" not in str(memory_error(LARGE.with_checkpointing(), 64, 16e9))


@pytest.mark.parametrize(
    "error",
    [FULL, RuntimeError("CUDA error: out of memory\nCUDA kernel errors"), RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")],
)
def test_every_kind_of_it_is_known(error):
    assert is_out_of_memory(error)
    with pytest.raises(RunError, match=r"hardware.micro_batch=4"), explain_memory_errors(lambda: prediction_advice(8)):
        raise error


def test_other_errors_pass():
    with pytest.raises(RuntimeError, match="illegal"), explain_memory_errors(lambda: prediction_advice(8)):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    assert "hardware=cpu" in str(prediction_advice(1))


def test_the_precision_of_the_card_counts():
    network = MateEncoder("tiny", attention=Sdpa())
    for words, half in ((["hardware=auto"], True), (["hardware=gpu"], False), (["hardware=gpu_bf16"], True)):
        with pretended_gpu():
            assert step_memory(network, network, 64, run_config([*SMALL, *words]).hardware).half is half
    assert not step_memory(network, network, 64, run_config([*SMALL, "hardware=auto"]).hardware).half


@pytest.mark.long
def test_training_ends_in_one_line(tmp_path, monkeypatch, capsys):
    def full(*_):
        raise FULL

    monkeypatch.setattr("mate_cli.lit_modules.lit_task.LitTask.training_step", full)
    monkeypatch.setattr(training, "device_memory", lambda: 16e9)
    words = ["experiment=quickstart_cells", "logger=none", "trainer.max_steps=2"]
    assert main(["train", *words, f"paths.outputs={tmp_path}", f"paths.cache={tmp_path}"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    assert line.startswith("error: hardware.micro_batch: micro-batches of")
    assert "this device has 16.0 GB. Set hardware.micro_batch=" in line
    (record,) = tmp_path.glob("train/*/*/record.json")
    assert json.loads(record.read_text())["reason"].startswith("RunError: hardware.micro_batch")


def test_predictions_end_in_one_line(monkeypatch):
    def full(*_, **__):
        raise FULL

    config = run_config(SMALL)
    parts = assemble(config, instantiate(config.data))
    monkeypatch.setattr(parts.task, "keep_predictions", full)
    with pytest.raises(RunError, match=r"batches of 16 examples.*hardware.micro_batch=4"):
        predict(parts.task, parts.data.loader("dev"), config)


def test_the_memory_of_a_card_is_asked_of_the_card():
    with pretended_gpu(gigabytes=24):
        assert machine.device_memory() == 24e9
