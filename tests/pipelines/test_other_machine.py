"""A run that was trained on a GPU is used on a machine that has none."""

import json
import shutil
from pathlib import Path

import pytest
from configurations import run_config
from finished_runs import SMALL, finished_run, here
from hydra.utils import instantiate

from mate_cli.attention.backends.auto import Auto
from mate_cli.errors import ConfigError
from mate_cli.models.auto_encoder import MateModel
from mate_cli.pipelines.assembly import CellRanker, assemble, load_best
from mate_cli.pipelines.evaluation.evaluate_run import evaluate_run
from mate_cli.pipelines.export.export import export_run
from mate_cli.pipelines.inference.checkpoint import open_checkpoint
from mate_cli.runs.configuration import load_config
from mate_cli.runs.record import RunFolder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return finished_run(tmp_path_factory.mktemp("trained"), ["task=cell_selection", "model.attention_dropout=0"])


@pytest.fixture
def moved(trained, tmp_path, monkeypatch):
    """The same run as if it had been trained with a kernel of GPUs, in bfloat16."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    folder = Path(shutil.copytree(trained, tmp_path / "run"))
    text = (folder / "config.yaml").read_text().replace("backends.auto.Auto", "backends.triton.Triton")
    (folder / "config.yaml").write_text(text.replace("precision: 32-true", "precision: bf16-mixed"))
    assert "Triton" in text
    return folder


def backends_of(parts):
    return [type(backend) for backend in parts.task.encoder.backends]


def test_it_is_evaluated_and_the_record_says_how(moved, tmp_path, capsys):
    evaluate_run(str(moved), ["dev"], here(tmp_path))
    assert json.loads((moved / "record.json").read_text())["facts"]["attention replaced"] == "triton by auto"
    assert "attention=triton cannot run here" in capsys.readouterr().err
    assert (moved / "evaluation" / "dev.json").exists()


def test_it_is_loaded_and_exported(moved, tmp_path):
    parts = load_best(load_config(moved), RunFolder(moved))
    assert backends_of(parts) == [Auto]
    exported = export_run(str(moved), str(tmp_path / "exported"), here(tmp_path))
    assert "backends.auto.Auto" in (exported / "mate.yaml").read_text()
    assert backends_of(open_checkpoint(str(exported), here(tmp_path))[0]) == [Auto]
    assert [type(one) for one in MateModel.from_pretrained(str(exported)).encoder.backends] == [Auto]


def test_it_ranks_rows(moved, trained):
    config = run_config([*SMALL, "task=cell_selection", "encoding.best_rows=2", f"encoding.ranked_by={moved}"])
    examples = instantiate(config.data).examples("dev")[:6]
    parts = assemble(config, None)
    assert parts.facts == {}
    parts.serializer.encode(examples)
    assert parts.facts == {"ranker, attention replaced": "triton by auto"}
    assert parts.serializer.ranker(examples) == CellRanker(str(trained), config)(examples)


def test_but_nothing_is_trained_with_what_is_not_there(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    config = run_config([*SMALL, "task=cell_selection", "attention=triton", "model.attention_dropout=0"])
    with pytest.raises(ConfigError, match=r"triton needs a CUDA device.*attention=auto"):
        assemble(config, None)
