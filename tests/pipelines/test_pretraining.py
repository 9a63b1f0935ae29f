"""Pre-training as typed: a run, one that is interrupted and resumed, and fine-tuning from its weights."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

from mate_cli.cli.app import main
from mate_cli.lit_modules.masked_lm import MaskedLM

SMALL = ["logger=none", "init=random", "model.size=tiny", "init.tokenizer=sample", "hardware.threads=1"]
PRETRAIN = [
    *("experiment=pretrain_mate", "data.sources=[sample]", "data.exclude=[sample/dev,sample/test]"),
    *("encoding.max_tokens=48", "optimizer.lr=1e-3", "trainer.batch_size=8", "trainer.max_steps=8"),
    *("trainer.val_every=0.7", "trainer.checkpoint_every=1", "trainer.log_every=2", "hardware.micro_batch=4"),
]


def run_folder(outputs: Path) -> Path:
    (folder,) = outputs.glob("train/pretrain_mate/*")
    return folder


def pretrain(outputs: Path, *more: str) -> int:
    return main(["train", *PRETRAIN, *SMALL, f"paths.outputs={outputs}", *more])


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    outputs = tmp_path_factory.mktemp("whole")
    assert pretrain(outputs) == 0
    return run_folder(outputs)


def test_a_run_says_what_it_learnt_from_and_how_well(run):
    record = json.loads((run / "record.json").read_text())
    assert record["status"] == "finished"
    assert record["total_steps"] == 8
    assert 0 <= record["metrics"]["dev/masked_accuracy"] <= 1
    assert record["metrics"]["dev/perplexity"] > 1
    assert record["data"]["dev"] > 0
    assert "equal to one of evaluation" in record["facts"]["corpus, left out"]
    losses = [row["train/loss"] for row in map(json.loads, (run / "metrics.jsonl").open()) if "train/loss" in row]
    assert losses[-1] < losses[0]
    rows = json.loads((run / "predictions" / "dev.json").read_text())
    assert len(rows) == record["data"]["dev"]
    assert all("masked pieces" in row["pred"] for row in rows)


@pytest.mark.long
def test_less_is_better_where_the_monitored_metric_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(MaskedLM, "spec", replace(MaskedLM.spec, monitor="dev/perplexity"))
    assert (
        pretrain(tmp_path, "callbacks=early_stopping", "callbacks.early_stopping.patience=1", "trainer.val_every=0.2")
        == 0
    )
    folder = run_folder(tmp_path)
    rows = map(json.loads, (folder / "metrics.jsonl").open())
    found = [row["dev/perplexity"] for row in rows if "dev/perplexity" in row]
    assert len(found) > 2
    assert found == sorted(found, reverse=True)  # so that it never stops early
    best, final = (load_file(folder / "checkpoints" / f"{name}.safetensors") for name in ("best", "final"))
    assert all((best[name] == final[name]).all() for name in final)
    assert json.loads((folder / "record.json").read_text())["monitor"] == "dev/perplexity"


@pytest.mark.long
def test_the_weights_are_fine_tuned(run, tmp_path, capsys):
    weights = run / "checkpoints" / "final.safetensors"
    words = ["data=sample", "debug=fast", "logger=none", "init=path", f"init.checkpoint={weights}"]
    words += ["model.size=tiny", "init.tokenizer=sample", "encoding.max_tokens=64", f"paths.outputs={tmp_path}"]
    assert main(["train", *words, "hardware.threads=1"]) == 0
    assert "tensors loaded" in capsys.readouterr().out
