"""Damage, races and full disks that once cost a run, more than itself, or executed too much."""

import itertools
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from configurations import run_config
from filelock import FileLock
from finished_runs import finished_run, here

from mate_cli.cli.config.resolve import resolve
from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.data.loading import cache
from mate_cli.errors import CheckpointError, ConfigError, RunError
from mate_cli.files.safe_load import to_yaml
from mate_cli.pipelines import run_spec
from mate_cli.pipelines.evaluation import evaluate_run
from mate_cli.pipelines.machine import resolve_profile
from mate_cli.runs import folders, lock, loggers
from mate_cli.runs.checkpoints import load_module
from mate_cli.runs.configuration import find_base
from mate_cli.runs.folders import find_resumable, index_file, read_index
from mate_cli.runs.record import RunFolder, RunRecord
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer
from tests.reports.runs import build_run

NAMES = dict.fromkeys(("experiment", "dataset", "model", "attention", "init", "task"), "x")
ABSURD = f"zz: {'1:' * 300}1.5\n"
"""A number in base 60 that no float can hold."""


def test_an_absurd_value_makes_one_run_unreadable(tmp_path):
    parent = tmp_path / "outputs/train/x"
    good = build_run(parent / "good")
    (good / "config.yaml").write_text(to_yaml(folders.read_settings(good)))
    (build_run(parent / "odd") / "config.yaml").write_text(ABSURD)
    assert [run.name for run in read_index(parent) if run.digest] == ["good"]
    config = folders.read_settings(good)
    assert find_resumable("last", parent, config).path == good
    with pytest.raises(RunError, match="cannot be read"):
        find_resumable(str(parent / "odd"), parent, config)


@pytest.mark.parametrize("path", ["x" * 5000, "/proc/1/root/x"])
def test_a_base_that_is_no_path_is_none(tmp_path, path):
    values = {"origin": {"base": {"at": path, "from_run": path}}, "data": {"root": f"{path}/data", "train": path}}
    assert find_base(values, tmp_path).folder == Path.cwd()


def test_a_lock_is_released_where_it_was_taken(tmp_path):
    run, gone = tmp_path / "run", tmp_path / "gone"
    run.mkdir()
    lock.acquire_lock(run)
    run.rename(gone)  # as `mate remove` does
    run.mkdir()
    with FileLock(run / lock.NAME, timeout=1):  # of a new run with the same name
        lock.release_lock(run)
        assert lock.is_locked(run)
    assert not list(gone.iterdir())


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_run_whose_folder_is_moved_stops_and_writes_nothing_in_its_place(tmp_path, is_replaced):
    folder = RunFolder(tmp_path / "run")
    lock.acquire_lock(folder.path)
    metrics = loggers.MetricsFile(folder)
    metrics.log_metrics({"train/loss": 1.0}, 1)
    folder.write_text("config.yaml", "")
    folder.path.rename(tmp_path / "moved")
    if is_replaced:
        folder.path.mkdir()
        (folder.path / "config.yaml").write_text("of another run")
    for write in (lambda: metrics.log_metrics({}, 2), lambda: folder.place("checkpoints/last.ckpt")):
        with pytest.raises(RunError, match="moved or deleted"):
            write()
    folder.undo()
    assert folder.path.exists() is (folder.path / "config.yaml").exists() is is_replaced
    assert not lock.is_locked(tmp_path / "moved")


@pytest.mark.parametrize("key", ["workers", "prepare_workers", "threads"])
def test_a_run_asks_for_no_more_processes_than_a_machine_has_cores_for(key):
    hardware = run_config(["data=sample"]).hardware.model_copy(update={key: 1_000_000})
    with pytest.raises(ConfigError, match=rf"hardware\.{key}: 1,000,000 are too many"):
        resolve_profile(hardware)


def test_weights_of_very_many_tensors_are_refused_at_once(tmp_path):
    entries = {f"t{number}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for number in range(40_000)}
    header = json.dumps(entries).encode()
    (tmp_path / "best.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(CheckpointError, match="list of tensors"):
        load_module(torch.nn.Linear(1, 1), tmp_path / "best.safetensors")


class FullDisk(loggers.Logger):
    """A logger like that of TensorBoard, whose writer thread and next call fail; and whatever else is called."""

    name = version = ""

    def log_metrics(self, metrics, step=None):
        error = OSError(28, "No space left on device")

        def write():
            raise error

        writer = threading.Thread(target=write)
        writer.start()
        writer.join()
        raise ValueError("you tried to log 1, which is not supported") from error

    log_hyperparams = log_graph = after_save_checkpoint = log_metrics


def test_loggers_with_writer_threads_cost_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    monkeypatch.setattr(FullDisk, "log_hyperparams", lambda *_: None)
    record = RunRecord(command="train", overrides=[], seed=1, **NAMES)
    opened = loggers.open_loggers({"full": {"_target_": f"{__name__}.FullDisk"}}, RunFolder(tmp_path), record, {})
    opened[1].log_graph(torch.nn.Linear(1, 1))
    loggers.log_row(opened, {"time": 1.0}, 1)
    loggers.close_loggers(opened, {"dev/f1": 0.5}, 1, 0)
    told = capsys.readouterr().err
    assert (told.count("\n"), "(no space left on device)" in told) == (1, True), told


@pytest.fixture
def encode(tmp_path, monkeypatch):
    """Encode the same examples into a cache; those that it then has, and where."""
    monkeypatch.setattr(cache, "PART", 8)
    monkeypatch.setattr(cache, "_temporary_caches", {}, raising=False)
    examples, serializer = Sample().examples("dev")[:20], TapasSerializer(load_tokenizer("sample"), max_tokens=64)
    return lambda: cache.encode_split(examples, serializer, tmp_path / "cache", "dev")


def test_a_cache_that_is_deleted_or_damaged_in_use_is_written_again(tmp_path, encode, monkeypatch):
    expected = [one.input_ids.tolist() for one in encode()]
    write, folder = cache._write_parts, tmp_path / "cache"
    deletions = itertools.count()

    def write_and_delete(*arguments):
        written = write(*arguments)
        if not next(deletions):
            shutil.rmtree(folder)
        return written

    monkeypatch.setattr(cache, "_write_parts", write_and_delete)
    split = encode()
    assert [split[0].input_ids.tolist()] == expected[:1]
    shutil.rmtree(folder)
    assert [one.input_ids.tolist() for one in split] == expected
    for damage in (lambda file: os.truncate(file, 100), lambda file: (file.unlink(), os.mkfifo(file))):
        for file in folder.glob("*.arrow"):
            damage(file)
        assert [one.input_ids.tolist() for one in encode()] == expected


def test_a_full_cache_is_replaced_by_a_temporary_one(tmp_path, encode, monkeypatch, capsys):
    replace_file = cache.replace_file

    def refuse(path):
        if path.is_relative_to(tmp_path):
            raise OSError(28, "No space left on device")
        return replace_file(path)

    monkeypatch.setattr(cache, "replace_file", refuse)
    assert len(encode()) == 20
    assert (told := capsys.readouterr().err).count("\n") == 1
    assert "no space left on device" in told


def test_a_run_on_a_read_only_disk_is_evaluated(tmp_path, monkeypatch, capsys):
    run = finished_run(tmp_path / "run", ["task=table_qa", "encoding=table"])
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != run)
    monkeypatch.setattr(RunFolder, "write_record", None)
    evaluate_run.evaluate_run(str(run), ["dev"], here(tmp_path))
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    assert "not saved" in capsys.readouterr().out


def prepare(spec, barrier, results):
    barrier.wait(60)
    try:
        results.put(str(run_spec.prepare_run(spec)[0].path))
    except RunError as error:
        results.put(error.problem)
    barrier.wait(60)


def test_of_six_that_train_what_is_missing_one_does(tmp_path, monkeypatch):
    find = folders.find_same
    monkeypatch.setattr(run_spec, "find_same", lambda *arguments: (find(*arguments), time.sleep(0.2))[0])
    spec = resolve(["experiment=quickstart_cells", "logger=none", f"paths.outputs={tmp_path}", "resume=missing"])
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(6), context.Queue()
    processes = [context.Process(target=prepare, args=(spec, barrier, results)) for _ in range(6)]
    for process in processes:
        process.start()
    told = sorted(results.get(timeout=60) for _ in processes)
    for process in processes:
        process.join(60)
    assert told.count("another process is training this run") == 5, told
    assert [path.name for path in (tmp_path / "train" / "quickstart_cells").iterdir()] == [Path(told[0]).name]


def test_a_flipped_bit_of_the_index_is_not_believed(tmp_path):
    parent = tmp_path / "outputs/train/x"
    build_run(parent / "done")
    before = read_index(parent)
    file = index_file(parent)
    for wrong in ("finisAed", "failed"):
        file.write_text(file.read_text().replace("finished", wrong))
        assert read_index(parent) == before


def test_a_folder_with_a_lock_alone_is_removed_by_who_sees_it(tmp_path):
    parent = tmp_path / "outputs/train/x"
    for name in ("old", "young", "mine", "locked"):
        (parent / name).mkdir(parents=True)
        (parent / name / lock.NAME).touch()
    (parent / "mine" / "notes.md").touch()
    for name in ("old", "mine", "locked"):
        os.utime(parent / name, (1, 1))
    with FileLock(parent / "locked" / lock.NAME, timeout=1):
        read_index(parent)
        assert sorted(path.name for path in parent.iterdir()) == ["locked", "mine", "young"]


def test_a_file_and_its_folder_are_synced_to_the_disk(tmp_path, monkeypatch):
    synced, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: (synced.append(os.fstat(number).st_ino), sync(number)))
    RunFolder(tmp_path).write_text("record.json", "{}")
    assert synced == [(tmp_path / "record.json").stat().st_ino, tmp_path.stat().st_ino]


@pytest.mark.long
def test_a_run_in_training_whose_outputs_are_moved_ends_in_one_line(tmp_path):
    words = ["experiment=quickstart_cells", "logger=none", "trainer.max_steps=400", f"paths.outputs={tmp_path}/a"]
    command = [sys.executable, "-m", "mate_cli", "train", *words, "hardware.threads=1", "trainer.log_every=1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not list(tmp_path.glob("a/train/*/*/metrics.jsonl")):
            assert process.poll() is None
            time.sleep(0.1)
        (tmp_path / "a").rename(tmp_path / "b")
        printed = process.communicate(timeout=120)[1]
    errors = [line for line in printed.splitlines() if line.startswith("error: ")]
    assert (process.returncode, len(errors), "Traceback" in printed) == (2, 1, False), printed
    assert "moved or deleted" in errors[0]
    assert not (tmp_path / "a").exists()
