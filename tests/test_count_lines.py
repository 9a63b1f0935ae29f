"""`tools/count_lines.py` counts code alone, of a revision and of the working tree."""

import subprocess
import sys

from golden import ROOT

MODULE = '''"""A module.

In three lines.
"""

import os
from pathlib import (
    Path,
)

SIZE = 3  # counted
"""What it is."""


def join(part):
    """Join a part."""
    # a comment

    text = """
    a value
    """
    return Path(os.fspath(part), text)
'''
CODE, LINES = 6, 22


def git(folder, *words):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def printed(folder, *words):
    command = [sys.executable, str(ROOT / "tools" / "count_lines.py"), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def rows(folder, *words):
    _, _, *lines = printed(folder, *words).stdout.splitlines()
    return {name: [int(number.replace(",", "")) for number in numbers] for name, *numbers in map(str.split, lines)}


def test_code_is_counted_now_and_before(tmp_path):
    room = tmp_path / "mate_cli" / "room"
    room.mkdir(parents=True)
    (room / "one.py").write_text(MODULE)
    (room / "data.json").write_text("{}\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    assert rows(tmp_path, "HEAD") == rows(tmp_path) == {key: [CODE, LINES, 1] for key in ("room", "all")}
    (room.parent / "new.py").write_text("a = 1\n\nb = 2\n")
    (room / "one.py").unlink()
    (room / "two.py").write_text(MODULE)
    found = rows(tmp_path, "HEAD", ".")
    assert found["new.py"] == [0, 0, 0, 2, 3, 1, 2, 3, 1]
    assert found["room"] == [CODE, LINES, 1, CODE, LINES, 1, 0, 0, 0]
    assert found["all"] == [CODE, LINES, 1, CODE + 2, LINES + 3, 2, 2, 3, 1]
    assert rows(tmp_path, "--folder", "mate_cli/room") == {key: [CODE, LINES, 1] for key in ("two.py", "all")}


def test_a_revision_that_is_not_there_is_named(tmp_path):
    git(tmp_path, "init", "--quiet")
    found = printed(tmp_path, "nowhere")
    assert found.returncode == 1
    assert "nowhere" in found.stderr
    assert "Traceback" not in found.stderr
