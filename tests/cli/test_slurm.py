"""Sweeps as jobs of Slurm, prepared on a machine that has neither Slurm nor a GPU."""

import warnings

import pytest

from mate_cli.cli.app import main

pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
SWEEP = ["train", "experiment=quickstart_cells", "logger=none", "hardware=slurm", "seed=1,2"]
SLURM = ["hydra/launcher=submitit_slurm", "hydra.launcher.partition=gpu"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # no srun


@pytest.mark.parametrize("multirun", [["-m"], []])
def test_the_batch_script_is_printed(tmp_path, capsys, multirun):
    nodes = ["hydra.launcher.nodes=2", "hydra.launcher.tasks_per_node=4", "hydra.launcher.gpus_per_node=4"]
    with pytest.warns(
        UserWarning, match="^each job ends after 60 minutes; for twelve hours add hydra.launcher.timeout"
    ):
        assert main([*SWEEP, *multirun, *SLURM, *nodes, "--print-script"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "#!/bin/bash"
    asked = ("array=0-1%2", "nodes=2", "ntasks-per-node=4", "gpus-per-node=4", "partition=gpu")
    assert {f"#SBATCH --{one}" for one in asked} <= set(lines)
    assert any(line.startswith("srun ") for line in lines)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_time_limit_that_is_typed_needs_no_word(capsys):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "each job ends")
        words = [*SLURM, "hydra.launcher.timeout_min=720", "hydra.launcher.nodes=2"]
        assert main([*SWEEP, *words, "--print-script"]) == 0
    assert "#SBATCH --time=720" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--print-script"], "--print-script: applies to Slurm only. Add hydra/launcher=submitit_slurm."),
        (["-m", *SLURM], "error: hydra/launcher=submitit_slurm: Slurm is not installed on this machine (no sbatch"),
        (
            [*SLURM, "hydra.launcher.timeout_min=9", "--print-script"],
            "Add hydra.launcher.nodes=2, or hardware.nodes=1.",
        ),
    ],
)
def test_what_slurm_cannot_run_is_refused_at_once(words, said, tmp_path, capsys):
    assert main([*SWEEP, *words]) == 2
    shown = capsys.readouterr()
    assert (said in shown.err, shown.out) == (True, ""), shown
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
