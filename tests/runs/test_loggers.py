"""What each logger writes of a run, and that the run's own file is the same whatever others there are."""

from __future__ import annotations

import csv
import math
import os
import socket
import subprocess
import sys
import time
from unittest.mock import MagicMock

import pytest
import torch
import yaml
from configurations import run_config

from mate_cli.errors import ConfigError
from mate_cli.pipelines.run import record_learning
from mate_cli.runs.loggers import MetricsFile, close_loggers, log_row, log_table, open_loggers, wandb_logger
from mate_cli.runs.metrics_file import read_rows
from mate_cli.runs.record import RunFolder, RunRecord

NAMES = dict.fromkeys(("experiment", "dataset", "model", "attention", "init", "task"), "x")
WANDB = {"_target_": "mate_cli.runs.loggers.wandb_logger"}
CONFIG = {"seed": 1, "optimizer": {"lr": 1e-4, "betas": [0.9, 0.999]}, "hardware": {"micro_batch": 8}}


def record() -> RunRecord:
    return RunRecord(command="train", overrides=["seed=1"], seed=1, **NAMES)


def open_run(folder, mode="offline"):
    return wandb_logger(RunFolder(folder), record(), CONFIG, mode, tags=["mine"], timeout=1.0)


@pytest.fixture
def begun(monkeypatch):
    """The arguments of the runs of W&B that are begun; none of them is."""
    import wandb

    seen: list[dict] = []
    monkeypatch.setattr(wandb, "init", lambda **arguments: seen.append(arguments) or MagicMock())
    monkeypatch.setattr(wandb, "login", lambda **_: True)
    return seen


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
    log = MetricsFile(RunFolder(tmp_path))
    assert log.path.read_text() == ""
    log.path.write_text('{"step": 1}\n')  # of a run that is trained from its beginning again
    log = MetricsFile(RunFolder(tmp_path))
    assert read_rows(log.path) == [{"step": 1}]  # it may yet be refused
    log.log_metrics({"time": 1.0}, 2)
    assert read_rows(log.path) == [{"step": 2, "time": 1.0}]


@pytest.mark.long
def test_parts_of_a_run_are_one_run_of_wandb_also_offline(tmp_path):
    """`wandb sync` sends files of one id one after the other, by their time, to the run of that id."""
    from click.testing import CliRunner
    from wandb.cli.cli import sync

    folder, ours = RunFolder(tmp_path), record()
    for _ in range(2):  # a run that was killed is opened from its record
        close_loggers([wandb_logger(folder, ours, CONFIG)], {}, 1, 0)
        ours = folder.read_record()
        time.sleep(1.1)  # its folders are named by the second
    parts = sorted(tmp_path.glob("wandb/offline-run-*"))
    assert len(parts) == 2
    assert {part.name.rpartition("-")[2] for part in parts} == {ours.wandb_id}
    assert all((part / f"run-{ours.wandb_id}.wandb").is_file() for part in parts)
    shown = CliRunner().invoke(sync, ["--dry-run", *map(str, parts)], catch_exceptions=False)
    assert shown.output.count(f"run-{ours.wandb_id}.wandb") == 2, shown.output


def test_an_agent_of_a_sweep_names_the_run_and_online_it_goes_on(tmp_path, monkeypatch, begun):
    monkeypatch.setenv("WANDB_RUN_ID", "ofagent")
    open_run(tmp_path, "online")
    assert (begun[0]["id"], begun[0]["resume"]) == ("ofagent", "allow")
    assert RunFolder(tmp_path).read_record().wandb_id == "ofagent"


def test_names_of_runs_say_what_differs_where_there_are_many_settings(tmp_path, begun):
    for rate in ("1e-4", "2e-4"):
        settings = [f"data.train={'long' * 20}.csv", "trainer.max_epochs=8", f"optimizer.lr={rate}", "scale=small"]
        run = RunRecord(command="train", overrides=[], settings=settings, seed=1, sweep="2026-01-01_10-00-00", **NAMES)
        wandb_logger(RunFolder(tmp_path), run, CONFIG)
    names = [arguments["name"] for arguments in begun]
    for name, rate in zip(names, ("1e-4", "2e-4"), strict=True):
        assert {f"lr={rate}", "max_epochs=8", "scale=small"} <= {*name.split()}
    assert len({arguments["group"] for arguments in begun}) == 2
    assert all("sweep-2026-01-01_10-00-00" in arguments["tags"] for arguments in begun)


def test_folds_have_names_of_their_own(tmp_path, begun):
    for fold in (1, 2):
        wandb_logger(RunFolder(tmp_path), record(), {**CONFIG, "data": {"dev_fold": fold}})
    assert [arguments["name"] for arguments in begun] == ["x · seed 1 · fold 1", "x · seed 1 · fold 2"]
    assert len({arguments["group"] for arguments in begun}) == 1


def test_the_summary_has_the_best_validation():
    run = RunRecord(command="train", overrides=[], seed=1, monitor="dev/hits@1", **NAMES)
    rows = [{"step": 2, "dev/hits@1": 0.5}, {"step": 4, "dev/hits@1": 0.75}, {"step": 6, "dev/hits@1": 0.75}]
    record_learning(run, rows, {})
    assert {"best/dev/hits@1": 0.75, "best/step": 4}.items() <= run.summary().items()


def test_the_dashboard_can_group_filter_and_tell_runs_apart(tmp_path, begun):
    run = RunRecord(
        command="train",
        overrides=["init=bert", "seed=7"],
        settings=["init=bert"],
        seed=7,
        **{**NAMES, "model": "mate", "init": ""},
    )
    wandb_logger(RunFolder(tmp_path), run, CONFIG, tags=["y" * 80])
    (seen,) = begun
    assert (seen["group"], seen["name"], seen["job_type"]) == ("x · init=bert", "x · init=bert · seed 7", "x")
    assert seen["tags"] == ["x", "mate", "seed-7", "y" * 64]
    assert seen["config"]["names"] == {**NAMES, "model": "mate", "init": ""}
    assert seen["config"]["configuration"] == "x · init=bert"
    assert seen["config"]["optimizer"] == CONFIG["optimizer"]


def test_what_an_agent_of_a_sweep_starts_is_online_and_tells_the_sweep(tmp_path, monkeypatch, capsys, begun):
    monkeypatch.setenv("WANDB_SWEEP_ID", "a1b2c3")
    for mode, used in (("offline", "online"), ("online", "online"), ("disabled", "disabled")):
        open_run(tmp_path, mode)
        assert begun[-1]["mode"] == used
        assert "sweep-a1b2c3" in begun[-1]["tags"]
    assert capsys.readouterr().out == "a run of the W&B sweep a1b2c3: logging online\n"


@pytest.mark.long
def test_a_server_that_is_gone_means_offline_with_the_same_id(tmp_path, monkeypatch, capsys):
    import wandb

    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    wandb.teardown()  # forgets what it has read of the environment
    close_loggers([open_run(tmp_path, "online")], {}, 0, 0)
    wandb.teardown()
    told = capsys.readouterr().err
    assert (told.count("warning: W&B cannot be reached"), "has failed" in told) == (1, False)
    assert list(tmp_path.glob("wandb/offline-run-*"))


def test_a_missing_key_means_offline_without_a_question(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    close_loggers([open_run(tmp_path, "online")], {}, 0, 0)
    assert "warning: W&B cannot be reached (no key; get one with: wandb login)" in capsys.readouterr().err
    assert list(tmp_path.glob("wandb/offline-run-*"))


ROWS = [(2, {"epoch": 0.5, "time": 3.0, "train/loss": 2.0}), (4, {"epoch": 1.0, "time": 5.0, "dev/hits@1": 0.25})]


def log_run(folder, choice, *words, exit_code=0):
    """The loggers of a choice take two rows and the last figures of a run; what they are is returned."""
    nodes = run_config([f"logger={choice}", f"paths.outputs={folder.parent}", *words]).logger
    loggers = open_loggers(nodes, RunFolder(folder), record(), CONFIG)
    for step, row in ROWS:
        log_row(loggers, row, step)
    log_table(loggers, "predictions/dev", ["question"], [["who?"]])
    close_loggers(loggers, {"test/hits@1": 0.5}, 4, exit_code)
    assert read_rows(folder / "metrics.jsonl") == [{"step": step, **row} for step, row in ROWS]
    return loggers


def test_without_loggers_there_is_the_file_of_the_run(tmp_path):
    log_run(tmp_path / "run", "none")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["metrics.jsonl"]


def test_csv_has_every_row_the_last_figures_and_the_configuration(tmp_path):
    folder = tmp_path / "run"
    for part in range(2):  # a run that is resumed keeps what was there
        log_run(folder, "csv")
        with (folder / "csv" / f"version_{part}" / "metrics.csv").open() as file:
            rows = [{key: value for key, value in row.items() if value} for row in csv.DictReader(file)]
        assert [int(row.pop("step")) for row in rows] == [2, 4, 4]
        assert rows[0] == {"epoch": "0.5", "time": "3.0", "train/loss": "2.0"}
        assert rows[2] == {"test/hits@1": "0.5"}
    settings = yaml.safe_load((folder / "csv" / "version_0" / "hparams.yaml").read_text())
    assert settings["optimizer"] == CONFIG["optimizer"]


@pytest.mark.parametrize("choice", ["many", "[csv,wandb]"])
def test_several_loggers_take_the_same_rows(tmp_path, monkeypatch, choice):
    import wandb

    dashboard = MagicMock()
    monkeypatch.setattr(wandb, "init", lambda **_: dashboard)
    assert len(log_run(tmp_path / "run", choice, "logger.wandb.project=tables")) == 3
    sent = [call.args[0] for call in dashboard.log.call_args_list]
    assert sent[:2] == [
        {"train/loss": 2.0, "trainer/epoch": 0.5, "trainer/time": 3.0, "trainer/global_step": 2},
        {"dev/hits@1": 0.25, "trainer/epoch": 1.0, "trainer/time": 5.0, "trainer/global_step": 4},
    ]
    dashboard.summary.update.assert_called_with({"test/hits@1": 0.5})
    dashboard.finish.assert_called_with(exit_code=0)
    assert len((tmp_path / "run" / "csv" / "version_0" / "metrics.csv").read_text().splitlines()) == 4


def test_a_number_that_is_none_is_kept_by_every_logger(tmp_path):
    loggers = open_loggers(run_config(["logger=csv"]).logger, RunFolder(tmp_path), record(), CONFIG)
    log_row(loggers, {"dev/perplexity": math.nan}, 1)
    close_loggers(loggers, {}, 1, 1)
    assert read_rows(tmp_path / "metrics.jsonl") == [{"step": 1, "dev/perplexity": None}]
    assert "nan" in (tmp_path / "csv" / "version_0" / "metrics.csv").read_text()


def test_a_logger_that_cannot_be_built_leaves_nothing(tmp_path):
    folder = RunFolder(tmp_path / "run")
    refused = {"_target_": "pytorch_lightning.loggers.WandbLogger", "offline": True, "log_model": True}
    with pytest.raises(ConfigError, match=r"^logger\.mine: pytorch_lightning\.loggers\.WandbLogger cannot be built: "):
        open_loggers({"wandb": WANDB, "mine": refused}, folder, record(), CONFIG)
    folder.undo()
    assert not list(tmp_path.iterdir())


def test_wandb_asks_no_server_offline(tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_MODE")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        proxy = "http://{}:{}".format(*server.getsockname())
        options = {"mode": "offline", "project": "x", "entity": None, "tags": [], "timeout": 1.0}
        script = f"""from mate_cli.runs.wandb_runs import open_wandb
run = open_wandb({options}, tags=[], dir={str(tmp_path)!r})
run.log({{"a": 1}})
run.finish()"""
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "https_proxy": proxy, "no_proxy": ""}, check=True
        )
        with pytest.raises(BlockingIOError):
            server.accept()


def test_wandb_keeps_its_files_below_the_run(tmp_path, monkeypatch, capsys):
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "WANDB_DATA_DIR", "WANDB_CACHE_DIR"):
        monkeypatch.setenv(name, "/proc/nowhere")
    loggers = open_loggers({"wandb": WANDB}, RunFolder(tmp_path), record(), CONFIG)
    log_table(loggers, "predictions/dev", ["a"], [[1]])
    close_loggers(loggers, {}, 1, 0)
    assert len(loggers) == 2
    assert "failed" not in capsys.readouterr().err
    assert list(tmp_path.glob("wandb/offline-run-*/files/media/table/predictions/*"))


def test_wandb_that_fails_costs_a_line_and_no_run(tmp_path, monkeypatch, capsys):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("mate_cli.runs.loggers.open_wandb", fail)
        loggers = open_loggers({"wandb": WANDB}, RunFolder(tmp_path / "a"), record(), CONFIG)
    assert [type(logger) for logger in loggers] == [MetricsFile]
    told = capsys.readouterr().err
    assert told == "warning: logger.wandb has failed, and the run continues without it (no space left on device)\n"
    loggers = open_loggers({"wandb": WANDB}, RunFolder(tmp_path / "b"), record(), CONFIG)
    run = loggers[1].experiment
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(type(run), "log", fail)
        log_row(loggers, {"time": 1.0}, 1)
        log_table(loggers, "predictions/dev", ["a"], [[1]])
        close_loggers(loggers, {"dev/f1": 0.5}, 1, 0)
    assert capsys.readouterr().err.count("logger.wandb has failed") == 1
    assert [row["step"] for row in read_rows(tmp_path / "b" / "metrics.jsonl")] == [1]
    run.finish()


@pytest.mark.parametrize(
    ("methods", "left"), [(["log_hyperparams"], 1), (["experiment"], 1), (["log_metrics", "finalize"], 2)]
)
def test_a_logger_that_fails_costs_a_line_and_its_figures_alone(tmp_path, monkeypatch, capsys, methods, left):
    def fail(*_):
        raise ConnectionError("503")

    for method in methods:
        failing = property(fail) if method == "experiment" else fail
        monkeypatch.setattr(f"pytorch_lightning.loggers.CSVLogger.{method}", failing)
    assert len(log_run(tmp_path / "run", "csv")) == left
    told = capsys.readouterr().err
    assert told == "warning: logger.csv has failed, and the run continues without it (503)\n"
