"""Cost estimate of a training run: example counts, memory, and the time of a few steps.

Nothing is written or downloaded.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from unittest.mock import patch

import torch
from hydra.utils import instantiate

from mate_cli.attention.backends.native import native_kernels
from mate_cli.data.corpora.table_corpus import TableCorpus
from mate_cli.data.datasets.catalogue import TableDataset
from mate_cli.data.loading.batching import Schedule
from mate_cli.data.loading.stream import StreamDataModule
from mate_cli.errors import ConfigError, MateError
from mate_cli.files.hub import hub_file
from mate_cli.lit_modules.lit_task import build_optimizer, read_recipe
from mate_cli.models.checkpoints.files import HUB_FILES
from mate_cli.pipelines.assembly import Parts, assemble, plan_steps, steps_between_validations
from mate_cli.pipelines.machine import get_device, resolve_profile, step_memory
from mate_cli.pipelines.run_spec import FROM_STAGE
from mate_cli.pipelines.trainer import check_scores
from mate_cli.runs.configuration import Node, RunConfig
from mate_cli.terminal.progress import Progress
from mate_cli.tokenization.layout import TableEncoding

SAMPLED = 48
"""Number of examples that are encoded and timed."""
SPLITS = ("train", "dev", "test")
TOKENIZER = "init.tokenizer"
"""Configuration key of the tokenizer, which the run may download."""
FORWARD_COST_RATIO = 1 / 3
"""Cost of a forward pass relative to a forward and backward pass, which has three times the matrix products."""


@dataclass
class Cost:
    """Estimated cost of training one run, such as its memory and time.

    Args:
        examples: number of training examples or of predicted examples, by split.
        tokens: number of tokens of each sampled example.
        schedule: steps and micro-batches; None if unknown.
        parameters: number of parameters, trained and frozen; None if unknown.
        memory: computed memory of a step in bytes; None if unknown.
        seconds: time of training and validations on this machine in seconds; None if nothing was timed.
        at_least: `seconds` is a lower bound, because no step finished in the available time.
        timed: number of timed batches.
        unknown: texts about quantities that cannot be determined, with the reasons.
        refused: error that would prevent training. None if the run could be trained.
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
    refused: MateError | None = None


def estimate(config: RunConfig, seconds: float, open_data: Callable[[str], TableDataset]) -> Cost:
    """Estimate the number of examples, the memory and the training time of a run.

    Errors that would prevent training are not raised. They are stored in `Cost.refused`.

    Args:
        config: configuration of the run.
        seconds: maximum time in seconds for timing training steps.
        open_data: function that returns a dataset for its settings as JSON text, such as `open_dataset`.
    """
    cost = Cost(schedule=_planned_steps(config))
    config = _drop_row_ranking(config, cost)
    with (
        Progress("counting examples") as progress,
        TemporaryDirectory(prefix="mate_") as cache,
        _temporary_kernel_cache(config.paths.cache, cache),
    ):
        try:
            _estimate(config, seconds, cache, cost, progress, open_data)
        except MateError as error:
            cost.refused = error
    return cost


def _estimate(
    config: RunConfig,
    seconds: float,
    cache: str,
    cost: Cost,
    progress: Progress,
    open_data: Callable[[str], TableDataset],
) -> None:
    """Estimate the data sizes, memory and step time of a run, and store the results in `cost`.

    Raises:
        MateError: the run would fail with this error before training.
    """
    settings = {**config.data, "download": False} if "download" in config.data else config.data
    dataset: Any = open_data(json.dumps(settings, default=str))
    data = dataset
    if isinstance(dataset, TableCorpus) and not dataset.is_prepared:
        cost.unknown.append("examples: the corpus is not prepared yet; tokens and time are those of the sample tables")
        data = instantiate({**config.data, "sources": ["sample"], "exclude": [], "cache": cache})
    local_config = _on_this_machine(config, cost)
    parts = _build(local_config, cache, data, cost)
    if parts is None:
        _count_examples(config, dataset, cost)
        return
    cost.parameters = sum(parameter.numel() for parameter in parts.task.parameters())
    sample = _count(config, parts, cost, is_known=data is dataset)
    if cost.examples.get("dev"):
        check_scores(config, parts.task, {example.example_id: example for example in parts.data.examples("dev")})
    if sample and cost.schedule:
        cost.tokens = [len(encoding) for encoding in sample]
        cost.memory = step_memory(parts.task, parts.task.encoder, max(cost.tokens), local_config.hardware).total(
            cost.schedule.micro_batch
        )
        progress.begin("planning attention and timing steps")
        _add_time(config, parts, sample, seconds, cost)
    if data is not dataset:
        dataset.check_sources()


def open_dataset(settings: str) -> TableDataset:
    """Create a dataset from its configuration, given as JSON text.

    The dataset caches the files that it reads.
    """
    return cast(TableDataset, instantiate(json.loads(settings)))


def _planned_steps(config: RunConfig) -> Schedule | None:
    """Return the training schedule if `trainer.max_steps` sets the number of steps.

    Return None if the number of steps depends on the number of examples.
    """
    if config.trainer.max_epochs or not config.trainer.max_steps:
        return None
    processes = config.hardware.devices * config.hardware.nodes
    return plan_steps(config, config.trainer.batch_size, processes)


@contextmanager
def _temporary_kernel_cache(cache: str, temporary: str) -> Iterator[None]:
    """Compile kernels into a temporary folder if the cache folder does not exist.

    Applies inside the context.
    """
    if Path(cache).expanduser().is_dir():
        yield
        return
    with patch.dict(os.environ, {"MATE_CACHE": temporary}):
        yield


def _drop_row_ranking(config: RunConfig, cost: Cost) -> RunConfig:
    """Disable row ranking in a configuration, because the ranking run may not exist yet.

    The missing ranking is noted in `cost.unknown`.
    """
    if not config.encoding.get("ranked_by"):
        return config
    cost.unknown.append("tokens after rows are ranked: those of whole tables are counted")
    return config.model_copy(update={"encoding": {**config.encoding, "ranked_by": None, "best_rows": None}})


def _build(config: RunConfig, cache: str, dataset: TableDataset, cost: Cost) -> Parts | None:
    """Build the network, task and data of a run to measure its cost, without downloads.

    Return None if the vocabulary is not downloaded.

    Available initial weights are loaded, so that mismatches are found. Random weights are replaced by a constant,
    because sampling takes seconds for a large network, and time and memory do not depend on the values.

    Raises:
        MateError: the parts do not fit together.
    """
    config = config.model_copy(update={"paths": config.paths.model_copy(update={"cache": cache})})
    try:
        with patch.object(torch.nn.init, "trunc_normal_", lambda weights, **_: torch.nn.init.constant_(weights, 0.02)):
            return assemble(config, dataset, load=_has_weights(config.init))
    except MateError as error:
        if error.where != TOKENIZER:
            raise
        reason = f"the vocabulary of {config.tokenizer} is not downloaded yet"
        cost.unknown.append(f"tokens, parameters and time: {reason}")
        return None


def _on_this_machine(config: RunConfig, cost: Cost) -> RunConfig:
    """Replace the devices in a configuration by one CPU if this machine lacks the devices."""
    try:
        resolve_profile(config.hardware)
        return config
    except ConfigError as error:
        cost.unknown.append(f"time: {error}")
        lower = {"accelerator": "cpu", "precision": "32-true", "devices": 1, "nodes": 1}
        return config.model_copy(update={"hardware": config.hardware.model_copy(update=lower)})


def _has_weights(init: Node) -> bool:
    """Return whether the initial weights of a network are local files, or random.

    Weights that must be downloaded, or that an earlier stage of the run trains, are not available yet.
    """
    names = [str(node.get("checkpoint")) for node in (init, *(init.get("inner") or {}).values()) if node]
    fetched = init.get("kind") in ("bert", "roberta", "tapas")
    if any(name.startswith(FROM_STAGE) for name in names):
        return False
    return not fetched or all(Path(name).exists() or any(hub_file(name, file) for file in HUB_FILES) for name in names)


def _count_examples(config: RunConfig, dataset: TableDataset, cost: Cost) -> None:
    """Count the examples of each split, and store the counts in `cost`.

    Data that training will download first are not counted.

    Raises:
        MateError: the data are missing and cannot be downloaded.
    """
    try:
        cost.examples |= {split: len(list(dataset.examples(split))) for split in dataset.splits if split in SPLITS}
    except MateError as error:
        if not _is_fetched(config, dataset):
            raise
        cost.unknown.append(f"examples: {_describe_missing_data(error)}")


def _is_fetched(config: RunConfig, dataset: TableDataset) -> bool:
    """Return whether training will download missing data of this dataset."""
    return config.data.get("download") == "auto" and bool(getattr(dataset, "remote_files", ()))


def _describe_missing_data(error: MateError) -> str:
    """Format an error about missing data as text, without its list of searched folders."""
    problem = error.problem.partition(";")[0]
    return f"{error.where}: {problem}" if error.where else problem


def _count(config: RunConfig, parts: Parts, cost: Cost, *, is_known: bool) -> list[TableEncoding]:
    """Count the examples and training steps of a run, and return a sample of encoded examples.

    Args:
        config: configuration of the run.
        parts: parts of the run.
        cost: cost to fill in.
        is_known: the data are those of the run, not sample tables that replace them.

    Raises:
        MateError: the data are missing, or there are fewer examples than one step needs.
    """
    data = parts.data
    if isinstance(data, StreamDataModule):
        sample = data.stream.sample_encodings(SAMPLED)
        if not is_known:
            return sample
        cost.examples["train"] = len(data.training())
    else:
        try:
            examples = data.examples("train", training=True)
        except MateError as error:
            if not _is_fetched(config, data.dataset):
                raise
            cost.unknown.append(f"examples and time: {_describe_missing_data(error)}")
            return []
        cost.examples["train"] = len(examples)
        encodings = data.serializer.encode(examples[:: max(1, len(examples) // SAMPLED)][:SAMPLED])
        sample = [encoding for encoding in encodings if isinstance(encoding, TableEncoding)]
        if not sample:
            # Raises an error if no training example can be encoded.
            data.training()
    cost.schedule = plan_steps(config, cost.examples["train"], config.hardware.devices * config.hardware.nodes)
    for split in SPLITS[1:]:
        if data.has_examples(split):
            cost.examples[split] = len(data.examples(split))
    return sample


def _add_time(config: RunConfig, parts: Parts, sample: Sequence[TableEncoding], seconds: float, cost: Cost) -> None:
    """Time some training steps, and extrapolate to the training and evaluation of a run."""
    schedule = cast(Schedule, cost.schedule)
    if any(reason.startswith("time:") for reason in cost.unknown):
        return
    timing = time_steps(config, parts, sample, schedule.micro_batch, seconds)
    tokens = sum(cost.tokens) / len(cost.tokens)
    train_passes = schedule.total_steps * schedule.batch_size / schedule.ranks
    # The number of validations is unknown if the training split was not counted.
    examples = cost.examples.get("train", 0)
    validations = -(-schedule.total_steps // steps_between_validations(config, schedule, examples)) if examples else 0
    predicted = cost.examples.get("dev", 0) * (validations + 1) + cost.examples.get("test", 0)
    passes = train_passes + FORWARD_COST_RATIO * predicted / schedule.ranks
    cost.seconds = passes * tokens * timing.per_token + schedule.total_steps * timing.update
    cost.timed, cost.at_least = timing.batches, not timing.batches


MAX_BATCHES = 12
"""Maximum number of timed batches."""
HALF = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
MAX_TIMED = 32
"""Maximum number of examples in a timed batch. Larger micro-batches take the same time per token."""


@dataclass(frozen=True)
class Timing:
    """Measured durations of training steps.

    Args:
        per_token: seconds of a forward and backward pass per token.
        update: seconds of an optimizer step.
        batches: number of timed batches; 0 if none finished, so that `per_token` is a lower bound.
    """

    per_token: float
    update: float
    batches: int


class _TimeIsUpError(Exception):
    """Exception that ends a time measurement when its time limit is reached."""


def time_steps(config: RunConfig, parts: Parts, sample: Sequence[TableEncoding], size: int, seconds: float) -> Timing:
    """Measure the time of forward and backward passes and of optimizer steps.

    Args:
        config: configuration of the run.
        parts: network, task and loaders. The measured steps change the weights.
        sample: encodings from which batches are formed.
        size: number of examples of a micro-batch.
        seconds: maximum time in seconds.
    """
    hardware, device, task = resolve_profile(config.hardware), get_device(config.hardware), parts.task
    if device.type == "cpu":
        # Compile the kernels before the first batch is timed.
        native_kernels()
    task.to(device).train()
    optimizer = build_optimizer(read_recipe(config.optimizer), task, fused=hardware.precision != "16-mixed")
    batches = _spread(sorted(sample, key=len), min(size, MAX_TIMED))
    took: list[tuple[int, float, float]] = []
    begin_time = time.perf_counter()
    try:
        with _alarm(seconds):
            for group in islice(cycle(batches), MAX_BATCHES):
                start = time.perf_counter()
                if took and start - begin_time > seconds / 2:
                    break
                half = HALF.get(hardware.precision)
                with torch.autocast(device.type, half, enabled=half is not None):
                    loss = task.loss(parts.data.loading.batch(group).to(device))
                loss.backward()  # type: ignore[no-untyped-call]
                _wait_for(device)
                pass_end = time.perf_counter()
                optimizer.step()
                optimizer.zero_grad()
                _wait_for(device)
                took.append((sum(map(len, group)), pass_end - start, time.perf_counter() - pass_end))
    except _TimeIsUpError:
        if not took:
            return Timing((time.perf_counter() - begin_time) / sum(map(len, batches[0])), 0.0, 0)
    # The first batch also allocates memory, so it is excluded if there are more.
    took = took[1:] or took
    tokens, passes, updates = (sum(values) for values in zip(*took, strict=True))
    return Timing(passes / tokens, updates / len(took), len(took))


def _spread(encodings: Sequence[TableEncoding], size: int) -> list[list[TableEncoding]]:
    """Split examples, sorted by length, into batches in which the lengths are similar.

    Each batch has `size` examples. Batches of medium length come first. If the last batch would be incomplete, it
    overlaps the previous batch.
    """
    starts = [min(start, max(0, len(encodings) - size)) for start in range(0, len(encodings), size)]
    starts.sort(key=lambda start: abs(2 * start + size - len(encodings)))
    return [list(encodings[start : start + size]) for start in starts]


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise `_TimeIsUpError` after `seconds`, by the signal SIGALRM (main thread only)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise _TimeIsUpError

    old_handler = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old_handler)


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
