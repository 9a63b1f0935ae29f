"""Training of one stage: fit, load the best checkpoint and compute its metrics."""

from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.errors import InstantiationException
from hydra.utils import instantiate

from mate_cli.data.loading.batching import check_shares
from mate_cli.data.loading.cache import EncodedSplit
from mate_cli.data.loading.table_data_module import TableDataModule, TrainingSet
from mate_cli.errors import ConfigError, RunError
from mate_cli.files.io_errors import find_known_error, shorten_reason
from mate_cli.lit_modules.base import all_reduce_counts
from mate_cli.lit_modules.lit_task import LitData, LitTask, read_recipe
from mate_cli.metrics.calibration import RELIABLE_ANSWERS
from mate_cli.models.base.costs import encoder_flops
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import EncoderLayer, attend
from mate_cli.models.layers.low_rank import merge_adapters
from mate_cli.pipelines.assembly import Parts, assemble, plan_steps, steps_between_validations
from mate_cli.pipelines.evaluation.evaluation import describe_questions, evaluate, save_result
from mate_cli.pipelines.machine import (
    COMPILE,
    device_memory,
    explain_memory_errors,
    get_device,
    memory_error,
    step_memory,
)
from mate_cli.pipelines.run import (
    Run,
    count_parameters,
    describe_unscored,
    peak_memory_mb,
    print_results,
    print_start,
    record_digest,
    record_learning,
    record_never_selected,
    record_skipped,
    record_truncation,
)
from mate_cli.pipelines.trainer import build_trainer, check_scores, open_run_loggers, quiet_lightning
from mate_cli.runs import ranks
from mate_cli.runs.callbacks import FollowTraining
from mate_cli.runs.checkpoints import last_step, load_module, read_state, save_module, sha256, wrap_resume_errors
from mate_cli.runs.configuration import Hardware, RunConfig
from mate_cli.runs.loggers import TABLE_ROWS, log_table
from mate_cli.runs.metrics_file import read_rows
from mate_cli.runs.record import RunRecord
from mate_cli.terminal.progress import track


def train_run(run: Run, cfg: RunConfig, config: Mapping[str, Any]) -> None:
    """Train or resume a run, and score its best checkpoint on the dev and test splits.

    Args:
        run: run to train.
        cfg: configuration of the run.
        config: the same configuration as a mapping, for the loggers.

    Raises:
        MateError: an error that the user can fix.
        Interrupted: the user interrupted the run. Its checkpoint is saved.
    """
    record, path = run.record, run.folder.checkpoints / "last.ckpt"
    checkpoint = path if path.exists() else None
    record.resumed += checkpoint is not None
    run.folder.write_record(record)

    # Data and network.
    check_shares(cfg.trainer.batch_size, ranks.world_size())
    parts = _assemble(run, cfg)
    data, task = parts.data, parts.task
    record.monitor = task.spec.monitor
    _share_data(data)
    training = data.training()
    schedule = plan_steps(cfg, len(training), ranks.world_size())
    development = data.encodings("dev")
    ranks.wait_for_all()
    step = last_step(checkpoint) or 0
    data.set_schedule(schedule, first_batch=step * schedule.accumulate)
    record.total_steps = schedule.total_steps
    _record_parts(record, parts, training, development)

    # Trainer. The run writes to its loggers after all checks have passed.
    module = _build_module(cfg, parts, schedule.total_steps)
    open_run_loggers(run, cfg.logger, config, last_step(checkpoint))
    if not checkpoint:
        _prepare_weights(run, parts, cfg.hardware)
    print_start(run, parts, schedule, training, step)
    if cfg.trainer.compile:
        compile_layers(task.encoder)
    progress = FollowTraining(run.clock, cfg.trainer.log_every, run.console)
    with quiet_lightning():
        interval = steps_between_validations(cfg, schedule, len(training)) * schedule.accumulate
        trainer = build_trainer(run, cfg, schedule, interval, progress, task)
        record.device = device_name(trainer)
        run.console.print(f"training on {record.device}, precision {trainer.precision}")
        run.folder.write_record(record)

        # Fit.
        memory = step_memory(task, task.encoder, int(training.lengths.max()), cfg.hardware)
        with (
            explain_memory_errors(lambda: memory_error(memory, schedule.micro_batch, device_memory())),
            wrap_resume_errors(checkpoint, lambda: progress.steps > 0),
        ):
            if step < schedule.total_steps:
                trainer.fit(module, datamodule=LitData(data, task), ckpt_path=checkpoint, weights_only=True)
            elif checkpoint:
                state = read_state(checkpoint)
                task.load_state_dict(state["state_dict"])
                module.on_load_checkpoint(state)
    if step < schedule.total_steps:
        _record_fit(run, parts, trainer.global_step, progress)
    record_learning(record, read_rows(run.folder.path / "metrics.jsonl"), all_reduce_counts(task.loss_counts))
    merge_adapters(task)
    final = run.folder.place("checkpoints/final.safetensors")
    save_module(task, final)
    record.weights_sha256 = ranks.broadcast_from_rank_zero(lambda: sha256(final))

    # Evaluation of the best checkpoint.
    weights = run.folder.checkpoints / "best.safetensors"
    if weights.exists():
        load_module(task, weights)
    for split in ("dev", "test"):
        if data.has_examples(split):
            _evaluate(run, cfg, parts, split)
    record.facts |= {**task.encoder.describe_usage(), **parts.facts}
    print_results(run.console, run.folder, record)
    record.peak_memory_mb = ranks.all_reduce_sum([peak_memory_mb()])[0]


def _assemble(run: Run, cfg: RunConfig) -> Parts:
    """Build the network, task and data of a run from its configuration.

    Raises:
        RunError: the constructor of a part fails, for example because config.yaml was edited.
    """
    try:
        return assemble(cfg, instantiate(cfg.data))
    except (InstantiationException, TypeError, ValueError, LookupError, AttributeError) as error:
        if find_known_error(error):
            raise
        problem = f"its parts cannot be built: {shorten_reason(error.__cause__ or error)}"
        raise RunError(problem, where=str(run.folder.path / "config.yaml"), remedy="Train another run") from error


def _record_parts(record: RunRecord, parts: Parts, training: TrainingSet, development: EncodedSplit) -> None:
    """Record the properties of a run's network and data that are known before training.

    These are the sizes of network and data, excluded examples, data hashes, and notes about the initial weights.
    """
    data, task = parts.data, parts.task
    record.parameters, record.trainable_parameters = count_parameters(task)
    failures = len(training.failures) + len(development.failures)
    record.data = {"train": len(training), "dev": len(development), "failures": failures}
    record_skipped(record, data.training_questions(), task.skip_reason)
    record_truncation(record, "train", training, getattr(data.dataset, "unit", "tables"))
    record_digest(record, "train", training)
    record_digest(record, "dev", development)
    record.facts |= data.facts
    if parts.report.notes:
        record.facts["first weights"] = "; ".join(parts.report.notes)


def _share_data(data: TableDataModule) -> None:
    """Prepare this rank's share of the dataset, and check that all ranks read the same data.

    Raises:
        RunError: the data of the ranks differ.
    """
    if ranks.world_size() > 1:
        if prepare_share := getattr(data.dataset, "prepare_share", None):
            prepare_share()
        digests = ranks.rank_zero_first(data.split_marks)
        ranks.require_agreement(digests, "Use the same data on all ranks, as on a file system that all nodes share")


def _build_module(cfg: RunConfig, parts: Parts, total_steps: int) -> LitTask:
    """Build the LightningModule of a run, and check the metrics that its callbacks monitor."""
    optimizer, scheduler, names = read_recipe(cfg.optimizer), read_recipe(cfg.scheduler), parts.report.loaded
    development = {example.example_id: example for example in parts.data.examples("dev")}
    pretrained = {f"encoder.{name}" for name in names} | set(names)
    module = LitTask(parts.task, optimizer, scheduler, total_steps, development, pretrained)
    check_scores(cfg, parts.task, development)
    return module


def _record_fit(run: Run, parts: Parts, step: int, progress: FollowTraining) -> None:
    """Record how training ended: the throughput, and the last step if stopped by a callback."""
    if step < run.record.total_steps:
        run.record.reason = f"stopped early at step {step:,} of {run.record.total_steps:,}"
        run.console.print(f"{run.record.reason}, by a callback")
    flops = training_flops(parts.task.encoder, parts.data)
    run.record.throughput = {**progress.throughput(), "training_flops_per_example": flops}


def _prepare_weights(run: Run, parts: Parts, hardware: Hardware) -> None:
    """Initialize the new weights of a network that depend on statistics of the training data.

    The statistics are computed on the training device. Changes are recorded.

    Rank 0 measures the training split and broadcasts the results to the other ranks.
    """
    encoder, cpu = parts.task.encoder, torch.device("cpu")
    device = cpu if encoder.extra is None else get_device(hardware)
    encoder.to(device)
    batches = (batch.to(device) for batch in track(parts.data.every_batch(), "preparing initial weights", "batches"))
    try:
        changes = parts.initializer.prepare(encoder, batches, parts.report, ranks.broadcast_from_rank_zero)
    finally:
        encoder.to(cpu)
    run.record.facts |= changes
    for name, note in changes.items():
        run.console.print(f"{name}: {note}")


def compile_layers(network: TableEncoder) -> None:
    """Compile the layers of a network with `torch.compile` for dynamic input lengths.

    Compilation happens on first use.

    Raises:
        ConfigError: the computation of a layer depends on the data, so that it cannot be compiled.
    """
    layers = [layer for encoder in network.encoders.values() for layer in encoder.layers]
    if types := {type(layer).__name__ for layer in layers if type(layer) is not EncoderLayer}:
        problem = f"{', '.join(sorted(types))} cannot be compiled: its computation depends on the data"
        raise ConfigError(problem, where=COMPILE, remedy="Leave it out")
    # The computation of attention depends on the data, so exclude it from compilation.
    eager_attend = torch.compiler.disable(attend)  # type: ignore[no-untyped-call]
    for layer in layers:
        layer.attention["self"].attend = eager_attend
        layer.compile(dynamic=True)


def training_flops(encoder: TableEncoder, data: TableDataModule) -> float:
    """Return the FLOPs per example of a forward and backward pass.

    The FLOPs are averaged over sampled batches.
    """
    total = examples = 0.0
    for batch in track(data.sample_batches(), "planning attention and counting operations", "batches"):
        total += encoder_flops(encoder, batch, backward=True)
        examples += len(batch.input_ids)
    return total / examples


def _evaluate(run: Run, cfg: RunConfig, parts: Parts, split: str) -> None:
    """Evaluate the trained task on a split, and store the predictions and metrics.

    Metrics of baselines and notes about unscored and truncated questions are recorded too.
    """
    data, task, record = parts.data, parts.task, run.record
    result = evaluate(parts, cfg, split)
    record.data[split] = len(result.examples)
    record.questions |= describe_questions(split, result.examples.values())
    record.add_scores(f"{split}/", result.metrics)
    if result.metrics:
        record.facts |= describe_unscored(split, result.examples.values())
        baselines = task.baselines(result.examples, lambda: data.examples("train", training=True))
        for name, value in baselines.items():
            baseline, metric = name.split("/", 1)
            record.add_scores(f"baseline/{baseline}/{split}/", {metric: value})
    record_truncation(record, split, data.encodings(split), getattr(data.dataset, "unit", "tables"))
    # The digest of dev is compared before training.
    if split == "test":
        record_digest(record, split, data.encodings(split))
    else:
        training = data.examples("train", training=True)
        record_never_selected(record, task, training, result.predictions, result.examples)
    if calibration := save_result(run.folder, split, result):
        record.facts["confidence"] = f"calibrated on {calibration.answers:,} questions of {split}"
        if calibration.answers < RELIABLE_ANSWERS:
            record.facts["confidence"] += f", unreliable below {RELIABLE_ANSWERS}"
    log_table(run.loggers, f"predictions/{split}", *result.table(TABLE_ROWS))


def device_name(trainer: pl.Trainer) -> str:
    """Return the name of a trainer's device, with the number of ranks or CPU threads."""
    device = trainer.strategy.root_device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    if ranks.world_size() > 1:
        name = f"{ranks.world_size()} x {name}"
    count = torch.get_num_threads()
    return name if device.type == "cuda" else f"{name}, {count} thread{'' if count == 1 else 's'}"
