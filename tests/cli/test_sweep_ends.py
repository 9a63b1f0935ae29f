"""A sweep whose jobs end in every way: killed, without a number for a loss, hanging, and stopped by its user."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_sweep import SMALL

from mate_cli.runs.lock import is_alive, process_id

pytestmark = pytest.mark.long
SECONDS = 3600
"""Only a sweep that hangs takes so long, however busy the machine is."""
RATES = {"finishes": "0.001", "is killed": "0.002", "explodes": "1e+38", "hangs": "0.003"}


@pytest.fixture
def start():
    """Start a sweep in a folder; none outlives the test."""
    started = []
    yield lambda folder, *words: started.append(sweep_of(folder, *words)) or started[-1]
    for sweep in started:
        sweep.kill()
        sweep.communicate()


def sweep_of(folder, *words):
    words = [*SMALL, "trainer.max_steps=24", "trainer.max_epochs=null", "trainer.checkpoint_every=1", *words]
    command = [sys.executable, "-m", "mate_cli", "train", "-m", *words, f"paths.outputs={folder}"]
    pipe = subprocess.PIPE  # as a shell does, each command in a group of its own
    return subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def records(folder):
    """The records of runs by their learning rate, with their folders."""
    found = {}
    for path in folder.glob("train/*/*/record.json"):
        record = json.loads(path.read_text())
        settings = dict(word.split("=", 1) for word in record["overrides"])
        found[settings["optimizer.lr"]] = (path.parent, record)
    return found


def process_of(folder, rate, sweep):
    """The process of a job after its first step, with all others still before it."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        assert sweep.poll() is None, sweep.communicate()
        path, record = records(folder).get(rate, (None, {"status": "running"}))
        assert record["status"] == "running", f"the job with {rate} has ended"
        if path and (path / "checkpoints/last.ckpt").exists():
            return int(record["process"].partition(":")[0])
        time.sleep(0.01)
    pytest.fail(f"the job with {rate} never began")


def weights(folder):
    return {
        rate: (path / "checkpoints/final.safetensors").read_bytes()
        for rate, (path, record) in records(folder).items()
        if record["status"] == "finished"
    }


def test_whatever_ends_its_jobs_a_sweep_is_completed(tmp_path, start):
    folder, whole = tmp_path / "outputs", tmp_path / "whole"
    sweep = start(folder, f"optimizer.lr={','.join(RATES.values())}")
    os.kill(process_of(folder, RATES["is killed"], sweep), signal.SIGKILL)
    hanging = process_of(folder, RATES["hangs"], sweep)
    os.kill(hanging, signal.SIGSTOP)
    sweep.send_signal(signal.SIGINT)
    time.sleep(2)
    assert sweep.poll() is None  # it waits for its job to save its state
    sweep.send_signal(signal.SIGINT)
    said, _ = sweep.communicate(timeout=SECONDS)
    assert (sweep.returncode, "Traceback" in said) == (130, False), said
    with pytest.raises(ProcessLookupError):
        os.kill(hanging, 0)
    found = {name: records(folder)[rate][1] for name, rate in RATES.items()}
    assert [found[name]["status"] for name in ("finishes", "is killed", "explodes")] == ["finished", "failed", "failed"]
    assert "killed (SIGKILL)" in found["is killed"]["reason"]
    assert "the loss is" in found["explodes"]["reason"]

    good = [rate for name, rate in RATES.items() if name != "explodes"]
    ended = [RATES[name] for name in ("is killed", "hangs")]
    asked = ((folder, good, ["resume=missing"]), (whole, ended, []))
    for again in [start(place, f"optimizer.lr={','.join(rates)}", *words) for place, rates, words in asked]:
        said, _ = again.communicate(timeout=SECONDS)
        assert again.returncode == 0, said
    completed, expected = weights(folder), weights(whole)
    assert (sorted(completed), sorted(expected)) == (sorted(good), sorted(ended))
    assert {rate: completed[rate] for rate in ended} == expected
    assert not [path for path in folder.rglob(".*") if path.is_file()]


LAUNCHERS = {
    "one by one": ([], 1),
    "joblib": (["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"], 2),
    "submitit": (["hydra/launcher=submitit_local"], 3),
}


def begin(folder, start, launcher):
    """Start a long sweep, and wait until as many jobs train as the launcher runs at once; return both."""
    words, at_once = LAUNCHERS[launcher]
    if words:
        pytest.importorskip(f"hydra_plugins.hydra_{launcher}_launcher")
    long = ["trainer.max_steps=5000", "trainer.checkpoint_every=4999", "trainer.val_every=5000"]
    sweep = start(folder, "optimizer.lr=0.001,0.002,0.003", *long, *words)
    until = time.monotonic() + SECONDS
    while sum(file.stat().st_size > 0 for file in folder.glob("train/*/*/metrics.jsonl")) < at_once:
        assert sweep.poll() is None, sweep.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)
    return sweep, at_once


@pytest.mark.parametrize(
    ("launcher", "number"),
    [
        *((launcher, signal.SIGTERM) for launcher in LAUNCHERS),
        ("one by one", signal.SIGINT),
        ("joblib", signal.SIGHUP),
        ("submitit", signal.SIGINT),
    ],
)
def test_jobs_save_their_states_when_a_sweep_is_to_end(tmp_path, start, launcher, number):
    """A terminal that closes and Ctrl-C reach the whole group, as `kill` does not.

    Of the two each launcher meets the one on which its helpers would print tracebacks; see `submission.py`.
    """
    sweep, at_once = begin(tmp_path, start, launcher)
    (os.kill if number == signal.SIGTERM else os.killpg)(sweep.pid, number)
    said, _ = sweep.communicate(timeout=SECONDS)
    assert (sweep.returncode, "Traceback" in said) == (130, False), said
    assert "3 jobs: 3 interrupted" in said
    assert "launcher stopped early" not in said
    found = [(path, record["status"]) for path, record in records(tmp_path).values()]
    assert [status for _, status in found] == ["interrupted"] * at_once
    assert all((path / "checkpoints" / "last.ckpt").exists() for path, _ in found)


@pytest.mark.parametrize("launcher", ["one by one", "joblib"])
def test_a_sweep_that_is_killed_takes_its_jobs_along(tmp_path, start, launcher):
    sweep, at_once = begin(tmp_path, start, launcher)
    children = Path(f"/proc/{sweep.pid}/task/{sweep.pid}/children").read_text().split()
    workers = [process_id(int(number)) for number in children]
    sweep.kill()
    sweep.wait()
    until = time.monotonic() + 60
    while any(map(is_alive, workers)) or any(one["status"] == "running" for _, one in records(tmp_path).values()):
        assert time.monotonic() < until
        time.sleep(0.1)
    found = [(path, record["status"]) for path, record in records(tmp_path).values()]
    assert [status for _, status in found] == ["interrupted"] * at_once
    assert all((path / "checkpoints" / "last.ckpt").exists() for path, _ in found)
