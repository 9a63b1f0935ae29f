"""`mate compare --watch`, as typed: with and without a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

from mate_cli.cli.app import main
from mate_cli.cli.commands import compare
from tests.reports.answered import answer_questions
from tests.reports.runs import build_run
from tests.reports.test_watch import BACK, ROWS, SCREEN, build_alive

HEAVY = {"torch", "pytorch_lightning", "transformers", "datasets", "wandb", "sklearn", "matplotlib"}
PROGRAM = """
import json, sys
from mate_cli.cli.app import main
code = main(["compare", "outputs", "--watch", "html=null", "against=tapas"])
print(json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a", "--watch"], ["watch=true", "runs=['a']"]),
        (["watch=true"], ["watch=true"]),
        (["against=mate · lr=1e-05"], ["against='mate · lr=1e-05'"]),
        (["against='it'", "against=null", "+against=a b"], ["against='it'", "against=null", "+against='a b'"]),
    ],
)
def test_flags_and_labels_become_what_hydra_reads(words, expected):
    assert compare.arguments(words) == expected


@pytest.mark.parametrize("word", ["--watch", "watch=true"])
def test_without_a_terminal_it_ends_with_the_runs(tmp_path, monkeypatch, capsys, word):
    build_run(tmp_path / "outputs" / "run")
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "outputs", word]) == 0
    text = capsys.readouterr().out
    assert "mate seed 1: finished, Test Hits@1" in text.splitlines()[0]
    assert "Cell selection on hybridqa" in text
    assert 'http-equiv="refresh"' not in (tmp_path / "outputs" / "compare.html").read_text()


def test_watching_loads_nothing_heavy(tmp_path):
    for model in ("mate", "tapas"):
        answer_questions(build_run(tmp_path / "outputs" / model, model=model))
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    assert HEAVY.isdisjoint(modules)


@pytest.mark.long
def test_control_c_gives_the_terminal_back_and_is_no_error(tmp_path):
    build_alive(tmp_path / "outputs" / "run", rows=ROWS, total_steps=100)
    page = tmp_path / "outputs" / "compare.html"
    command = [sys.executable, "-m", "mate_cli", "compare", "outputs", "--watch", "watch_seconds=0.2"]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "110", "LINES": "50"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=heed_control_c
    ) as process:
        os.close(theirs)
        try:
            text = read_until(ours, lambda text: text.count("Ctrl-C ends") >= 2 and page.exists())
            assert '<meta http-equiv="refresh" content="15">' in page.read_text()
            process.send_signal(signal.SIGINT)
            text += read_until(ours, lambda _: False)
            process.wait(timeout=60)
        except BaseException:
            process.kill()  # else this would be waited for, for ever
            raise
    os.close(ours)
    assert process.returncode == 0
    assert text.count(SCREEN) == text.count(BACK) == 1
    watched, _, after = text.partition(BACK)
    assert "40/100" in watched
    assert "Traceback" not in text
    assert "page: outputs/compare.html" in after
    assert 'http-equiv="refresh"' not in page.read_text()


def heed_control_c():
    """Undo that whoever started these tests in the background has Ctrl-C ignored, also by what they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def read_until(terminal, seen):
    """What a terminal shows until something is seen, or until it is closed."""
    text, end = "", time.monotonic() + 120
    while time.monotonic() < end and not seen(text):
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                text += os.read(terminal, 65536).decode(errors="replace")
            except OSError:  # closed by its last user
                break
    return text
