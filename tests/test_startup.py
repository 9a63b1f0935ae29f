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
LIGHTNING = {"pytorch_lightning", "lightning_fabric", "torchmetrics"}
PROGRAM = """
import contextlib, io, json, sys
from mate_cli.cli import app
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = app.main(words)
    print(json.dumps([code, len(out.getvalue()), sorted(sys.modules)]))
"""
KEYS = [["--version"], ["completion", "bash"], ["completion", "query", "mate train model="], ["list", "experiments"]]
"""What a press of a key asks: Hydra takes too long for it."""
QUESTIONS = [
    [],
    ["train", "--cfg", "job", "experiment=quickstart", "task.keep=5"],
    ["data", "check", "data=sample"],
    *([name, "--help"] for name in app.COMMANDS if name != "completion"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return finished_run(tmp_path_factory.mktemp("runs") / "run", ["task=cell_selection"])


def ask(*commands):
    """Return code, length of the output and modules loaded so far, after each command in one fresh interpreter."""
    program = [sys.executable, "-c", PROGRAM, json.dumps(commands)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [(code, length, modules, {name.partition(".")[0] for name in modules}) for code, length, modules in found]


def test_questions_and_mistakes_load_nothing_heavy(run, tmp_path):
    wrong = [["train", "trainer.max_steps=-1"], ["train", "+model.new=1"], ["evaluate", "run=/nope"]]
    wrong += [["predict", f"run={run}", *asked] for asked in (["table=no.csv", "question=a"], ["input=no.jsonl"])]
    missing = ["train", "experiment=hybridqa_mate", f"data.root={tmp_path}/nowhere", "data.download=false"]
    *found, last = ask(*KEYS, *QUESTIONS, *wrong, missing)
    right = len(KEYS + QUESTIONS)
    assert [code for code, *_ in found] == [0] * right + [2] * len(wrong)
    assert all(length > 5 for _, length, *_ in found[:right])
    assert [packages & HEAVY for *_, packages in found] == [set()] * len(found)
    assert {"hydra", "omegaconf"}.isdisjoint(found[len(KEYS) - 1][-1])
    assert (last[0], "pytorch_lightning" in last[-1]) == (2, False)


@pytest.mark.long
def test_a_finished_run_is_asked_and_compared_without_lightning_sql_and_compilers(run, tmp_path):
    (tmp_path / "sales.csv").write_text("region,sold\nnorth,3\nsouth,12\n")
    compare = ["compare", str(run), f"html={tmp_path / 'page.html'}"]
    predict = ["predict", f"run={run}", f"table={tmp_path / 'sales.csv'}", "question=which region sold most?"]
    (compared, answered) = ask(compare, predict)
    assert [(code, length > 5) for code, length, *_ in (compared, answered)] == [(0, True)] * 2
    assert ("torch" in compared[-1], "torch" in answered[-1]) == (False, True)
    assert (LIGHTNING | HEAVY - {"torch", "matplotlib"}).isdisjoint(answered[-1])
    modules = answered[2]
    assert {"mate_cli.reports.compare.report", "mate_cli.pipelines.inference.tables"} <= {*modules}
    assert [name for name in modules if re.search(r"^mate_cli\..*(sql|tree_decoder)", name)] == []
    assert "torch._dynamo" not in modules


@pytest.mark.long
@pytest.mark.parametrize("words", [["evaluate", "split=dev"], ["export", "to={here}/exported"]], ids=" ".join)
def test_a_finished_run_is_used_without_lightning(run, tmp_path, words):
    ((code, _, _, packages),) = ask([words[0], f"run={run}", words[1].format(here=tmp_path)])
    assert (code, LIGHTNING & packages) == (0, set())


@pytest.mark.long
@pytest.mark.parametrize("experiment", ["quickstart_cells", "quickstart"])
def test_a_run_starts_cold(experiment, tmp_path):
    """As typed after an installation; other tests fork commands from an interpreter that has loaded everything."""
    script = Path(sys.executable).with_name("mate")
    program = [str(script)] if script.exists() else [sys.executable, "-m", "mate_cli"]
    words = ["train", f"experiment={experiment}", "debug=fast", "logger=none", f"paths.outputs={tmp_path}"]
    done = subprocess.run([*program, *words], capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(line.endswith((" left", " so far")) for line in done.stderr.splitlines()), done.stderr
    (record,) = tmp_path.glob(f"train/{experiment}/*/record.json")
    assert json.loads(record.read_text())["status"] == "finished"
