"""What a user gets wrong: one line that names it, exit code 2, no traceback."""

from __future__ import annotations

import pytest
from hydra.utils import instantiate

from mate_cli.cli import app, evaluate

HYDRA_SEES = {
    ("trian",): "trian: no such command. Did you mean mate train?",
    ("train", "modle=mate"): "modle: unknown key. Did you mean model=mate?",
    (
        "train",
        "model=mtae",
    ): (
        "model=mtae: no such choice. Did you mean mate? "
        "Choices: candidates, dot, etc, lexical, linformer, mate, sat, tapas, transformer_xh, "
        "transformer_xl."
    ),
    ("train", "trainer.max_stepz=3"): "trainer.max_stepz: unknown key. Did you mean trainer.max_steps=3?",
    ("train", "trainr.max_steps=3"): "trainr.max_steps: unknown key. Did you mean trainer.max_steps=3?",
    ("train", "max_steps=3"): "max_steps: unknown key. Did you mean trainer.max_steps=3?",
    ("train", "qqq=1"): "qqq: unknown key. All keys: mate train --cfg job.",
    ("train", "stages.reading.run=x"): "stages.reading: no such stage. This experiment has none.",
    ("train", "-m", "seeed=1"): "seeed: unknown key. Did you mean seed=1?",
    ("train", "+seed=3"): "seed: this key exists already. Leave out the +.",
    ("train", "~foo"): "~foo: nothing to delete here.",
    ("train", "model@foo=mate"): "model@foo: mate train does not use this group.",
    ("train", "trainer=null"): "Config group override must be a string or a list. Got NoneType.",
    ("train", "foo"): "foo: not of the form key=value.",
    ("train", "seed=1,2"): "seed=1,2: several values. Add -m to run each, or write seed=[1,2] for a list.",
    (
        "train",
        "seed=[1",
    ): "seed=[1: this value cannot be read. Put special characters in quotes inside quotes: 'key=\"a, b (c)\"'.",
    ("train", "--foo"): "--foo: unknown flag. Did you mean --info?",
    ("train", "--config-name", "nope"): "--config-name: mate train has no such flag. Use --config-dir FOLDER.",
    ("evaluate", "--config-name", "nope"): "--config-name nope: no such configuration.",
    ("train", "--config-dir", "nowhere"): "--config-dir nowhere: no such folder.",
    (
        "train",
        "-m",
        "--cfg",
        "job",
    ): "Only one of --run, --multirun, --cfg, --info and --shell_completion can be specified.",
}
"""Words after `mate`, and the error, of what Hydra refuses."""

VALIDATION_SEES = {
    "+trainer.max_stepz=3": "trainer.max_stepz: unknown key. Did you mean trainer.max_steps?",
    "+modle=mate": "modle: unknown key. Did you mean model?",
    "trainer.max_steps=abc": "trainer.max_steps: must be an integer (got 'abc').",
    "trainer.max_steps=-5": "trainer.max_steps: must be greater than 0 (got -5).",
    "trainer.max_steps=1.5": "trainer.max_steps: must be an integer (got 1.5).",
    "trainer.max_steps=???": "trainer.max_steps: needs a value. Set it with trainer.max_steps=...",
    "deterministic=1": "deterministic: must be true or false (got 1).",
    "hardware.workers=-1": "hardware.workers: must be greater than or equal to 0 (got -1).",
    "logger.mode=of": "logger.mode: must be 'offline', 'online' or 'disabled' (got 'of').",
    "paths.outputs=null": "paths.outputs: must be text (got None).",
    "~trainer.log_every": "trainer.log_every: is missing.",
    "model.size=${init.siz}": "model.size: interpolation key 'init.siz' not found.",
    "paths.outputs=${oc.env:NOT_SET_ANYWHERE}": "paths.outputs: environment variable 'NOT_SET_ANYWHERE' not found.",
}
"""Override of `mate train`, and the error, of what Hydra accepts."""

CLASSES_SEE = {
    "task._target_=mate_cli.no.Such": "task._target_: there is no mate_cli.no.Such.",
    "task._target_=mate_cli.__version__": "task._target_: mate_cli.__version__ is neither a class nor a function.",
    "+optimizer.lrr=3": "optimizer.lrr: unknown key. Did you mean optimizer.lr?",
    "optimizer.lr=-1": "optimizer.lr: must be greater than 0 (got -1).",
    "optimizer.betas=[0.9]": "optimizer.betas.1: is missing.",
    "scheduler.warmup=ten": "scheduler.warmup: must be a number (got 'ten').",
    "task.loss=em": "task.loss: must be 'marginal_likelihood', 'hard_em' or 'binary' (got 'em').",
}
"""The same, of what only the signature of a class tells."""


@pytest.mark.parametrize(("words", "message"), HYDRA_SEES.items(), ids=" ".join)
def test_refused_by_hydra(words, message, capsys):
    assert_error(words, message, capsys)


@pytest.mark.parametrize("override", VALIDATION_SEES)
def test_refused_by_validation(override, capsys):
    assert_error(["train", override], VALIDATION_SEES[override], capsys)


@pytest.mark.parametrize("override", CLASSES_SEE)
def test_refused_by_a_signature(override, capsys):
    assert_error(["train", override], CLASSES_SEE[override], capsys)


def test_missing_value_says_how_to_give_it(capsys):
    assert_error(["evaluate"], "run: needs a value. Set it with run=...", capsys)


def test_all_problems_are_listed(capsys):
    code = app.main(["train", "trainer.max_steps=-5", "+trainer.max_stepz=3"])
    assert code == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.strip() for line in lines] == [
        "error: trainer.max_steps: must be greater than 0 (got -5).",
        "trainer.max_stepz: unknown key. Did you mean trainer.max_steps?",
    ]


def test_a_module_that_fails(monkeypatch, tmp_path, capsys):
    (tmp_path / "needs_a_package.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    message = "model._target_: cannot import needs_a_package.Model (No module named 'no_such_package')."
    assert_error(["train", "model._target_=needs_a_package.Model"], message, capsys)


def assert_error(words, message, capsys):
    code = app.main(list(words))
    out, err = capsys.readouterr()
    assert (code, err, out) == (2, f"error: {message}\n", "")


def test_a_class_that_is_gone_is_named(monkeypatch, capsys):
    monkeypatch.setattr(evaluate, "run", lambda cfg: instantiate({"_target_": "gone.Reader"}))
    remedy = "It was made by another version of mate, or by code that is not on the path."
    assert_error(["evaluate", "run=x"], f"gone.Reader: there is no such class here. {remedy}", capsys)
