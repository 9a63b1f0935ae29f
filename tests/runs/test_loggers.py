"""What each logger writes of a run, and that the run's own file is the same whatever others there are."""

from __future__ import annotations

import json
import time
from unittest.mock import MagicMock

import pytest
import torch

from mate_cli.runs.loggers import MetricsFile, close_loggers, hand_lines, log_row, log_table, wandb_logger
from mate_cli.runs.record import RunFolder, RunRecord
from mate_cli.runs.tracking import read_rows
from mate_cli.terminal.transcript import Transcript

NAMES = dict.fromkeys(("experiment", "dataset", "model", "attention", "init", "task"), "x")
CONFIG = {"seed": 1, "optimizer": {"lr": 1e-4, "betas": [0.9, 0.999]}, "hardware": {"micro_batch": 8}}


def record() -> RunRecord:
    return RunRecord(command="train", overrides=["seed=1"], seed=1, **NAMES)


def open_run(folder, mode="offline"):
    return wandb_logger(RunFolder(folder), record(), CONFIG, mode, tags=["mine"], timeout=1.0)


def test_rows_after_the_resumed_step_are_dropped(tmp_path):
    folder = RunFolder(tmp_path)
    log = MetricsFile(folder)
    for step in (10, 20, 30):
        log.log_metrics({"train/loss": 1.0}, step)
    with log.path.open("a") as file:
        file.write('{"step": 40, "train/lo')  # killed while writing
    resumed = MetricsFile(folder, resume_step=20)
    resumed.log_metrics({"train/loss": torch.tensor(2.0)}, 30)
    assert read_rows(resumed.path) == [
        {"step": 10, "train/loss": 1.0},
        {"step": 20, "train/loss": 1.0},
        {"step": 30, "train/loss": 2.0},
    ]


def test_a_new_run_begins_with_an_empty_file(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    assert read_rows(MetricsFile(RunFolder(tmp_path)).path) == []


@pytest.mark.long
def test_offline_dashboard_takes_rows_and_tables(tmp_path):
    loggers, transcript = [open_run(tmp_path)], Transcript()
    hand_lines(transcript, loggers)
    log_row(loggers, {"train/loss": 1.0}, 1)
    log_table(loggers, "predictions/dev", ["question", "right"], [["who?", True]] * 60)
    transcript.write("step 1: dev/hits@1 50.0\n")
    close_loggers(loggers, {"dev/hits@1": 0.5}, 1, 0)
    (written,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    end = time.monotonic() + 60  # W&B writes in a process of its own
    while b"step 1: dev/hits@1 50.0" not in written.read_bytes():
        assert time.monotonic() < end
        time.sleep(0.1)
    (table,) = tmp_path.glob("wandb/offline-run-*/files/media/table/predictions/*.json")
    assert len(json.loads(table.read_text())["data"]) == 50


def test_the_dashboard_can_group_filter_and_tell_runs_apart(tmp_path, monkeypatch):
    import wandb

    seen = {}
    monkeypatch.setattr(wandb, "init", lambda **arguments: seen.update(arguments) or MagicMock())
    run = RunRecord(
        command="train", overrides=["init=bert", "seed=7"], seed=7, **{**NAMES, "model": "mate", "init": ""}
    )
    wandb_logger(RunFolder(tmp_path), run, CONFIG, tags=["y" * 80])
    assert (seen["group"], seen["name"], seen["job_type"]) == ("x · init=bert", "x · init=bert · seed 7", "x")
    assert seen["tags"] == ["x", "mate", "seed-7", "y" * 64]
    assert seen["config"]["names"] == {**NAMES, "model": "mate", "init": ""}
    assert seen["config"]["configuration"] == "x · init=bert"
    assert seen["config"]["optimizer"] == CONFIG["optimizer"]


def test_what_an_agent_of_a_sweep_starts_is_online_and_tells_the_sweep(tmp_path, monkeypatch, capsys):
    import wandb

    seen = {}
    monkeypatch.setattr(wandb, "init", lambda **arguments: seen.update(arguments) or MagicMock())
    monkeypatch.setattr(wandb, "login", lambda **_: True)
    monkeypatch.setenv("WANDB_SWEEP_ID", "a1b2c3")
    for mode, used in (("offline", "online"), ("online", "online"), ("disabled", "disabled")):
        open_run(tmp_path, mode)
        assert seen["mode"] == used
        assert "sweep-a1b2c3" in seen["tags"]
    assert capsys.readouterr().out == "a run of the W&B sweep a1b2c3: logging online\n"


def test_an_unreachable_server_means_offline_and_one_warning(tmp_path, monkeypatch, capsys):
    import wandb

    genuine, modes = wandb.init, []

    def unreachable(**arguments: object) -> object:
        modes.append(arguments["mode"])
        if arguments["mode"] == "online":
            raise wandb.errors.CommError("no route to host")
        return genuine(**arguments)

    monkeypatch.setattr(wandb, "init", unreachable)
    monkeypatch.setattr(wandb, "login", lambda **_: True)
    close_loggers([open_run(tmp_path, "online")], {}, 0, 0)
    assert modes == ["online", "offline"]
    assert capsys.readouterr().err.count("warning: W&B cannot be reached") == 1
    assert list(tmp_path.glob("wandb/offline-run-*"))


def test_a_missing_key_means_offline_without_a_question(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    close_loggers([open_run(tmp_path, "online")], {}, 0, 0)
    assert "warning: W&B cannot be reached (no key; get one with: wandb login)" in capsys.readouterr().err
    assert list(tmp_path.glob("wandb/offline-run-*"))
