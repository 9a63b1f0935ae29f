"""One run has one writer: also after a kill, with several machines, and where a file system knows no locks."""

import errno
import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mate_cli.errors import RunError
from mate_cli.files.atomic import MACHINE, remove_drafts
from mate_cli.runs import lock
from mate_cli.runs.folders import new_folder

HOLDER = "import sys, time; from pathlib import Path; from mate_cli.runs.lock import acquire_lock;"
HOLDER += "acquire_lock(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of a folder."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_a_living_writer_is_never_joined_and_a_killed_one_is_followed(tmp_path, holder):
    with pytest.raises(RunError, match=rf"another process is training this run \(process {holder.pid} on "):
        lock.acquire_lock(tmp_path)
    holder.kill()
    holder.wait()
    lock.acquire_lock(tmp_path)
    lock.acquire_lock(tmp_path)  # this process has it already
    lock.release_lock(tmp_path)
    assert not list(tmp_path.iterdir())


def no_locks(monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    monkeypatch.setattr(lock, "SETTLE", 0)


def test_without_locks_of_the_file_system_the_process_is_looked_at(tmp_path, holder, monkeypatch):
    no_locks(monkeypatch)
    with pytest.raises(RunError, match="another process is training this run"):
        lock.acquire_lock(tmp_path)
    holder.kill()
    holder.wait()
    lock.acquire_lock(tmp_path)
    lock.release_lock(tmp_path)


@pytest.mark.parametrize("knows_locks", [True, False])
def test_another_machine_is_at_work_as_long_as_it_gives_signs_of_life(tmp_path, monkeypatch, knows_locks):
    if not knows_locks:
        no_locks(monkeypatch)
    file = tmp_path / lock.NAME
    file.write_text("another-host 77:1")
    with pytest.raises(RunError, match="process 77 on another-host"):
        lock.acquire_lock(tmp_path)
    with pytest.raises(RunError, match="process 77 on another-host"):  # to look at it is no sign of life, nor its end
        lock.acquire_lock(tmp_path)
    os.utime(file, (time.time() - lock.SILENT - 1,) * 2)
    lock.acquire_lock(tmp_path)
    lock.release_lock(tmp_path)


def test_of_two_that_write_at_once_one_goes_on(tmp_path, monkeypatch):
    no_locks(monkeypatch)
    monkeypatch.setattr(time, "sleep", lambda _: (tmp_path / lock.NAME).write_text(f"another-host {os.getpid()}:1"))
    with pytest.raises(RunError, match="on another-host"):
        lock.acquire_lock(tmp_path)


def test_a_lock_gives_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.01)
    lock.acquire_lock(tmp_path)
    os.utime(tmp_path / lock.NAME, (1, 1))
    until = time.monotonic() + 5
    while (tmp_path / lock.NAME).stat().st_mtime < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    lock.release_lock(tmp_path)


def test_a_folder_that_cannot_be_locked_is_named(tmp_path):
    with pytest.raises(RunError, match="the run cannot be locked: no such file or directory"):
        lock.acquire_lock(tmp_path / "none")


DEAD = 4_194_305
"""Above any number of a process."""


def left_draft(folder, name="final.safetensors", process=DEAD, machine=MACHINE):
    """What a process leaves that is killed while a library writes a file, with a file of the library's own."""
    draft = folder / f".{name}.{machine}-{process}.draft"
    draft.mkdir(parents=True)
    (draft / name).write_text("half")
    (draft / ".tmpAbCdEf").write_text("half")
    return draft


def test_what_a_killed_process_has_half_written_is_removed(tmp_path):
    outside, run = tmp_path / "outside", tmp_path / "run"
    kept = [left_draft(outside), left_draft(run, process=os.getpid()), left_draft(run, machine="0" * 8)]
    (run / "a.4194305").touch()
    (run / "predictions").symlink_to(outside)
    for folder in (run, run / "checkpoints", run / "evaluation" / "other"):
        left_draft(folder)
    remove_drafts(run)
    assert sorted(tmp_path.rglob("*.draft")) == sorted(kept)
    assert (run / "a.4194305").exists()
    os.utime(kept[-1], (0, 0))  # of another machine, and long ago
    remove_drafts(run)
    assert sorted(tmp_path.rglob("*.draft")) == sorted(kept[:-1])


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to])
def test_a_lock_that_is_another_file_is_not_written(tmp_path, make):
    precious, run = tmp_path / "precious", tmp_path / "train" / "x" / "old"
    precious.write_text("mine")
    run.mkdir(parents=True)
    make(run / lock.NAME, precious)
    with pytest.raises(RunError, match=r"cannot be locked: its \.lock is .*Remove the \.lock there"):
        lock.acquire_lock(run)
    os.utime(run, (1, 1))
    new_folder(tmp_path, "train", "x", 0)  # removes what was abandoned
    assert precious.read_text() == "mine"


def test_a_lock_that_is_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / lock.NAME)
    with pytest.raises(RunError, match=r"its \.lock is not a regular file"):
        lock.acquire_lock(tmp_path)


def test_a_new_run_leaves_the_folders_beside_it(tmp_path):
    parent = tmp_path / "train" / "x"
    (parent / "empty").mkdir(parents=True)
    (parent / "locked").mkdir()
    (parent / "locked" / lock.NAME).touch()
    for name in ("empty", "locked"):
        os.utime(parent / name, (1, 1))
    made = new_folder(tmp_path, "train", "x", 0)
    assert {path.name for path in parent.iterdir()} == {"empty", "locked", made.path.name}
