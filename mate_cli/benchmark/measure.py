"""Execution of a benchmark, and the record of its measurements."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import torch
from hydra.utils import instantiate
from pydantic import PositiveFloat, PositiveInt

from mate_cli.benchmark.cases import Case, draw_cases, encode_dataset, find_real, pick_cases
from mate_cli.benchmark.timing import (
    DIRECTIONS,
    FORWARD,
    Figures,
    NotRun,
    Pace,
    Timing,
    Variant,
    attempt,
    find_device,
    machine_facts,
    matmul_peak,
    measure_variants,
    threads,
)
from mate_cli.errors import DataError, MissingDependencyError
from mate_cli.files.safe_load import to_yaml
from mate_cli.runs.folders import new_folder
from mate_cli.runs.lock import release_lock
from mate_cli.runs.record import Clock, RunFolder, RunRecord, utc_timestamp
from mate_cli.terminal.console import Console
from mate_cli.terminal.progress import time_text


class BenchmarkStopped(KeyboardInterrupt):
    """Error that is raised if a user or a signal interrupts a benchmark.

    Args:
        folder: run folder with the measurements made before the interrupt.
    """

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self.folder = folder


def measure(name: str, config: Mapping[str, Any], outputs: Path, *, seed: int, overrides: list[str]) -> RunFolder:
    """Run a benchmark, and write its configuration and measurements to outputs/benchmark/.

    The `_target_` of `benchmark` is an iterable that yields mappings of measurements by name. The record is written
    after each mapping, so earlier measurements are stored even if a later one fails. Text values (the name of the
    machine, the reason why something was not run) are stored in `facts` of the record.

    Args:
        name: name of the benchmark.
        config: resolved configuration.
        outputs: folder of all runs.
        seed: seed for the record.
        overrides: command-line overrides for the record.

    Returns:
        The run folder with config.yaml and record.json.

    Raises:
        BenchmarkStopped: the user or a signal interrupted the benchmark. The folder contains earlier measurements.
    """
    folder = new_folder(outputs, f"benchmark/{name}")
    folder.write_text("config.yaml", to_yaml(config))
    no_model: dict[str, Any] = dict.fromkeys(("dataset", "model", "attention", "init"), "")
    options: dict[str, Any] = {"task": "benchmark", "experiment": name, "overrides": overrides, "seed": seed}
    record = RunRecord(command="benchmark", **options, **no_model)
    clock = Clock()
    try:
        for figures in instantiate(config["benchmark"]):
            record.facts |= {name: value for name, value in figures.items() if isinstance(value, str)}
            record.metrics |= {name: value for name, value in figures.items() if not isinstance(value, str)}
            record.wall_seconds = round(clock(), 1)
            folder.write_record(record)
        record.status = "finished"
    except KeyboardInterrupt as stop:
        record.status = "interrupted"
        raise BenchmarkStopped(folder) from stop
    except BaseException as error:
        record.status, record.reason = "failed", f"{type(error).__name__}: {error}"
        raise
    finally:
        record.finished, record.wall_seconds = utc_timestamp(), round(clock(), 1)
        folder.write_record(record)
        release_lock(folder.path)
    return folder


REHEARSED = (64, 512)
"""Numbers of tokens of the synthetic tables that warm-up calls use."""


@dataclass(kw_only=True)
class BenchmarkOptions(ABC):
    """Base class of benchmarks, which compare several implementations on the same inputs.

    The keys are documented in `conf/benchmark`.

    Attributes:
        kind: first component of the names of all measurements.
    """

    kind: ClassVar[str]
    shapes: list[str]
    lengths: list[PositiveInt]
    batches: list[PositiveInt | Literal["mixed"]]
    real: list[str] | None
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
        """Yield the input batches to measure: synthetic tables, then tables of datasets on disk."""
        yield from draw_cases(self.shapes, self.lengths, self.batches)
        for name, root in find_real(self.real, self.folders).items():
            try:
                encodings = encode_dataset(name, root, self.tokenizer, self.max_tokens)
            except (DataError, MissingDependencyError) as error:
                Console(stderr=True, highlight=False).print(f"{name} was skipped: {error}", soft_wrap=True)
                continue
            yield from pick_cases(name, encodings, self.real_batches)

    @property
    def longest_input(self) -> int:
        """Number of tokens of the longest input that the benchmark measures."""
        return max([*self.lengths, self.max_tokens])

    def __iter__(self) -> Iterator[Figures]:
        """Run the benchmark: yield facts about the machine, then measurements of each input batch.

        Raises:
            ConfigError: a name is unknown, or the device is missing.
        """
        device = find_device(self.device)
        with threads(self.threads):
            pace = Pace(self.rounds, self.seconds, device, matmul_peak(device, self.torch_dtype))
            self.rehearse(device)
            yield machine_facts(pace)
            cases = {case.name: case for case in self.cases()}
            for _, case in count_down(cases, len(DIRECTIONS) * self.seconds):
                yield self.measure(case, pace)

    def rehearse(self, device: torch.device) -> None:
        """Call each implementation on small tables, so that compilation precedes all timing."""
        for case in draw_cases(["square"], [min(tokens, self.longest_input) for tokens in REHEARSED], [1]):
            for variant in map(attempt, self.prepare(case, device).values()):
                if isinstance(variant, Variant):
                    attempt(partial(variant.call, DIRECTIONS[-1]))

    @abstractmethod
    def prepare(self, case: Case, device: torch.device) -> Mapping[str, Callable[[], Variant | NotRun]]:
        """Return a function per implementation that prepares the implementation for one batch.

        Args:
            case: input batch.
            device: device of the measurement.

        Raises:
            ConfigError: a name is unknown.
        """

    def measure(self, case: Case, pace: Pace) -> Figures:
        """Measure time, memory, operations and errors of each implementation on one input batch.

        Args:
            case: input batch.
            pace: limits of time and rounds, and the speeds measured so far.

        Returns:
            The measurements by name.
        """
        outcomes = {name: attempt(prepare) for name, prepare in self.prepare(case, pace.device).items()}
        failures = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, NotRun)}
        variants = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Variant)}
        figures: Figures = {}
        for direction in DIRECTIONS:
            for name, timing in (failures | measure_variants(variants, direction, pace)).items():
                values: dict[str, Any] = timing._asdict()
                if isinstance(timing, Timing):
                    values["gflop"] = variants[name].gflop[direction]
                    if examples := variants[name].examples:
                        values["examples_per_second"] = 1000 * examples / timing.ms
                prefix = f"{self.kind}/{name}/{case.name}/{direction}"
                figures |= {f"{prefix}/{figure}": value for figure, value in values.items() if value is not None}
        for name, variant in variants.items():
            prefix = f"{self.kind}/{name}/{case.name}"
            figures |= {} if variant.plan_ms is None else {f"{prefix}/plan/ms": variant.plan_ms}
            if variant.exact and any(f"{prefix}/{direction}/ms" in figures for direction in DIRECTIONS):
                error = attempt(variant.error)
                if isinstance(error, NotRun):
                    figures[f"errors/{name}/{case.name}/not_run"] = error.not_run
                else:
                    figures[f"{prefix}/{FORWARD}/max_error"] = error
        return figures

    @property
    def torch_dtype(self) -> torch.dtype:
        """The setting `dtype` as a `torch.dtype`."""
        return getattr(torch, self.dtype)


MINUTE = 60.0

Part = TypeVar("Part")


def count_down(parts: Mapping[str, Part], seconds: float) -> Iterator[tuple[str, Part]]:
    """Yield the named cases of a benchmark, and print the name of each case as progress.

    Args:
        parts: parts by name, in order.
        seconds: approximate maximum time of one part in seconds.
    """
    console = Console(stderr=True, highlight=False)
    total = len(parts) * seconds
    if total > MINUTE:
        text = f"{len(parts)} cases to measure, at most about {time_text(total)}"
        console.print(f"{text}; when stopped, results so far are shown", soft_wrap=True)
    for number, (name, part) in enumerate(parts.items(), 1):
        console.print(f"measuring {name}, {number} of {len(parts)}", style="dim", soft_wrap=True)
        yield name, part
