"""Work that takes long says what it is: a line that changes in a terminal, a line a minute elsewhere."""

from __future__ import annotations

import os
import sys
import time

import pytest

from mate_cli.terminal import progress
from mate_cli.terminal.progress import Progress, time_text, track
from mate_cli.terminal.streams import clean_streams


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.05)
    monkeypatch.setattr(progress, "PLAIN_DELAY", 0.05)
    monkeypatch.setattr(progress, "REFRESH", 0.01)
    progress._LINE._next = 0.0


class Terminal:
    """A stream that says it is a terminal, and keeps what is written."""

    def __init__(self) -> None:
        self.written = ""

    def write(self, text: str) -> int:
        self.written += text
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True


def screen(written: str) -> list[str]:
    """The lines that a terminal shows in the end."""
    lines = [""]
    for part in written.replace("\x1b[K", "\x00").split("\n"):
        for state in part.split("\r"):
            lines[-1] = state.replace("\x00", "") if state.startswith("\x00") or "\x00" in state else lines[-1] + state
        lines.append("")
    return [line for line in lines if line]


def wait_for(found, seconds=10.0):
    until = time.monotonic() + seconds
    while not found() and time.monotonic() < until:
        time.sleep(0.01)
    assert found()


def test_what_ends_at_once_says_nothing(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_DELAY", 60.0)
    assert list(track(range(3), "counting", "numbers")) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_elsewhere_there_is_a_line_a_minute(capsys):
    with Progress("encoding dev", 200, "examples") as work:
        work.advance(50)
        time.sleep(0.5)
    with Progress("encoding test", 200, "examples"):
        time.sleep(0.3)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("encoding dev 50 of 200 examples, ")
    assert line.endswith(" s left")


def test_a_terminal_has_one_line_that_is_gone_in_the_end(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress("outer"), Progress("encoding train", 4000, "examples") as work:
        work.advance(1000)
        wait_for(lambda: "1,000 of 4,000 examples" in terminal.written)
    assert "\n" not in terminal.written
    assert "outer" not in terminal.written
    assert screen(terminal.written) == []


def test_of_several_processes_the_first_alone_shows_its_work(capsys, monkeypatch):
    for rank in ("1", "0"):
        monkeypatch.setenv("RANK", rank)
        with Progress(f"encoding in process {rank}"):
            time.sleep(0.3)
    assert [line.rpartition(" process ")[2][0] for line in capsys.readouterr().err.splitlines()] == ["0"]


def test_what_is_printed_meanwhile_stands_on_lines_of_its_own(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", terminal)
    with clean_streams(), Progress("reading"):
        for word in ("one", "two"):
            seen = len(terminal.written)
            wait_for(lambda seen=seen: "reading" in terminal.written[seen:])
            print(word)
    assert screen(terminal.written) == ["one", "two"]


def test_a_forked_process_begins_without_work(capsys):
    with Progress("reading"):
        child = os.fork()
        if not child:
            os._exit(len(progress._LINE._works))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_names_of_files_do_not_steer_the_terminal(capsys):
    with Progress("reading \x1b[2J\u202eevil"):
        wait_for(lambda: progress._LINE._next > 0)
    assert capsys.readouterr().err.startswith("reading [2Jevil")


def test_what_was_done_before_says_nothing_of_the_pace():
    work = Progress("downloading x", 3e9, "B")
    work.start_at(1e9)
    assert " left" not in work.text()
    work.began -= 100
    work.advance(1e9)
    assert work.text() == "downloading x 2.00 GB of 3.00 GB, 2 min left"


def test_times_are_in_few_words():
    assert [time_text(seconds) for seconds in (0.4, 89, 91, 7500)] == ["0 s", "89 s", "2 min", "2 h 5 min"]
