"""One training run: fit, choose the best weights, score them, and leave a record."""

from __future__ import annotations

import platform
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from mate_cli.attention.backends.auto import Auto
from mate_cli.data.batching import check_shares, plan_schedule
from mate_cli.data.table_data_module import TableDataModule
from mate_cli.errors import CheckpointError
from mate_cli.lit_modules.base import Optimization
from mate_cli.lit_modules.sharding import load_whole
from mate_cli.models.flops import encoder_flops
from mate_cli.models.table_encoder import TableEncoder
from mate_cli.pipelines.assembly import Parts, assemble
from mate_cli.pipelines.evaluation import evaluate, save_result
from mate_cli.pipelines.fitting import note_fit, note_unusable
from mate_cli.pipelines.placement import placement
from mate_cli.pipelines.quiet import quiet, quiet_lightning
from mate_cli.pipelines.summary import print_results, print_start
from mate_cli.runs import ranks
from mate_cli.runs.callbacks.checkpoints import Checkpoints, Interrupted
from mate_cli.runs.callbacks.progress import FollowTraining
from mate_cli.runs.callbacks.reproducible import Reproducible
from mate_cli.runs.clock import Clock
from mate_cli.runs.folders import choose_folder
from mate_cli.runs.liveness import own_process
from mate_cli.runs.names import Names
from mate_cli.runs.record import RunFolder, RunRecord, SeenFolder, now
from mate_cli.runs.tracking import MetricsFile, Trackers, WandbTracker, seconds_so_far
from mate_cli.runs.weights import load_module, save_module, sha256


@dataclass
class Run:
    """A run in progress.

    Args:
        folder: where everything is written.
        record: its summary, written at every change of status.
        clock: seconds of wall time, earlier parts included.
        trackers: where its numbers go.
        console: what the user sees.
    """

    cfg: DictConfig
    folder: RunFolder
    record: RunRecord
    clock: Clock
    trackers: Trackers
    console: Console


Preparation = Callable[[RunFolder, RunRecord], DictConfig]
"""What comes before a run: given its folder and record, it returns the configuration with the first weights."""


def train(
    cfg: DictConfig,
    names: Names,
    overrides: list[str],
    *,
    folder: RunFolder | None = None,
    job: int = 0,
    prepare: Preparation | None = None,
) -> Run:
    """Train, or continue a run, and score the best weights on the development and test splits.

    Args:
        cfg: the configuration.
        names: the choices it was composed from.
        overrides: what the user typed, for the record.
        folder: the run's folder; a new one below `paths.outputs`, or the one to resume, when it is None.
        job: number of the job in a sweep.
        prepare: what comes before, unless the run is finished already.

    Returns:
        The finished run.

    Raises:
        MateError: something the user can mend; the record says so too.
        Interrupted: the user asked to stop; the state is saved.
    """
    console = Console(highlight=False)
    config: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
    folder, record = begin(cfg, names, overrides, folder=folder, job=job)
    if record.status == "finished":
        console.print(f"{folder.path} is finished already: nothing to train")
        return Run(cfg, folder, record, Clock(record.wall_seconds), Trackers([]), console)
    last = folder.checkpoints / "last.ckpt"
    checkpoint = last if last.exists() else None
    clock = Clock(max(record.wall_seconds, seconds_so_far(folder)))
    record.resumed += checkpoint is not None
    folder.write_text("config.yaml", OmegaConf.to_yaml(cfg, resolve=True))
    folder.write_record(record)
    with recorded(folder, record, clock) as close_with:
        check_shares(cfg.trainer.batch_size, ranks.count())
        parts = assemble(prepare(folder, record) if prepare else cfg)
        record.monitor = parts.task.monitor
        step = checkpoint_step(checkpoint)
        trackers = open_trackers(cfg, folder, record, config, step)
        close_with(trackers)
        run = Run(cfg, folder, record, clock, trackers, console)
        _fit(run, parts, checkpoint)
        _score(run, parts)
        record.peak_memory_mb = ranks.total([peak_memory_mb()])[0]
    return run


def begin(
    cfg: DictConfig, names: Names, overrides: list[str], *, folder: RunFolder | None = None, job: int = 0
) -> tuple[RunFolder, RunRecord]:
    """Choose or make the run's folder and its record; of several processes one does, and the others only look.

    Raises:
        RunError: the run cannot be resumed, or not all processes see its folder.
    """

    def choose() -> tuple[RunFolder, RunRecord]:
        config: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
        outputs = Path(cfg.paths.outputs)
        chosen = folder or choose_folder(cfg.resume, outputs, "train", names.experiment, config, job)
        return chosen, open_record(chosen, cfg, names, overrides)

    found, record = ranks.from_first(choose)
    return found if ranks.is_first() else SeenFolder(found.path), record


def open_record(folder: RunFolder, cfg: DictConfig, names: Names, overrides: list[str]) -> RunRecord:
    """The record of a run that is continued, or a new one."""
    if (folder.path / "record.json").exists():
        record = folder.read_record()
        if record.status == "finished":
            return record
        record.status, record.reason, record.finished = "running", None, None
        record.process, record.host = own_process(), platform.node()
        return record
    return RunRecord(command="train", overrides=overrides, seed=cfg.seed, **asdict(names))


def open_trackers(
    cfg: DictConfig, folder: RunFolder, record: RunRecord, config: Mapping[str, Any], step: int | None
) -> Trackers:
    """metrics.jsonl, and W&B where it is asked for; of several processes, only the first keeps any."""
    if not ranks.is_first():
        return Trackers([])
    trackers: list[Any] = [MetricsFile(folder, step)]
    if cfg.logger.kind == "wandb":
        trackers.append(WandbTracker(folder, record, config, config["logger"]))
    return Trackers(trackers)


@contextmanager
def recorded(folder: RunFolder, record: RunRecord, clock: Clock) -> Iterator[Any]:
    """Keep the record true however the work ends, and close the trackers.

    Yields:
        A function that takes the trackers to close.
    """
    opened: list[Trackers] = []
    try:
        yield opened.append
        record.status = "finished"
    except (Interrupted, KeyboardInterrupt) as error:
        record.status, record.reason = "interrupted", "stopped by the user or the scheduler"
        print(f"interrupted; to go on, type the same again with resume={folder.path}")
        raise KeyboardInterrupt from error
    except BaseException as error:
        known = ranks.cause(error)
        record.status, record.reason = "failed", f"{type(known).__name__}: {known}"[:500]
        if known is error:
            raise
        raise known from error
    finally:
        record.finished, record.wall_seconds = now(), round(clock(), 1)
        record.peak_memory_mb = max(record.peak_memory_mb, peak_memory_mb())
        folder.write_record(record)
        for trackers in opened:
            trackers.close(record.summary(), 0 if record.status == "finished" else 1)


def checkpoint_step(path: Path | None) -> int | None:
    """The optimizer step of a checkpoint, or None without one.

    Raises:
        CheckpointError: the file is damaged.
    """
    if path is None:
        return None
    try:
        return int(torch.load(path, map_location="cpu", weights_only=True, mmap=True)["global_step"])
    except (RuntimeError, OSError, EOFError, KeyError, UnpicklingError) as error:
        raise CheckpointError(
            "the checkpoint is damaged", where=str(path), remedy="Move it away to train this run from the beginning"
        ) from error


def _fit(run: Run, parts: Parts, checkpoint: Path | None) -> None:
    cfg, data, task = run.cfg, parts.data, parts.task
    training = ranks.first_then_all(data.training)
    data.schedule = schedule = plan_schedule(
        len(training),
        batch_size=cfg.trainer.batch_size,
        micro_batch=cfg.hardware.micro_batch,
        max_epochs=cfg.trainer.max_epochs,
        max_steps=cfg.trainer.max_steps,
        ranks=ranks.count(),
    )
    development = ranks.first_then_all(lambda: data.encodings("dev"))
    task.references = {example.example_id: example for example in data.examples("dev")}
    task.optimization = Optimization(instantiate(cfg.optimizer), instantiate(cfg.scheduler), schedule.total_steps)
    run.record.total_steps = schedule.total_steps
    run.record.parameters = sum(parameter.numel() for parameter in task.parameters())
    run.record.data = {
        "train": len(training),
        "dev": len(development),
        "failures": len(training.failures) + len(development.failures),
    }
    note_unusable(run.record, data.dataset.examples("train"))
    note_fit(run.record, "train", training)
    run.record.facts |= data.facts
    data.first_batch = done = (checkpoint_step(checkpoint) or 0) * schedule.accumulate
    print_start(run, parts, schedule, training, done // schedule.accumulate)
    follow = FollowTraining(run.trackers, run.clock, cfg.trainer.log_every, run.console)
    with quiet_lightning():
        interval = _validation_interval(cfg, data)
        trainer = build_trainer(run, schedule.total_steps, schedule.accumulate, interval, follow, task)
        run.record.device = device_name(trainer)
        run.folder.write_record(run.record)
        if done < schedule.total_batches:
            trainer.fit(task, datamodule=data, ckpt_path=checkpoint, weights_only=True)
            flops = training_flops(task.encoder, data)
            run.record.throughput = {**follow.throughput(), "training_flops_per_example": flops}
        elif checkpoint:
            load_whole(task, torch.load(checkpoint, map_location="cpu", weights_only=True)["state_dict"])
    final = run.folder.checkpoints / "final.safetensors"
    save_module(task, final)
    run.record.weights_sha256 = ranks.from_first(lambda: sha256(final))


def training_flops(encoder: TableEncoder, data: TableDataModule) -> float:
    """Floating-point operations of a forward and a backward pass, per example, of some of the training split."""
    batches = data.some_batches()
    total = sum(encoder_flops(encoder, batch, backward=True) for batch in batches)
    return total / sum(len(batch.input_ids) for batch in batches)


def _validation_interval(cfg: DictConfig, data: Any) -> int:  # noqa: ANN401
    """Micro-batches between two validations; whole optimizer steps."""
    schedule = data.schedule
    examples = len(data.training())
    steps = max(1, round(cfg.trainer.val_every * examples / schedule.batch_size))
    return int(min(steps, schedule.total_steps) * schedule.accumulate)


def build_trainer(
    run: Run,
    total_steps: int,
    accumulate: int,
    validation_interval: int,
    follow: FollowTraining,
    task: Any,  # noqa: ANN401
) -> pl.Trainer:
    """A Lightning trainer that sees the whole run as one epoch, so that resuming always happens inside it."""
    cfg = run.cfg
    checkpoints = Checkpoints(run.folder, task.monitor, cfg.trainer.checkpoint_every, cfg.trainer.early_stopping)
    return pl.Trainer(
        max_epochs=1,
        max_steps=total_steps,
        accumulate_grad_batches=accumulate,
        gradient_clip_val=cfg.trainer.gradient_clip,
        val_check_interval=validation_interval,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        deterministic=cfg.deterministic,
        callbacks=[Reproducible(cfg.seed), follow, checkpoints],
        **placement(cfg.hardware, training=True),
        **quiet(),
    )


def _score(run: Run, parts: Parts) -> None:
    best = run.folder.checkpoints / "best.safetensors"
    if best.exists():
        load_module(parts.task, best)
    for split in ("dev", "test"):
        if not parts.data.has_examples(split):
            continue
        result = evaluate(parts, run.cfg, split)
        run.record.data[split] = len(result.examples)
        note_fit(run.record, split, parts.data.encodings(split))
        run.record.metrics |= {f"{split}/{name}": value for name, value in result.metrics.items()}
        baselines = parts.task.baselines(result.examples, lambda: parts.data.examples("train", training=True))
        for name, value in baselines.items() if result.metrics else ():
            baseline, metric = name.split("/", 1)
            run.record.metrics[f"baseline/{baseline}/{split}/{metric}"] = value
        save_result(run.folder, split, result)
        run.trackers.table(f"predictions/{split}", *result.table())
    backend = parts.task.encoder.planner.backend
    if isinstance(backend, Auto):
        run.record.facts["attention"] = backend.summary()
    print_results(run.console, run.folder, run.record)


def device_name(trainer: pl.Trainer) -> str:
    """The GPU's name, or the number of CPU threads."""
    device = trainer.strategy.root_device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    if ranks.count() > 1:
        name = f"{ranks.count()} x {name}"
    return name if device.type == "cuda" else f"{name}, {torch.get_num_threads()} threads"


def peak_memory_mb() -> float:
    """The most memory that this process, or its GPU where it has one, has held."""
    if torch.cuda.is_available():
        return round(torch.cuda.max_memory_allocated() / 2**20, 1)
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)
