"""Searches by Optuna: what is searched, a store that is opened again, jobs that fail, and what is refused."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal

import pytest
import yaml
from finished_runs import finish_jobs
from hydra.core.override_parser.overrides_parser import OverridesParser

from mate_cli.cli.app import main
from mate_cli.cli.sweeps.jobs import end_reason

optuna = pytest.importorskip("optuna", reason="not installed: pip install optuna")

SEARCH = ["experiment=quickstart_cells", "hydra/sweeper=optuna", "hydra.sweeper.direction=maximize"]
STORE = "sqlite:///search.db"
KEPT = [f"hydra.sweeper.storage={STORE}", "hydra.sweeper.study_name=rates", "hydra.sweeper.sampler.seed=1"]
RATE = "optimizer.lr=tag(log, interval(1e-4, 1e-2))"


@pytest.fixture
def rates(monkeypatch, tmp_path):
    """The learning rates that jobs are trained with, in an empty folder; a job of a rate above 0.005 fails."""
    found: list[float] = []

    def end(overrides):
        found.extend(float(word.partition("=")[2]) for word in overrides if word.startswith("optimizer.lr="))
        return scored("diverged" if found and found[-1] > 0.005 else None)

    monkeypatch.chdir(tmp_path)
    finish_jobs(monkeypatch, [], end)
    return found


def scored(reason=None):
    """The entries of a record that has a score, and has failed if there is a reason."""
    status = "failed" if reason else "finished"
    return {"status": status, "reason": reason, "monitor": "dev/hits@1", "metrics": {"dev/hits@1": 0.5}}


def search(*words: str) -> int:
    return main(["train", "-m", *SEARCH, *words])


def study(name: str = "rates") -> optuna.Study:
    return optuna.load_study(study_name=name, storage=STORE)


def test_a_search_goes_on_where_its_store_was_left(rates, capsys):
    for count in (2, 1):
        search(*KEPT, RATE, f"hydra.sweeper.n_trials={count}")
    trials = study().trials
    assert [trial.number for trial in trials] == [0, 1, 2]
    assert [trial.params["optimizer.lr"] for trial in trials] == pytest.approx(rates)
    assert len(set(rates)) == 3  # the same seed chooses other values where the store has trials
    assert study().direction.name == "MAXIMIZE"
    assert re.findall(r"^ +(\d) ", capsys.readouterr().out, re.M) == list("012")


@pytest.mark.long
def test_a_failed_job_is_a_failed_trial_and_the_search_goes_on(rates, tmp_path, capsys):
    assert search(*KEPT, RATE.replace("1e-2", "1e-1"), "hydra.sweeper.n_trials=4", "hydra.sweeper.n_jobs=2") == 1
    states = [(trial.state.name, trial.params["optimizer.lr"] > 0.005) for trial in study().trials]
    assert set(states) == {("FAIL", True), ("COMPLETE", False)}
    assert len(states) == len(rates) == 4
    (file,) = tmp_path.rglob("optimization_results.yaml")
    best = yaml.safe_load(file.read_text())
    assert (best["best_value"], best["best_params"]["optimizer.lr"]) == (0.5, study().best_params["optimizer.lr"])
    assert "best: optimizer.lr=" in capsys.readouterr().out


@pytest.mark.long
def test_a_killed_search_is_a_failed_trial_that_is_repeated(rates, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("mate_cli.cli.sweeps.jobs.follow_job", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        killed = multiprocessing.get_context("fork").Process(target=search, args=(*KEPT, RATE))
        killed.start()
        killed.join()
    assert killed.exitcode == -signal.SIGKILL
    assert [trial.state.name for trial in study().trials] == ["RUNNING"]
    search(*KEPT, RATE, "hydra.sweeper.n_trials=1")
    first, second = study().trials
    assert (first.state.name, second.params) == ("FAIL", first.params)
    assert rates == [pytest.approx(first.params["optimizer.lr"])]


@pytest.mark.long
def test_a_killed_job_is_repeated_at_most_twice(rates, monkeypatch):
    def end(_):
        rates.append(0)
        return scored(end_reason(-9, "") if len(rates) in (1, 3, 4, 5) else None)

    finish_jobs(monkeypatch, [], end)
    search(*KEPT, RATE, "hydra.sweeper.n_trials=3")
    trials = study().trials
    states = ["FAIL", "COMPLETE", "FAIL", "FAIL", "FAIL", "COMPLETE"]
    assert [trial.state.name for trial in trials] == states
    assert trials[0].params == trials[1].params
    assert trials[2].params == trials[3].params == trials[4].params != trials[5].params


def test_an_interrupted_search_leaves_no_trial_at_work(rates, monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("mate_cli.cli.sweeps.jobs.follow_job", interrupted)
    assert search(*KEPT, RATE, "hydra.sweeper.n_trials=3") == 130
    assert [trial.state.name for trial in study().trials] == ["FAIL"]


@pytest.mark.long
def test_a_grid_ends_when_all_is_tried(rates, capsys):
    search(*KEPT, "hydra/sweeper/sampler=grid", "optimizer.lr=choice(1e-3,2e-3)", "hydra.sweeper.n_trials=9")
    assert sorted(rates) == [1e-3, 2e-3]
    assert "warning" not in capsys.readouterr().err


REFUSED = {
    "fixed too": ([RATE, "optimizer.lr=1e-3"], "optimizer.lr: is both searched and set."),
    "searched twice": ([RATE, "optimizer.lr=choice(1,2)"], "optimizer.lr: is both searched and set."),
    "nothing": ([], "the search has no key to vary."),
    "an integer": (["trainer.batch_size=interval(8,32)"], "Write trainer.batch_size=range(8, 33)."),
    "an integer of a class": (["encoding.max_tokens=interval(64,256)"], "Write encoding.max_tokens=range(64, 257)."),
    "upside down": (["optimizer.lr=interval(1e-2,1e-3)"], "optimizer.lr: no values to choose from: "),
    "empty": (["seed=range(3,3)"], "seed: no values to choose from: range(3, 3, 1) is empty."),
    "no trials": ([RATE, "hydra.sweeper.n_trials=0"], "hydra.sweeper.n_trials: must be an integer above 0 (got 0)."),
    "a direction": ([RATE, "hydra.sweeper.direction=up"], "hydra.sweeper.direction: is not a direction: up."),
    "the wrong way": ([RATE, "hydra.sweeper.direction=minimize"], "dev/hits@1 is better when higher, not the opposite"),
    "a store": ([RATE, "hydra.sweeper.storage=nowhere"], "hydra.sweeper.storage=nowhere: the store cannot be opened: "),
    "an option": ([RATE, "+hydra.sweeper.sampler.sede=1"], "hydra.sweeper.sampler: cannot be built: "),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", REFUSED)
def test_a_search_that_cannot_be_is_refused_in_one_line(rates, capsys, tmp_path, name):
    words, said = REFUSED[name]
    assert search(*words) == 2
    error = capsys.readouterr().err
    assert (said in error, error.count("\n")) == (True, 1), error
    assert rates == []
    assert not list(tmp_path.rglob("*.yaml"))


@pytest.mark.long
def test_a_store_that_looks_the_other_way_or_has_other_values_is_refused(rates, capsys):
    search(*KEPT, "optimizer.lr=choice(1e-3,2e-3)", "hydra.sweeper.n_trials=1")
    assert search(*KEPT, "optimizer.lr=choice(1e-3,3e-3)") == 2
    assert "study_name=rates: the study was begun with other values: " in capsys.readouterr().err
    assert search(*KEPT, RATE, "hydra.sweeper.direction=minimize") == 2
    assert "hydra.sweeper.direction: the study rates is to maximize." in capsys.readouterr().err
    assert len(rates) == 1


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("range(1,10,3)", (1, 7, 3)),
        ("range(1,10,4)", (1, 9, 4)),
        ("range(6,0,-2)", (2, 6, 2)),
        ("range(0.1,0.5,0.1)", (0.1, 0.4, 0.1)),
        ("tag(log, range(8,65))", (8, 64, 1)),
        ("int(interval(1,4))", (1, 4, 1)),
    ],
)
def test_ranges_end_before_their_stop_as_in_hydra(word, values):
    from mate_cli.cli.sweeps.search_space import to_distribution

    found = to_distribution("x", OverridesParser.create().parse_override(f"x={word}"))
    assert (found.low, found.high, found.step) == pytest.approx(values)
    assert found.log == word.startswith("tag(log")
