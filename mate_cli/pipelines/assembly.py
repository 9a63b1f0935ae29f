"""Assembly of the network, task and data loaders of a run from its configuration."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch
from hydra.utils import get_class, instantiate

from mate_cli.attention.backends.auto import with_fallback
from mate_cli.attention.base import AttentionBackend
from mate_cli.data.datasets.catalogue import TableDataset
from mate_cli.data.loading.batching import Schedule, plan_schedule
from mate_cli.data.loading.parallel import count_cores
from mate_cli.data.loading.table_data_module import EmptyDataset, LoaderOptions, TableDataModule
from mate_cli.errors import CheckpointError, ConfigError, RunError
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.lit_modules.base import TableTask
from mate_cli.lit_modules.cell_selection import CellSelection
from mate_cli.models.base.table_encoder import TableEncoder, TaskContext, build_network
from mate_cli.models.checkpoints.heads import head_names
from mate_cli.models.checkpoints.settings import (
    aggregation_names,
    different_options,
    different_positions,
    different_tables,
)
from mate_cli.models.initialization.initial_weights import Initializer, LoadReport
from mate_cli.models.layers.low_rank import add_adapters, freeze
from mate_cli.pipelines.machine import get_device, keep_random_states, open_cache, resolve_profile
from mate_cli.runs import ranks
from mate_cli.runs.checkpoints import load_module, sha256
from mate_cli.runs.configuration import Hardware, ModelConfig, Node, RunConfig, load_config
from mate_cli.runs.folders import open_run
from mate_cli.runs.record import RunFolder
from mate_cli.tables.example import AGGREGATIONS, TableExample
from mate_cli.terminal.console import Console
from mate_cli.tokenization.layout import TOKEN_TYPES, TableEncoding
from mate_cli.tokenization.serializers.serializer import MAX_LINES, Serializer, SpanSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer


@dataclass
class Parts:
    """The objects that a run's configuration describes, such as its task and data module.

    Args:
        task: task module, which contains the network and its output head.
        data: data module, which encodes the splits and builds their data loaders.
        serializer: converter of a question and its table to tokens.
        initializer: object that loads the initial weights.
        report: names of the loaded and of the randomly initialized weights.
        replaced: parts that this machine does not support, such as `{"attention replaced": "triton by auto"}`.
            Empty if all configured parts are used.
    """

    task: TableTask[Any, Any]
    data: TableDataModule
    serializer: Serializer
    initializer: Initializer
    report: LoadReport
    replaced: Mapping[str, str] = field(default_factory=dict)

    @property
    def facts(self) -> Mapping[str, str]:
        """Components that were replaced on this machine, such as the attention backend.

        Components of the row ranker are included. The record of a run stores them.
        """
        ranker = getattr(self.serializer, "ranker", None)
        return {**self.replaced, **(ranker.replaced if isinstance(ranker, CellRanker) else {})}


def assemble(cfg: ModelConfig, dataset: TableDataset, *, load: bool = True, moved: bool = False) -> Parts:
    """Build the network, task, serializer and data module that a configuration describes.

    Args:
        cfg: configuration of the run or checkpoint.
        dataset: dataset from which the data module reads examples.
        load: whether to load the initial weights. False if the caller loads other weights afterwards.
        moved: whether the run was trained before, perhaps on another machine. Then parts that this machine does not
            support are replaced instead of raising an error.

    Raises:
        ConfigError: the configured classes do not fit together, or the machine does not support one of them.
        CheckpointError: the initial weights do not fit the network.
    """
    hardware, device = resolve_profile(cfg.hardware, moved=moved), get_device(cfg.hardware)
    configure_process(hardware)
    torch.manual_seed(cfg.seed)
    check_label(cfg)
    if "vocab_size" in cfg.model:
        raise ConfigError("is determined by the tokenizer", where="model.vocab_size", remedy="Leave it out")
    serializer = build_serializer(cfg)
    build_task = instantiate(cfg.task, _partial_=True)
    backend, replacements = _attention(cfg.attention, device.type, moved=moved)
    cache = open_cache(cfg.paths.cache)
    encoder = build_network(cfg.model, attention=backend, vocab_size=serializer.vocab_size)
    _check_attention(encoder, backend)
    task: TableTask[Any, Any] = build_task(TaskContext(encoder, cast(SpanSerializer, serializer), cache))
    # Convert all containers, so that options of the initializer are no OmegaConf containers.
    initializer: Initializer = instantiate(cfg.init, _convert_="all")
    report = initializer.load(encoder, task) if load else LoadReport(new=tuple(encoder.state_dict()))
    report = compare_settings(report, serializer, task, cfg.task)
    # Weights that the caller loads later contain the merged adapters.
    if load:
        add_adapters(encoder, encoder.lora, report.loaded)
    freeze(encoder, encoder.freeze)
    # Modules that are frozen completely override `train` to disable dropout, and Lightning does not change modes.
    encoder.train()
    encoder.set_cache_folder(cache)
    _check_length(serializer, encoder)
    loading = LoaderOptions(
        micro_batch=hardware.micro_batch,
        workers=hardware.workers or 0,
        encoders=hardware.prepare_workers or hardware.threads or count_cores(),
        seed=cfg.seed,
        reset_positions=serializer.reset_positions,
        max_positions=encoder.size.max_positions,
        cache=cache / "encodings",
        prepare=encoder.planner.for_device(device.type),
        pin_memory=hardware.accelerator == "gpu",
        limit_train=cfg.limits[0],
        limit_test=cfg.limits[1],
        limit_dev=cfg.limits[2],
        rank=ranks.rank(),
        ranks=ranks.world_size(),
    )
    module: type[TableDataModule] = getattr(dataset, "data_module", TableDataModule)
    data = module(dataset, serializer, loading, task.training_examples, task.evaluation_examples)
    return Parts(task, data, serializer, initializer, report, replacements)


def plan_steps(cfg: RunConfig, examples: int, processes: int) -> Schedule:
    """Compute the training schedule of a run: optimizer steps and micro-batches per step.

    Args:
        cfg: configuration of the run, with batch sizes, `trainer.max_epochs` and `trainer.max_steps`.
        examples: number of training examples.
        processes: number of ranks (world size).
    """
    return plan_schedule(
        examples,
        batch_size=cfg.trainer.batch_size,
        micro_batch=cfg.hardware.micro_batch,
        max_epochs=cfg.trainer.max_epochs,
        max_steps=cfg.trainer.max_steps,
        ranks=processes,
    )


def steps_between_validations(cfg: RunConfig, schedule: Schedule, examples: int) -> int:
    """Return the number of optimizer steps between two validations.

    `trainer.val_every` is the distance in epochs. The result is at least 1 and at most the steps of the whole run.

    Args:
        cfg: configuration of the run.
        schedule: planned steps.
        examples: number of training examples.
    """
    return min(max(1, round(cfg.trainer.val_every * (examples // schedule.batch_size))), schedule.total_steps)


def configure_process(hardware: Hardware) -> None:
    """Set the number of CPU threads of torch, and whether GPUs use TF32 in matrix products."""
    if hardware.threads:
        torch.set_num_threads(hardware.threads)
    torch.backends.cuda.matmul.allow_tf32 = hardware.tf32 and hardware.accelerator == "gpu"


def _attention(node: Node, device: str, *, moved: bool) -> tuple[AttentionBackend, dict[str, str]]:
    """Instantiate the configured attention backend.

    For a moved run, replace an unsupported backend by `Auto` and print a message.

    Raises:
        ConfigError: the machine does not support the backend, and `moved` is false.
    """
    backend: AttentionBackend = instantiate(node)
    if not moved:
        backend.check_machine(device)
    usable = with_fallback(backend, device)
    if usable is backend:
        return backend, {}
    name = type(backend).__name__.lower()
    Console(stderr=True).print(f"attention={name} cannot run here: attention=auto computes the same", soft_wrap=True)
    return usable, {"attention replaced": f"{name} by auto"}


def build_serializer(cfg: ModelConfig) -> Serializer:
    """Build the serializer that encodes tables as tokens, with its row ranker if configured.

    Raises:
        RunError: the run `encoding.ranked_by` is missing, or its task is not `cell_selection`.
    """
    ranked_by = cfg.encoding.get("ranked_by")
    options = {"ranker": CellRanker(str(ranked_by), cfg)} if ranked_by else {}
    serializer: Serializer = instantiate(cfg.encoding, tokenizer=load_tokenizer(cfg.tokenizer), **options)
    return serializer


class CellRanker:
    """Ranker that sorts table rows by the cell scores of a finished cell selection run.

    The network of the finished run is loaded on the first call.

    Args:
        run: run folder of a finished run of `task=cell_selection`.
        here: configuration of the current run, whose hardware and folders are used.

    Raises:
        RunError: the run is missing, has another task, or has no weights.
    """

    def __init__(self, run: str, here: ModelConfig) -> None:
        try:
            self.folder = open_run(run, "encoding.ranked_by", "cell_selection")
            self.weights = best_weights(self.folder)
        except RunError as error:
            raise RunError(f"encoding.ranked_by: {error.problem}", where=error.where, remedy=error.remedy) from error
        config = load_config(self.folder.path).on_machine(here.hardware, here.paths)
        self.config = config.model_copy(update={"task": {**config.task, "keep": MAX_LINES * MAX_LINES}})
        if not issubclass(get_class(config.task["_target_"]), CellSelection):
            raise RunError(
                "encoding.ranked_by: this run does not rank cells", where=run, remedy="Use a run of task=cell_selection"
            )

    @cached_property
    def digest(self) -> str:
        """Hash of all that determines the ranking: network configuration, weights and encoding.

        The hash does not depend on the path of the run folder.
        """
        sources = (sha256(self.weights), str(self.config.model), build_serializer(self.config).fingerprint)
        return hashlib.sha256(" ".join(sources).encode()).hexdigest()[:16]

    def __call__(self, examples: Sequence[TableExample]) -> dict[str, tuple[int, ...]]:
        """Sort the rows of each example's table by relevance to the question.

        The network is moved to the device of the run for the call, and to the CPU afterwards to free the memory.

        Args:
            examples: questions with their tables.

        Returns:
            Row indices (from 0) by `example_id`, best row first. Examples that cannot be encoded are missing.
        """
        task, loading, rows = self._parts.task, self._parts.data.loading, {}
        encodings = [
            encoding for encoding in self._parts.serializer.encode(examples) if isinstance(encoding, TableEncoding)
        ]
        encodings.sort(key=len, reverse=True)
        device, size = get_device(self.config.hardware), 2 * loading.micro_batch
        task.to(device)
        with torch.inference_mode():
            for start in range(0, len(encodings), size):
                batch = loading.batch(encodings[start : start + size]).to(device)
                for ranking in task.predictions(task.encoder(batch), batch):
                    rows[ranking.example_id] = tuple(dict.fromkeys(row for row, _ in ranking.cells))
        task.to("cpu")
        return rows

    @property
    def replaced(self) -> Mapping[str, str]:
        """Replacements for components of the ranking network that this machine does not support.

        Empty if the ranking network is not loaded.
        """
        parts: Parts | None = vars(self).get("_parts")
        return {f"ranker, {name}": fact for name, fact in parts.replaced.items()} if parts else {}

    @cached_property
    def _parts(self) -> Parts:
        with keep_random_states():
            parts = load_best(self.config, self.folder, EmptyDataset())
        parts.task.eval()
        return parts


def check_label(cfg: ModelConfig) -> None:
    """Check that the configured encoding creates the type of labels that the task needs.

    Without this check, training on other labels, such as spans instead of cells, would fail silently.

    Raises:
        ConfigError: the encoding annotates other labels. The error names a suitable encoding.
    """
    task: type[TableTask[Any, Any]] = get_class(cfg.task["_target_"])
    serializer: type[Serializer] = get_class(cfg.encoding["_target_"])
    encoded_label = serializer.label_kind(cfg.encoding)
    label = task.spec.label
    if label is not None and label != encoded_label:
        problem = f"{task.__name__} needs labels of {label}, but this encoding marks {encoded_label}"
        hint = f"Use encoding={task.spec.encoding}" if task.spec.encoding else f"Use an encoding of {label}"
        raise ConfigError(problem, where="encoding", remedy=hint)


def _check_attention(encoder: TableEncoder, backend: AttentionBackend) -> None:
    """Raise `ConfigError` if the network cannot use the configured attention backend."""
    if not backend.leaves_choice and all(spec.backend is not backend for spec in encoder.specs):
        problem = f"{type(encoder).__name__} computes attention itself and cannot use {type(backend).__name__}"
        hint = "Use attention=auto, which leaves it to the network"
        raise ConfigError(problem, where="attention", remedy=hint)


def compare_settings(
    report: LoadReport, serializer: Serializer, task: TableTask[Any, Any], options: Mapping[str, Any]
) -> LoadReport:
    """Report which loaded checkpoints were trained with other settings than the run uses.

    Args:
        report: report about the loaded weights, with the configuration of each checkpoint.
        serializer: serializer of the run.
        task: task of the run.
        options: configuration of the task.

    Returns:
        A copy of the report, with a note for each checkpoint whose settings differ.

    Raises:
        CheckpointError: the checkpoint has other aggregations than mate, so its aggregation head cannot be used.
    """
    notes: list[str] = []
    encoder = task.encoder
    for origin in report.origins:
        heads = head_names(task).keys() & set(report.loaded)
        # Serializers that always reset positions do so for any network, so there is nothing to compare.
        is_option = not type(serializer).reset_positions
        differences = different_positions(origin, serializer.reset_positions) if is_option else []
        names = aggregation_names(origin.config, AGGREGATIONS)
        if any("aggregation" in name for name in heads) and names != list(AGGREGATIONS):
            problem = f"its aggregations are {', '.join(names)}, the network's {', '.join(AGGREGATIONS)}"
            raise CheckpointError(problem, where=origin.source, remedy="Set init.heads=false")
        types = [TOKEN_TYPES[name] for name in encoder.embeddings.types.values()]
        differences += different_tables(origin.config, types, encoder.size.max_positions)
        differences += different_options(origin.config, options) if heads else []
        notes += [f"{origin.source} was trained with {', '.join(differences)}"] if differences else []
    return replace(report, notes=tuple(notes))


def _check_length(serializer: Serializer, encoder: TableEncoder) -> None:
    tokens, positions = serializer.max_tokens, encoder.size.max_positions
    if tokens > positions and not serializer.reset_positions:
        problem = f"encoding.max_tokens={tokens} exceeds the {positions} positions of this network"
        raise ConfigError(problem, remedy="Set encoding.reset_positions=true, or fewer tokens")
    if encoder.max_tokens is not None and tokens > encoder.max_tokens:
        problem = f"encoding.max_tokens={tokens} exceeds the {encoder.max_tokens} tokens of this network's training"
        hint = f"Set encoding.max_tokens={encoder.max_tokens}, or train with a greater length"
        raise ConfigError(problem, where="model.length", remedy=hint)


def load_best(cfg: RunConfig, folder: RunFolder, dataset: TableDataset | None = None) -> Parts:
    """Build the network, task and data of a run, and load the run's best checkpoint.

    Args:
        cfg: configuration of the run.
        folder: run folder.
        dataset: dataset from which examples are read. None: the configured dataset.

    Raises:
        RunError: the run has no weights, or its configuration does not fit this version of mate.
    """
    weights = best_weights(folder)
    with wrap_file_errors(
        folder.path, RunError, "its configuration does not fit this version of mate", "Train the run again"
    ):
        parts = assemble(cfg, instantiate(cfg.data) if dataset is None else dataset, load=False, moved=True)
    load_module(parts.task, weights)
    return parts


def best_weights(folder: RunFolder) -> Path:
    """Return the path of `best.safetensors`, the weights with the best validation score.

    Raises:
        RunError: the run has no weights.
    """
    weights = folder.checkpoints / "best.safetensors"
    if not weights.is_file():
        raise RunError("this run has no weights", where=str(folder.path), remedy="Train it, or resume it, to the end")
    return weights
