"""Errors that name what is there: runs and weights below a folder, sizes that are published, Slurm, near metrics."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from mate_cli.cli.app import main
from mate_cli.runs.configuration import Hardware
from mate_cli.runs.ranks import missing_gpu_remedy

CELLS = ["train", "experiment=quickstart_cells", "logger=none"]


def refused(capsys, *words: str) -> str:
    assert main([*words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two runs of two stages each, of which the second was started later, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("2026-01-02_b", "2026-01-01_a")):
        run = Path("outputs/train/quickstart") / name
        for place in (run, run / "cell_selection", run / "span_reading"):
            place.mkdir(parents=True)
            (place / "config.yaml").write_text(yaml.safe_dump({}))
        weights = run / "cell_selection" / "checkpoints"
        weights.mkdir()
        for file in ("final.safetensors", "best.safetensors"):
            (weights / file).write_bytes(b"")
        os.utime(weights, (number, number))
    return "outputs/train/quickstart"


NEWEST = "2026-01-02_b"
SUGGESTED = {
    "evaluate run={runs}": f"run={{runs}}/{NEWEST}?",
    "inspect run={runs}": f"run={{runs}}/{NEWEST}?",
    "predict table=t.csv question=q run={runs}/DATE": f"run={{runs}}/{NEWEST}?",
    "export to=x run={runs}/DATE/cell_selection": f"run={{runs}}/{NEWEST}/cell_selection?",
    "run {runs}": f"mate run {{runs}}/{NEWEST}?",
    "train experiment=quickstart_cells logger=none resume={runs}": f"resume={{runs}}/{NEWEST}?",
    "train experiment=quickstart stages.span_reading.run={runs}": (
        f"stages.span_reading.run={{runs}}/{NEWEST}/span_reading?"
    ),
    "train experiment=quickstart_cells logger=none encoding.ranked_by={runs}": (
        f"encoding.ranked_by={{runs}}/{NEWEST}/cell_selection?"
    ),
}


@pytest.mark.parametrize("line", SUGGESTED)
def test_a_folder_of_runs_and_a_placeholder_lead_to_the_newest_run(line, runs, capsys):
    suggestion = SUGGESTED[line].format(runs=runs)
    assert f"Did you mean {suggestion}" in refused(capsys, *line.format(runs=runs).split())


def test_a_run_of_which_no_part_is_there_has_no_suggestion(runs, capsys):
    for folder in ("outputs/train/wtq_mate/DATE", "/nowhere/DATE", f"{runs}/DATE/reader"):
        assert "Did you mean" not in refused(capsys, "evaluate", f"run={folder}")


@pytest.mark.parametrize("place", ["", "/2026-01-01_a", "/2026-01-01_a/cell_selection"])
def test_a_folder_without_weights_leads_to_those_of_a_run(place, runs, capsys):
    line = refused(capsys, *CELLS, "init=path", f"init.checkpoint={runs}{place}", "--dry")
    assert f"init.checkpoint={runs}{place}: no weights in this folder." in line
    best = f"{runs}/2026-01-01_a/cell_selection/checkpoints/best.safetensors"
    assert f"Did you mean init.checkpoint={best}?" in line


def test_weights_that_are_not_there_or_not_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    line = refused(capsys, *CELLS, "init=path", "init.checkpoint=nowhere", "--dry")
    assert "init.checkpoint=nowhere: there is no such file or folder." in line
    line = refused(capsys, *CELLS, "init.checkpoint=nowhere", "--dry")
    assert "Use init=path, or leave it out." in line


UNPUBLISHED = {
    "model=etc scale=small init=tapas": "init=tapas: no google/tapas of size minilm:2 is published; ",
    "init=bert model.size=small": "its sizes are base, large.",
    "init=roberta model.size=mini": "its sizes are base, large.",
    "init=tapas model.size=base:2": "Type init.checkpoint=google/tapas-base init.tokenizer=google/tapas-base",
    "experiment=hybridqa_pointr stages.span_reading.init=bert stages.span_reading.model.size=tiny": (
        "stages.span_reading.init=bert: no bert of size tiny"
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("line", UNPUBLISHED)
def test_sizes_that_nobody_has_published(line, capsys):
    assert UNPUBLISHED[line] in refused(capsys, "train", *line.split(), "--dry")


def test_published_sizes_and_weights_of_ones_own_pass(tmp_path, capsys):
    for words in (
        ["init=tapas", "model.size=tiny"],
        ["init=tapas", "model.size=minilm", f"init.checkpoint={tmp_path}"],
    ):
        assert main(["train", *words, "init.tokenizer=nobody/nothing", "--dry"]) == 0
    capsys.readouterr()


def test_on_a_login_node_slurm_starts_the_run(tmp_path, monkeypatch):
    hardware = Hardware(
        accelerator="gpu", devices=4, nodes=2, precision="bf16-mixed", micro_batch=1, workers=0, threads=None
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert missing_gpu_remedy(hardware, "Use hardware=cpu") == "Use hardware=cpu"
    (tmp_path / "sbatch").write_text("#!/bin/sh\n")
    (tmp_path / "sbatch").chmod(0o755)
    said = missing_gpu_remedy(hardware, "Use hardware=cpu")
    assert "srun --nodes=2 --ntasks-per-node=4 --gpus-per-node=4 mate train" in said
    assert "-m hydra/launcher=submitit_slurm" in said
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    assert missing_gpu_remedy(hardware, "Use hardware=cpu") == "Use hardware=cpu"
