"""Runs that train a part of a network: frozen parameters, and adapters, also killed and on two processes."""

import json

import forked_commands
import pytest
import torch
from finished_runs import only_run
from forked_commands import finish
from safetensors.torch import load_file

from mate_cli.cli.app import main

TINY = [
    *("experiment=quickstart_cells", "logger=none", "hardware.threads=1", "hardware.micro_batch=2"),
    *("trainer.limit_train=32", "trainer.limit_dev=8", "trainer.batch_size=8", "trainer.max_steps=8"),
    *("trainer.log_every=1", "trainer.val_every=0.5", "trainer.checkpoint_every=1", "model.hidden_dropout=0.1"),
]
FROZEN = "model.freeze=encoder.layer.[0-9].*"


def train(folder, *words):
    return forked_commands.start("train", *TINY, f"paths.outputs={folder}", *words)


def weights(folder, name="final"):
    return load_file(only_run(folder) / f"checkpoints/{name}.safetensors")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run with frozen layers, undisturbed, and what it printed."""
    folder = tmp_path_factory.mktemp("frozen")
    return folder, finish(train(folder, FROZEN))


@pytest.mark.long
def test_a_run_says_how_much_it_trains_and_changes_nothing_else(whole, tmp_path):
    folder, output = whole
    finish(train(tmp_path, FROZEN, "trainer.max_steps=1"))
    rows = {line.split()[0]: line.split()[1:] for line in output.splitlines() if len(line.split()) == 3}
    record = json.loads((only_run(folder) / "record.json").read_text())
    assert rows["all"] == [f"{record[name]:,}" for name in ("parameters", "trainable_parameters")]
    assert (rows["encoder"][1], rows["head"][1]) == ("0", rows["head"][0])
    assert "model.freeze=encoder.layer.[0-9].*" in record["settings"]
    first, last = weights(tmp_path), weights(folder)
    frozen = [name for name in last if name.startswith("encoder.encoder.layer.")]
    assert frozen
    assert all(torch.equal(first[name], last[name]) for name in frozen)
    words = "encoder.embeddings.word_embeddings.weight"
    assert not torch.equal(first[words], last[words])


def test_a_pattern_that_matches_nothing_leaves_no_folder(tmp_path, capsys):
    outputs = tmp_path / "outputs"
    assert main(["train", *TINY, f"paths.outputs={outputs}", "model.freeze=encodr.*"]) == 2
    error = capsys.readouterr().err
    assert "model.freeze: 'encodr.*' matches no parameter. Near: encoder" in error
    assert not list(outputs.glob("train/*/*"))


def adapted(whole):
    checkpoint = only_run(whole[0]) / "checkpoints/final.safetensors"
    return ["init=path", "init.tokenizer=sample", f"init.checkpoint={checkpoint}", "model.lora.rank=2"]


@pytest.fixture(scope="module")
def lora(whole, tmp_path_factory):
    """The folder of a run with adapters, undisturbed."""
    folder = tmp_path_factory.mktemp("lora")
    finish(train(folder, *adapted(whole)))
    return folder


@pytest.mark.long
def test_best_weights_have_the_adapters_in_them_and_answer_as_any(whole, lora, tmp_path, capsys):
    begun, best, final = weights(whole[0]), weights(lora, "best"), weights(lora)
    assert best.keys() == final.keys() == begun.keys()
    changed = {name for name in final if not torch.equal(final[name], begun[name])}
    parts = ("self.query.weight", "self.key.weight", "self.value.weight")
    assert {name for name in changed if name.startswith("encoder.")} == {n for n in final if n.endswith(parts)}
    state = torch.load(only_run(lora) / "checkpoints/last.ckpt", weights_only=True)["state_dict"]
    assert any(name.endswith("lora_A") for name in state)
    record = json.loads((only_run(lora) / "record.json").read_text())
    assert record["trainable_parameters"] < record["parameters"] / 20
    assert main(["export", f"run={only_run(lora)}", f"to={tmp_path / 'exported'}"]) == 0
    assert main(["evaluate", f"run={only_run(lora)}", "split=dev"]) == 0
    scored = json.loads((only_run(lora) / "record.json").read_text())["metrics"]
    assert scored["dev/hits@5"] == record["metrics"]["dev/hits@5"]
