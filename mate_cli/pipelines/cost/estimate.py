"""The cost of a training run: counts, and a few steps on real examples, timed; nothing is written or downloaded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast
from unittest.mock import patch

from hydra.utils import instantiate

from mate_cli.data.loading.batching import Schedule
from mate_cli.data.loading.stream import StreamDataModule
from mate_cli.errors import ConfigError, MateError
from mate_cli.pipelines.assembly import Parts, assemble, plan_steps, steps_between_validations
from mate_cli.pipelines.cost.timing import time_steps
from mate_cli.pipelines.machine import resolve_profile
from mate_cli.pipelines.memory import step_memory
from mate_cli.runs.configuration import RunConfig
from mate_cli.terminal.progress import Progress
from mate_cli.tokenization.layout import TableEncoding

SAMPLED = 48
"""Examples that are encoded and timed."""
SPLITS = ("train", "dev", "test")
TOKENIZER = "init.tokenizer"
"""A key whose value may be fetched by the run itself."""
FORWARD = 1 / 3
"""The share of a step that is its forward pass: a backward pass has twice the products of matrices."""


@dataclass
class Cost:
    """Cost of one run, as far as it is known.

    Args:
        examples: that are learnt from or predicted, by split.
        tokens: of the examples that were sampled.
        schedule: steps and micro-batches; None where nobody knows.
        parameters: that are trained or kept as they are.
        memory: bytes of a step, counted.
        seconds: of training and validations on this machine; None where nothing was timed.
        at_least: no step was done in the time there was.
        timed: batches that were.
        unknown: what cannot be counted, and why.
    """

    examples: dict[str, int] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)
    schedule: Schedule | None = None
    parameters: int | None = None
    memory: int | None = None
    seconds: float | None = None
    at_least: bool = False
    timed: int = 0
    unknown: list[str] = field(default_factory=list)


def estimate(config: RunConfig, seconds: float) -> Cost:
    """Count what a run has, and time a few of its steps for at most so many seconds.

    Raises:
        ConfigError: its parts do not fit together.
    """
    cost = Cost()
    config = _without_other_runs(config, cost)
    with (
        Progress("counting examples") as progress,
        TemporaryDirectory(prefix="mate_") as cache,
        _kernels_kept(config.paths.cache, cache),
    ):
        parts = _build(config, cache, cost)
        if parts is None:
            return cost
        cost.parameters = sum(parameter.numel() for parameter in parts.task.parameters())
        try:
            sample = _count(config, parts, cost)
        except MateError as error:
            cost.unknown.append(f"examples, steps and time: {_describe_missing_data(error)}")
            return cost
        if sample and cost.schedule:
            cost.tokens = [len(one) for one in sample]
            cost.memory = step_memory(parts.task, parts.task.encoder, max(cost.tokens), config.hardware).total(
                cost.schedule.micro_batch
            )
            progress.begin("planning attention and timing steps")
            _add_time(config, parts, sample, seconds, cost)
    return cost


@contextmanager
def _kernels_kept(cache: str, temporary: str) -> Iterator[None]:
    """Let compiled kernels go to a temporary folder where there is no cache yet."""
    if Path(cache).expanduser().is_dir():
        yield
        return
    with patch.dict(os.environ, {"MATE_CACHE": temporary}):
        yield


def _without_other_runs(config: RunConfig, cost: Cost) -> RunConfig:
    """Return the configuration without an order of rows, which a run before it makes."""
    if not config.encoding.get("ranked_by"):
        return config
    cost.unknown.append("tokens after rows are ranked: those of whole tables are counted")
    return config.model_copy(update={"encoding": {**config.encoding, "ranked_by": None, "best_rows": None}})


def _build(config: RunConfig, cache: str, cost: Cost) -> Parts | None:
    """Return network, task and loaders with random weights; None where what they are built of is not here yet.

    Raises:
        ConfigError: they do not fit together.
    """
    hardware = config.hardware
    try:
        resolve_profile(hardware)
    except ConfigError as error:
        cost.unknown.append(f"time: {error}")
        hardware = hardware.model_copy(update={"accelerator": "cpu", "precision": "32-true", "devices": 1, "nodes": 1})
    paths = config.paths.model_copy(update={"cache": cache})
    given = config.model_copy(update={"hardware": hardware, "paths": paths})
    dataset = instantiate({**config.data, "download": False} if "download" in config.data else config.data)
    try:
        return assemble(given, dataset, load=False)
    except MateError as error:
        if error.where != TOKENIZER and isinstance(error, ConfigError):
            raise
        missing = (
            f"the vocabulary of {config.tokenizer} is not downloaded yet" if error.where == TOKENIZER else str(error)
        )
        cost.unknown.append(f"tokens, parameters and time: {missing}")
    try:
        cost.examples |= {split: len(dataset.examples(split)) for split in dataset.splits if split in SPLITS}
    except MateError as error:
        cost.unknown.append(f"examples: {_describe_missing_data(error)}")
    return None


def _describe_missing_data(error: MateError) -> str:
    """Say what is wrong with data, without all the places where they were looked for."""
    problem = error.problem.partition(";")[0]
    return f"{error.where}: {problem}" if error.where else problem


def _count(config: RunConfig, parts: Parts, cost: Cost) -> list[TableEncoding]:
    """Count examples and steps; return the encodings of some that are learnt from.

    Raises:
        DataError: the data are not there.
        ConfigError: there are fewer examples than a step has.
    """
    data = parts.data
    if isinstance(data, StreamDataModule):
        _refuse_unprepared(data)
        cost.examples["train"] = len(data.training())
        sample = data.stream.some(SAMPLED)
    else:
        examples = data.examples("train", training=True)
        cost.examples["train"] = data.epoch_size(examples)
        found = data.serializer.encode(examples[:: max(1, len(examples) // SAMPLED)][:SAMPLED])
        sample = [one for one in found if isinstance(one, TableEncoding)]
    cost.schedule = plan_steps(config, cost.examples["train"], config.hardware.devices * config.hardware.nodes)
    for split in SPLITS[1:]:
        if data.has_examples(split):
            cost.examples[split] = len(data.examples(split))
    return sample


def _refuse_unprepared(data: StreamDataModule) -> None:
    """Refuse a corpus that would be prepared, and written, by looking at it.

    Raises:
        ConfigError: it is not prepared yet.
    """
    folder = getattr(data.dataset, "folder", None)
    if folder is not None and not getattr(data.dataset, "shards", ()) and not folder.is_dir():
        raise ConfigError("the corpus is not prepared yet", where="data", remedy="Type mate data check data=corpus")


def _add_time(config: RunConfig, parts: Parts, sample: Sequence[TableEncoding], seconds: float, cost: Cost) -> None:
    """Time some steps, and add what the run, its validations and its last scores take."""
    schedule = cast(Schedule, cost.schedule)
    if any(reason.startswith("time:") for reason in cost.unknown):
        return
    timing = time_steps(config, parts, sample, schedule.micro_batch, seconds)
    tokens = sum(cost.tokens) / len(cost.tokens)
    trained = schedule.total_steps * schedule.batch_size / schedule.ranks
    validations = -(-schedule.total_steps // steps_between_validations(config, schedule, cost.examples["train"]))
    predicted = cost.examples.get("dev", 0) * (validations + 1) + cost.examples.get("test", 0)
    passes = trained + FORWARD * predicted / schedule.ranks
    cost.seconds = passes * tokens * timing.per_token + schedule.total_steps * timing.update
    cost.timed, cost.at_least = timing.batches, not timing.batches
