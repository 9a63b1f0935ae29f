"""Nothing from a table, a name or a question steers a terminal or a spreadsheet program."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.progress import Progress
from rich.text import Text

from mate_cli.cli.app import main
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.export.data_files import escape_csv_cell, report_csv
from mate_cli.terminal.console import Console, Transcript
from mate_cli.terminal.streams import CleanStream, copy_streams, printable
from tests.reports.runs import build_run

STEERING = ["\x1b[31m", "\x1b]0;title\x07", "\x9b31m", "\x90x\x9c", "\u202e", "\u2066", "\x08", "\x00", "\u2028", "\r"]


def is_clean(text):
    return not any(mark in text for mark in "\x1b\x07\x00\x08\x9b\x90\x9c\u202e\u2066\u2028\u200f\u061c") and (
        "\r" not in text.replace("\r\n", "")
    )


@pytest.mark.parametrize("mark", STEERING)
def test_consoles_and_streams_clean(mark):
    laid_out = io.StringIO()
    Console(file=laid_out, width=80).print(f"a{mark}b", Text(f"c{mark}d", style="red"), f"[bold]{mark}[/x]")
    plain = io.StringIO()
    print(f"a{mark}b", file=CleanStream(plain))
    for text in (laid_out.getvalue(), plain.getvalue()):
        assert is_clean(text)
        assert "a" in text
        assert "b" in text


def test_styles_of_ours_and_letters_of_all_languages_stay():
    file = io.StringIO()
    Console(file=file, force_terminal=True, color_system="standard").print(Text("\x1b[5m日本 é", style="red"))
    assert file.getvalue() == "\x1b[31m[5m日本 é\x1b[0m\n"
    assert printable("a\tb\nc\r\n👩‍🚀") == "a\tb\nc\r\n👩‍🚀"


@given(st.text())
def test_what_is_cleaned_is_clean(text):
    assert is_clean(printable(text))
    assert printable(printable(text)) == printable(text)


def test_a_progress_bar_begins_with_the_return_to_its_line():
    file = io.StringIO()
    CleanStream(file).write("\r50 %\rgone")
    assert file.getvalue() == "\r50 %gone"


def test_a_transcript_has_each_line_once_and_no_progress(capsys):
    transcript, lines = Transcript(), []
    terminal = Console(copy=transcript.write, file=io.StringIO(), force_terminal=True, width=40)
    terminal.print(Text("before", style="red"))
    transcript.hand_to(lines.append)
    with copy_streams(transcript.write):
        with Progress(console=terminal) as bar:
            task = bar.add_task("training", total=3)
            for step in range(3):
                bar.update(task, completed=step, refresh=True)
                print("under the bar", step)
        sys.stderr.write("\r10 %")
        sys.stderr.write("\r100 %\n")
        Console().print("of another console")
        terminal.rule("end")
    print("after")
    *lines, rule = lines
    assert lines == ["before", *(f"under the bar {step}" for step in range(3)), "100 %"]
    assert " end " in rule
    assert "training" in terminal.file.getvalue()


def test_what_is_typed_wrong_is_said_cleanly(capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    name = "\x1b[31mx\u202ey\n.csv"
    Path(name).write_text("a,b\n1,2\n")
    assert main([f"\x1b]0;{name}"]) == 2
    assert main(["predict", f"table={name}", "question=\udcff\x1b[5m", "run=\x1b[31mnone"]) == 2
    assert main(["predict", "table=\udcff.csv", "question=a", "run=none"]) == 2
    out, err = capfd.readouterr()
    assert is_clean(out + err)
    assert err.count("error: ") == 3
    assert err.count("is not valid UTF-8") == 2


@pytest.mark.parametrize(
    "value", ["-7.5", "-1,204", "+3", "-12 %", "-", "--", "-€ 3.5", "-1e-5", "a=1", "", "x", 3, -1.5]
)
def test_numbers_stay_in_csv(value):
    assert escape_csv_cell(value) == value


@pytest.mark.parametrize("value", ["=cmd|' /C calc'!A0", "=1+1", "+1+1", "-2+3", "@SUM(1)", "\t=1", "-1-cmd|x", "\r=1"])
def test_formulas_are_quoted_in_csv(value):
    assert escape_csv_cell(value) == "'" + value.replace("\r", "")


@pytest.mark.parametrize("mark", STEERING)
def test_csv_has_no_control_characters_and_no_header_that_is_a_formula(tmp_path, mark):
    assert escape_csv_cell(f"a{mark}b") == printable(f"a{mark}b")
    assert str(escape_csv_cell(f"{mark}=1+1")).startswith("'=") == (printable(mark) == "")
    metrics = {"=dev/em": 0.5, f"@{mark}dev/f1": 0.25}
    build_run(tmp_path / "run", metrics=metrics, experiment=[f"a{mark}b"], model=f"m{mark}")
    settings = {"@x": f"{mark}=1+1", f"=cmd{mark}|x": 1, "y": f"a{mark}b"}
    (tmp_path / "run" / "config.yaml").write_text(json.dumps(settings))
    text = report_csv(build_report([tmp_path]))
    assert is_clean(text)
    header, *rows = csv.reader(io.StringIO(text))
    assert not [cell for row in (header, *rows) for cell in row if cell.startswith(("=", "@"))]
    assert {"'=dev/em", "'@x"} <= set(header)
