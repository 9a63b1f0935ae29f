"""From a configuration to the parts of a run."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch
from hydra.utils import get_class, instantiate

from mate_cli.attention.backends.auto import portable
from mate_cli.attention.base import AttentionBackend
from mate_cli.data.datasets.catalogue import TableDataset
from mate_cli.data.loading.batching import Schedule, plan_schedule
from mate_cli.data.loading.parallel import count_cores
from mate_cli.data.loading.table_data_module import LoaderOptions, NoDataset, TableDataModule
from mate_cli.errors import CheckpointError, ConfigError, RunError
from mate_cli.files.io_errors import wrap_read_errors
from mate_cli.lit_modules.base import TableTask
from mate_cli.lit_modules.cell_selection import CellSelection
from mate_cli.models.base.table_encoder import TableEncoder, TaskContext, check_network
from mate_cli.models.checkpoints.heads import head_names
from mate_cli.models.checkpoints.settings import (
    aggregation_names,
    different_options,
    different_positions,
    different_tables,
)
from mate_cli.models.initialization.initial_weights import Initializer, LoadReport
from mate_cli.models.layers.low_rank import add_adapters, freeze
from mate_cli.pipelines.machine import device_of, keep_random_states, open_cache, resolve_profile
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
    """Parts of a run.

    Args:
        replaced: what this machine lacks of what the run was trained with, and what stands in.
    """

    task: TableTask[Any, Any]
    data: TableDataModule
    serializer: Serializer
    initializer: Initializer
    report: LoadReport
    replaced: Mapping[str, str] = field(default_factory=dict)

    @property
    def facts(self) -> Mapping[str, str]:
        """Facts about the machine for a record: what was replaced, of a run that ranks rows, too."""
        ranker = getattr(self.serializer, "ranker", None)
        return {**self.replaced, **(ranker.replaced if isinstance(ranker, CellRanker) else {})}


def assemble(cfg: ModelConfig, dataset: TableDataset, *, load: bool = True, moved: bool = False) -> Parts:
    """Build network, task and loaders.

    Args:
        cfg: what they are made of.
        dataset: what is loaded.
        load: give the network its first weights; False where others will take their place at once.
        moved: it was trained before, perhaps on another machine: what this one lacks is replaced.

    Raises:
        ConfigError: the parts do not fit together, or the machine lacks what they need.
        CheckpointError: the initial weights do not fit the network.
    """
    hardware, device = resolve_profile(cfg.hardware, moved=moved), device_of(cfg.hardware)
    use_machine(hardware)
    torch.manual_seed(cfg.seed)
    check_label(cfg)
    if "vocab_size" in cfg.model:
        raise ConfigError("follows from the tokenizer", where="model.vocab_size", remedy="Leave it out")
    serializer = build_serializer(cfg)
    build_task = instantiate(cfg.task, _partial_=True)
    backend, replaced = _attention(cfg.attention, device.type, moved=moved)
    cache = open_cache(cfg.paths.cache)
    build_encoder = instantiate(cfg.model, attention=backend, vocab_size=serializer.vocab_size, _partial_=True)
    encoder: TableEncoder = build_encoder()
    check_network(encoder)
    _check_attention(encoder, backend)
    task: TableTask[Any, Any] = build_task(TaskContext(encoder, cast(SpanSerializer, serializer), cache))
    initializer: Initializer = instantiate(cfg.init, _convert_="all")  # options of its parts are no containers of Hydra
    report = initializer.load(encoder, task) if load else LoadReport(new=tuple(encoder.state_dict()))
    report = compare_settings(report, serializer, task, cfg.task)
    if load:  # weights that are loaded later have adapters in them
        add_adapters(encoder, encoder.lora, report.loaded)
    freeze(encoder, encoder.freeze)
    encoder.train()  # what is frozen as a whole may have no dropout, and Lightning leaves modes as they are
    encoder.use_cache(cache)
    _check_length(serializer, encoder)
    loading = LoaderOptions(
        micro_batch=hardware.micro_batch,
        workers=hardware.workers or 0,
        encoders=hardware.prepare_workers or hardware.threads or count_cores(),
        seed=cfg.seed,
        reset_positions=serializer.reset_positions,
        max_positions=encoder.size.max_positions,
        cache=cache / "encodings",
        prepare=encoder.planner.on(device.type),
        pin_memory=hardware.accelerator == "gpu",
        limit_train=cfg.limits[0],
        limit_test=cfg.limits[1],
        limit_dev=cfg.limits[2],
        rank=ranks.rank(),
        ranks=ranks.world_size(),
    )
    module: type[TableDataModule] = getattr(dataset, "data_module", TableDataModule)
    data = module(dataset, serializer, loading, task.training_examples, task.evaluation_examples)
    return Parts(task, data, serializer, initializer, report, replaced)


def plan_steps(cfg: RunConfig, examples: int, processes: int) -> Schedule:
    """Plan the steps of a run on so many training examples; see `plan_schedule`."""
    return plan_schedule(
        examples,
        batch_size=cfg.trainer.batch_size,
        micro_batch=cfg.hardware.micro_batch,
        max_epochs=cfg.trainer.max_epochs,
        max_steps=cfg.trainer.max_steps,
        ranks=processes,
    )


def steps_between_validations(cfg: RunConfig, schedule: Schedule, examples: int) -> int:
    """Return after how many optimizer steps on so many training examples a run validates."""
    return min(max(1, round(cfg.trainer.val_every * (examples // schedule.batch_size))), schedule.total_steps)


def use_machine(hardware: Hardware) -> None:
    """Set what belongs to the process: threads, and how a GPU multiplies 32 bits."""
    if hardware.threads:
        torch.set_num_threads(hardware.threads)
    torch.backends.cuda.matmul.allow_tf32 = hardware.tf32 and hardware.accelerator == "gpu"


def _attention(chosen: Node, device: str, *, moved: bool) -> tuple[AttentionBackend, dict[str, str]]:
    """Build the backend; say where `Auto` has to stand in for one that this machine lacks.

    Raises:
        ConfigError: the machine lacks it, and the run was not trained before.
    """
    backend: AttentionBackend = instantiate(chosen)
    if not moved:
        backend.check_machine(device)
    usable = portable(backend, device)
    if usable is backend:
        return backend, {}
    name = type(backend).__name__.lower()
    Console(stderr=True).print(f"attention={name} cannot run here: attention=auto computes the same", soft_wrap=True)
    return usable, {"attention replaced": f"{name} by auto"}


def build_serializer(cfg: ModelConfig) -> Serializer:
    """Build the serializer, and for tables that are cut to their best rows the ranker of these.

    Raises:
        RunError: the run that is to rank rows is not there, or ranks no cells.
    """
    ranked_by = cfg.encoding.get("ranked_by")
    loaded = {"ranker": CellRanker(str(ranked_by), cfg)} if ranked_by else {}
    serializer: Serializer = instantiate(cfg.encoding, tokenizer=load_tokenizer(cfg.tokenizer), **loaded)
    return serializer


class CellRanker:
    """Ranks the rows of tables by the cells that a finished run finds best; its network is loaded when first asked.

    Args:
        run: its folder.
        here: the machine and the folders of now.

    Raises:
        RunError: there is no such run, it ranks no cells, or it left no weights.
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
        """Equal for equal networks with equal weights that read alike, wherever their folders are."""
        made_of = (sha256(self.weights), str(self.config.model), build_serializer(self.config).fingerprint)
        return hashlib.sha256(" ".join(made_of).encode()).hexdigest()[:16]

    def __call__(self, examples: Sequence[TableExample]) -> dict[str, tuple[int, ...]]:
        """Return the rows of each question's table, from 0, that of the best cell first, by `example_id`.

        The network is on the device of the run for so long, which then has its memory back.
        """
        task, loading, rows = self._parts.task, self._parts.data.loading, {}
        encodings = [
            encoding for encoding in self._parts.serializer.encode(examples) if isinstance(encoding, TableEncoding)
        ]
        encodings.sort(key=len, reverse=True)
        device, size = device_of(self.config.hardware), 2 * loading.micro_batch
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
        """Parts that the machine lacks of what its network was trained with, as far as it was asked."""
        loaded: Parts | None = vars(self).get("_parts")
        return {f"ranker, {name}": fact for name, fact in loaded.replaced.items()} if loaded else {}

    @cached_property
    def _parts(self) -> Parts:
        with keep_random_states():
            parts = load_best(self.config, self.folder, NoDataset())
        parts.task.eval()
        return parts


def check_label(cfg: ModelConfig) -> None:
    """Refuse an encoding whose labels mean something else to the task: it would learn that, and nothing would fail.

    Raises:
        ConfigError: naming an encoding that fits.
    """
    task: type[TableTask[Any, Any]] = get_class(cfg.task["_target_"])
    serializer: type[Serializer] = get_class(cfg.encoding["_target_"])
    marks = serializer.marks(cfg.encoding)
    label = task.spec.label
    if label is not None and label != marks:
        raise ConfigError(
            f"{task.__name__} needs labels of {label}, but this encoding marks {marks}",
            where="encoding",
            remedy=f"Use encoding={task.spec.encoding}" if task.spec.encoding else f"Use an encoding of {label}",
        )


def _check_attention(encoder: TableEncoder, backend: AttentionBackend) -> None:
    """Refuse a backend that is asked for and would never be."""
    if not backend.leaves_choice and all(spec.backend is not backend for spec in encoder.specs):
        raise ConfigError(
            f"{type(encoder).__name__} computes attention itself and cannot use {type(backend).__name__}",
            where="attention",
            remedy="Use attention=auto, which leaves it to the network",
        )


def compare_settings(
    report: LoadReport, serializer: Serializer, task: TableTask[Any, Any], options: Mapping[str, Any]
) -> LoadReport:
    """Compare what checkpoints say of themselves with the parts that took their weights, and note what differs.

    Raises:
        CheckpointError: positions or aggregations mean something else there.
    """
    notes: list[str] = []
    encoder = task.encoder
    for origin in report.origins:
        heads = head_names(task).keys() & set(report.loaded)
        chosen = not type(serializer).reset_positions  # else each of its inputs begins anew, whatever the network
        differences = different_positions(origin, serializer.reset_positions) if chosen else []
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
        raise ConfigError(
            f"encoding.max_tokens={tokens} exceeds the {positions} positions of this network",
            remedy="Set encoding.reset_positions=true, or fewer tokens",
        )
    if encoder.max_tokens is not None and tokens > encoder.max_tokens:
        raise ConfigError(
            f"encoding.max_tokens={tokens} exceeds the {encoder.max_tokens} tokens of this network's training",
            where="model.length",
            remedy=f"Set encoding.max_tokens={encoder.max_tokens}, or train with a greater length",
        )


def load_best(cfg: RunConfig, folder: RunFolder, dataset: TableDataset | None = None) -> Parts:
    """Assemble a run's parts and give them the best weights of its folder.

    Raises:
        RunError: the run left no weights.
    """
    weights = best_weights(folder)
    with wrap_read_errors(
        folder.path, RunError, "its configuration does not fit this version of mate", "Train the run again"
    ):
        parts = assemble(cfg, instantiate(cfg.data) if dataset is None else dataset, load=False, moved=True)
    load_module(parts.task, weights)
    return parts


def best_weights(folder: RunFolder) -> Path:
    """Return the file of a run's best weights.

    Raises:
        RunError: there is none.
    """
    weights = folder.checkpoints / "best.safetensors"
    if not weights.is_file():
        raise RunError("this run has no weights", where=str(folder.path), remedy="Train it, or resume it, to the end")
    return weights
