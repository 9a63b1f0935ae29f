"""What a user gets wrong: one line that names it, exit code 2, no traceback."""

from __future__ import annotations

import pytest
from hydra.utils import instantiate

from mate_cli import __version__
from mate_cli.cli import app
from mate_cli.cli.commands import evaluate
from mate_cli.cli.config_dir import list_options

HYDRA_SEES = {
    ("trian",): "trian: no such command. Did you mean mate train?",
    ("train", "modle=mate"): "modle: unknown key. Did you mean model=mate?",
    ("evaluate",): "run: needs a value. Write run=FOLDER, or checkpoint=NAME data=NAME, or answers=FILE data=NAME, "
    "or system=NAME data=NAME.",
    (
        "train",
        "model=mtae",
    ): f"model=mtae: no such option. Did you mean mate? Options: {', '.join(list_options('model'))}.",
    ("train", "experiment=table4"): "experiment=table4: is a sweep. Type mate train -m sweep=table4.",
    ("train", "trainer.max_stepz=3"): "trainer.max_stepz: unknown key. Did you mean trainer.max_steps=3?",
    ("train", "qqq=1"): "qqq: unknown key. Search for it: mate train --help qqq.",
    ("train", "+seed=3"): "seed: this key exists already. Leave out the +.",
    ("train", "~foo"): "~foo: no such key to delete.",
    ("train", "model@foo=mate"): "model@foo: mate train does not use this group.",
    ("compare", "watch=true"): "watch: unknown key. Search for it: mate compare --help watch.",
    ("predict", "--dry"): "--dry: mate predict does not have this flag. Leave it out.",
    ("benchmark", "-m", "benchmark=attention"): "--multirun: mate benchmark does not have this flag. Leave it out.",
    ("evaluate", "task.beam=1"): "task.beam: mate evaluate does not use this group.",
    (
        "train",
        "seed=a (b",
    ): "seed=a (b: this value cannot be read. Put special characters in quotes inside quotes: \"seed='a (b'\".",
    ("train", "model=tapas", "model.row_head_ratio=0.3"): (
        "model.row_head_ratio: model=tapas has no such key. It is a key of model=dot, lexical, mate."
    ),
    ("train", "model=linformer", "model.slot=3"): "model.slot: unknown key. Did you mean model.slots=3?",
    ("train", "experiment=quickstart", "stages.cell_selection.trainer.max_epoch=1"): (
        "stages.cell_selection.trainer.max_epoch: unknown key. Did you mean stages.cell_selection.trainer.max_epochs=1?"
    ),
    ("train", "experiment=quickstart", "stages.cell_selection.run=/nope"): (
        "/nope: stages.cell_selection.run: this is not a run folder. Give a folder below outputs/train/."
    ),
    ("train", "--config-name", "nope"): "--config-name: mate train does not have this flag. Use --config-dir FOLDER.",
    ("evaluate", "run=nowhere", "--package", "x"): (
        "nowhere: this is not a run folder. Give a folder below outputs/train/."
    ),
    ("benchmark", "benchmark.real.hybridqa=/x"): ("hybridqa: lists are replaced as a whole. Type key=[a,b]."),
    ("train", "experiment=hybridqa_mate", "system=pointr", "--dry"): (
        "system: joins stages, and this experiment has none. Leave it out."
    ),
    ("doctor", "now"): "now: mate doctor takes no arguments. Leave it out.",
    ("train", "--config-dir", "nowhere"): "--config-dir nowhere: no such folder.",
    ("train", "-m", "experiment=quickstart_cells", "--cfg", "job", "seed=1,2"): (
        "--run, --multirun, --cfg: exclude each other. The jobs of a sweep: -m --dry; the configuration of one of "
        "them: --cfg job without -m."
    ),
}
"""Words after `mate`, and the error, of what Hydra refuses."""

SYNTAX = {
    ("train", "--dry-run"): "--dry-run: unknown flag. Did you mean --dry?",
    ("train", "--experiment", "x"): (
        "--experiment: settings are written key=value, without dashes. Type experiment=x."
    ),
    ("train", "--seed=1"): "--seed=1: settings are written key=value, without dashes. Type seed=1.",
    ("train", "experiment", "x"): "experiment: settings are written key=value. Type experiment=x.",
    ("train", "quickstart"): "quickstart: settings are written key=value. Type experiment=quickstart.",
    ("train", "foo"): "foo: settings are written key=value. All of them: mate train --help.",
    ("train", "hardware"): (
        "hardware: settings are written key=value. "
        "Type hardware=NAME, with one of auto, cpu, cpu_bf16, ddp, gpu, gpu_bf16, mps, slurm."
    ),
    ("train", "lr", "=", "1e-3"): "lr: no spaces around =. Type lr=1e-3.",
    ("train", "lr = 1e-3"): "lr: no spaces around =. Type lr=1e-3.",
    ("train", "+model=mate"): "+model=mate: this group already has an option. Type model=mate.",
    ("train", "hydra.run.dir=/runs/mine"): (
        "hydra.run.dir=/runs/mine: a run creates its own folder. Type name=mine paths.outputs=/runs."
    ),
    ("train", f"seed={'7' * 5000}"): "seed: has too many digits. Write a shorter one.",
    ("train", "-m", "seed=1,", "2"): "seed=1,: no spaces between values. Type seed=1,2.",
    ("train", "a=[row,", "column]"): "a=[row,: a list with spaces needs quotes. Type 'a=[row, column]'.",
    ("train", "a=[row, column"): "a=[row, column: ] is missing at the end. Type 'a=[row, column]'.",
    ("evaluate", "nowhere/run"): "nowhere/run: settings are written key=value. Type run=nowhere/run.",
    ("data", "check", "sqa"): "sqa: settings are written key=value. Type data=sqa.",
    ("predict", "table=a.csv", "question=who", "sold?"): (
        "question=who: a text with spaces needs quotes. Type 'question=who sold?'."
    ),
    ("train", "hardware=cuda"): (
        "hardware=cuda: no such option. Options: auto, cpu, cpu_bf16, ddp, gpu, gpu_bf16, mps, slurm."
    ),
    ("train", "--help", "exp"): "exp: unknown key. Did you mean experiment?",
    ("compare", "outputs", "latex=x.tex", "labels={'model X · lr=1': Ours}"): (
        "labels={'model X · lr=1': Ours}: keys have no quotes. Type 'labels={model X lr\\=1: Ours}'."
    ),
}
"""Words after `mate`, and what to type in their place, of those who know other programs."""

VALIDATION_SEES = {
    "+trainer.max_stepz=3": "trainer.max_stepz: unknown key. Did you mean trainer.max_steps?",
    "+modle=mate": "modle: unknown key. Did you mean model?",
    "trainer.max_steps=abc": "trainer.max_steps: must be an integer (got 'abc').",
    "trainer.max_steps=-5": "trainer.max_steps: must be greater than 0 (got -5).",
    "trainer.max_steps=1.5": "trainer.max_steps: must be an integer (got 1.5).",
    "trainer.max_steps=???": "trainer.max_steps: needs a value. Set it with trainer.max_steps=...",
    "deterministic=1": "deterministic: must be true or false (got 1).",
    "hardware.workers=-1": "hardware.workers: must be greater than or equal to 0 (got -1).",
    "logger.wandb.mode=of": "logger.wandb.mode: must be 'offline', 'online' or 'disabled' (got 'of').",
    "paths.outputs=null": "paths.outputs: must be text (got None).",
    "~trainer.log_every": "trainer.log_every: is missing. Give it a value.",
    "model.size=${init.siz}": "model.size: interpolation key 'init.siz' not found.",
    "paths.outputs=${oc.env:NOT_SET_ANYWHERE}": "paths.outputs: environment variable 'NOT_SET_ANYWHERE' not found."
    " Write a key as ${seed}, the day as ${now:%Y-%m-%d}, a variable as ${oc.env:NAME,default}.",
}
"""Override of `mate train`, and the error, of what Hydra accepts."""

CLASSES_SEE = {
    "task._target_=mate_cli.no.Such": "task._target_: there is no mate_cli.no.Such.",
    "task._target_=mate_cli.__version__": "task._target_: mate_cli.__version__ is neither a class nor a function.",
    "+optimizer.lrr=3": "optimizer.lrr: unknown key. Did you mean optimizer.lr?",
    "optimizer.lr=-1": "optimizer.lr: must be greater than 0 (got -1).",
    "model.hidden_dropout=2": "model.hidden_dropout: must be less than 1 (got 2).",
    "optimizer.betas=[0.9]": "optimizer.betas.1: is missing. Give it a value.",
    "scheduler.warmup=ten": "scheduler.warmup: must be a number (got 'ten').",
    "+model.hiden_dropout=0.1": "model.hiden_dropout: unknown key. Did you mean model.hidden_dropout?",
    "model.hidden_dropout=abc": "model.hidden_dropout: must be a number (got 'abc').",
    "task.loss=em": "task.loss: must be 'marginal_likelihood', 'hard_em' or 'binary' (got 'em').",
}
"""The same, of what only the signature of a class tells."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("words", [*HYDRA_SEES, *SYNTAX], ids=" ".join)
def test_what_is_mistyped_and_what_other_programs_take(words, capsys):
    assert_error(words, (HYDRA_SEES | SYNTAX)[words], capsys)


def test_the_newest_run_below_a_folder_is_offered(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / "outputs" / name).mkdir(parents=True)
        (tmp_path / "outputs" / name / "config.yaml").touch()
    assert_error(["evaluate", "outputs/"], "outputs/: settings are written key=value. Type run=outputs/b.", capsys)


def test_a_part_of_a_name_is_enough_to_be_offered(capsys):
    assert app.main(["train", "sweep=table5"]) == 2
    assert "Did you mean hybridqa_table5?" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_the_version_is_ours(command, capsys):
    assert app.main([command, "--version"]) == 0
    assert capsys.readouterr().out == f"mate {__version__}\n"


def test_a_patience_below_zero_is_refused(capsys):
    assert app.main(["train", "callbacks=early_stopping", "callbacks.early_stopping.patience=-1"]) == 2
    assert "callbacks.early_stopping.patience: must be 0 or more." in capsys.readouterr().err


def test_what_patience_means_to_a_callback_of_ones_own_is_its_business(tmp_path, monkeypatch):
    code = "from pytorch_lightning import Callback\nclass Calm(Callback):\n    def __init__(self, patience): pass\n"
    (tmp_path / "calm_callback.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    for patience in ("null", "long"):
        callback = f"+callbacks.calm={{_target_:calm_callback.Calm,patience:{patience}}}"
        assert app.main(["train", "experiment=quickstart_cells", "debug=fast", callback, "--dry"]) == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("override", [*VALIDATION_SEES, *CLASSES_SEE])
def test_refused_by_validation_or_a_signature(override, capsys):
    assert_error(["train", override], (VALIDATION_SEES | CLASSES_SEE)[override], capsys)


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
    assert (code, err) == (2, f"error: {message}\n")
    assert out.count("\n") <= (words[0] == "train"), "nothing but the name of the run"


def test_a_class_that_is_gone_is_named(monkeypatch, capsys):
    monkeypatch.setattr(evaluate, "run", lambda cfg: instantiate({"_target_": "gone.Reader"}))
    remedy = "It was made by another version of mate, or by code outside the Python path."
    assert_error(["evaluate", "run=x"], f"gone.Reader: no such class here. {remedy}", capsys)


def test_a_file_behind_another_setting_is_no_part_of_its_text(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sales.csv").write_text("a,b\n1,2\n")
    expected = "sales.csv: settings are written key=value. Type table=sales.csv."
    assert_error(["predict", "run=first", "sales.csv", "question=which b?"], expected, capsys)


def test_a_table_of_no_name_is_not_the_folder_in_which_one_stands(capsys):
    expected = 'table: needs a value. Write table=FILE question="...", database=FILE question="...", or input=FILE.'
    assert_error(["predict", "run=first", "table=", "question=which b?"], expected, capsys)
