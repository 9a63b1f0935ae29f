"""A benchmark says how long it takes and shows what it has when it is stopped."""

from __future__ import annotations

import json
import os
import signal

import pytest

from mate_cli.benchmark.attention import AttentionBenchmark
from mate_cli.benchmark.measure import count_down
from mate_cli.cli.app import main

TINY = [
    *("benchmark=attention", "benchmark.shapes=[tall]", "benchmark.lengths=[32,64]", "benchmark.real=null"),
    *("benchmark.backends=[dense,segments]", "benchmark.heads=2", "benchmark.head_size=4", "benchmark.slots=8"),
    *("benchmark.rounds=1", "benchmark.threads=1"),
]


@pytest.mark.parametrize(
    ("parts", "seconds", "lines"),
    [
        ("ab", 210.0, ["2 cases to measure, at most about 7 min", "measuring a, 1 of 2", "measuring b, 2 of 2"]),
        ("a", 5.0, ["measuring a, 1 of 1"]),
        ("", 5.0, []),
    ],
)
def test_a_benchmark_says_what_it_measures_and_how_long_that_takes(parts, seconds, lines, capsys):
    assert [name for name, _ in count_down(dict.fromkeys(parts), seconds)] == [*parts]
    assert [line.partition(";")[0] for line in capsys.readouterr().err.splitlines()] == lines


@pytest.mark.long
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM])
def test_a_benchmark_that_is_stopped_shows_what_it_has(tmp_path, monkeypatch, capsys, number):
    measure = AttentionBenchmark.measure

    def stopped_at_the_second(self, case, pace):
        if case.tokens == 64:
            os.kill(os.getpid(), number)
        return measure(self, case, pace)

    monkeypatch.setattr(AttentionBenchmark, "measure", stopped_at_the_second)
    before = signal.getsignal(signal.SIGTERM)
    assert main(["benchmark", f"paths.outputs={tmp_path}", *TINY]) == 130
    assert signal.getsignal(signal.SIGTERM) == before
    (folder,) = tmp_path.glob("benchmark/attention/*")
    shown = capsys.readouterr().out
    assert "Attention, tall tables, 32 tokens" in shown
    assert f"stopped; results so far are saved: mate benchmark show={folder}" in shown
    assert json.loads((folder / "record.json").read_text())["status"] == "interrupted"
    assert main(["benchmark", f"show={folder}"]) == 0
    assert "Attention, tall tables, 32 tokens" in capsys.readouterr().out


def test_a_benchmark_without_tables_is_shown_as_it_is(tmp_path, capsys):
    record = {"command": "benchmark", "status": "interrupted", "metrics": {"tokenization/wtq/speedup": 48.25}}
    (tmp_path / "record.json").write_text(json.dumps(record))
    assert main(["benchmark", f"show={tmp_path}"]) == 0
    shown = capsys.readouterr().out
    assert "tokenization/wtq/speedup" in shown
    assert "48.25" in shown


@pytest.mark.parametrize("record", [None, {"command": "train", "metrics": {"dev/f1": 0.5}}, {"command": "benchmark"}])
def test_what_is_no_benchmark_is_refused(tmp_path, capsys, record):
    folder = tmp_path / "some folder"
    if record is not None:
        folder.mkdir()
        (folder / "record.json").write_text(json.dumps(record))
    assert main(["benchmark", f"show='{folder}'"]) == 2
    said = capsys.readouterr().err
    assert str(folder) in said
    assert said.startswith("error: ")
