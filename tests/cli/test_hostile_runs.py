"""Commands on run folders that strangers have sent: nothing outside is written, and what is wrong is said in time."""

import json
import shutil

import pytest
from finished_runs import finished_run
from hostile_runs import content_of, make_hostile, precious_folder
from test_hostile_commands import typed

WORDS = ["task=table_qa", "encoding=table"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = finished_run(tmp_path_factory.mktemp("runs") / "run", WORDS)
    rows = [{"question_id": str(place), "pred": "x", "scores": {"em": place % 2}} for place in range(9)]
    (folder / "predictions").mkdir()
    (folder / "predictions" / "dev.json").write_text(json.dumps(rows))
    (folder / "metrics.jsonl").write_text('{"step": 1, "train/loss": 1.0}\n')
    shutil.rmtree(folder / "cache", ignore_errors=True)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 200, 10))
def test_runs_that_are_odd_take_nothing_from_the_others(tmp_path, run, first):
    outside = precious_folder(tmp_path / "outside")
    before = content_of(outside)
    made = {}
    for seed in range(first, first + 10):
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
