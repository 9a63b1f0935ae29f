"""`init=run:FOLDER`: training continues from a run or an export with the settings that its weights need."""

import shlex
from pathlib import Path

import pytest
from finished_runs import here

from mate_cli import train
from mate_cli.cli.config.continued import expand_continued
from mate_cli.errors import CheckpointError
from mate_cli.files.safe_load import to_yaml
from mate_cli.pipelines.export.export import export_run
from mate_cli.runs.record import RunFolder

FAST = ["debug=fast", "logger=none", "hardware.threads=1"]
MODEL = "mate_cli.models.mate.MateEncoder"


@pytest.mark.long
def test_the_command_of_an_export_continues_with_the_score_of_its_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MATE_CACHE", str(tmp_path / "cache"))
    run = train(["experiment=quickstart_cells", "model.lexical_features=true", "model.size=tiny:1", *FAST])
    export_run(str(run.folder), "exported", here(tmp_path / "cache"))
    lines = Path("exported/README.md").read_text().splitlines()
    (command,) = [line for line in lines if line.startswith("mate train init=run:")]
    typed = shlex.split(command, comments=True)[2:]
    for word in (typed, [f"init=run:{run.folder}"]):
        continued = train([*word, "optimizer.lr=1e-10", *FAST])
        assert continued.experiment == "quickstart_cells"
        assert continued.parameters == run.parameters
        assert {name: value for name, value in continued.metrics.items() if name.startswith("dev/")} == {
            name: value for name, value in run.metrics.items() if name.startswith("dev/")
        }
    with pytest.raises(CheckpointError, match=r"embeddings\.lexical"):
        train([*typed, "model.lexical_features=false", *FAST])


LORA = ["init=minilm", "init.tokenizer=minilm", "model.size=minilm:2", "model.lora.rank=2"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "stage"),
    [
        (["experiment=quickstart_dot"], ""),
        (["experiment=quickstart_cells", *LORA], ""),
        (["experiment=quickstart"], "cell_selection"),
        (["experiment=quickstart"], "span_reading"),
    ],
)
def test_runs_of_all_kinds_continue_with_their_scores(words, stage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MATE_CACHE", str(tmp_path / "cache"))
    folder = train([*words, *FAST]).folder / stage
    before = RunFolder(folder).read_record()
    after = train([f"init=run:{folder}", "optimizer.lr=1e-10", *FAST])
    assert (after.task, after.parameters) == (before.task, before.parameters)
    scores = [{n: value for n, value in run.metrics.items() if n.startswith("dev/")} for run in (before, after)]
    assert scores[1] == pytest.approx(scores[0], abs=1e-6)


def write_export(folder: Path) -> None:
    """A folder as an export leaves it, without weights."""
    origin = {"experiment": "quickstart_cells", "dataset": "sample", "model": "mate", "task": "cell_selection"}
    task = {"_target_": "mate_cli.lit_modules.cell_selection.CellSelection"}
    encoding = {"_target_": "mate_cli.tokenization.serializers.tapas.TapasSerializer", "reset_positions": True}
    settings = {"model": {"_target_": MODEL, "size": "mini"}, "task": task, "encoding": encoding}
    folder.mkdir()
    settings |= {"data": {"name": "sample"}, "origin": {**origin, "stage": "", "overrides": ["scale=small"]}}
    (folder / "mate.yaml").write_text(to_yaml(settings))


@pytest.mark.parametrize("has_weights", [True, False])
def test_an_export_of_the_hub_is_continued(tmp_path, monkeypatch, has_weights):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "models--me--sales/refs").mkdir(parents=True)
    (tmp_path / "models--me--sales/refs/main").write_text("0" * 40)
    folder = tmp_path / "models--me--sales/snapshots" / ("0" * 40)
    folder.parent.mkdir()
    write_export(folder)
    for name in ("vocab.txt", *["model.safetensors"] * has_weights):
        (folder / name).write_text("x")
    if has_weights:
        words = expand_continued(["init=run:me/sales"])
        assert {f"init.checkpoint={folder}", f"init.tokenizer={folder}", "model.size=mini"} <= set(words)
        return
    with pytest.raises(CheckpointError, match="not in the Hugging Face cache"):
        expand_continued(["init=run:me/sales"])


@pytest.mark.parametrize(
    ("typed", "has", "lacks"),
    [
        ([], {"experiment=quickstart_cells", "scale=small", "data=sample", "model.size=mini"}, {"data=hybridqa"}),
        (["experiment=wtq_mate"], {"model.size=mini"}, {"experiment=quickstart_cells", "data=sample", "scale=small"}),
        (["data=files", "model.size=tiny"], {"data=files", "model.size=tiny"}, {"data=sample"}),
    ],
)
def test_what_is_specified_wins_over_the_settings_of_an_export(tmp_path, typed, has, lacks):
    write_export(tmp_path / "exported")
    words = expand_continued([f"init=run:{tmp_path / 'exported'}", *typed])
    assert has <= set(words)
    assert not lacks & set(words)
    assert words[len(words) - len(typed) :] == typed
    assert f"init.checkpoint={tmp_path / 'exported'}" in words
