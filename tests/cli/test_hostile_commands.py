"""Commands as typed on what strangers send: how they end, what they say, take and leave is looked at from outside."""

import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import forked_commands
import pytest
from damage import every
from finished_runs import finished_run

SECONDS, KILOBYTES = 20, 1_500_000
RAW = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
NAME = b"w\xff\x1b[31m.csv"
"""Of a file: neither UTF-8 nor harmless."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return finished_run(tmp_path_factory.mktemp("runs") / "run", ["task=table_qa", "encoding=table"])


def files(folder):
    return {os.fsencode(path) for path in folder.rglob("*")}


def typed(folder, *words, leaves=()):
    """Type a command that leaves these files, or any where `leaves` is None; return its exit code and all it said."""
    before = files(folder)
    process = forked_commands.start(*words)
    until, peak = time.monotonic() + 6 * SECONDS, 0  # other processes may be at work here
    while process.poll() is None:
        assert time.monotonic() < until, f"{words} hangs"
        status = Path(f"/proc/{process.pid}/status")
        try:
            found = re.search(r"VmHWM:\s+(\d+)", status.read_text())
            spent = sum(map(int, Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
        except OSError:
            continue
        peak = max(peak, int(found[1]) if found else 0)
        assert spent / os.sysconf("SC_CLK_TCK") < SECONDS, f"{words} takes too long"
        time.sleep(0.02)
    said = "".join(process.communicate())
    assert process.returncode in (0, 2), said
    assert "Traceback" not in said
    assert not RAW.search(said), said
    assert peak < KILOBYTES
    if leaves is not None:
        assert files(folder) - before == {os.fsencode(folder / name) for name in leaves}
    return process.returncode, said


def damaged_folder(folder, first, count):
    """Damaged files, and one that is whole."""
    folder.mkdir()
    for seed, name, content in every(count, first):
        (folder / f"{seed}{name}").write_bytes(content)
    text = "re\x1b]0;title\x07gion,s\u202eold\n\x1b[31mnorth,=cmd|' /C calc'!A0\nsouth,-12\n"
    Path(os.fsdecode(os.fsencode(folder) + b"/" + NAME)).write_text(text)
    (folder / "loop.csv").symlink_to("loop.csv")


def ask(tmp_path, run, first, count, output):
    damaged_folder(tmp_path / "tables", first, count)
    words = [f"run={run}", f"table={tmp_path / 'tables'}", "question=which region sold \x1b[5mmost?"]
    words += [f"output={tmp_path / output}", "hardware.threads=1"]
    code, said = typed(tmp_path, "predict", *words, leaves=[output])
    assert code == 0, said
    return (tmp_path / output).read_text(encoding="utf-8")


@pytest.mark.long
def test_damaged_files_leave_the_others_their_answers(tmp_path, run):
    content = json.loads(ask(tmp_path, run, 0, 12, "answers.json"))
    assert content["skipped"]
    assert any(answer["table"].endswith("[31m.csv") for answer in content["answers"])


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 1000, 50))
def test_folders_of_damaged_files(first, tmp_path, run):
    ending = ("json", "csv", "jsonl", "html")[first // 50 % 4]
    content = ask(tmp_path, run, first + 20_000, 50, f"answers.{ending}")
    if ending == "csv":
        assert not re.search(r"(^|,)\"?[=+@]", content, re.MULTILINE)
        assert not RAW.search(content)


@pytest.mark.long
@pytest.mark.parametrize("columns", [20, 80])
def test_a_narrow_terminal(columns, tmp_path, run):
    (tmp_path / "t.csv").write_text("region,sold\n\x1b]0;x\x07north,1\n" + "south,2\n" * 30)
    ours, theirs = pty.openpty()
    words = ["predict", f"run={run}", f"table={tmp_path / 't.csv'}", "question=which region?", "hardware.threads=1"]
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "mate_cli", *words], stdout=theirs, stderr=theirs, stdin=theirs, env=environment
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # the other end was closed
        pass
    assert process.wait() == 0, shown
    assert b"\x1b]0;" not in shown
    assert b"Traceback" not in shown
