"""Sweeps as typed: a failing job, a killed run, what is missing, and the launchers that are installed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import forked_commands
import pytest
import yaml
from configurations import composed

from mate_cli.cli.app import main
from mate_cli.cli.config_dir import config_dir
from mate_cli.cli.sweep import config_flags, quoted, reason
from mate_cli.cli.sweep_file import expand
from mate_cli.runs.liveness import is_dead, own_process

SMALL = [
    "experiment=quickstart_cells",
    "trainer.limit_train=64",
    "trainer.limit_dev=24",
    "trainer.batch_size=8",
    "trainer.max_steps=6",
    "hardware.threads=1",
    "logger=none",
]
SWEEPS = sorted((config_dir() / "sweep").glob("*.yaml"))


def sweep(outputs: Path, *words: str) -> int:
    return main(["train", "-m", *SMALL, f"paths.outputs={outputs}", *words])


def records(outputs: Path) -> dict[int, dict]:
    """The records of an outputs folder by seed; a seed has one folder."""
    found = [json.loads(path.read_text()) for path in outputs.glob("train/*/*/record.json")]
    assert len({record["overrides"][-1] for record in found}) == len(found)
    return {int(record["overrides"][-1].removeprefix("seed=")): record for record in found}


def gone() -> str:
    """A process that has ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True) as process:
        return f"{process.pid}:{Path(f'/proc/{process.pid}/stat').read_text().split()[21]}"


def test_a_sweep_outlives_its_failures_and_resume_completes_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("mate_cli.cli.sweep.subprocess", SimpleNamespace(Popen=forked_commands.start_again))
    assert sweep(tmp_path, "seed=1,-2") == 1
    shown = capsys.readouterr().out
    assert "seed=-2" in shown
    assert "2 jobs: 1 finished, 1 failed" in shown
    assert "Traceback" not in shown
    before = records(tmp_path)
    assert (before[1]["status"], before[-2]["status"]) == ("finished", "failed")
    assert before[-2]["reason"].startswith("seed: must be greater than or equal to 0")
    (folder,) = {path.parent for path in tmp_path.glob("train/*/*/checkpoints")}
    # As a kill would leave it: the process is gone, the last word is `running`.
    killed = {**before[1], "status": "running", "metrics": {}, "process": gone()}
    (folder / "record.json").write_text(json.dumps(killed))

    assert sweep(tmp_path, "seed=1", "resume=missing") == 0
    after = records(tmp_path)
    assert after.keys() == before.keys()
    assert after[1]["resumed"] == 1
    assert (after[1]["metrics"], after[1]["weights_sha256"]) == (before[1]["metrics"], before[1]["weights_sha256"])
    capsys.readouterr()

    assert sweep(tmp_path, "seed=1", "resume=missing") == 0
    assert "before this sweep" in capsys.readouterr().out
    assert records(tmp_path)[1] == after[1]


def test_a_run_that_another_process_trains_is_left_alone(tmp_path, capsys):
    config = composed(config_dir(), "train", [*SMALL, f"paths.outputs={tmp_path}"])
    folder = tmp_path / "train" / "quickstart_cells" / "there"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(plain(config)))))
    assert sweep(tmp_path, "seed=-1") == 1
    (failed,) = tmp_path.glob("train/quickstart_cells/*/record.json")
    record = json.loads(failed.read_text())
    running = {**record, "status": "running", "reason": None, "process": own_process()}
    (folder / "record.json").write_text(json.dumps(running))
    assert sweep(tmp_path, "resume=missing") == 0
    assert json.loads((folder / "record.json").read_text()) == running
    assert "1 running (1 before this sweep)" in capsys.readouterr().out
    assert main(["train", *SMALL, f"paths.outputs={tmp_path}", "resume=missing"]) == 2
    assert "another process is training this run" in capsys.readouterr().err


def plain(config):
    from omegaconf import OmegaConf

    return OmegaConf.to_container(config, resolve=True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        ("hydra_plugins.hydra_joblib_launcher", ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "seed=-3,-4"]),
        ("hydra_plugins.hydra_submitit_launcher", ["hydra/launcher=submitit_local", "seed=-3,-4"]),
        (
            "hydra_plugins.hydra_optuna_sweeper",
            [
                "hydra/sweeper=optuna",
                "hydra.sweeper.direction=maximize",
                "hydra.sweeper.n_trials=2",
                "hydra.sweeper.n_jobs=1",
                "seed=choice(-3,-4)",
            ],
        ),
    ],
    ids=["joblib", "submitit", "optuna"],
)
def test_launchers(tmp_path, capsys, monkeypatch, plugin, words):
    if not installed(plugin):
        pytest.skip('not installed: pip install "mate-cli[sweeps]"')
    monkeypatch.setenv("COLUMNS", "300")  # room for the reasons, however long the names of folders are
    assert sweep(tmp_path, *words) == 1
    shown = capsys.readouterr().out
    assert shown.count("must be greater than or equal to 0") == 2
    assert "2 failed" in shown


def installed(plugin: str) -> bool:
    try:
        return find_spec(plugin) is not None
    except ModuleNotFoundError:
        return False


def test_a_process_that_was_killed_is_told_from_one_that_lives(tmp_path):
    import platform

    ours = {"status": "running", "host": platform.node(), "process": own_process()}
    assert not is_dead(tmp_path, ours)
    assert is_dead(tmp_path, {**ours, "process": gone()})
    assert is_dead(tmp_path, {**ours, "process": f"{os.getpid()}:1"})  # the number was given to another
    assert not is_dead(tmp_path, {**ours, "status": "finished", "process": gone()})
    for unknown in ({**ours, "host": "elsewhere"}, {"status": "running"}):
        record = tmp_path / "record.json"
        record.write_text("{}")
        assert not is_dead(tmp_path, unknown)
        os.utime(record, (0, 0))
        assert is_dead(tmp_path, unknown)


def test_the_reason_is_the_last_error_or_the_signal():
    assert reason(-signal.SIGKILL, "step 3").startswith("killed by SIGKILL")
    assert reason(2, "warning: old\nerror: a.b: must be\n       more.\n") == "a.b: must be more."
    assert reason(1, "Traceback\n  x\nKeyError: 'y'\n") == "KeyError: 'y'"
    assert reason(3, "") == "ended with exit code 3"


def test_a_job_is_told_where_configurations_lie():
    assert config_flags(["train", "-m", "-cd", "mine", "--config-name=x", "a=1"]) == ["-cd", "mine", "--config-name=x"]
    assert quoted(Path("/a b/it's")) == "'/a b/it\\'s'"


def test_a_grid_is_run_here_and_what_is_typed_wins():
    words = expand(["sweep=networks", "seed=7", "logger=none"])
    assert words == [
        "-m",
        "experiment=hybridqa_mate",
        "scale=minilm",
        "model=mate,tapas,sat,linformer,etc",
        "seed=7",
        "logger=none",
    ]
    assert expand(["sweep=hybridqa_ablations", "-m"])[1] == "model.row_head_ratio=0.0,0.5,1.0"
    assert "task.drop_ambiguous=false,true" in expand(["sweep=hybridqa_ablations"])
    assert expand(["experiment=quickstart"]) == ["experiment=quickstart"]


def test_a_sweep_that_cannot_run_here_is_refused(tmp_path, monkeypatch, capsys):
    (tmp_path / "conf" / "sweep").mkdir(parents=True)
    (tmp_path / "conf" / "sweep" / "mine.yaml").write_text("method: grid\nparameters: {seed: 3}\ncommand: []\n")
    monkeypatch.chdir(tmp_path)
    for name, said in (
        ("netwroks", "Did you mean sweep=networks?"),
        ("learning_rate", "optuna"),
        ("mine", "TypeError"),
    ):
        assert main(["train", f"sweep={name}"]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("file", SWEEPS, ids=lambda path: path.name)
def test_wandb_sweeps_ask_for_runs_that_exist(file):
    text = file.read_text(encoding="utf-8")
    content = yaml.safe_load(text)
    assert text.startswith(f"# wandb sweep conf/sweep/{file.name}")
    assert content["command"][:2] == ["mate", "train"]
    assert content["command"][-1] == "${args_no_hyphens}"
    for key, parameter in content["parameters"].items():
        values = [parameter[name] for name in ("value", "min", "max") if name in parameter]
        for value in parameter.get("values", values):
            composed(config_dir(), "train", [*content["command"][2:-1], f"{key}={value}"])
