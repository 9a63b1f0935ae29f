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


@pytest.mark.parametrize(
    ("command", "place", "meant"),
    [
        *((command, "", "") for command in ("evaluate", "predict table=t.csv question=q", "inspect", "export to=x")),
        *(("predict table=t.csv question=q", f"/DATE{stage}", stage) for stage in ("", "/cell_selection")),
    ],
)
def test_a_folder_of_runs_and_a_placeholder_lead_to_the_newest_run(command, place, meant, runs, capsys):
    name, *words = command.split()
    line = refused(capsys, name, f"run={runs}{place}", *words)
    assert f"Did you mean run={runs}/2026-01-02_b{meant}?" in line


def test_a_run_of_which_no_part_is_there_has_no_suggestion(runs, capsys):
    for folder in ("outputs/train/wtq_mate/DATE", "/nowhere/DATE", f"{runs}/DATE/reader"):
        assert "Did you mean" not in refused(capsys, "evaluate", f"run={folder}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "{runs}"], "Did you mean mate run {runs}/2026-01-02_b?"),
        ([*CELLS, "resume={runs}"], "Did you mean resume={runs}/2026-01-02_b?"),
        (
            ["train", "experiment=quickstart", "stages.span_reading.run={runs}"],
            "Did you mean stages.span_reading.run={runs}/2026-01-02_b/span_reading?",
        ),
        (
            [*CELLS, "encoding.ranked_by={runs}", "--dry"],
            "Did you mean encoding.ranked_by={runs}/2026-01-02_b/cell_selection?",
        ),
    ],
)
def test_other_keys_of_runs_suggest_themselves(words, said, runs, capsys):
    assert main([word.format(runs=runs) for word in words]) == 2
    assert said.format(runs=runs) in capsys.readouterr().err


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


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["model=etc", "scale=small", "init=tapas"], "init=tapas: no google/tapas of size minilm:2 is published; "),
        (["init=tapas_sqa", "model.size=minilm"], "init=tapas_sqa: no google/tapas of size minilm is published; "),
        (["init=bert", "model.size=small"], "its sizes are base, large."),
        (["init=roberta", "model.size=mini"], "its sizes are base, large."),
        (
            ["init=tapas", "model.size=base:2"],
            "Type init.checkpoint=google/tapas-base init.tokenizer=google/tapas-base",
        ),
        (
            ["experiment=hybridqa_pointr", "stages.span_reading.init=bert", "stages.span_reading.model.size=tiny"],
            "stages.span_reading.init=bert: no bert of size tiny",
        ),
    ],
)
def test_sizes_that_nobody_has_published(words, said, capsys):
    assert said in refused(capsys, "train", *words, "--dry")


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
