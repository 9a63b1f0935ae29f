"""What a user gets wrong: one line that names key, value and remedy, exit code 2, no traceback, and nothing written."""

from __future__ import annotations

import shlex

import pytest
from hydra.utils import instantiate

from mate_cli import __version__
from mate_cli.cli import app
from mate_cli.cli.commands import evaluate

COMPOSITION = {
    "trian": "trian: ... mate train?",
    "doctor now": "now: ... Leave it out",
    "train modle=mate": "modle: unknown key ... model=mate?",
    "evaluate": "run: needs a value ... run=FOLDER, or checkpoint=NAME ... answers=FILE data=NAME, or system=NAME",
    "train model=mtae": "model=mtae: ... mate? Options: candidates, deeper, ",
    "train hardware=cuda": "hardware=cuda: ... auto, cpu, cpu_bf16, ddp, gpu, gpu_bf16, mps, slurm.",
    "train experiment=table4": "experiment=table4: ... mate train -m sweep=table4.",
    "train sweep=table5": "hybridqa_table5?",
    "train trainer.max_stepz=3": "trainer.max_stepz: unknown key ... trainer.max_steps=3?",
    "train qqq=1": "qqq: unknown key ... mate train --help qqq.",
    "evaluate ckpt_path=x": "ckpt_path: unknown key ... mate evaluate --help ckpt_path.",
    "train +seed=3": "seed: ... Leave out the +.",
    "train ~trainer.nokey": "~trainer.nokey: no such key",
    "train ~optimizer.lr=3": "~optimizer.lr=3: its value is ",
    "train ~model._target_": "model: has no _target_ ... model=NAME.",
    "train model@foo=mate": "model@foo: mate train does not use",
    "evaluate task.beam=1": "task.beam: mate evaluate does not use",
    "train model=tapas model.row_head_ratio=0.3": "model.row_head_ratio: model=tapas ... model=dot, lexical, mate.",
    "train model=linformer model.slot=3": "model.slot: unknown key ... model.slots=3?",
    "train model.hidden_size=3": "model.hidden_size: unknown key ... mate train --help model.",
    "train trainer.sync_batchnorm=true": "+trainer.options.NAME=...",
    "train experiment=quickstart stages.cell_selection.seeed=1": "Did you mean stages.cell_selection.seed=1?",
    "train experiment=quickstart stages.cell_selection.run=/nope": "/nope: stages.cell_selection.run: ... outputs/",
    "train experiment=quickstart ~stages": "~stages: ",
    "train experiment=hybridqa_mate system=pointr --dry": "system: ... Leave it out.",
    "evaluate run=nowhere --package x": "nowhere: this is not a run folder. ... outputs/train/.",
    "benchmark benchmark.real.hybridqa=/x": "hybridqa: lists are replaced as a whole. ... key=[a,b].",
    "train logger.wandb.tags=[a,b] ~logger.wandb.tags.0": "tags.0: lists are replaced as a whole. Type 'logger.",
    "train logger.wandb.tags=[a,b] logger.wandb.tags.2=c": "tags.2: lists are replaced as a whole.",
    "train --config-dir nowhere": "--config-dir nowhere: no such folder.",
    "train -m seed=1,2 --cfg job": "--run, --multirun, --cfg: exclude each other. ... -m --dry; ... without -m.",
    "train hydra/launcher=joblib": "hydra/launcher=joblib: applies to sweeps only. Add -m.",
    "train -m hydra/launcher=slurm": "Options: basic, joblib, ray, submitit_local, submitit_slurm.",
    "train -m hydra/launcher=ray": "is not installed. Type pip install hydra-ray-launcher.",
    "train 'model=glob(ma*)'": "model=glob(ma*): has several values. Add -m to run each.",
    "data check ~data": "~data: ",
    "explain header": "header: is a key of mate predict. ... mate predict --help header.",
    "explain ''": "mate explain: needs one key.",
    "explain ckpt_path": "Did you mean resume?",
    "explain callbacks callbacks=null": "Write callbacks=none.",
}
"""Commands, and parts of their errors, of what Hydra rejects."""

SYNTAX = {
    "train --dry-run": "--dry-run: unknown flag ... --dry?",
    "train --experiment x": "--experiment: ... without dashes. Type experiment=x.",
    "train --seed=1": "--seed=1: ... Type seed=1.",
    "train --config-name nope": "--config-name: ... Use --config-dir FOLDER.",
    "predict --dry": "--dry: mate predict does not have this flag. Leave it out.",
    "train experiment x": "experiment: ... Type experiment=x.",
    "train quickstart": "quickstart: ... Type experiment=quickstart.",
    "train foo": "foo: ... mate train --help.",
    "train hardware": "hardware: ... Type hardware=NAME, with one of auto, cpu, ",
    "train lr = 1e-3": "lr: no spaces around =. Type lr=1e-3.",
    "train 'lr = 1e-3'": "lr: no spaces around =. Type lr=1e-3.",
    "train model= tapas": "model: no spaces around =. Type model=tapas.",
    "train +model=mate": "+model=mate: ... Type model=mate.",
    "train hydra.run.dir=/runs/mine": "hydra.run.dir=/runs/mine: ... Type name=mine paths.outputs=/runs.",
    f"train seed={'7' * 5000}": "seed: has too many digits.",
    "train -m seed=1, 2": "seed=1,: ... Type seed=1,2.",
    "train 'a=[row,' column]": "a=[row,: ... needs quotes. Type 'a=[row, column]'.",
    "train 'name=r${seed'": "name=r${seed: } is missing at the end. Type 'name=r${seed}'.",
    "evaluate nowhere/run": "nowhere/run: ... Type run=nowhere/run.",
    "data check sqa": "sqa: ... Type data=sqa.",
    "data chek": "chek: ... mate data check?",
    "predict table=a.csv question=who sold?": "question=who: ... needs quotes. Type 'question=who sold?'.",
    "train --help exp": "exp: unknown key. ... experiment?",
    "train logger=null": "logger=null: ... Write logger=none.",
    "train debug=null": "debug=null: ",
    "train model=null": "model=null: ... Type model=NAME;",
    "train ~init": "~init: ... Type init=NAME; mate list init",
    "train model=[mate,tapas]": "Add -m to run each: model=mate,tapas.",
    "compare outputs \"labels={'a X · lr=1': Ours}\"": "keys have no quotes. Type 'labels={a X lr\\=1: Ours}'.",
    "train 'seed=a (b'": "seed=a (b: ... quotes inside quotes: \"seed='a (b'\".",
    "train 'seed=rnge(3)'": "The functions of a sweep are choice(1,2), range(1,5),",
    "train logger.wandb.tags+=[x]": "logger.wandb.tags+=[x]: ... Type 'logger.wandb.tags=[x]'.",
    "train trainer.max_epochs+=1": "trainer.max_epochs+=1: a value is ... Type trainer.max_epochs=1.",
    "train logger.wandb.tags[0]=x": "Type logger.wandb.tags.0=x.",
    "train trainer..max_steps=1": "Type trainer.max_steps=1.",
    "train seed:=3": "Type seed=3.",
    "train seed=1,,2,": "seed=1,,2,: ... Type seed=1,2.",
    "train experiment={wtq_mate}": "experiment={wtq_mate}: ... Type experiment=wtq_mate.",
    "train 'trainer.max_steps=${oc.decode:${oc.env:STEPS}}'": "quotes inside quotes: 'trainer.max_steps='",
}
"""Commands, and parts of their errors, of those who know other programs."""

VALUES = {
    "+trainer.max_stepz=3": "trainer.max_stepz: unknown key ... trainer.max_steps?",
    "trainer.max_steps=abc": "trainer.max_steps: must be an integer (got 'abc').",
    "trainer.max_steps=-5": "trainer.max_steps: must be greater than 0 (got -5).",
    "trainer.max_steps=???": "trainer.max_steps: needs a value. ... trainer.max_steps=...",
    "seed=4294967296": "seed: must be less than 4294967296",
    "deterministic=1": "deterministic: must be true or false (got 1).",
    "hardware.workers=-1": "hardware.workers: must be greater than or equal to 0 (got -1).",
    "logger.wandb.mode=of": "logger.wandb.mode: must be 'offline', 'online' or 'disabled' (got 'of').",
    "logger.wandb.tags=[2024]": """'logger.wandb.tags=["...", ...]'""",
    "paths.outputs=": "paths.outputs: must be text (got '').",
    "optimizer.lr=inf": "optimizer.lr: must be a finite number (got inf).",
    "name=1e5": "quotes inside quotes: 'name=\"...\"'.",
    "~trainer.log_every": "trainer.log_every: is missing.",
    "model.size=${init.siz}": "model.size: ... 'init.siz' not found.",
    "name=${hydra:job.num}": "name: ${hydra:...} is not known here. ... as in ${seed}",
    "paths.outputs=${oc.env:NOT_SET_ANYWHERE}": "paths.outputs: ... 'NOT_SET_ANYWHERE' not found. ... ${oc.env:NAME,",
    "task._target_=mate_cli.no.Such": "task._target_: there is no mate_cli.no.Such.",
    "task._target_=mate_cli.__version__": "task._target_: mate_cli.__version__ is neither a class nor",
    "optimizer.lr=-1": "optimizer.lr: must be greater than 0 (got -1).",
    "optimizer.betas=[0.9]": "optimizer.betas.1: is missing.",
    "+model.hiden_dropout=0.1": "model.hiden_dropout: unknown key ... model.hidden_dropout?",
    "model.hidden_dropout=abc": "model.hidden_dropout: must be a number (got 'abc').",
    "task.loss=em": "task.loss: must be 'marginal_likelihood', 'hard_em' or 'binary' (got 'em').",
    "callbacks=early_stopping callbacks.early_stopping.patience=-1": "early_stopping.patience: must be 0 or more",
}
"""Overrides of `mate train`, and parts of their errors, of what only validation rejects."""


def error_of(command: list[str], capsys) -> str:
    """Return the one line with which a command is rejected."""
    assert app.main(command) == 2
    out, err = capsys.readouterr()
    assert out.count("\n") <= (command[0] == "train"), "nothing but the name of the run"
    (line,) = err.splitlines()
    assert line.startswith("error: ")
    return line


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", [*COMPOSITION, *SYNTAX, *(f"train {override}" for override in VALUES)])
def test_a_mistake_is_one_line_that_says_what_to_type(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    expected = {**COMPOSITION, **SYNTAX, **{f"train {override}": part for override, part in VALUES.items()}}[command]
    line = error_of(shlex.split(command), capsys)
    assert [part for part in expected.split(" ... ") if part not in line] == [], line
    assert list(tmp_path.iterdir()) == []


def test_the_newest_run_below_a_folder_is_offered(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / "outputs" / name).mkdir(parents=True)
        (tmp_path / "outputs" / name / "config.yaml").touch()
    assert "Type run=outputs/b." in error_of(["evaluate", "outputs/"], capsys)


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_the_version_is_ours(command, capsys):
    assert app.main([command, "--version"]) == 0
    assert capsys.readouterr().out == f"mate {__version__}\n"


def test_what_patience_means_to_a_callback_of_ones_own_is_its_business(tmp_path, monkeypatch):
    code = "from pytorch_lightning import Callback\nclass Calm(Callback):\n    def __init__(self, patience): pass\n"
    (tmp_path / "calm_callback.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    callbacks = [f"+callbacks.{name}={{_target_:calm_callback.Calm,patience:{name}}}" for name in ("null", "x")]
    assert app.main(["train", "experiment=quickstart_cells", "debug=fast", *callbacks, "--dry"]) == 0


def test_all_problems_are_listed(capsys):
    assert app.main(["train", "trainer.max_steps=-5", "+trainer.max_stepz=3"]) == 2
    keys = [line.removeprefix("error: ").strip().partition(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert keys == ["trainer.max_steps", "trainer.max_stepz"]


def test_a_module_that_fails(monkeypatch, tmp_path, capsys):
    (tmp_path / "needs_a_package.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    line = error_of(["train", "model._target_=needs_a_package.Model"], capsys)
    assert "model._target_: cannot import needs_a_package.Model (No module named 'no_such_package')" in line


def test_a_class_that_is_gone_is_named(monkeypatch, capsys):
    monkeypatch.setattr(evaluate, "run", lambda cfg: instantiate({"_target_": "gone.Reader"}))
    assert "gone.Reader: no such class here. It was made by" in error_of(["evaluate", "run=x"], capsys)


def test_a_file_behind_another_setting_is_no_part_of_its_text(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sales.csv").write_text("a,b\n1,2\n")
    line = error_of(["predict", "run=first", "sales.csv", "question=which b?"], capsys)
    assert "Type table=sales.csv." in line
