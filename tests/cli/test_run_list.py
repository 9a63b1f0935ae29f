"""Runs are listed with what people ask about them, noted, and removed only where that is safe."""

from __future__ import annotations

import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mate_cli.cli.app import main
from mate_cli.runs import folders
from mate_cli.runs.folders import find_same, index_file, read_index
from mate_cli.runs.lock import acquire_lock, release_lock
from tests.reports.runs import build_run

TRAIN = Path("outputs/train")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, status in enumerate(("finished", "running", "failed"), 1):
        build_run(TRAIN / "mine" / status, seed=number, status=status, monitor="dev/hits@1", settings=["model=mate"])
    build_run(TRAIN / "other" / "done", seed=9, monitor="dev/hits@1", metrics={"dev/hits@1": 0.25})
    running = (TRAIN / "mine" / "running").absolute()
    acquire_lock(running)
    yield
    release_lock(running)


def listed(capsys, *words: str) -> list[str]:
    capsys.readouterr()
    assert main(["list", "runs", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_runs_are_listed_by_experiment_and_status_with_score_and_note(capsys):
    assert main(["note", "outputs/train/other/done", "do not", "cite"]) == 0
    assert [line.split()[0] for line in listed(capsys)] == [
        *("mine", "outputs/train/mine/finished", "outputs/train/mine/running", "outputs/train/mine/failed"),
        *("other", "outputs/train/other/done"),
    ]
    assert listed(capsys, "other") == [
        "other",
        "  outputs/train/other/done  finished · Dev Hits@1 25.0 · seed 9  # do not cite",
    ]
    assert [line.split()[0] for line in listed(capsys, "failed")] == ["mine", "outputs/train/mine/failed"]
    assert main(["list", "runs", "othr"]) == 2
    assert "Did you mean mate list runs other?" in capsys.readouterr().err
    assert main(["note", "outputs/train/other/done", ""]) == 0
    assert "#" not in listed(capsys, "other")[1]


def test_records_of_other_programs_are_named_once(capsys):
    for name in ("x", "y"):
        folder = TRAIN / "other" / name
        folder.mkdir()
        (folder / "config.yaml").write_text("a: 1\n")
        (folder / "record.json").write_text('{"hello": [1, 2]}')
    lines = listed(capsys)
    assert lines[-1] == "left out, with a record of another program: outputs/train/other/x and 1 more"
    assert not any("unknown" in line for line in lines)


def test_answers_of_another_system_are_sorted_and_listed(capsys):
    assert main(["data", "export", "data=sample", "split=dev", "to=asked.jsonl"]) == 0
    question = json.loads(Path("asked.jsonl").read_text().partition("\n")[0])
    Path("answers.jsonl").write_text(json.dumps({"id": question["id"], "answer": "nobody"}))
    assert main(["evaluate", "answers=answers.jsonl", "data=sample", "split=dev", "name=model X", "partial=true"]) == 0
    assert " wrong answers of " in capsys.readouterr().out
    heading, line = listed(capsys, "model_X")
    assert heading == "model_X, evaluated"
    assert line.startswith("  outputs/evaluate/model_X/")
    assert "finished · Dev" in line
    assert "model_X, evaluated" in listed(capsys)


def test_the_index_is_not_written_through_a_link(tmp_path, capsys):
    (tmp_path / "elsewhere").mkdir()
    Path("outputs/.runs").symlink_to(tmp_path / "elsewhere")
    assert len(listed(capsys)) == 6
    assert not list((tmp_path / "elsewhere").iterdir())


def test_removal_asks_and_leaves_what_is_behind_links(monkeypatch, capsys):
    outside = Path("precious")
    outside.mkdir()
    (outside / "thesis.txt").write_text("all of it")
    (TRAIN / "mine" / "failed" / "plots").symlink_to(outside.absolute())
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    answers = iter(["n", "", "y"])
    monkeypatch.setattr("builtins.input", lambda question: next(answers))
    words = ["remove", "outputs/train/mine/failed", "outputs/train/mine/finished"]
    assert [main(words), main(words)] == [1, 1]
    assert (TRAIN / "mine" / "failed" / "record.json").is_file()
    assert main(words) == 0
    assert sorted(path.name for path in (TRAIN / "mine").iterdir() if path.is_dir()) == ["running"]
    assert (outside / "thesis.txt").read_text() == "all of it"
    assert [line.split()[0] for line in listed(capsys, "mine")] == ["mine", "outputs/train/mine/running"]


def test_a_run_may_be_named_as_other_commands_want_it_and_lines_are_folded(capsys, monkeypatch):
    assert main(["note", "run=outputs/train/other/done", "a test"]) == 0
    assert (TRAIN / "other/done/note.txt").read_text() == "a test\n"
    monkeypatch.setenv("COLUMNS", "50")
    lines = listed(capsys)
    assert max(map(len, lines)) <= 50
    assert sum(line.startswith("    ") for line in lines) >= 4
    assert main(["remove", "run=outputs/train/other/done", "--yes"]) == 0
    assert not (TRAIN / "other/done").exists()


@pytest.mark.parametrize("kind", ["running", "link", "folder", "stage", "inside"])
def test_what_is_no_run_or_at_work_is_never_removed(kind, monkeypatch, capsys):
    build_run(TRAIN / "other" / "done" / "reading", seed=1)
    (TRAIN / "other" / "link").symlink_to(Path(TRAIN / "mine" / "finished").absolute())
    named = {"running": "mine/running", "link": "other/link", "folder": "mine", "stage": "other/done/reading"}
    before = sorted(Path().rglob("*"))
    path = (TRAIN / named.get(kind, "other/done")).absolute()
    if kind == "inside":
        monkeypatch.chdir(path / "reading")
    assert main(["remove", str(path), str(TRAIN.absolute() / "mine/finished"), "--yes"]) == 2
    assert f"{path}: " in capsys.readouterr().err
    monkeypatch.chdir(TRAIN.absolute().parents[1] if kind != "inside" else path.parents[3])
    assert sorted(Path().rglob("*")) == before


def test_files_of_runs_are_read_once_and_again_where_they_change(monkeypatch):
    index_file(TRAIN / "mine").parent.mkdir(parents=True)
    index_file(TRAIN / "mine").write_text('{"name": 3}\nnonsense\n')
    first = read_index(TRAIN / "mine")
    read: list[Path] = []
    read_record = folders.read_entries
    monkeypatch.setattr(folders, "read_entries", lambda folder: read.append(folder) or read_record(folder))
    assert read_index(TRAIN / "mine") == first
    assert not read
    record = TRAIN / "mine" / "running" / "record.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"status": "interrupted"}))
    assert {run.status for run in read_index(TRAIN / "mine")} == {"finished", "interrupted", "failed"}
    assert read == [record.parent]
    shutil.rmtree(record.parent)
    assert len(read_index(TRAIN / "mine")) == 2


def test_a_copied_index_or_an_edited_run_is_not_believed(tmp_path):
    config = {"seed": 1, "model": {"size": "tiny", "freeze": None}, "stages": {"first": {"run": "/a", "after": None}}}
    for name in ("a", "b"):
        build_run(TRAIN / "third" / name)
        (TRAIN / "third" / name / "config.yaml").write_text(json.dumps(config))
    assert find_same(Path("outputs/train/third"), config, {}).path.name in "ab"
    lines = index_file(TRAIN / "third").read_text()
    (TRAIN / "third" / "a" / "config.yaml").write_text(json.dumps(config | {"seed": 2}))
    index_file(TRAIN / "third").write_text(lines)
    assert find_same(Path("outputs/train/third"), config, {}).path.name == "b"
    assert find_same(Path("outputs/train/third"), config, {"lab.py": "1"}) is None


def test_several_may_write_the_index_at_once():
    for number in range(20):
        build_run(TRAIN / "many" / str(number), seed=number, steps=1)
    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(lambda _: len(read_index(TRAIN / "many")), range(12)))
    assert set(seen) == {20} == {len(read_index(TRAIN / "many"))}
    assert len(index_file(TRAIN / "many").read_text().splitlines()) == 20
