"""Processes that torch starts for a run: their places, and that all of them end, with one message, however one does."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from mate_cli.errors import ConfigError, DataError, RunError
from mate_cli.files.atomic import temporary_path
from mate_cli.runs import launch, ranks
from mate_cli.runs.configuration import Hardware
from mate_cli.runs.launch import (
    check_processes,
    join_processes,
    launch_processes,
    read_rank_variables,
    train_in_processes,
)
from mate_cli.runs.record import RunFolder, RunRecord

SLURM = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "2",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
}
TORCHRUN = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "1"}


def hardware(**changes):
    profile = {"accelerator": "cpu", "precision": "32-true", "micro_batch": 2, "workers": 0, "threads": 1}
    return Hardware(**{**profile, **changes})


def test_slurm_says_which_process_this_is():
    place = read_rank_variables(SLURM)
    assert (place["RANK"], place["LOCAL_RANK"], place["NODE_RANK"], place["WORLD_SIZE"]) == ("5", "1", "1", "8")
    assert place["MASTER_ADDR"] == "gpu07"


def test_every_step_of_a_job_meets_at_a_place_of_its_own():
    others = [{**SLURM, "SLURM_PROCID": "0"}, {**SLURM, "SLURM_STEP_ID": "3"}, {**SLURM, "SLURM_JOB_ID": "4712"}]
    ports = [read_rank_variables(one)["MASTER_PORT"] for one in (SLURM, *others)]
    assert ports[0] == ports[1]
    assert len(set(ports)) == 3
    assert all(1024 < int(port) < 65536 for port in ports)


@pytest.mark.parametrize("name", ["SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"])
def test_what_slurm_does_not_say_is_named(name):
    without = {key: value for key, value in SLURM.items() if key != name}
    with pytest.raises(ConfigError, match=rf"{name}: is no number \(abc\)\. Start mate by torchrun or srun"):
        read_rank_variables({**without, name: "abc"})
    if name != "SLURM_STEP_NUM_TASKS":
        with pytest.raises(ConfigError, match=f"{name}: is missing"):
            read_rank_variables(without)


POD = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456"}


def test_a_pod_of_a_pytorchjob_is_one_process_of_a_node():
    place = read_rank_variables(POD)
    assert (place["RANK"], place["LOCAL_RANK"], place["NODE_RANK"], place["WORLD_SIZE"]) == ("1", "0", "1", "2")
    check_processes(hardware(nodes=2), POD)
    with pytest.raises(ConfigError, match=r"hardware.nodes is 1\. .*torchrun"):
        check_processes(hardware(), POD)
    with pytest.raises(ConfigError, match=r"hardware.devices: .*torchrun in each pod"):
        check_processes(hardware(devices=2), POD)
    assert read_rank_variables({**POD, "WORLD_SIZE": "1"}) == {}


@pytest.mark.parametrize("name", POD)
def test_a_rank_never_trains_alone(name):
    without = {key: value for key, value in POD.items() if key != name}
    with pytest.raises(ConfigError, match=rf"{name}: is missing\. Start mate by torchrun"):
        read_rank_variables(without)


def test_torchrun_comes_before_slurm():
    place = read_rank_variables({**SLURM, **TORCHRUN, "GROUP_RANK": "1"})
    assert (place["RANK"], place["NODE_RANK"]) == ("3", "1")


@pytest.mark.parametrize(
    "environment", [{}, {"SLURM_NTASKS": "8", "SLURM_JOB_ID": "1"}, {**SLURM, "SLURM_STEP_NUM_TASKS": "1"}]
)
def test_nobody_has_started_processes(environment):
    """Also in a batch script without srun, and in a step of one process, which may start others on its machine."""
    assert read_rank_variables(environment) == {}


def test_processes_and_configuration_must_agree():
    check_processes(hardware(devices=4, nodes=2), SLURM)
    with pytest.raises(ConfigError, match=r"8 processes were started, .*hardware.nodes is 2.*srun"):
        check_processes(hardware(devices=2), SLURM)
    with pytest.raises(ConfigError, match=r"no processes were started on 2 nodes\. Start with srun"):
        check_processes(hardware(accelerator="gpu", devices=64, nodes=2), {})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"accelerator": "gpu", "devices": 64}, "hardware.devices: PyTorch finds .* GPUs here, fewer than 64"),
        ({"accelerator": "cpu", "devices": 10_000}, "hardware.devices: 10000 processes are too many .* Use .* at most"),
        ({"accelerator": "mps", "devices": 2}, "hardware.devices: this machine has only one such device"),
    ],
)
def test_devices_that_a_machine_lacks_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        check_processes(hardware(**changes), {})


def test_one_process_is_alone_and_speaks_to_nobody():
    with join_processes(hardware()):
        assert (ranks.world_size(), ranks.rank(), ranks.local_rank(), ranks.is_rank_zero()) == (1, 0, 0, True)
        assert ranks.broadcast_from_rank_zero(lambda: "chosen") == ranks.rank_zero_first(lambda: "chosen") == "chosen"
        assert ranks.all_reduce_sum([1.5, 2]) == [1.5, 2]
        assert ranks.any_rank(True)


WORKER = """
import json, os, signal, sys, time
rank, folder = int(os.environ["RANK"]), sys.argv[1]
open(f"{folder}/{rank}.pid", "w").write(str(os.getpid()))

def fail(kind, text):
    told = {"message": {"message": f"{kind}: {text}", "extraInfo": {"py_callstack": "in line 7", "timestamp": "0"}}}
    json.dump(told, open(os.environ["TORCHELASTIC_ERROR_FILE"], "w"))
    note("failed")
    sys.exit(2)

def note(name):
    open(f"{folder}/{name}", "w").close()

def wait_for(name):
    while not os.path.exists(f"{folder}/{name}"):
        time.sleep(0.01)

def stop(*_):
    sys.exit(130)

def wait(seconds=60):
    time.sleep(seconds)

signal.signal(signal.SIGTERM, stop)
"""
"""A worker that loads nothing; what it does with an error is what `record_failure` does."""


def command(folder: Path, *bodies: str) -> list[str]:
    """What each process runs, by rank."""
    choices = "".join(f"if rank == {rank}:\n    {body}\n" for rank, body in enumerate(bodies))
    return [sys.executable, "-c", WORKER + choices, str(folder)]


def alive(folder: Path) -> list[int]:
    numbers = [int(file.read_text()) for file in folder.glob("*.pid")]
    return [number for number in numbers if Path(f"/proc/{number}").exists()]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(launch, "FAILURE_GRACE_SECONDS", 0.5)
    monkeypatch.setattr(launch, "TERMINATE_SECONDS", 1)


@pytest.fixture
def later(tmp_path):
    """Do something once both workers are at work."""
    threads = []

    def start(do):
        def wait_and_do():
            until = time.monotonic() + 30
            while len(list(tmp_path.glob("*.pid"))) < 2 and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(0.5)  # until they have set their handlers
            do(*(int((tmp_path / f"{rank}.pid").read_text()) for rank in (0, 1)))

        threads.append(threading.Thread(target=wait_and_do))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()


def test_all_processes_finish_with_words_as_they_are(tmp_path):
    words = [*command(tmp_path, "wait(0.3)"), "$$ ${local_rank} a b"]
    words[2] += "\nopen(f'{folder}/{rank}.txt', 'w').write(sys.argv[2])"
    assert launch_processes(words, hardware(devices=2)) == 0
    assert [(tmp_path / f"{rank}.txt").read_text() for rank in (0, 1)] == [words[-1]] * 2


GONE, SHAPES = "fail('DataError', 'it is gone.')", "fail('ValueError', 'of shapes')"
RESET = "fail('RuntimeError', 'connection reset')"
FAILURES = {
    "the first fails": ([GONE, "wait()"], "it is gone."),
    "the second fails": (["wait()", GONE], "it is gone."),
    "an exception": (["wait()", SHAPES], "process 1 of 2: ValueError: of shapes"),
    "the first one counts": ([f"wait_for('failed'); {RESET}", SHAPES], "process 1 of 2: ValueError: of shapes"),
    "killed": (
        [f"wait_for('dying'); wait(0.2); {RESET}", "note('dying'); os.kill(os.getpid(), 9)"],
        "process 1 of 2 was killed by SIGKILL",
    ),
    "aborted": (["os.abort()", "wait()"], "process 0 of 2 was killed by SIGABRT"),
    "quietly": (["wait()", "sys.exit(7)"], "process 1 of 2 ended with exit code 7"),
    "halted": (["os.kill(os.getpid(), signal.SIGSTOP); wait()", f"wait(0.5); {GONE}"], "it is gone."),
    "deaf": (["signal.signal(signal.SIGTERM, signal.SIG_IGN); wait()", f"wait(0.5); {GONE}"], "it is gone."),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", FAILURES)
def test_when_one_fails_all_end_and_its_error_is_told(tmp_path, kind):
    bodies, message = FAILURES[kind]
    hint = "" if message == "it is gone." else ". Continue with resume=last."
    with pytest.raises(RunError if hint else DataError) as raised:
        launch_processes(command(tmp_path, *bodies), hardware(devices=2))
    assert str(raised.value) == message + hint
    assert alive(tmp_path) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", launch.SIGNALS)
def test_a_signal_ends_all_as_interrupted(tmp_path, later, number):
    before = [signal.getsignal(one) for one in launch.SIGNALS]
    later(lambda *_: os.kill(os.getpid(), number))
    assert launch_processes(command(tmp_path, "wait()", "wait()"), hardware(devices=2)) == 130
    assert alive(tmp_path) == []
    assert [signal.getsignal(one) for one in launch.SIGNALS] == before


@pytest.mark.sampled(2)
@pytest.mark.parametrize("halted", [0, 1])
def test_a_halted_process_is_woken_to_end(tmp_path, later, halted):
    def halt_and_stop(*workers):
        os.kill(workers[halted], signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGINT)

    later(halt_and_stop)
    start = time.monotonic()
    assert launch_processes(command(tmp_path, "wait()", "wait()"), hardware(devices=2)) == 130
    assert time.monotonic() - start < 30
    assert alive(tmp_path) == []


def test_a_second_signal_ends_processes_that_are_deaf(tmp_path, later):
    def stop_twice(*_):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN); wait()"
    later(stop_twice)
    assert launch_processes(command(tmp_path, deaf, "wait()"), hardware(devices=2)) == 130
    assert alive(tmp_path) == []


def test_a_state_that_cannot_be_saved_is_told(tmp_path, later):
    saving = "signal.signal(signal.SIGTERM, lambda *_: fail('RunError', 'the disk is full.')); wait()"
    later(lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(RunError, match=r"^the disk is full\.$"):
        launch_processes(command(tmp_path, saving, "wait()"), hardware(devices=2))


def test_one_process_that_is_told_to_stop_stops_all(tmp_path, later):
    later(lambda first, second: os.kill(second, signal.SIGTERM))
    assert launch_processes(command(tmp_path, "wait()", "wait()"), hardware(devices=2)) == 130
    assert alive(tmp_path) == []


def record(folder: Path, status: str = "running") -> RunFolder:
    made = RunFolder(folder)
    names = dict.fromkeys(("experiment", "dataset", "model", "attention", "init", "task"), "x")
    made.write_record(RunRecord("train", overrides=[], seed=1, status=status, **names))
    return made


def read(folder: RunFolder) -> tuple[str, str | None]:
    found = json.loads((folder.path / "record.json").read_text())
    return found["status"], found["reason"]


def test_records_that_processes_could_not_complete_are_completed(tmp_path):
    run, stage, done = record(tmp_path), record(tmp_path / "reader"), record(tmp_path / "ranker", "finished")
    draft = temporary_path(tmp_path / "reader" / "record.json")  # of a process that was killed while it wrote
    draft.mkdir()
    (draft / "record.json").write_text("")
    with pytest.raises(RunError, match="was killed by SIGKILL"):
        train_in_processes(run, command(tmp_path, "wait()", "os.kill(os.getpid(), 9)"), hardware(devices=2))
    reason = "RunError: process 1 of 2 was killed by SIGKILL. Continue with resume=last."
    assert read(run) == read(stage) == ("failed", reason)
    assert read(done) == ("finished", None)
    with pytest.raises(RunError):
        train_in_processes(run, command(tmp_path, "wait()", "fail('ValueError', 'bad')"), hardware(devices=2))
    assert "in line 7" in (tmp_path / "traceback.txt").read_text()


def test_an_interrupted_run_says_so(tmp_path, later):
    run = record(tmp_path)
    later(lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    assert train_in_processes(run, command(tmp_path, "wait()", "wait()"), hardware(devices=2)) == 130
    assert read(run) == ("interrupted", "stopped by the user or the scheduler")


JOINED = """
import atexit, os, sys, time
from mate_cli.errors import DataError
from mate_cli.runs import ranks
from mate_cli.runs.configuration import Hardware
from mate_cli.runs.launch import join_processes
from mate_cli.runs.lock import LAUNCHER, terminate_with_parent

terminate_with_parent(int(os.environ[LAUNCHER]))
with join_processes(Hardware.model_validate_json(sys.argv[1])):
    open(f"{sys.argv[2]}/{ranks.rank()}.pid", "w").write(str(os.getpid()))
    print("rank", ranks.rank(), ranks.local_rank(), ranks.all_reduce_sum([1.0 + ranks.rank()]), flush=True)
    BODY
"""


def joined(folder: Path, body: str) -> list[str]:
    """What each process of a group runs."""
    return [sys.executable, "-c", JOINED.replace("BODY", body), hardware(devices=2).model_dump_json(), str(folder)]


@pytest.mark.long
def test_processes_end_when_the_one_that_started_them_is_killed(tmp_path):
    front = os.fork()
    if front == 0:
        launch_processes(joined(tmp_path, "time.sleep(600)"), hardware(devices=2))
        os._exit(0)
    while len(list(tmp_path.glob("*.pid"))) < 2:
        assert os.waitpid(front, os.WNOHANG) == (0, 0)
        time.sleep(0.1)
    os.kill(front, signal.SIGKILL)
    os.waitpid(front, 0)
    until = time.monotonic() + 30
    while alive(tmp_path) and time.monotonic() < until:
        time.sleep(0.1)
    assert alive(tmp_path) == []
