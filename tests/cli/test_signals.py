"""Signals end commands and sweeps in order."""

import json
import os
import platform
import signal
import subprocess
import sys
import time
from contextlib import suppress

import forked_commands
import pytest

from mate_cli.cli import app
from mate_cli.cli.app import TERMINATION_SIGNALS, handle_signals, interrupt
from mate_cli.cli.sweeps.stopping import STOP_FILE_NAME, StopHandler, is_stopped
from mate_cli.errors import CheckpointError
from mate_cli.runs.lock import process_id

SAVES = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.5), print('saved'), sys.exit()));"
)
SAVES += "print('begun', flush=True); time.sleep(60)"
HANGS = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('begun', flush=True); time.sleep(60)"


@pytest.mark.parametrize("number", TERMINATION_SIGNALS)
def test_a_command_ends_as_after_an_interrupt(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), handle_signals(TERMINATION_SIGNALS, interrupt):
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGINT, *TERMINATION_SIGNALS])
def test_a_signal_where_clean_up_fails_ends_with_130(monkeypatch, number):
    def compose(_):
        try:
            os.kill(os.getpid(), number)
        finally:
            raise AttributeError("half of a configuration")

    monkeypatch.setattr(app, "dispatch", compose)
    assert app.main(["list"]) == 130


def test_an_interrupt_that_a_library_turns_into_an_error_ends_with_130(monkeypatch):
    def read(_):
        with suppress(KeyboardInterrupt):
            asked()()
        raise CheckpointError("weights cannot be read")

    monkeypatch.setattr(app, "dispatch", read)
    assert app.main(["list"]) == 130


def test_what_is_forked_ends_as_without():
    ready, begun = os.pipe()
    with handle_signals(TERMINATION_SIGNALS, interrupt):
        if (forked := os.fork()) == 0:
            os.write(begun, b".")
            time.sleep(60)
            os._exit(0)
        os.read(ready, 1)
        os.kill(forked, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == -signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_is_ignored_stays_so(number):
    before, stopped = signal.signal(number, signal.SIG_IGN), []
    try:
        with handle_signals((number,), lambda: stopped.append(True)):
            os.kill(os.getpid(), number)
    finally:
        signal.signal(number, before)
    assert stopped == []


DURING_IMPORT = """
import os, sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "MODULE":
            exec("os.kill(os.getpid(), NUMBER)")  # as code that an extension module runs
sys.meta_path.insert(0, Finder())
from mate_cli.__main__ import main
sys.argv = ["mate", "list", "experiments"]
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["mate_cli.cli.app", "mate_cli.cli.commands.list"])
def test_a_signal_during_imports_ends_with_130(tmp_path, module, number):
    code = DURING_IMPORT.replace("MODULE", module).replace("NUMBER", str(int(number)))
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "")


@pytest.fixture
def job(tmp_path):
    """Start a job and note its process."""
    started = []

    def start(code):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "begun\n"
        note = {"process": f"{platform.node()} {process_id(process.pid)}"}
        (tmp_path / f"{len(started)}.json").write_text(json.dumps(note))
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def sweep(folder, *steps):
    """A sweep to which this happens, one after the other."""
    with StopHandler(lambda: sorted(folder.glob("*.json"))):
        for step in steps:
            step()


def asked(number=signal.SIGINT):
    return lambda: os.kill(os.getpid(), number)


def give_up():
    raise RuntimeError("a worker is lost")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", [signal.SIGINT, *TERMINATION_SIGNALS])
@pytest.mark.parametrize("then", [[], [give_up]])
def test_a_sweep_waits_for_its_jobs_whatever_its_launcher_does(tmp_path, job, number, then):
    (tmp_path / "0.json").write_text('{"process": "another-machine 1:1"}')
    saving = job(SAVES)
    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path, asked(number), *then)
    assert saving.stdout.read() == "saved\n"
    assert is_stopped(tmp_path)


def test_the_second_time_jobs_are_ended(tmp_path, job):
    hanging = job(HANGS)
    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path, asked(), lambda: hanging.poll() and pytest.fail("it has ended"), asked())
    assert hanging.wait() == -signal.SIGKILL


def test_without_a_job_at_work_a_sweep_ends_at_once(tmp_path):
    (tmp_path / "0.json").write_text('{"process": null}')
    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path, asked(signal.SIGTERM), lambda: pytest.fail("it goes on"))
    assert (tmp_path / STOP_FILE_NAME).exists()


@pytest.mark.long  # a process of its own takes longer than five seconds to begin
@pytest.mark.parametrize("number", TERMINATION_SIGNALS)
def test_a_run_that_has_not_begun_to_train_says_that_it_was_stopped(tmp_path, number):
    words = ["experiment=quickstart_cells", "logger=none", "hardware.threads=1", f"paths.outputs={tmp_path}"]
    run = forked_commands.start("train", *words)
    until = time.monotonic() + 120
    while not list(tmp_path.glob("train/*/*/record.json")):
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < until
        time.sleep(0.01)
    run.send_signal(number)
    said = "".join(run.communicate(timeout=120))
    assert (run.returncode, "Traceback" in said) == (130, False), said
    (record,) = tmp_path.glob("train/*/*/record.json")
    assert json.loads(record.read_text())["status"] == "interrupted"
    assert not (record.parent / "checkpoints").exists()
