"""What benchmarks of attention and of encoders have in common: on what they measure, and how carefully."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import PositiveFloat, PositiveInt

from mate_cli.benchmark.inputs.cases import Case, drawn_cases, picked_cases
from mate_cli.benchmark.inputs.real_tables import encode_dataset, find_real
from mate_cli.benchmark.results import Figures, Pace
from mate_cli.benchmark.timing.countdown import counted
from mate_cli.benchmark.timing.machine import DTYPES, find_device, machine_facts, threads
from mate_cli.benchmark.timing.timing import expected_seconds
from mate_cli.errors import DataError, MissingDependencyError
from mate_cli.terminal.console import Console

DIRECTIONS = {"forward": False, "forward_backward": True}


@dataclass(kw_only=True)
class BenchmarkOptions(ABC):
    """Keys and course of a benchmark of several variants; what keys mean stands in `conf/benchmark`."""

    shapes: list[str]
    lengths: list[PositiveInt]
    batches: list[PositiveInt | Literal["mixed"]]
    real: dict[str, str] | None
    folders: list[str]
    real_batches: list[PositiveInt | Literal["mixed"]]
    tokenizer: str
    max_tokens: PositiveInt
    rounds: PositiveInt
    seconds: PositiveFloat
    dtype: Literal["float32", "bfloat16", "float16"]
    device: Literal["cpu", "cuda"]
    threads: PositiveInt | None

    def cases(self) -> Iterator[Case]:
        """The batches to measure on, one at a time."""
        yield from drawn_cases(self.shapes, self.lengths, self.batches)
        for name, root in find_real(self.real, self.folders).items():
            try:
                encodings = encode_dataset(name, root, self.tokenizer, self.max_tokens)
            except (DataError, MissingDependencyError) as error:
                Console(stderr=True, highlight=False).print(f"{name} is left out: {error}", soft_wrap=True)
                continue
            yield from picked_cases(name, encodings, self.real_batches)

    def __iter__(self) -> Iterator[Figures]:
        """Measure, and yield the figures of one case after another.

        Raises:
            ConfigError: a name is unknown, or the device is not there.
        """
        with self.pace() as pace:
            speeds = self.rehearse(pace.device)
            yield machine_facts(pace.device)
            cases = {case.name: case for case in self.cases()}
            expected = {
                name: sum(self.expected_seconds(self.gflop(case, backward=one), speeds) for one in DIRECTIONS.values())
                for name, case in cases.items()
            }
            for _, case in counted(cases, expected):
                yield self.measure(case, pace)

    @abstractmethod
    def rehearse(self, device: torch.device) -> dict[str, float]:
        """Call every variant once on a small table, so that what is compiled or loaded at first use is not timed.

        Returns:
            GFLOP per second of each in a second call on a larger table, to tell how long the benchmark will take.
        """

    @abstractmethod
    def gflop(self, case: Case, *, backward: bool) -> dict[str, float]:
        """The work of one call of each variant that can do a case."""

    @abstractmethod
    def measure(self, case: Case, pace: Pace) -> Figures:
        """All figures of one case."""

    @property
    def torch_dtype(self) -> torch.dtype:
        """`dtype` as PyTorch's own."""
        return DTYPES[self.dtype]

    @contextmanager
    def pace(self) -> Iterator[Pace]:
        """Measure the machine's peak, and keep the number of threads, while a benchmark runs.

        Raises:
            ConfigError: the device is not there.
        """
        device = find_device(self.device)
        with threads(self.threads):
            pace = Pace(self.rounds, self.seconds, device, 0.0, {}, self.torch_dtype)
            pace.measure_peak(seconds=0.5)
            yield pace

    def expected_seconds(self, work: Mapping[str, float], speeds: Mapping[str, float]) -> float:
        """Return about how long all rounds of one case and direction take.

        Args:
            work: GFLOP of a call of each variant.
            speeds: GFLOP per second of each, from its trial; those without one are not run.
        """
        calls = [gflop / speeds[name] for name, gflop in work.items() if name in speeds]
        return expected_seconds(calls, rounds=self.rounds, seconds=self.seconds)
