"""Asking a question of the command line must not cost the seconds that torch takes to load."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from finished_runs import finished_run

from mate_cli.cli import app

HEAVY = {"torch", "pytorch_lightning", "transformers", "datasets", "wandb", "sklearn", "matplotlib"}
PRESSED = ("completion", "list")
"""A key is pressed more often than a command is typed."""
LIGHTNING = {"pytorch_lightning", "lightning_fabric", "torchmetrics"}
FOR_OWN_TABLES = LIGHTNING | (HEAVY - {"torch"})
"""What a run that answers about one's own tables does not wait for."""
MOST_FILES = 175
"""Of this package, beside those of its folders, that the quick start loads, one stage of it or both."""
PROGRAM = """
import contextlib, io, json, sys
from mate_cli.cli import app
with contextlib.redirect_stdout(io.StringIO()) as out:
    code = app.main({words!r})
print(json.dumps([code, len(out.getvalue()), sorted({{name.partition(".")[0] for name in sys.modules}})]))
"""
WITH_CONFIG = [name for name in app.COMMANDS if name != "completion"]
QUESTIONS = [
    [],
    ["--version"],
    ["completion", "bash"],
    ["completion", "query", "mate train model="],
    ["train", "--cfg", "job", "experiment=quickstart", "task.keep=5"],
    ["list", "experiments"],
    ["data", "check", "data=sample"],
    *([name, "--help"] for name in WITH_CONFIG),
]


@pytest.mark.parametrize("words", QUESTIONS, ids=" ".join)
def test_questions_load_nothing_heavy(words):
    code, length, modules = fresh_interpreter(words)
    assert code == 0
    assert length > 5
    assert HEAVY.isdisjoint(modules)
    assert not words or words[0] not in PRESSED or {"hydra", "omegaconf"}.isdisjoint(modules)


@pytest.mark.parametrize("words", [["train", "trainer.max_steps=-1"], ["evaluate", "run=/nope"]], ids=" ".join)
def test_what_is_wrong_is_refused_before_anything_heavy(words):
    code, _, modules = fresh_interpreter(words)
    assert code == 2
    assert HEAVY.isdisjoint(modules)


def test_missing_data_are_named_before_anything_heavy(tmp_path):
    words = ["experiment=hybridqa_mate", f"data.root={tmp_path}/nowhere", "data.download=false"]
    code, _, modules = fresh_interpreter(["train", *words])
    assert code == 2
    assert "pytorch_lightning" not in modules


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return finished_run(tmp_path_factory.mktemp("runs") / "run", ["task=cell_selection"])


@pytest.mark.parametrize(
    ("command", "words", "needless"),
    [
        ("predict", ["table={here}/sales.csv", "question=which region sold most?"], FOR_OWN_TABLES),
        pytest.param("evaluate", ["split=dev"], LIGHTNING, marks=pytest.mark.long),
        pytest.param("export", ["to={here}/exported"], LIGHTNING, marks=pytest.mark.long),
    ],
)
def test_a_finished_run_works_without_lightning(run, tmp_path, command, words, needless):
    (tmp_path / "sales.csv").write_text("region,sold\nnorth,3\nsouth,12\n")
    code, length, modules = fresh_interpreter([command, f"run={run}", *(word.format(here=tmp_path) for word in words)])
    assert (code, length > 5) == (0, True)
    assert "torch" in modules
    assert needless.isdisjoint(modules)


@pytest.mark.parametrize(
    ("words", "loaded"),
    [
        (["predict", "run={run}", "table={here}/sales.csv", "question=which region sold most?"], "inference.tables"),
        (["compare", "{run}", "html={here}/page.html"], "reports.compare.report"),
    ],
)
def test_an_answer_from_a_table_and_a_comparison_load_no_sql_and_no_compiler(run, tmp_path, words, loaded):
    (tmp_path / "sales.csv").write_text("region,sold\nnorth,3\nsouth,12\n")
    words = [word.format(run=run, here=tmp_path) for word in words]
    program = f"import sys; from mate_cli.cli.app import main; assert main({words!r}) == 0; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = done.stdout.splitlines()[-1].split()
    assert any(name.startswith("mate_cli.") and name.endswith(f".{loaded}") for name in modules)
    assert [name for name in modules if re.search(r"^mate_cli\..*(sql|tree_decoder)", name)] == []
    assert "torch._dynamo" not in modules


@pytest.mark.parametrize("words", [["table=nowhere.csv", "question=a"], ["input=nowhere.jsonl"]], ids=" ".join)
def test_what_is_asked_is_read_before_the_network(run, words):
    code, _, modules = fresh_interpreter(["predict", f"run={run}", *words])
    assert code == 2
    assert HEAVY.isdisjoint(modules)


@pytest.mark.long
@pytest.mark.parametrize("experiment", ["quickstart_cells", "quickstart"])
def test_a_run_starts_cold_and_loads_what_it_needs(experiment, tmp_path):
    """As typed after an installation; other tests fork commands from an interpreter that has loaded everything."""
    script = Path(sys.executable).with_name("mate")
    program = [str(script)] if script.exists() else [sys.executable, "-m", "mate_cli"]
    words = ["train", f"experiment={experiment}", "debug=fast", "logger=none", f"paths.outputs={tmp_path}"]
    noted = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run([*program, *words], capture_output=True, text=True, check=False, env=noted)
    loaded = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert done.returncode == 0, done.stdout + done.stderr
    others = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    assert all(line.endswith((" left", " so far")) for line in others), others  # a busy machine shows progress
    (record,) = tmp_path.glob(f"train/{experiment}/*/record.json")
    assert json.loads(record.read_text())["status"] == "finished"
    names = [name.removeprefix("mate_cli.") for name in loaded if name.startswith("mate_cli")]
    ours = {name for name in names if name.rpartition(".")[2].islower()}  # classes are looked up as modules first
    files = {name for name in ours if not any(other.startswith(f"{name}.") for other in ours)}
    assert len(files) <= MOST_FILES, sorted(files)
    needless = ("benchmark", "reports", "tokenization.hybrider", "models.dot", "models.checkpoints.files")
    assert ours.isdisjoint(needless)


def fresh_interpreter(words):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(words=words)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)
