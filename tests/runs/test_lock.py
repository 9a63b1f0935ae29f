"""One run has one writer: also after a kill, and with several machines."""

import fcntl
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mate_cli.cli.config.resolve import resolve
from mate_cli.errors import RunError
from mate_cli.files.atomic import remove_drafts
from mate_cli.pipelines.run_spec import prepare_run
from mate_cli.runs import lock
from mate_cli.runs.configuration import read_settings
from mate_cli.runs.folders import new_folder
from mate_cli.runs.lock import is_dead

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
    with pytest.raises(RunError, match="another process is training this run"):
        lock.acquire_lock(tmp_path)
    holder.kill()
    holder.wait()
    lock.acquire_lock(tmp_path)
    lock.acquire_lock(tmp_path)  # this process has it already
    lock.release_lock(tmp_path)
    assert not list(tmp_path.iterdir())


def test_who_only_looks_does_not_keep_a_writer_away(tmp_path):
    assert not lock.is_locked(tmp_path)
    (tmp_path / lock.NAME).touch()
    assert not lock.is_locked(tmp_path)
    looking = threading.Thread(target=lambda: [lock.is_locked(tmp_path) for _ in range(5000)])
    looking.start()
    for _ in range(20):
        lock.acquire_lock(tmp_path)
        assert lock.is_locked(tmp_path)
        lock.release_lock(tmp_path)
    looking.join()


def test_a_lock_is_held_for_another_process_and_goes_over_to_it(tmp_path, holder, monkeypatch):
    for name, value in lock.delegate_lock(tmp_path).items():
        monkeypatch.setenv(name, value)
    lock.acquire_lock(tmp_path)  # that process holds it for this one
    holder.kill()
    holder.wait()
    until = time.monotonic() + 10
    while not lock.is_locked(tmp_path) and time.monotonic() < until:
        time.sleep(0.01)
    monkeypatch.delenv(lock.ENTRUSTED)
    another = f"{HOLDER.partition('acquire_lock(')[0]}acquire_lock(Path(sys.argv[1]))"
    with subprocess.Popen([sys.executable, "-c", another, str(tmp_path)], stderr=subprocess.PIPE, text=True) as third:
        assert "another process is training this run" in third.communicate(timeout=30)[1]
    lock.release_lock(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_process_does_not_release_the_lock_that_another_process_holds_for_it(tmp_path, holder, monkeypatch):
    for name, value in lock.delegate_lock(tmp_path).items():
        monkeypatch.setenv(name, value)
    lock.acquire_lock(tmp_path)
    lock.release_lock(tmp_path)
    assert lock.is_locked(tmp_path)


@pytest.mark.parametrize("at_work", [True, False])
def test_a_run_is_at_work_as_long_as_its_lock_is_held_wherever_its_process_is(tmp_path, holder, at_work):
    if not at_work:
        holder.kill()
        holder.wait()
    elsewhere = {"status": "running", "host": "another-host", "process": "1:1"}
    assert is_dead(tmp_path, elsewhere) is not at_work
    assert not is_dead(tmp_path, {**elsewhere, "status": "finished"})


def test_a_folder_that_cannot_be_locked_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="the run cannot be locked: file exists"):
        lock.acquire_lock(tmp_path / "file")


def left_draft(folder, number=0, name="final.safetensors"):
    """What a process leaves that is killed while a library writes a file, with a file of the library's own."""
    draft = folder / f".{name}.{number:012x}.draft"
    draft.mkdir(parents=True)
    (draft / name).write_text("half")
    (draft / ".tmpAbCdEf").write_text("half")
    return draft


def test_what_a_killed_process_has_half_written_is_removed(tmp_path):
    outside, run = tmp_path / "outside", tmp_path / "run"
    kept = [left_draft(outside), left_draft(run, 1)]
    (run / "predictions").symlink_to(outside)
    for folder in (run, run / "checkpoints", run / "evaluation" / "other"):
        left_draft(folder, 2)
    writing = os.open(kept[1], os.O_RDONLY)  # somebody is at work there, in whichever container
    fcntl.flock(writing, fcntl.LOCK_EX)
    remove_drafts(run)
    os.close(writing)
    assert sorted(tmp_path.rglob("*.draft")) == sorted(kept)


def test_a_lock_that_is_a_link_is_not_written_through(tmp_path):
    precious, run = tmp_path / "precious", tmp_path / "train" / "x" / "old"
    precious.write_text("mine")
    run.mkdir(parents=True)
    (run / lock.NAME).symlink_to(precious)
    with pytest.raises(RunError, match=r"cannot be locked: .*remove the \.lock there"):
        lock.acquire_lock(run)
    os.utime(run, (1, 1))
    new_folder(tmp_path, "train/x")  # removes what was abandoned
    assert precious.read_text() == "mine"


def test_a_new_run_leaves_the_folders_beside_it(tmp_path):
    parent = tmp_path / "train" / "x"
    (parent / "empty").mkdir(parents=True)
    (parent / "locked").mkdir()
    (parent / "locked" / lock.NAME).touch()
    for name in ("empty", "locked"):
        os.utime(parent / name, (1, 1))
    made = new_folder(tmp_path, "train/x")
    assert {path.name for path in parent.iterdir()} == {"empty", "locked", made.path.name}


NODES, ROUNDS, LATENCY = 4, 10, 0.005


def slow_file_system(patch):
    """Let folders be listed, looked for and made as late as on a file system of a network."""

    def delay(plain):
        def late(*words, **options):
            time.sleep(LATENCY)
            return plain(*words, **options)

        return late

    for name in ("mkdir", "exists", "glob", "iterdir"):
        patch.setattr(Path, name, delay(getattr(Path, name)))


def run_node(specs, barrier):
    with pytest.MonkeyPatch.context() as patch:
        slow_file_system(patch)
        for spec in specs:
            barrier.wait(60)
            folder, record = prepare_run(spec)
            record.status = "finished"
            folder.write_record(record)
            lock.release_lock(folder.path)


@pytest.mark.long
def test_runs_that_begin_at_once_have_a_folder_each(tmp_path):
    spec = resolve(["experiment=quickstart_cells", "logger=none", f"paths.outputs={tmp_path}"])
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(NODES)
    seeds = [[round_ * NODES + node for round_ in range(ROUNDS)] for node in range(NODES)]
    processes = [context.Process(target=run_node, args=([with_seed(spec, s) for s in own], barrier)) for own in seeds]
    for process in processes:
        process.start()
    for process in processes:
        process.join(100)
    assert [process.exitcode for process in processes] == [0] * NODES
    runs = list((tmp_path / "train" / "quickstart_cells").iterdir())
    assert len(runs) == NODES * ROUNDS
    written = [(json.loads((run / "record.json").read_text())["seed"], read_settings(run)["seed"]) for run in runs]
    assert sorted(written) == [(seed, seed) for seed in range(NODES * ROUNDS)]


def with_seed(spec, seed):
    (stage,) = spec.stages
    return replace(spec, stages=(stage.model_copy(update={"seed": seed}),))
