"""`mate`: help, dispatch, sweeps, restarts, and what becomes of exceptions."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from finished_runs import finish_jobs
from hydra.utils import instantiate
from omegaconf import OmegaConf

from mate_cli.cli import app
from mate_cli.cli.commands import train
from mate_cli.errors import ConfigError


@pytest.fixture
def jobs(monkeypatch, tmp_path):
    """The configurations that `mate train` was run with, in an empty folder and without a check of classes."""
    seen = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train, "start", lambda plan: seen.append(plan.last))
    return seen


def test_overview_names_every_command(capsys):
    assert app.main([]) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in app.COMMANDS)
    assert app.main(["--help"]) == app.main(["help"]) == 0
    assert capsys.readouterr().out == out + out


@pytest.mark.parametrize("name", ["note", "compare"])
def test_help_in_front_of_a_command_is_its_help(name, capsys):
    assert app.main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert app.main(["help", name]) == 0
    assert capsys.readouterr().out == out


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name in app.COMMANDS if name not in ("completion", "doctor")])
def test_help_fits_a_terminal(name, capsys):
    assert app.main([name, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    keys = {"explain": "KEY [group=option] [key=value]", "run": "FOLDER [data.root=FOLDER] [trust=NAME]"}
    keys |= {"train": "[group=option] [key=value] [-m]"}
    keys |= {"list": "[KIND [WORD]]", "note": "RUN [TEXT]", "remove": "RUN ... [--yes]"}
    assert f"Usage: mate {name} {keys.get(name, '[group=option] [key=value]')}" in lines
    assert "Examples" in lines


def test_help_behind_a_folder_is_of_the_command(tmp_path, capsys):
    assert app.main(["compare", str(tmp_path), "--help"]) == 0
    assert "Usage: mate compare" in capsys.readouterr().out
    assert app.main(["compare", str(tmp_path), "--help", "metric"]) == 0
    assert "Usage: mate compare" not in capsys.readouterr().out


@pytest.fixture
def processes(monkeypatch, tmp_path):
    """The words that the jobs of a sweep would have been started with."""
    started = []
    monkeypatch.chdir(tmp_path)
    finish_jobs(monkeypatch, started)
    return started


def test_sweep_runs_every_combination(processes, tmp_path):
    assert app.main(["train", "-m", "seed=2,3", "model=mate,tapas"]) == 0
    assert [overrides for _, overrides in processes] == [
        [f"seed={seed}", f"model={model}"] for seed in (2, 3) for model in ("mate", "tapas")
    ]
    assert {command[2] for command, _ in processes} == {"run"}
    folders = {path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    sweeps = {folder for folder in folders if re.fullmatch(r"outputs/sweeps/[\d_-]+(/jobs)?", folder)}
    assert len(sweeps) == 1
    assert len(folders - sweeps) == 4
    assert all(folder.startswith("outputs/train/hybridqa_") for folder in folders - sweeps)


@pytest.fixture
def mine(tmp_path):
    """Write the user's own `conf/experiment/mine.yaml`."""
    file = tmp_path / "conf" / "experiment" / "mine.yaml"
    file.parent.mkdir(parents=True)
    return file


GLOBAL = "# @package _global_\n"
MISTAKES = {
    f"{GLOBAL}trainer:\n  max_stepz: 3\n": "trainer.max_stepz: unknown key ... trainer.max_steps?",
    "trainer:\n  max_steps: 3\n": "experiment: unknown key ... # @package _global_.",
    f"{GLOBAL}defaults:\n  - model: mate\n": "experiment/mine: ... override /model: mate.",
    f"{GLOBAL}defaults:\n  - override /model: mtae\n": "model=mtae: ... mate? Options: candidates, ",
    f"{GLOBAL}defaults:\n  - override model: mate\n": "override model: ... override /model: NAME.",
    f"{GLOBAL}optimizer.lr: 1e-3\n": "optimizer.lr: unknown key ... optimizer: {lr: VALUE}.",
    f"{GLOBAL}trainer:\n\tmax_steps: 3\n": "mine.yaml, line 3: not valid YAML: ",
}
"""Content of an experiment file, and parts of its error."""


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_in_an_experiment_file(text, jobs, mine, capsys):
    mine.write_text(text)
    assert app.main(["train", "experiment=mine"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert [part for part in MISTAKES[text].split(" ... ") if part not in line] == [], line
    assert jobs == []


STAGE_MISTAKES = {
    "optimizer.lrr=1": "stages.span_reading.optimizer.lrr: unknown key. Did you mean stages.span_reading.o",
    "+optimizer.lrr=1": "stages.span_reading: optimizer.lrr: unknown key. Did you mean optimizer.lr?",
    "trainer.log_every=0": "stages.span_reading: trainer.log_every: must be greater than 0 (got 0).",
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("override", STAGE_MISTAKES)
def test_stages_are_checked_before_the_first_one_runs(override, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train, "execute", lambda *given: pytest.fail("a stage is trained"))
    assert app.main(["train", "experiment=quickstart", f"stages.span_reading.overrides=['{override}']"]) == 2
    assert f"error: {STAGE_MISTAKES[override]}" in capsys.readouterr().err.splitlines()[-1]


def test_errors_of_ours_are_printed(jobs, monkeypatch, capsys):
    monkeypatch.setattr(train, "start", raises(ConfigError("too long", where="encoding", remedy="Shorten it")))
    assert app.main(["train"]) == 2
    assert capsys.readouterr().err == "error: encoding: too long. Shorten it.\n"


def test_errors_inside_instantiate_are_found(jobs, monkeypatch, capsys):
    monkeypatch.setattr(train, "start", lambda plan: instantiate({"_target_": f"{__name__}.refuse"}))
    assert app.main(["train"]) == 2
    assert capsys.readouterr().err.endswith("error: no.\n")


def test_errors_of_the_program_keep_their_traceback(jobs, monkeypatch):
    monkeypatch.setattr(train, "start", raises(ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        app.main(["train"])
    assert "HYDRA_FULL_ERROR" not in os.environ


BUGS = {
    "ConfigAttributeError": lambda plan: OmegaConf.create({}).no_such_key,
    "InstantiationException": lambda plan: instantiate({"_target_": f"{__name__}.refuse", "extra": 1}),
    "ValueError": lambda plan: int("x"),
}


@pytest.mark.parametrize("name", BUGS)
def test_wrong_use_of_the_configuration_is_no_mistake_of_the_user(name, jobs, monkeypatch):
    compiled = compile("def run(plan): return work(plan)", train.__file__, "exec")
    scope = {"work": BUGS[name]}
    exec(compiled, scope)
    monkeypatch.setattr(train, "start", scope["run"])
    with pytest.raises(Exception, match=r".+") as caught:
        app.main(["train"])
    assert type(caught.value).__name__ == name


@pytest.mark.long
def test_closed_pipe_is_silent():
    words = [sys.executable, "-m", "mate_cli", "train", "--cfg", "job"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 0


def refuse():
    raise ConfigError("no")


def raises(error):
    def run(config):
        raise error

    return run
