"""The cost of a training run, counted before it begins; nothing is written or downloaded."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from unittest.mock import patch

from hydra.utils import instantiate

from mate_cli.data.corpora.table_corpus import TableCorpus
from mate_cli.data.loading.batching import Schedule
from mate_cli.data.loading.stream import StreamDataModule
from mate_cli.data.loading.table_data_module import TableDataset
from mate_cli.errors import ConfigError, MateError
from mate_cli.files.hub import hub_file
from mate_cli.models.checkpoints.files import HUB_FILES
from mate_cli.pipelines.assembly import Parts, assemble, plan_steps
from mate_cli.pipelines.machine import resolve_profile, step_memory
from mate_cli.pipelines.run_spec import FROM_STAGE
from mate_cli.pipelines.trainer import check_scores
from mate_cli.runs.configuration import Node, RunConfig
from mate_cli.terminal.progress import Progress
from mate_cli.tokenization.layout import TableEncoding

SAMPLED = 48
"""Examples that are encoded."""
SPLITS = ("train", "dev", "test")
TOKENIZER = "init.tokenizer"
"""A key whose value may be fetched by the run itself."""


@dataclass
class Cost:
    """Cost of one run, as far as it is known.

    Args:
        examples: that are learnt from or predicted, by split.
        tokens: of the examples that were sampled.
        schedule: steps and micro-batches; None where nobody knows.
        parameters: that are trained or kept as they are.
        memory: bytes of a step, counted.
        unknown: what cannot be counted, and why.
        refused: why it could not be trained; None where it could.
    """

    examples: dict[str, int] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)
    schedule: Schedule | None = None
    parameters: int | None = None
    memory: int | None = None
    unknown: list[str] = field(default_factory=list)
    refused: MateError | None = None


def estimate(config: RunConfig, open_data: Callable[[str], TableDataset]) -> Cost:
    """Count what a run has; see `open_dataset`."""
    cost = Cost(schedule=_planned_steps(config))
    config = _without_other_runs(config, cost)
    with (
        Progress("counting examples"),
        TemporaryDirectory(prefix="mate_") as cache,
        _kernels_kept(config.paths.cache, cache),
    ):
        try:
            _estimate(config, cache, cost, open_data)
        except MateError as error:
            cost.refused = error
    return cost


def _estimate(config: RunConfig, cache: str, cost: Cost, open_data: Callable[[str], TableDataset]) -> None:
    """Fill in a cost.

    Raises:
        MateError: the run would be refused.
    """
    settings = {**config.data, "download": False} if "download" in config.data else config.data
    dataset: Any = open_data(json.dumps(settings, default=str))
    known = dataset
    if isinstance(dataset, TableCorpus) and not dataset.is_prepared:
        cost.unknown.append("examples: the corpus is not prepared yet; tokens are those of the sample tables")
        known = instantiate({**config.data, "sources": ["sample"], "exclude": [], "cache": cache})
    here = _on_this_machine(config, cost)
    parts = _build(here, cache, known, cost)
    if parts is None:
        _count_examples(config, dataset, cost)
        return
    cost.parameters = sum(parameter.numel() for parameter in parts.task.parameters())
    sample = _count(config, parts, cost, is_known=known is dataset)
    if cost.examples.get("dev"):
        check_scores(config, parts.task, {example.example_id: example for example in parts.data.examples("dev")})
    if sample and cost.schedule:
        cost.tokens = [len(encoding) for encoding in sample]
        cost.memory = step_memory(parts.task, parts.task.encoder, max(cost.tokens), here.hardware).total(
            cost.schedule.micro_batch
        )
    if known is not dataset:
        dataset.check_sources()


def open_dataset(settings: str) -> TableDataset:
    """Build a dataset of settings in JSON; it keeps what it has read."""
    return cast(TableDataset, instantiate(json.loads(settings)))


def _planned_steps(config: RunConfig) -> Schedule | None:
    """Return the steps that stand in the configuration; None where they follow from the number of examples."""
    if config.trainer.max_epochs or not config.trainer.max_steps:
        return None
    processes = config.hardware.devices * config.hardware.nodes
    return plan_steps(config, config.trainer.batch_size, processes)


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


def _build(config: RunConfig, cache: str, dataset: TableDataset, cost: Cost) -> Parts | None:
    """Return network, task and loaders; None where the word pieces are not here yet.

    First weights are read where they are here: what they do not fit is refused.

    Raises:
        MateError: the parts do not fit together.
    """
    config = config.model_copy(update={"paths": config.paths.model_copy(update={"cache": cache})})
    try:
        return assemble(config, dataset, load=_has_weights(config.init))
    except MateError as error:
        if error.where != TOKENIZER:
            raise
        missing = f"the vocabulary of {config.tokenizer} is not downloaded yet"
        cost.unknown.append(f"tokens and parameters: {missing}")
        return None


def _on_this_machine(config: RunConfig, cost: Cost) -> RunConfig:
    """Return the configuration on the processor, where this machine lacks the devices that it names."""
    try:
        resolve_profile(config.hardware)
        return config
    except ConfigError as error:
        cost.unknown.append(f"precision on that device, memory is for 32 bits: {error}")
        lower = {"accelerator": "cpu", "precision": "32-true", "devices": 1, "nodes": 1}
        return config.model_copy(update={"hardware": config.hardware.model_copy(update=lower)})


def _has_weights(init: Node) -> bool:
    """Say whether all first weights are here: none of another stage, and none that are fetched."""
    names = [str(node.get("checkpoint")) for node in (init, *(init.get("inner") or {}).values()) if node]
    fetched = init.get("kind") in ("bert", "roberta", "tapas")
    if any(name.startswith(FROM_STAGE) for name in names):
        return False
    return not fetched or all(Path(name).exists() or any(hub_file(name, file) for file in HUB_FILES) for name in names)


def _count_examples(config: RunConfig, dataset: TableDataset, cost: Cost) -> None:
    """Count the examples of each split, where they can be read.

    Raises:
        MateError: they are neither here nor to be fetched.
    """
    try:
        cost.examples |= {split: len(dataset.examples(split)) for split in dataset.splits if split in SPLITS}
    except MateError as error:
        if not _is_fetched(config, dataset):
            raise
        cost.unknown.append(f"examples: {_describe_missing_data(error)}")


def _is_fetched(config: RunConfig, dataset: TableDataset) -> bool:
    """Say whether the run itself fetches what is missing of its data."""
    return config.data.get("download") == "auto" and bool(getattr(dataset, "remote_files", ()))


def _describe_missing_data(error: MateError) -> str:
    """Say what is wrong with data, without all the places where they were looked for."""
    problem = error.problem.partition(";")[0]
    return f"{error.where}: {problem}" if error.where else problem


def _count(config: RunConfig, parts: Parts, cost: Cost, *, is_known: bool) -> list[TableEncoding]:
    """Count examples and steps; return the encodings of some that are learnt from.

    Args:
        config: of the run.
        parts: its parts.
        cost: what is known so far.
        is_known: the data are those of the run, and not others that stand in for them.

    Raises:
        MateError: the data are not there, or fewer examples than a step has.
    """
    data = parts.data
    if isinstance(data, StreamDataModule):
        sample = data.stream.some(SAMPLED)
        if not is_known:
            return sample
        cost.examples["train"] = len(data.training())
    else:
        try:
            examples = data.examples("train", training=True)
        except MateError as error:
            if not _is_fetched(config, data.dataset):
                raise
            cost.unknown.append(f"examples: {_describe_missing_data(error)}")
            return []
        cost.examples["train"] = data.epoch_size(examples)
        encodings = data.serializer.encode(examples[:: max(1, len(examples) // SAMPLED)][:SAMPLED])
        sample = [encoding for encoding in encodings if isinstance(encoding, TableEncoding)]
    cost.schedule = plan_steps(config, cost.examples["train"], config.hardware.devices * config.hardware.nodes)
    for split in SPLITS[1:]:
        if data.has_examples(split):
            cost.examples[split] = len(data.examples(split))
    return sample
