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

BACKENDS = ["triton"]


def on_a_gpu(folder, backend):
    """The same run as if it had been trained with this backend, in bfloat16."""
    path = folder / "config.yaml"
    text = path.read_text().replace("backends.auto.Auto", f"backends.{backend}.{backend.title()}")
    path.write_text(text.replace("precision: 32-true", "precision: bf16-mixed"))
    assert backend in path.read_text()
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return finished_run(tmp_path_factory.mktemp("trained"), ["task=cell_selection", "model.attention_dropout=0"])


@pytest.fixture(params=BACKENDS)
def moved(request, trained, tmp_path, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    return on_a_gpu(Path(shutil.copytree(trained, tmp_path / "run")), request.param), request.param


def backends_of(parts):
    return [type(backend) for backend in parts.task.encoder.backends]


def test_it_is_evaluated_and_the_record_says_how(moved, tmp_path, capsys):
    folder, name = moved
    evaluate_run(str(folder), ["dev"], here(tmp_path))
    assert json.loads((folder / "record.json").read_text())["facts"]["attention replaced"] == f"{name} by auto"
    assert f"attention={name} cannot run here" in capsys.readouterr().err
    assert (folder / "evaluation" / "dev.json").exists()


def test_it_is_loaded_and_exported(moved, tmp_path):
    folder, _ = moved
    parts = load_best(load_config(folder), RunFolder(folder))
    assert backends_of(parts) == [Auto]
    exported = export_run(str(folder), str(tmp_path / "exported"), here(tmp_path))
    assert "backends.auto.Auto" in (exported / "mate.yaml").read_text()
    assert backends_of(open_checkpoint(str(exported), here(tmp_path))[0]) == [Auto]
    assert [type(one) for one in MateModel.from_pretrained(str(exported)).encoder.backends] == [Auto]


def test_it_ranks_rows(moved, trained):
    folder, name = moved
    config = run_config([*SMALL, "task=cell_selection", "encoding.best_rows=2", f"encoding.ranked_by={folder}"])
    examples = instantiate(config.data).examples("dev")[:6]
    parts = assemble(config, None)
    assert parts.facts == {}
    parts.serializer.encode(examples)
    assert parts.facts == {"ranker, attention replaced": f"{name} by auto"}
    assert parts.serializer.ranker(examples) == CellRanker(str(trained), config)(examples)


@pytest.mark.parametrize("name", BACKENDS)
def test_but_nothing_is_trained_with_what_is_not_there(name, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    config = run_config([*SMALL, "task=cell_selection", f"attention={name}", "model.attention_dropout=0"])
    with pytest.raises(ConfigError, match=f"{name} needs a CUDA device.*attention=auto"):
        assemble(config, None)
