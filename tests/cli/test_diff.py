"""`mate diff`, as typed."""

from __future__ import annotations

import pytest

from mate_cli.cli.app import main
from tests.reports.runs import build_run


@pytest.fixture
def runs(tmp_path, monkeypatch):
    for name, score in (("a", 0.5), ("b", 0.6)):
        build_run(tmp_path / "runs" / name, metrics={"dev/em": score}, config={"optimizer": {"lr": score}})
    build_run(tmp_path / "runs" / "a" / "stage", metrics={})
    build_run(tmp_path / "runs" / "0", command="benchmark")
    (tmp_path / "runs" / "b" / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def test_two_runs_are_printed_and_written_as_a_page(runs, capsys):
    assert main(["diff", "runs/a", "runs/b"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("A: a, B: b.\n") or text.startswith("A: a, B: b\n")
    assert ["Dev", "EM", "50.0", "60.0", "+10.0"] in [line.split() for line in text.splitlines()]
    assert ["optimizer.lr", "0.5", "0.6"] in [line.split() for line in text.splitlines()]
    assert "page: runs/a/diff.html" in text
    page = (runs / "a" / "diff.html").read_text()
    assert "<h1>Two runs side by side</h1>" in page
    assert "optimizer.lr" in page


def test_the_page_can_be_left_out_or_put_elsewhere(runs, capsys):
    assert main(["diff", "runs=[runs/a,runs/b]", "html=null"]) == 0
    assert "page:" not in capsys.readouterr().out
    assert main(["diff", "runs/a", "runs/b", "html=pages/d.html"]) == 0
    assert (runs.parent / "pages" / "d.html").is_file()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "runs: two different runs are needed, not none. "),
        (["runs/a"], "runs: two different runs are needed, not runs/a. Type: mate diff outputs/train/"),
        (["runs"], "runs: two different runs are needed, not runs. Type: mate diff runs/a runs/b."),
        (["runs/a", "runs/b", "runs/a"], "runs: two different runs are needed, not runs/a, runs/b, runs/a. "),
        (["runs/a", "runs"], "runs: not a run. Give runs/a or runs/b."),
        (["runs/a", "runs/absent"], "runs/absent: no such folder. "),
        (["runs/a", "runs/b/empty"], "runs/b/empty: no run here or below. "),
    ],
)
def test_a_mistake_is_one_line(runs, capsys, words, problem):
    assert main(["diff", *words]) == 2
    assert capsys.readouterr().err.startswith(f"error: {problem}")


def test_a_damaged_record_is_named(runs, capsys):
    (runs / "b" / "record.json").write_text("{")
    assert main(["diff", "runs/a", "runs/b"]) == 2
    assert "runs/b/record.json" in capsys.readouterr().err
