"""Commands on run folders that strangers have sent: nothing outside is written, and what is wrong is said in time."""

import json
import os
import shutil

import pytest
from finished_runs import SMALL, finished_run
from hostile_runs import content_of, make_hostile, precious_folder
from test_hostile_commands import typed

WORDS = ["task=table_qa", "encoding=table"]
TRAIN = [*SMALL, *WORDS, "logger=none", "trainer.max_steps=1", "trainer.limit_train=8", "trainer.limit_dev=4"]
COMMANDS = {
    "evaluate": ["evaluate", "run={run}", "data.limit=4", "hardware.threads=1"],
    "predict": ["predict", "run={run}", "table={here}/t.csv", "question=which region?", "hardware.threads=1"],
    "export": ["export", "run={run}", "to={here}/made"],
    "resume": ["train", *TRAIN, "resume={run}"],
    "train beside": ["train", *TRAIN, "paths.outputs={here}"],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = finished_run(tmp_path_factory.mktemp("runs") / "run", WORDS)
    rows = [{"question_id": str(place), "pred": "x", "scores": {"em": place % 2}} for place in range(9)]
    (folder / "predictions").mkdir()
    (folder / "predictions" / "dev.json").write_text(json.dumps(rows))
    (folder / "metrics.jsonl").write_text('{"step": 1, "train/loss": 1.0}\n')
    shutil.rmtree(folder / "cache", ignore_errors=True)
    return folder


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.long) for first in range(20, 200, 20))])
def test_runs_that_are_odd_take_nothing_from_the_others(tmp_path, run, first):
    outside = precious_folder(tmp_path / "outside")
    before = content_of(outside)
    made = {}
    for seed in range(first, first + 20):
        copy = shutil.copytree(run, tmp_path / "runs" / f"run{seed}")
        made[copy] = make_hostile(copy, outside, seed)
    shutil.copytree(run, tmp_path / "runs" / "good")
    code, said = typed(
        tmp_path, "compare", str(tmp_path / "runs"), f"csv={tmp_path}/t.csv", leaves=["t.csv", "runs/compare.html"]
    )
    assert code == 0, said
    listed = (tmp_path / "t.csv").read_text()
    assert f"{tmp_path}/runs/good," in listed
    for copy, what in made.items():
        shown = f"{copy}," in listed or f"{copy}/record.json: left out" in said
        assert shown or what == "record.json: _folder", what
    assert content_of(outside) == before


@pytest.mark.long
@pytest.mark.parametrize("seed", range(int(os.environ.get("MATE_HOSTILE", "24"))))
@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_outside_is_written(tmp_path, run, name, seed):
    outside, copy = precious_folder(tmp_path / "outside"), tmp_path / "train" / "sample_mate" / "run"
    shutil.copytree(run, copy)
    if name in ("resume", "train beside"):
        record = json.loads((copy / "record.json").read_text()) | {"status": "interrupted"}
        (copy / "record.json").write_text(json.dumps(record))
    before, what = content_of(outside), make_hostile(copy, outside, seed)
    (tmp_path / "t.csv").write_text("region,sold\nnorth,1\n")
    words = [word.format(run=copy, here=tmp_path) for word in COMMANDS[name]]
    code, said = typed(tmp_path, *words, leaves=None)
    assert content_of(outside) == before, (what, said)
    if code:
        assert said.count("error: ") == 1, (what, said)
