"""A split is encoded by any number of processes: the same file, one message when it fails, and nobody is left."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.data.loading import cache, parallel
from mate_cli.data.loading.cache import encode_split
from mate_cli.errors import DataError
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """Start processes at once."""
    monkeypatch.setattr(parallel, "TRIAL_SECONDS", 0.0)
    monkeypatch.setattr(parallel, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(cache, "PART", 8)


@pytest.fixture(scope="module")
def examples():
    return Sample().examples("dev")[:60]


def make(kind=TapasSerializer):
    return kind(load_tokenizer("sample"), max_tokens=96, lexical_features=True)


def assert_nothing_is_half_done(folder):
    assert all(path.is_file() and path.suffix == ".arrow" for path in folder.iterdir())
    until = time.monotonic() + 10
    while multiprocessing.active_children() and time.monotonic() < until:
        time.sleep(0.05)
    assert not multiprocessing.active_children()


class Failing(TapasSerializer):
    """Refuses an example."""

    def encode(self, examples):
        if len(examples) < 8:
            raise DataError("a cell is broken", remedy="Mend it")
        return super().encode(examples)


class Killed(TapasSerializer):
    """Is killed at the end, for want of memory."""

    def encode(self, examples):
        if len(examples) < 8:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().encode(examples)


@pytest.mark.long
def test_files_are_the_same_for_any_number_of_processes(examples, tmp_path):
    for processes in (1, 2):
        split = encode_split(examples, make(), tmp_path / str(processes), "dev", processes)
        assert split.example_ids == [example.example_id for example in examples]
    alone, shared = ({file.name: file.read_bytes() for file in (tmp_path / n).iterdir()} for n in "12")
    assert len(alone) == 8
    assert alone == shared


def test_an_encoding_that_was_killed_goes_on(examples, tmp_path, monkeypatch):
    with pytest.raises(DataError):
        encode_split(examples, make(Failing), tmp_path, "dev")
    done = len(list(tmp_path.iterdir()))
    encode_split(examples[:24], make(), tmp_path, "dev")  # a part of the same examples, in an order of its own
    before = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert len(before) == 3 + done
    encoded = []
    whole = TapasSerializer.encode

    def encode(self, some):
        encoded.extend(some)
        return whole(self, some)

    monkeypatch.setattr(TapasSerializer, "encode", encode)
    split = encode_split(examples, make(), tmp_path, "dev")
    assert split.example_ids == [example.example_id for example in examples]
    assert len(encoded) == 60 - 24
    encoded.clear()
    encode_split(examples, make(), tmp_path, "dev")
    assert not encoded


def test_two_processes_that_find_the_same_missing_share_it(examples, tmp_path):
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=encode_split, args=(examples, make(), tmp_path, "dev")) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    alone = encode_split(examples, make(), tmp_path / "alone", "dev")
    together = encode_split(examples, make(), tmp_path, "dev")
    for place in range(len(alone)):
        assert alone[place].input_ids.tolist() == together[place].input_ids.tolist()


@pytest.mark.long
@pytest.mark.skipif(not parallel.ENDS_BROKEN_POOLS, reason="this Python encodes in one process")
@pytest.mark.parametrize(
    ("kind", "message"),
    [(Failing, "^a cell is broken. Mend it.$"), (Killed, r"was killed. Memory may be short: set hardware.prepare_w")],
)
def test_a_failure_of_a_process_is_one_error_and_leaves_nothing(examples, tmp_path, kind, message):
    with pytest.raises(DataError, match=message) as raised:
        encode_split(examples, make(kind), tmp_path, "dev", 2)
    if kind is Failing:
        assert "in encode" in str(raised.value.__cause__), "the traceback of the other process"
    assert_nothing_is_half_done(tmp_path)


def test_a_full_disk_is_named(examples, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "replace_file", refuse)
    with pytest.raises(DataError, match="no space left on device"):
        encode_split(examples, make(), tmp_path, "dev")
    assert_nothing_is_half_done(tmp_path)


@pytest.mark.timeout(60)
def test_processes_that_are_ended_before_their_results_are_taken_keep_nobody_waiting():
    for number in range(3):
        items = [bytes(2_000_000 + place) for place in range(20)]
        with closing(parallel.map_on_cores(len, items, 2)) as found:
            assert [next(found) for _ in range(1 + number)] == [len(item) for item in items[: 1 + number]]
    assert not multiprocessing.active_children()


@dataclass
class Slow:
    """Notes the process and takes long."""

    folder: Path

    def __call__(self, item: int) -> int:
        (self.folder / str(os.getpid())).touch()
        time.sleep(0.2)
        return item


SCRIPT = """
import sys
from pathlib import Path
from mate_cli.data.loading import parallel
from test_encoding_in_processes import Slow
parallel.TRIAL_SECONDS = parallel.MIN_SECONDS = 0.0
try:
    list(parallel.map_on_cores(Slow(Path(sys.argv[1])), range(500), 2))
except KeyboardInterrupt:
    sys.exit(130)
"""


def is_alive(number):
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
@pytest.mark.long
@pytest.mark.parametrize(("number", "whole_group"), [(signal.SIGINT, True), (signal.SIGKILL, False)])
def test_nobody_outlives_a_process_that_is_stopped(tmp_path, number, whole_group):
    paths = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]  # no guard of the main module
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": paths}, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        until = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        others = [int(path.name) for path in tmp_path.iterdir()]
        assert len(others) == 2
        (os.killpg if whole_group else os.kill)(process.pid, number)
        assert process.wait(30) == (130 if number == signal.SIGINT else -number)
        until = time.monotonic() + 20
        while any(map(is_alive, others)) and time.monotonic() < until:
            time.sleep(0.05)
        assert not any(map(is_alive, others))
        if number == signal.SIGINT:
            assert process.stderr.read() == ""
