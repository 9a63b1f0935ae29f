"""Layers that torch compiles learn what others do, and machines and networks that cannot have them are refused."""

import json

import pytest
from configurations import run_config
from torch._inductor.exc import InvalidCxxCompiler

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.cli.app import main
from mate_cli.errors import ConfigError
from mate_cli.papers.transformer_xh.models.transformer_xl import TransformerXl
from mate_cli.pipelines.trainer import check_trainer
from mate_cli.pipelines.training import compile_layers

TINY = [
    *("experiment=quickstart_cells", "logger=none", "hardware.threads=1", "hardware.micro_batch=2"),
    *("trainer.limit_train=16", "trainer.limit_dev=4", "trainer.batch_size=4", "trainer.max_steps=4"),
    *("trainer.log_every=1", "callbacks=weight_averaging"),
]


def no_compiler():
    raise InvalidCxxCompiler


def test_a_machine_without_a_compiler_is_refused(monkeypatch):
    monkeypatch.setattr("torch._inductor.cpp_builder.get_cpp_compiler", no_compiler)
    check_trainer(run_config([]))
    with pytest.raises(ConfigError, match=r"trainer\.compile: no C\+\+ compiler found\. Install g\+\+"):
        check_trainer(run_config(["trainer.compile=true", "hardware=cpu"]))


def test_layers_whose_work_depends_on_the_data_are_refused():
    with pytest.raises(ConfigError, match=r"trainer\.compile: .* cannot be compiled"):
        compile_layers(TransformerXl("tiny", attention=Sdpa(), vocab_size=9))


@pytest.mark.long
def test_compiled_layers_learn_the_same(tmp_path):
    losses = []
    for words in ([], ["trainer.compile=true"], ["trainer.compile=true", "model.gradient_checkpointing=true"]):
        outputs = tmp_path / str(len(words))
        assert main(["train", *TINY, *words, f"paths.outputs={outputs}"]) == 0
        (file,) = outputs.glob("train/*/*/metrics.jsonl")
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        losses.append([row["train/loss"] for row in rows if "train/loss" in row])
    assert len(losses[0]) == 4
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert losses[2] == pytest.approx(losses[0], rel=1e-4)
