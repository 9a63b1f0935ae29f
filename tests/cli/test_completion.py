"""Completion: what a line can become, and what bash makes of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mate_cli.cli import app
from mate_cli.cli.commands import completion
from mate_cli.cli.config_dir import config_dir

HARDWARE = sorted(path.stem for path in (config_dir() / "hardware").glob("*.yaml"))
LINES = {
    "mate tr": ["train"],
    "mate completion ": ["bash", "zsh", "fish"],
    "mate train --mul": ["--multirun"],
    "mate train optimiz": ["optimizer.", "optimizer="],
    "mate train optimizer.l": ["optimizer.lr="],
    "mate train hardware=": [f"hardware={name}" for name in HARDWARE],
    "mate train seed=2 hardware=gpu_": ["hardware=gpu_bf16"],
    "mate train trainer.max_": ["trainer.max_epochs=", "trainer.max_steps="],
    "mate data dow": ["download"],
    "mate train experiment=wtq_mate task.aggregation_t": ["task.aggregation_temperature="],
    "mate train model=mate,ta": ["model=mate,tapas"],
    "mate train deterministic=": ["deterministic=true", "deterministic=false"],
    "mate train +res": ["+resume="],
    "mate train job": [],
    "mate train hyd": [],
    "mate compare atten": [],
    "mate compare --mul": [],
    "mate inspect enc": ["encoding.", "encoding="],
    "mate explain trainer.val": ["trainer.val_every"],
    "mate nonsense x": [],
}
IN_BASH = {
    "mate tr": ["train"],
    "mate train hardware=": HARDWARE,
    "mate train hardware=gpu_": ["gpu_bf16"],
    "mate train seed=2 trainer.max_": ["trainer.max_epochs=", "trainer.max_steps="],
}
"""Readline replaces only what stands after the last `=`."""


@pytest.mark.parametrize("line", LINES)
def test_candidates(line):
    assert completion.completions(line) == LINES[line]


@pytest.mark.sampled(2)
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("line", IN_BASH)
def test_bash(line):
    script = f"""
        mate() {{ "{sys.executable}" -m mate_cli "$@"; }}
        eval "$(mate completion bash)"
        COMP_LINE="{line}" COMP_POINT={len(line)}
        _mate
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=Path.home())
    assert done.stdout.split() == IN_BASH[line]


@pytest.mark.parametrize(("shell", "flag"), [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")])
def test_scripts_are_printed_and_parse(shell, flag, capsys):
    assert app.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "mate completion query" in script
    if (program := shutil.which(shell)) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([program, flag], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_unknown_shell(capsys):
    assert app.main(["completion", "fsh"]) == 2
    assert capsys.readouterr().err == "error: mate completion fsh: no such shell. Did you mean fish?\n"
