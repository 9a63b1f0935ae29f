"""Words that people bring from Hydra, Lightning and their templates: they work, or one line says what to type."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from mate_cli.cli.app import main
from mate_cli.cli.config.resolve import resolve
from mate_cli.runs.identity import find_value

CELLS = ["train", "--cfg", "job", "experiment=quickstart_cells"]
DRY = ["train", "--dry", "-m", "experiment=quickstart_cells", "debug=fast", "logger=none"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """An empty folder, in which nothing may be written."""
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("group", ["callbacks", "logger"])
@pytest.mark.parametrize("typed", ["~{}", "~{}=none", "{}=[]", "{}=none"])
def test_a_group_that_is_taken_away_is_none(group, typed, capsys):
    assert main([*CELLS, typed.format(group)]) == 0
    assert f"\n{group}: {{}}\n" in capsys.readouterr().out


def test_a_group_is_taken_away_from_stages_and_in_explanations(capsys):
    assert main(["train", "--cfg", "job", "experiment=quickstart", "~callbacks"]) == 0
    for words in (["explain", "logger", "~logger"], ["train", "--help", "callbacks", "~callbacks"]):
        assert main(words) == 0
    capsys.readouterr()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["logger=null"], "Write logger=none."),
        (["callbacks=null"], "Write callbacks=none."),
        (["logger=false"], "Write logger=none."),
        (["logger="], "Write logger=none."),
        (["debug=null"], "error: debug=null: "),
        (["model=null"], "Type model=NAME;"),
        (["model=[]"], "Type model=NAME; mate list model shows all"),
        (["~init"], "Type init=NAME; mate list init shows all"),
        (["model=[mate,tapas]"], "Add -m to run each: model=mate,tapas."),
        (["~model._target_"], "model: has no _target_. Choose a file of conf/model: model=NAME."),
        (
            ["logger.wandb.tags+=[x]"],
            "logger.wandb.tags+=[x]: lists are replaced as a whole. Type 'logger.wandb.tags=[x]'.",
        ),
        (["logger.wandb.tags+=x"], "logger.wandb.tags+=x: a value is replaced as a whole. Type logger.wandb.tags=x."),
        (['logger.wandb.tags+="[x]"'], "Type 'logger.wandb.tags=[x]'."),
        (
            ["trainer.max_epochs+=1"],
            "trainer.max_epochs+=1: a value is replaced as a whole. Type trainer.max_epochs=1.",
        ),
        (["name=r${seed"], "name=r${seed: } is missing at the end. Type 'name=r${seed}'."),
        (["paths.outputs="], "paths.outputs: must be text (got '')."),
        (["experiment=quickstart", "~stages"], "error: ~stages: "),
        (["tags+=[x]"], "tags+=[x]: lists are replaced as a whole. Type 'tags=[x]'."),
        (["model=glob(ma*)"], "model=glob(ma*): has several values. Add -m to run each."),
        (
            ["name=r${hydra:job.num}"],
            "name: ${hydra:...} is not known here. Use keys of the configuration, as in ${seed}",
        ),
        (["seed=4294967296"], "seed: must be less than 4294967296"),
        (["optimizer.lr=inf"], "optimizer.lr: must be a finite number (got inf)."),
        (["++experiment=wtq_mate"], "Type experiment=wtq_mate."),
        (["~trainer.nokey"], "~trainer.nokey: no such key to delete."),
        (["~optimizer.lr=3"], "~optimizer.lr=3: its value is 0.001."),
        (["~logger=csv"], "~logger=csv: no such key to delete."),
        (["logger.wandb.tags=[a,b]", "~logger.wandb.tags.0"], "tags.0: lists are replaced as a whole. Type 'logger."),
        (["logger.wandb.tags=[a,b]", "logger.wandb.tags.2=c"], "tags.2: lists are replaced as a whole."),
        (["logger.wandb.tags[0]=x"], "Type logger.wandb.tags.0=x."),
        (["seed:=3"], "Type seed=3."),
        (["trainer..max_steps=1"], "Type trainer.max_steps=1."),
        (["seed==3"], "Type seed=3."),
        (["experiment=", "quickstart_cells"], "experiment: no spaces around =. Type experiment=quickstart_cells."),
        (["model=", "tapas"], "model: no spaces around =. Type model=tapas."),
        (["experiment={wtq_mate}"], "experiment={wtq_mate}: needs no braces. Type experiment=wtq_mate."),
        (["model.hidden_size=3"], "model.hidden_size: unknown key. Search for it: mate train --help model."),
        (["seed=1,,2,"], "seed=1,,2,: has a comma too many. Type seed=1,2."),
        (["seed=rnge(3)"], "The functions of a sweep are choice(1,2), range(1,5),"),
        (["experiment=[quickstart_cells,wtq_mate]"], "Add -m to run each: experiment=quickstart_cells,wtq_mate."),
        (["seed=null"], "seed: must be an integer (got None)."),
        (["name=1e5"], "For text, use quotes inside quotes: 'name=\"...\"'."),
        (["hydra/launcher=joblib"], "hydra/launcher=joblib: applies to sweeps only. Add -m."),
        (["trainer.max_steps=${oc.env:NO_SUCH}"], "environment variable 'NO_SUCH' not found. Write a key as ${seed},"),
        (
            ["trainer.max_steps=${oc.decode:${oc.env:STEPS}}"],
            "quotes inside quotes: 'trainer.max_steps='\"'\"'${oc.decode:${oc.env:STEPS}}'\"'\"''.",
        ),
    ],
)
def test_one_line_says_what_to_type(words, said, capsys):
    assert said in refusal(capsys, *CELLS, *words)


def test_numbers_in_a_list_of_texts_are_typed_as_a_list(capsys):
    error = refusal(capsys, "train", "experiment=quickstart_cells", "debug=fast", "logger.wandb.tags=[2024]")
    assert """'logger.wandb.tags=["...", ...]'""" in error


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("hydra/launcher=slurm", "Options: basic, joblib, ray, submitit_local, submitit_slurm."),
        ("hydra/launcher=ray", "is not installed. Type pip install hydra-ray-launcher."),
        ("hydra/sweeper=ax", "Options: basic, optuna."),
    ],
)
def test_unknown_plugins_lead_to_those_that_exist(word, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    error = refusal(capsys, "train", "-m", "experiment=quickstart_cells", word)
    assert said in error
    assert "conf/hydra" not in error, "a user has no such file"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("trainer.devices=2", "hardware.devices=2"),
        ("+trainer.devices=2", "hardware.devices"),
        ("trainer.accelerator=gpu", "hardware.accelerator=gpu"),
        ("trainer.precision=16", "hardware.precision=..."),
        ("trainer.strategy=ddp", "hardware=ddp"),
        ("trainer.fast_dev_run=true", "debug=fast"),
        ("trainer.profiler=simple", "+trainer.options.profiler=simple"),
        ("trainer.val_check_interval=10", "trainer.val_every=..."),
        ("ckpt_path=last.ckpt", "resume=last.ckpt"),
        ("tags=[a]", "logger.wandb.tags=[a]"),
        ("task_name=a", "name=a"),
        ("data.batch_size=4", "trainer.batch_size=4"),
        ("model.optimizer.lr=1", "optimizer.lr=1"),
        ("epochs=3", "trainer.max_epochs=3"),
        ("learning_rate=1", "optimizer.lr=1"),
        ("data_dir=x", "data.root=x"),
        ("output_dir=x", "paths.outputs=x"),
        ("max_length=256", "encoding.max_tokens=256"),
        ("train=false", "mate evaluate run=..."),
    ],
)
def test_keys_of_other_programs_lead_to_ours(typed, ours, capsys):
    assert f"unknown key. Did you mean {ours}?" in refusal(capsys, *CELLS, typed)


def test_other_keywords_of_the_trainer_lead_to_its_options(capsys):
    assert "+trainer.options.NAME=..." in refusal(capsys, *CELLS, "trainer.sync_batchnorm=true")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "words",
    [
        ["explain", "callbacks"],
        ["explain", "trainer.options"],
        ["explain", "logger", "logger=none"],
        ["explain", "callbacks", "experiment=quickstart"],
        ["train", "--help", "callbacks"],
        ["train", "--help", "trainer.options"],
        ["compare", "--help", "logger", "logger=none"],
    ],
)
def test_what_is_empty_is_explained(words, capsys):
    assert main(words) == 0
    key = next(word for word in words[1:] if "=" not in word and not word.startswith("-"))
    assert key in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explain", "locale"], "locale: is a key of mate predict. Type mate predict --help locale."),
        (["explain", "header"], "header: is a key of mate predict. Type mate predict --help header."),
        (["explain", ""], "mate explain: needs one key."),
        (["explain", "callbacks", "callbacks=null"], "Write callbacks=none."),
        (["explain", "ckpt_path"], "Did you mean resume?"),
        (["data", "chek"], "chek: mate data has no such action. Did you mean mate data check?"),
        (["data", "downlod", "data=wtq"], "Did you mean mate data download?"),
        (["data", "check", "~data"], "error: ~data: "),
        (["evaluate", "ckpt_path=x"], "ckpt_path: unknown key. Search for it: mate evaluate --help ckpt_path."),
    ],
)
def test_other_commands_lead_on(words, said, capsys):
    assert said in refusal(capsys, *words)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("++optimizer.lr=0.5", "optimizer.lr=0.5"),
        ("++optimizer.foreach=true", "optimizer.foreach=True"),
        ("+optimizer.foreach=true", "optimizer.foreach=True"),
        ("~optimizer.eps", "optimizer.eps=None"),
        ("model.freeze=null", "model.freeze=None"),
        ("trainer.max_steps=9", "trainer.max_steps=9"),
        ("trainer.max_steps=null", "trainer.max_steps=None"),
        ("init.tokenizer=${oc.env:WORDS}", "init.tokenizer=minilm"),
        ("trainer.max_steps='${oc.decode:${oc.env:STEPS}}'", "trainer.max_steps=5"),
        ("hydra.sweep.dir=elsewhere", "seed=1"),
    ],
)
@pytest.mark.parametrize("experiment", ["quickstart_cells", "quickstart"])
def test_a_word_of_hydra_sets_what_it_says(word, shown, experiment, monkeypatch):
    monkeypatch.setenv("WORDS", "minilm")
    monkeypatch.setenv("STEPS", "5")
    key, _, value = shown.partition("=")
    config = resolve([f"experiment={experiment}", word]).stages[0].model_dump()
    assert str(find_value(config, key)) == value


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("word", "jobs"),
    [
        ("seed=choice(4,2)", ["seed=4", "seed=2"]),
        ("seed=range(2,4)", ["seed=2", "seed=3"]),
        ("seed=5,6,5", ["seed=5", "seed=6"]),
        ("experiment=quickstart_cells,quickstart_dot", ["", "experiment=quickstart_dot"]),
    ],
)
def test_a_sweep_over_several_values(word, jobs, capsys):
    assert main([*DRY, word, "hydra.sweep.dir=elsewhere", "hydra/launcher=basic"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("2 jobs\n")
    assert re.findall(r"^ +\d  (\S*) ", out, re.MULTILINE) == jobs


@pytest.mark.long
def test_a_sweep_over_files_of_a_group(capsys):
    assert main([*DRY, "model=glob([ma*,ta*])"]) == 0
    assert "0  model=mate" in (out := capsys.readouterr().out)
    assert "1  model=tapas" in out


@pytest.mark.parametrize("typed", ["model=glob(zz*)", "seed=glob(*)", "seed=range(3,1)", "seed=range(0,1,0)"])
def test_a_sweep_over_nothing_is_refused(typed, capsys):
    assert f"{typed}: has no values." in refusal(capsys, *DRY, typed)


def test_a_sweep_of_more_jobs_than_anybody_means_is_refused(capsys):
    assert "seed: more than 10,000 jobs." in refusal(capsys, *DRY, "seed=range(0,1000000000)")
    assert "seed trainer.max_epochs: more" in refusal(capsys, *DRY, "seed=range(1000)", "trainer.max_epochs=range(99)")


def test_a_misspelt_folder_of_weights_leads_to_the_one_beside_it(tmp_path_factory, monkeypatch, capsys):
    monkeypatch.chdir(folder := tmp_path_factory.mktemp("models"))
    (folder / "exported").mkdir()
    (folder / "exported" / "config.json").write_text("{}")
    for words in (["evaluate", "checkpoint=exportet", "data=sample"], ["inspect", "checkpoint=exportet"]):
        assert "Did you mean exported?" in refusal(capsys, *words)


def test_a_working_folder_that_was_deleted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gone")
    root = Path(__file__).parents[2]
    script = (
        f"import os, sys; os.chdir({str(folder)!r}); os.rmdir({str(folder)!r}); sys.path.insert(0, {str(root)!r})\n"
        "from mate_cli.cli.app import main\n"
        "codes = [main(words.split()) for words in sys.argv[1:]]\n"
        "print(codes)"
    )
    words = ["list", "train --cfg job experiment=quickstart_cells", "predict --help", "--version", "completion bash"]
    ended = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert ended.stdout.endswith("[2, 2, 0, 0, 0]\n"), ended
    assert ended.stderr == 2 * "error: the working folder no longer exists. Change to another one: cd.\n"


def refusal(capsys, *words: str) -> str:
    """Return the one line with which a command is refused."""
    assert main([*words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_one_variable_says_to_every_command_where_data_lie(monkeypatch, capsys):
    monkeypatch.setenv("MATE_DATA", "/somewhere")
    assert main(["train", "--cfg", "job", "experiment=wtq_mate", "--package", "data.root"]) == 0
    assert capsys.readouterr().out == "/somewhere/wtq\n"
    assert "/somewhere/wtq" in refusal(capsys, "data", "check", "data=wtq")
    assert main(["benchmark", "--cfg", "job", "benchmark=encoder", "--resolve"]) == 0
    assert "folders:\n  - /somewhere\n" in capsys.readouterr().out


def test_a_network_that_takes_longer_inputs_says_so(capsys):
    words = ["train", "--cfg", "job", "--package", "encoding.max_tokens", "experiment=tabfact_mate", "scale=small"]
    assert main(words) == 0
    usual = capsys.readouterr()
    assert (usual.out, usual.err) == ("256\n", "")
    with pytest.warns(UserWarning, match="^model=linformer takes encoding.max_tokens=512 at scale=small, not 256$"):
        assert main([*words, "model=linformer"]) == 0
    assert capsys.readouterr().out == "512\n"
    with warnings.catch_warnings(action="error"):
        assert main([*words, "model=linformer", "encoding.max_tokens=256"]) == 0
    assert capsys.readouterr().out == "256\n"


def test_a_cache_of_no_name_is_the_usual_one(monkeypatch, capsys):
    for name in ("MATE_CACHE", "MATE_DATA"):
        monkeypatch.setenv(name, "")
    assert main(CELLS) == 0
    assert {"  data: data", "  cache: ~/.cache/mate"} <= {*capsys.readouterr().out.splitlines()}
