"""A run is used, and goes on, from any folder and after its project was moved; data that are gone cost it nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mate_cli.cli.app import main

WORDS = [
    *("data=files", "data.train=facts/train.jsonl", "data.dev=facts/dev.jsonl", "model.size=tiny", "init=random"),
    *("init.tokenizer=sample", "encoding.max_tokens=96", "trainer.batch_size=4", "trainer.max_epochs=null"),
    *("logger=none", "hardware.threads=1", "hardware.workers=0", "paths.cache=cache"),
]
CITIES = ["Bonn", "Kyoto", "Lima", "Oslo", "Quito", "Turin", "Pune", "Cork"]


def rows(count: int) -> str:
    table = {"header": ["City", "Rank"], "rows": [[city, str(place)] for place, city in enumerate(CITIES)]}
    asked = [{"question": f"which city has rank {place}?", "table": table} for place in range(count)]
    return "".join(f"{json.dumps({**row, 'answer': CITIES[place]})}\n" for place, row in enumerate(asked))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with data of one's own, a finished run, and one that was interrupted."""
    folder = tmp_path_factory.mktemp("moved") / "project"
    (folder / "facts").mkdir(parents=True)
    unusable = rows(1).replace('"answer": "Bonn"', '"answer": "nowhere"')
    (folder / "facts" / "train.jsonl").write_text(rows(8) + unusable)
    (folder / "facts" / "dev.jsonl").write_text(rows(4))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", *WORDS, "name=done", "trainer.max_steps=2"]) == 0
    runs = folder / "outputs/train/files_mate"
    interrupt(Path(shutil.copytree(runs / "done", runs / "begun")))
    return folder


def interrupt(run: Path) -> None:
    record = json.loads((run / "record.json").read_text())
    (run / "record.json").write_text(json.dumps(record | {"status": "interrupted", "reason": "stopped"}))


@pytest.fixture(params=["absolute", "elsewhere", "moved"])
def runs(request, project, tmp_path, monkeypatch):
    """The folder of its runs, seen from another working folder; the project where it was, or in another place."""
    place = project if request.param == "elsewhere" else Path(shutil.copytree(project, tmp_path / "mounted" / "there"))
    if request.param == "absolute":
        for file in place.glob("outputs/train/*/*/config.yaml"):
            text = file.read_text()
            file.write_text(text.replace(" facts/", f" {project}/facts/").replace("root: .", f"root: {project}"))
    if request.param != "elsewhere":
        project.rename(project.with_name("gone"))
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")
    yield place / "outputs/train/files_mate"
    interrupt(place / "outputs/train/files_mate/begun")
    if request.param != "elsewhere":
        project.with_name("gone").rename(project)


@pytest.mark.long
def test_it_is_used_from_any_folder(runs, capsys, recwarn):
    run = runs / "done"
    assert main(["evaluate", f"run={run}", "split=dev"]) == main(["evaluate", f"run={run}", "split=train"]) == 0
    assert main(["inspect", f"run={run}", "split=dev"]) == 0
    assert main(["export", f"run={run}", "to=exported"]) == 0
    Path("cities.csv").write_text("City,Rank\nBonn,1\nLima,2\n")
    assert main(["predict", f"run={run}", "table=cities.csv", "question=which city has rank 2?"]) == 0
    assert main(["run", str(runs / "begun")]) == 0
    assert json.loads((runs / "begun" / "record.json").read_text())["status"] == "finished"
    assert not [str(warning.message) for warning in recwarn if "this run started" in str(warning.message)]


@pytest.fixture
def lost(project, tmp_path, monkeypatch):
    """The runs of a project whose data have gone to another place."""
    place = Path(shutil.copytree(project, tmp_path / "there"))
    (tmp_path / "other").mkdir()
    (place / "facts").rename(tmp_path / "other" / "facts")
    project.rename(project.with_name("gone"))
    monkeypatch.chdir(tmp_path)
    yield place / "outputs/train/files_mate"
    project.with_name("gone").rename(project)


@pytest.mark.long
def test_data_that_are_gone_are_named_with_the_folder_they_were_looked_for_in_and_the_key(lost, capsys):
    before = (lost / "begun" / "record.json").read_bytes(), (lost / "begun" / "config.yaml").read_bytes()
    for words in (["evaluate", f"run={lost / 'done'}", "split=dev"], ["run", str(lost / "begun")]):
        assert main(words) == 2
        told = capsys.readouterr().err
        assert "Relative paths start at" in told
        assert str(lost.parents[2]) in told
        assert "data.root=FOLDER" in told
    assert before == ((lost / "begun" / "record.json").read_bytes(), (lost / "begun" / "config.yaml").read_bytes())
    here = lost.parents[3] / "other"
    assert main(["evaluate", f"run={lost / 'done'}", "split=dev", f"data.root={here}"]) == 0
    assert main(["run", str(lost / "begun"), f"data.root={here}"]) == 0


def test_other_data_in_the_place_of_a_run_s_are_said(project, tmp_path, monkeypatch, recwarn):
    place = Path(shutil.copytree(project, tmp_path / "there"))
    (place / "facts" / "dev.jsonl").write_text(rows(3))
    monkeypatch.chdir(tmp_path)
    for run in ("done", "begun"):
        words = ["evaluate", "split=dev", "run="] if run == "done" else ["run", ""]
        assert main([*words[:-1], f"{words[-1]}{place}/outputs/train/files_mate/{run}"]) == 0
        told = [str(warning.message) for warning in recwarn if "this run started" in str(warning.message)]
        assert told == ["the questions or tables of dev differ from those with which this run started"]
        recwarn.clear()
