"""Sweeps as typed: a failing job, a killed run, what is missing, and the launchers that are installed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import forked_commands
import pytest
import yaml
from configurations import sweep_jobs
from finished_runs import finish_jobs

from mate_cli.cli.app import main
from mate_cli.cli.commands.train import convert_arguments
from mate_cli.cli.config.composition import init_compose_api
from mate_cli.cli.config.resolve import resolve
from mate_cli.cli.config.validate import target_problems
from mate_cli.cli.config_dir import config_dir
from mate_cli.cli.sweeps.jobs import end_reason, follow_job
from mate_cli.cli.sweeps.stopping import STOP_FILE_NAME
from mate_cli.cli.sweeps.sweep import job_files, remove_unbegun
from mate_cli.cli.sweeps.sweep_summary import best_of_search, read_job
from mate_cli.pipelines.run_spec import prepare_run
from mate_cli.runs.lock import process_id
from mate_cli.runs.record import RunFolder, RunRecord

SMALL = [
    *("experiment=quickstart_cells", "trainer.limit_train=64", "trainer.limit_dev=24", "trainer.batch_size=8"),
    *("trainer.max_steps=6", "hardware.threads=1", "logger=none"),
]
SWEEPS = sorted((config_dir() / "sweep").glob("*.yaml"))
WANDB_SWEEP = config_dir().parent / "docs" / "wandb_sweep.yaml"


def sweep(outputs: Path, *words: str) -> int:
    return main(["train", "-m", *SMALL, f"paths.outputs={outputs}", *words])


def records(outputs: Path) -> dict[int, dict]:
    """The records of an outputs folder by seed; a seed has one folder."""
    found = [json.loads(path.read_text()) for path in outputs.glob("train/*/*/record.json")]
    assert len({record["overrides"][-1] for record in found}) == len(found)
    return {int(record["overrides"][-1].removeprefix("seed=")): record for record in found}


@pytest.mark.long
def test_a_sweep_outlives_its_failures_and_resume_completes_it(tmp_path, capsys, monkeypatch):
    processes = SimpleNamespace(Popen=forked_commands.start_again, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr("mate_cli.cli.sweeps.jobs.subprocess", processes)
    assert sweep(tmp_path, "seed=1,-2") == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "seed=-2" in shown
    assert "2 jobs: 1 finished, 1 failed" in shown
    assert "must be greater than or equal to 0" in shown
    assert "Traceback" not in shown
    before = records(tmp_path)
    assert {seed: record["status"] for seed, record in before.items()} == {1: "finished"}
    (folder,) = {path.parent for path in tmp_path.glob("train/*/*/checkpoints")}
    # As a kill would leave it: nobody holds the lock, the last word is `running`.
    (folder / ".lock").touch()
    killed = {**before[1], "status": "running", "metrics": {}}
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
    folder, _ = prepare_run(resolve([*SMALL, f"paths.outputs={tmp_path}"]))
    running = json.loads((folder.path / "record.json").read_text())
    assert running["process"] == process_id()
    assert sweep(tmp_path, "resume=missing") == 0
    assert json.loads((folder.path / "record.json").read_text()) == running
    assert "1 running (1 before this sweep)" in capsys.readouterr().out
    assert main(["train", *SMALL, f"paths.outputs={tmp_path}", "resume=missing"]) == 2
    assert "another process is training this run" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        ("hydra_plugins.hydra_joblib_launcher", ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "seed=-3,-4"]),
        ("hydra_plugins.hydra_submitit_launcher", ["hydra/launcher=submitit_local", "seed=-3,-4"]),
        (
            "optuna",
            [
                *("hydra/sweeper=optuna", "hydra.sweeper.direction=maximize", "hydra.sweeper.n_trials=2"),
                *("hydra.sweeper.n_jobs=1", "hydra.sweeper.sampler.seed=0", "seed=choice(-3,-4)"),
            ],
        ),
    ],
    ids=["joblib", "submitit", "optuna"],
)
def test_launchers(tmp_path, capsys, monkeypatch, plugin, words):
    pytest.importorskip(plugin)
    monkeypatch.setenv("COLUMNS", "300")  # room for the reasons, however long the names of folders are
    assert sweep(tmp_path, *words) == 1
    shown = capsys.readouterr().out
    assert shown.count("must be greater than or equal to 0") == 2
    assert "2 failed" in shown


@pytest.mark.parametrize(("metric", "text"), [("dev/f1", "dev/f1 25.0"), ("dev/perplexity", "dev/perplexity 0.2")])
def test_the_result_of_a_job_is_its_monitored_metric(tmp_path, metric, text):
    metrics = {"dev/hits@1": 0.5, metric: 0.25}
    (tmp_path / "record.json").write_text(json.dumps({"status": "finished", "monitor": metric, "metrics": metrics}))
    note = {"job": 0, "overrides": [], "folder": str(tmp_path), "before": False, "reason": None}
    (tmp_path / "0.json").write_text(json.dumps(note))
    job = read_job(tmp_path / "0.json")
    assert str(job.result) == text
    (tmp_path / "optimization_results.yaml").write_text("name: optuna\nbest_params: {seed: 3}\nbest_value: 0.125\n")
    value = "12.5" if metric == "dev/f1" else "0.1"
    assert best_of_search(tmp_path, [job.result]) == f"best: seed=3 ({metric} {value})"


def test_jobs_are_in_the_order_of_their_numbers(tmp_path):
    for number in range(12):
        (tmp_path / f"{number}.json").write_text("{}")
    assert [file.stem for file in job_files(tmp_path)] == [str(number) for number in range(12)]


def test_the_reason_is_the_last_error_or_the_signal():
    assert end_reason(-signal.SIGKILL, "step 3").startswith("killed (SIGKILL)")
    assert end_reason(2, "warning: old\nerror: a.b: must be\n       more.\n") == "a.b: must be more."
    assert end_reason(1, "Traceback\n  x\nKeyError: 'y'\n") == "KeyError: 'y'"
    assert end_reason(3, "") == "ended with exit code 3"


@pytest.mark.parametrize(("code", "status"), [(130, "interrupted"), (3, "failed")])
def test_a_job_that_ends_before_its_first_record_has_a_status(tmp_path, code, status):
    folder = RunFolder(tmp_path)
    folder.write_record(RunRecord("train", "e", [], "d", "m", "a", "i", "t", seed=1))
    record, _ = follow_job(folder, [sys.executable, "-c", f"raise SystemExit({code})"], [], lambda _: None)
    assert record.status == folder.read_record().status == status


@pytest.fixture
def jobs(monkeypatch, tmp_path):
    """The overrides that the jobs of a sweep are trained with, in an empty folder."""
    started: list[list[str]] = []
    monkeypatch.chdir(tmp_path)
    finish_jobs(monkeypatch, [], lambda overrides: started.append(list(overrides)) or {"status": "finished"})
    return started


def test_a_job_is_told_where_configurations_lie(jobs, mine):
    mine.parents[1].rename("else where")
    assert main(["train", "-cd", "else where", "sweep=mine", "seed=3", "optimizer.lr=0.5"]) == 0
    assert jobs == [["trainer.max_steps=7", "seed=3", "optimizer.lr=0.5"]]


def test_a_job_whose_plan_is_wrong_leaves_the_others_alone(jobs, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["train", "-m", "experiment=quickstart_cells,quickstart", "task.max_span_length=5"]) == 1
    assert jobs == [["experiment=quickstart", "task.max_span_length=5"]]
    shown = capsys.readouterr().out
    assert "task.max_span_length: this task has no" in shown
    assert "2 jobs: 1 failed, 1 finished" in shown


@pytest.mark.sampled(2)
@pytest.mark.parametrize("own", [(), ("mine.txt",)])
def test_a_mistake_in_every_job_leaves_nothing_behind(jobs, own, tmp_path, capsys):
    folder = tmp_path / "outputs" / "sweeps" / "one"
    for name in own:
        folder.mkdir(parents=True)
        (folder / name).touch()
    assert main(["train", "-m", "seeed=1,2", f"hydra.sweep.dir={folder}"]) == 2
    assert capsys.readouterr().err == "error: seeed: unknown key. Did you mean seed=1?\n"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [*own]
    assert folder.exists() == bool(own)
    assert not jobs


@pytest.mark.long
def test_rows_say_what_a_grid_cannot(jobs, mine):
    rows = "[{experiment: quickstart, model: sat}, {experiment: quickstart_cells}]"
    mine.write_text(f"# @package _global_\nhydra: {{sweeper: {{params: {{debug: fast}}}}}}\nrows: {rows}\n")
    assert main(["train", "sweep=mine", "seed=7"]) == 0
    assert jobs == [
        ["experiment=quickstart", "model=sat", "debug=fast", "seed=7"],
        ["experiment=quickstart_cells", "debug=fast", "seed=7"],
    ]


@pytest.fixture
def mine(tmp_path):
    """The user's own `conf/sweep/mine.yaml`: two optimizers with two seeds."""
    file = tmp_path / "conf" / "sweep" / "mine.yaml"
    file.parent.mkdir(parents=True)
    text = "{optimizer.lr: '0.5,0.25', seed: '1,2', trainer.max_steps: 7}"
    file.write_text(f"# @package _global_\nhydra:\n  sweeper:\n    params: {text}\n")
    return file


@pytest.mark.long
def test_the_jobs_have_the_values_of_the_sweep_and_not_its_name(jobs, mine, capsys):
    assert main(["train", "sweep=mine", "logger=none"]) == 0
    assert jobs == [
        [f"optimizer.lr={rate}", f"seed={seed}", "trainer.max_steps=7", "logger=none"]
        for rate in (0.5, 0.25)
        for seed in (1, 2)
    ]
    record = json.loads(sorted(mine.parents[2].glob("outputs/train/*/*/record.json"))[0].read_text())
    assert (record["overrides"], record["argv"]) == (jobs[0], ["mate", "train", *jobs[0]])
    assert "4 jobs: 4 finished" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize("sign", ["", "++"])
def test_what_is_typed_replaces_a_parameter_of_the_sweep(jobs, mine, sign):
    assert main(["train", "-m", "sweep=mine", "optimizer.lr=0.1", f"{sign}seed=5,6"]) == 0
    assert [set(words) for words in jobs] == [
        {f"{sign}seed={seed}", "optimizer.lr=0.1", "trainer.max_steps=7"} for seed in (5, 6)
    ]


def test_multirun_is_added_where_something_is_run():
    assert convert_arguments(["sweep=networks", "seed=7"]) == ["-m", "sweep=networks", "seed=7"]
    for words in (["sweep=networks", "--multirun"], ["sweep=networks", "--cfg", "job"], ["sweep=null"], ["seed=1"]):
        assert convert_arguments(words) == words


def test_files_of_jobs_that_never_began_are_removed(tmp_path):
    jobs = tmp_path / "one" / "jobs"
    jobs.mkdir(parents=True)
    for name in ("0.json", "0.yaml", STOP_FILE_NAME):
        (jobs / name).write_text("{}")
    remove_unbegun([jobs, jobs.parent])
    assert not jobs.parent.exists()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("netwroks", "", "Did you mean networks?"),
        ("networks,table4", "", "several sweeps"),
        ("mine", "trainer: {max_steps: 3}", "Write it under hydra.sweeper.params: trainer: ..."),
        ("mine", "defaults: [override /model: tapas]", "not model"),
        ("mine", "defaults: [override /hydra/sweeper: nevergrad]", "Options: basic, optuna"),
        ("mine", "hydra: {sweeper: {params: {seeed: 1}}}", "Did you mean seed=1?"),
        ("mine", "a: [", "not valid YAML"),
    ],
)
def test_a_sweep_that_cannot_run_is_refused(jobs, mine, capsys, name, text, said):
    mine.write_text(f"# @package _global_\n{text}\n")
    assert main(["train", f"sweep={name}"]) == 2
    assert said in capsys.readouterr().err
    assert jobs == []


@pytest.mark.sampled(12)
@pytest.mark.parametrize("file", SWEEPS, ids=[file.name for file in SWEEPS])
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)], ids=["ends", "every"])
def test_the_jobs_of_a_sweep_can_be_trained(file, every):
    head = file.read_text(encoding="utf-8").splitlines()[:2]
    assert head == ["# @package _global_", f"# mate train -m sweep={file.stem}"]
    jobs = sweep_jobs(file, ["seed=1"])
    with init_compose_api():  # what jobs share is composed once
        for words in jobs if every else (jobs[0], jobs[-1]):
            # Runs that replace stages are missing.
            job = [word for word in words if not re.match(r"stages\.\w+\.run=", word)]
            assert [*target_problems([stage.model_dump() for stage in resolve(job).stages])] == []


def test_the_sweep_of_wandb_asks_for_runs_that_exist():
    content = yaml.safe_load(WANDB_SWEEP.read_text(encoding="utf-8"))
    assert content["command"][:2] == ["mate", "train"]
    assert content["command"][-1] == "${args_no_hyphens}"
    for key, parameter in content["parameters"].items():
        for value in parameter.get("values", [parameter[name] for name in ("min", "max") if name in parameter]):
            resolve([*content["command"][2:-1], f"{key}={value}"])
