from __future__ import annotations

import io
from datetime import datetime, timezone

import pytest
from rich.console import Console

from mate_cli.reports.report import build_report
from mate_cli.reports.terminal import print_report, report_console
from tests.reports.runs import build_demo, build_run

AT_80 = """\
Cell selection on hybridqa
                     Dev       Dev       Dev      Test      Test      Test
Configuration     Hits@1    Hits@3    Hits@5    Hits@1    Hits@3    Hits@5 n
────────────────────────────────────────────────────────────────────────────
mate           *74.4±0.1 *85.1±0.1 *88.3±0.1 *73.6±0.1 *84.3±0.1 *87.5±0.1 3
tapas               71.0      81.7      84.9      70.2      80.9      84.1 1

tfidf baseline      24.0      36.0      48.0      24.0      36.0      48.0

Cost and status
Configuration  Parameters  Examples/s    Wall time  Memory  Status
────────────────────────────────────────────────────────────────────────────────
mate                22.7M        41.7  25 min 46 s  3.1 GB  3 finished
tapas               22.7M        18.8  56 min 40 s  3.1 GB  1 finished, 1
                                                            failed

Not finished
Run     Seed  Status  Reason
──────────────────────────────────────
tapas2     2  failed  ValueError: NaN

5 runs, 2 configurations. Scores in percent. Best of each column in stars (*).
Ranked by Test Hits@1.
Median ± half the interquartile range over n finished seeds.
"""


def printed(report, width=80, **options) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, **options)
    print_report(report, console)
    return console.file.getvalue()


def stripped(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def test_at_eighty_columns(tmp_path, monkeypatch):
    for seed in (1, 2, 3):
        build_run(tmp_path / f"mate{seed}", seed=seed)
    build_run(tmp_path / "tapas1", model="tapas")
    build_run(tmp_path / "tapas2", model="tapas", seed=2, status="failed", reason="ValueError: NaN")
    monkeypatch.chdir(tmp_path)
    assert stripped(printed(build_report(["."]))) == AT_80


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(tmp_path, width):
    text = printed(build_report([build_demo(tmp_path)]), width)
    tables = text.split("Not finished")[0]
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in tables
    assert "OutOfMemoryError" in text


def test_plain_without_a_terminal_bold_in_one(tmp_path):
    report = build_report([build_demo(tmp_path)])
    assert "\x1b" not in printed(report)
    coloured = printed(report, force_terminal=True, color_system="truecolor")
    assert "\x1b[1;32m" in coloured
    assert "*74.4" not in coloured


def test_markup_in_names_is_printed_as_it_is(tmp_path):
    build_run(tmp_path / "a", model="[red]x[/red]", status="failed", reason="[/bold] [oops]")
    text = printed(build_report([tmp_path]), 120)
    assert "[red]x[/red]" in text
    assert "[/bold] [oops]" in text


def test_damage_is_a_warning_line(tmp_path):
    build_run(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "record.json").write_text("{")
    lines = printed(build_report([tmp_path])).splitlines()
    assert next(line for line in lines if "b/record.json" in line).startswith("warning: ")


def test_many_configurations_are_cut_with_a_note(tmp_path):
    for number in range(45):
        build_run(tmp_path / f"{number}", model=f"m{number}", steps=0)
    assert "5 more on the page" in printed(build_report([tmp_path], now=datetime(2025, 1, 1, tzinfo=timezone.utc)))


def test_the_console_of_a_pipe_is_plain_and_wide(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert report_console().width == 120
    monkeypatch.setenv("COLUMNS", "90")
    assert report_console().width == 90
