"""Files are whole or not there."""

import os
from pathlib import Path

import pytest

from mate_cli.errors import RunError
from mate_cli.files.atomic import check_inside, replace_file, write_text


def stopped(target):
    with replace_file(target) as partial:
        partial.write_text("half")
        raise KeyboardInterrupt


def test_what_is_begun_and_not_ended_leaves_nothing(tmp_path):
    target = tmp_path / "new" / "file"
    with replace_file(target) as partial:
        partial.write_text("whole")
    with pytest.raises(KeyboardInterrupt):
        stopped(target)
    assert [file.read_text() for file in target.parent.iterdir()] == ["whole"]


def test_the_next_call_removes_what_a_killed_one_has_left_of_the_same_file(tmp_path):
    for name in ("answers.csv", "other.csv"):
        (tmp_path / f".{name}.{'0' * 12}.draft").mkdir()
    (tmp_path / ".answers.csv.1").touch()  # none of ours
    write_text(tmp_path / "answers.csv", "x")
    left = {".answers.csv.1", f".other.csv.{'0' * 12}.draft"}
    assert {path.name for path in tmp_path.iterdir()} == {"answers.csv", *left}


def test_two_containers_with_equal_names_and_numbers_write_one_file(tmp_path):
    with replace_file(tmp_path / "cache") as first:
        first.write_text("first")
        with replace_file(tmp_path / "cache") as second:  # what tells processes apart is equal here
            second.write_text("second")
        assert first.exists()
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("cache", "first")]


def test_no_folder_is_replaced_by_a_file(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(RunError, match="cannot be written: is a directory"):
        write_text(tmp_path / "folder", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_names_may_be_as_long_as_the_file_system_takes(tmp_path):
    assert write_text(tmp_path / ("\u00e9" * 127), "x").read_text() == "x"


def test_links_that_lead_out_of_a_folder_are_named(tmp_path):
    root = tmp_path / "run"
    (root / "inner").mkdir(parents=True)
    for name, target in {"out": tmp_path, "gone": tmp_path / "nowhere", "within": root / "inner"}.items():
        (root / name).symlink_to(target)
    (tmp_path / "chosen").symlink_to(root)  # a run's folder itself may be behind a link
    check_inside(tmp_path / "chosen", tmp_path / "chosen" / "within" / "file")
    for name in ("out", "gone"):
        with pytest.raises(RunError, match=f"run/{name}: is a link that leads out"):
            check_inside(root, root / name / "deeper" / "file")


def test_a_draft_that_another_process_takes_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    open_file, taken = os.open, []

    def open_late(path, *options, **more):
        if not taken and str(path).endswith(".draft"):
            taken.append(path)
            Path(path).rmdir()
        return open_file(path, *options, **more)

    monkeypatch.setattr(os, "open", open_late)
    assert write_text(tmp_path / "answers.csv", "whole").read_text() == "whole"
    assert len(taken) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["answers.csv"]
