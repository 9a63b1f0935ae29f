"""What benchmarks of attention and of encoders have in common: on what they measure, and how carefully."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import PositiveFloat, PositiveInt

from mate_cli.benchmark.inputs.cases import Case, drawn_cases, picked_cases
from mate_cli.benchmark.inputs.real_tables import encode_dataset
from mate_cli.benchmark.results import Pace
from mate_cli.benchmark.timing.machine import DTYPES, find_device, threads
from mate_cli.benchmark.timing.timing import expected_seconds
from mate_cli.errors import DataError, MissingDependencyError
from mate_cli.terminal.console import Console


@dataclass(kw_only=True)
class BenchmarkOptions:
    """The keys of a benchmark.

    Args:
        shapes: of the drawn tables, see `SHAPES`.
        lengths: tokens of the drawn tables.
        batches: of drawn tables: numbers of examples, or "mixed" for four of different lengths.
        real: folders of real tables by dataset, see `ENCODERS`; those that are not there are left out; None for none.
        real_batches: of real tables.
        tokenizer: name of a vocabulary, for real tables.
        max_tokens: the longest encoding of a real table.
        rounds: at most so many.
        seconds: about so long in all rounds of one case and direction; a variant of which one call takes longer
            is not run.
        dtype: of the projections.
        device: cpu or cuda.
        threads: None for as many as PyTorch likes.
    """

    shapes: list[str]
    lengths: list[PositiveInt]
    batches: list[PositiveInt | Literal["mixed"]]
    real: dict[str, str] | None
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
        for name, root in (self.real or {}).items():
            try:
                encodings = encode_dataset(name, root, self.tokenizer, self.max_tokens)
            except (DataError, MissingDependencyError) as error:
                Console(stderr=True, highlight=False).print(f"{name} is left out: {error}", soft_wrap=True)
                continue
            yield from picked_cases(name, encodings, self.real_batches)

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
