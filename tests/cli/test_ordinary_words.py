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


OURS = {
    "trainer.devices=2": "hardware.devices=2",
    "+trainer.devices=2": "hardware.devices",
    "trainer.precision=16": "hardware.precision=...",
    "trainer.fast_dev_run=true": "debug=fast",
    "trainer.profiler=simple": "+trainer.options.profiler=simple",
    "ckpt_path=last.ckpt": "resume=last.ckpt",
    "data.batch_size=4": "trainer.batch_size=4",
    "model.optimizer.lr=1": "optimizer.lr=1",
    "train=false": "mate evaluate run=...",
    "learning_rate=1": "optimizer.lr=1",
}


@pytest.mark.parametrize("typed", OURS)
def test_keys_of_other_programs_lead_to_ours(typed, capsys):
    assert f"unknown key. Did you mean {OURS[typed]}?" in refusal(capsys, *CELLS, typed)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "words",
    [
        ["explain", "callbacks"],
        ["explain", "trainer.options"],
        ["explain", "logger", "logger=none"],
        ["train", "--help", "callbacks"],
        ["compare", "--help", "logger", "logger=none"],
    ],
)
def test_what_is_empty_is_explained(words, capsys):
    assert main(words) == 0
    key = next(word for word in words[1:] if "=" not in word and not word.startswith("-"))
    assert key in capsys.readouterr().out


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("++optimizer.lr=0.5", "optimizer.lr=0.5"),
        ("+optimizer.foreach=true", "optimizer.foreach=True"),
        ("~optimizer.eps", "optimizer.eps=None"),
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
