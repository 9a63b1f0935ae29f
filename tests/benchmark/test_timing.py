"""Variants take turns, and what takes too long is left out; time here is what the test says it is."""

import json
import statistics
import subprocess
import sys

import pytest
import torch

from mate_cli.benchmark.timing import NotRun, Pace, Variant, measure_variants, time_turns
from mate_cli.errors import ConfigError

CPU = torch.device("cpu")


class FakeTime:
    """A clock that calls move on, by 2 CPU seconds for each second."""

    def __init__(self):
        self.now, self.calls = 0.0, []

    def read(self):
        return self.now, 2 * self.now

    def call(self, name, *seconds):
        left = list(seconds)

        def work():
            self.calls.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return work


@pytest.fixture
def time(monkeypatch):
    fake = FakeTime()
    monkeypatch.setattr("mate_cli.benchmark.timing.clock", lambda device: fake.read)
    return fake


def test_rounds_are_interleaved_and_medians_count(time):
    calls = {"a": time.call("a", 5, 1, 9, 2), "b": time.call("b", 1)}
    timings = time_turns(calls, rounds=3, seconds=100, device=CPU)
    assert time.calls == ["a", "b"] * 4
    assert (timings["a"].ms, timings["a"].cpu_ms, timings["a"].rounds) == (2000, 4000, 3)
    assert timings["b"].ms == 1000


def test_there_are_fewer_rounds_when_they_take_long_but_at_least_one(time):
    calls = {"a": time.call("a", 2), "b": time.call("b", 1)}
    assert time_turns(calls, rounds=9, seconds=7, device=CPU)["a"].rounds == 2
    assert time_turns(calls, rounds=9, seconds=2.5, device=CPU)["b"].rounds == 1


def test_a_first_call_over_the_limit_is_the_only_one(time):
    calls = {"slow": time.call("slow", 11), "fast": time.call("fast", 1)}
    timings = time_turns(calls, rounds=2, seconds=10, device=CPU)
    assert time.calls == ["slow", "fast", "fast", "fast"]
    assert timings["slow"] == NotRun("one call took 11.0 s, the limit is 10 s")
    assert list(timings) == ["slow", "fast"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConfigError("needs a GPU"), "needs a GPU"),
        (NotImplementedError("no backward\nsee the manual"), "no backward"),
        (LookupError("\n shapes \nmore"), "LookupError: shapes"),
        (MemoryError(), "out of memory"),
        (torch.OutOfMemoryError("CUDA out of memory"), "out of memory"),
    ],
)
def test_a_refusal_is_a_reason(error, reason):
    def refuse():
        raise error

    timings = time_turns({"a": refuse, "b": lambda: torch.empty(2**60)}, rounds=1, seconds=1, device=CPU)
    assert [timing.not_run for timing in timings.values()] == [reason, "out of memory"]


def variant(call, gflop):
    return Variant(call, (), {"forward": gflop})


def test_what_is_known_to_take_too_long_is_not_called():
    def call():
        raise AssertionError

    pace = Pace(rounds=1, seconds=10, device=CPU, peak=100.0, speeds={"known": 10.0})
    timings = measure_variants({"known": variant(call, 150.0), "new": variant(call, 1500.0)}, "forward", pace)
    assert timings == {name: NotRun("a call would take 15 s, the limit is 10 s") for name in ("known", "new")}


def test_a_speed_is_remembered():
    pace = Pace(rounds=1, seconds=10, device=CPU, peak=1e9)
    timings = measure_variants({"a": variant(lambda: None, 1.0)}, "forward", pace)
    assert pace.speeds["a"] == pytest.approx(1000 / timings["a"].ms)


def test_memory_that_cannot_be_measured_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr("mate_cli.benchmark.timing.CLEAR", tmp_path / "missing" / "clear_refs")
    assert time_turns({"a": lambda: None}, rounds=1, seconds=1, device=CPU)["a"].peak_mb is None


@pytest.mark.long
def test_peak_memory_sees_what_is_freed_again():
    fresh = (  # a process of its own: what other tests left to the allocator would be taken again unseen
        "import torch; from mate_cli.benchmark.timing import clock, time_first_call; cpu = torch.device('cpu'); "
        "call = lambda: torch.ones(16, 1_000_000).sum(); "
        "print([time_first_call(call, clock(cpu), cpu)[1] for _ in range(3)])"
    )
    done = subprocess.run([sys.executable, "-c", fresh], capture_output=True, text=True, check=True)
    needed = json.loads(done.stdout.replace("None", "null"))
    if None in needed:
        pytest.skip("peak memory cannot be measured on this system")
    assert 60 < statistics.median(needed) < 90
