"""What fails is recorded as not run, with its reason, and the benchmark goes on."""

import json
from pathlib import Path

import pytest
import torch

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.benchmark.timing import NotRun, attempt, time_turns
from mate_cli.cli.app import main
from mate_cli.errors import ConfigError

CPU = torch.device("cpu")
LATER = "later"


class Faulty(Sdpa):
    """Fails as asked, from a call on."""

    def __init__(self, fault: str, calls: int = 0) -> None:
        self.fault, self.left = fault, calls

    def prepare(self, plan):
        if self.fault == "plan":
            raise ValueError("no plan")

    def forward(self, qkv, plan, key_bias=None, dropout=0.0):
        self.left -= 1
        if self.fault != "plan" and self.left < 0:
            if self.fault == LATER:
                raise RuntimeError("now and then")
            raise torch.AcceleratorError("CUDA error: misaligned address\nmore")
        return super().forward(qkv, plan, key_bias, dropout)


@pytest.fixture
def faulty(tmp_path, monkeypatch):
    """A backend of the user's own below ./conf."""
    folder = tmp_path / "conf" / "attention"
    folder.mkdir(parents=True)

    def add(fault, calls=0):
        target = f"_target_: {__name__}.Faulty\nfault: {fault}\ncalls: {calls}\n"
        (folder / "faulty.yaml").write_text(target)

    monkeypatch.chdir(tmp_path)
    return add


def run(tmp_path, *words):
    assert main(["benchmark", f"paths.outputs={tmp_path}", *words]) == 0
    (record,) = Path(tmp_path).glob("benchmark/*/*/record.json")
    return json.loads(record.read_text())


ATTENTION = [
    *("benchmark=attention", "benchmark.shapes=[tall]", "benchmark.lengths=[32]", "benchmark.batches=[1]"),
    *("benchmark.real=null", "benchmark.backends=[dense,faulty,segments]", "benchmark.heads=2"),
    *("benchmark.head_size=8", "benchmark.rounds=2", "benchmark.threads=1"),
]


def test_attention_that_fails(faulty, tmp_path):
    faulty("plan")
    record = run(tmp_path, *ATTENTION)
    assert record["status"] == "finished"
    for direction in ("forward", "forward_backward"):
        assert record["facts"][f"attention/faulty/tall/32/1/{direction}/not_run"] == "ValueError: no plan"
        assert record["metrics"][f"attention/segments/tall/32/1/{direction}/ms"] > 0


def test_attention_that_is_only_compared_in_vain(faulty, tmp_path):
    faulty(LATER, calls=2 + 6)  # trials, then three calls in each direction
    record = run(tmp_path, *ATTENTION)
    assert record["metrics"]["attention/faulty/tall/32/1/forward/ms"] > 0
    assert record["facts"]["errors/faulty/tall/32/1/not_run"] == "RuntimeError: now and then"
    assert record["metrics"]["attention/segments/tall/32/1/forward/max_error"] < 1e-5


def test_a_failure_in_a_later_round_takes_no_other_variant_along():
    left = [3]

    def fails():
        left[0] -= 1
        if not left[0]:
            raise RuntimeError("now and then")

    timings = time_turns({"bad": fails, "good": lambda: None}, rounds=5, seconds=9, device=CPU)
    assert timings["bad"] == NotRun("RuntimeError: now and then")
    assert (timings["good"].rounds, left) == (5, [0])


def test_what_was_typed_wrong_ends_it():
    def mistyped():
        raise ConfigError("no such key", where="benchmark.networks")

    with pytest.raises(ConfigError):
        attempt(mistyped)
    assert attempt(lambda: 3) == 3
