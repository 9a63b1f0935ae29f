"""A run that begins with the weights of other runs: pre-training, stage by stage, then the run itself.

`stages` of a configuration without a `chain` name them in their order; each begins with the weights of the one before.
"""

from __future__ import annotations

from dataclasses import replace

from omegaconf import DictConfig, open_dict
from rich.console import Console

from mate_cli.pipelines.chain import Stage, compose_stage, run_stage
from mate_cli.pipelines.training import Run, train
from mate_cli.runs.names import Names
from mate_cli.runs.record import RunFolder, RunRecord

SHARED = ("init", "model", "attention", "hardware", "logger", "paths", "seed", "deterministic", "scale", "debug")
"""What is typed of these parts holds for all stages, as they train one network on one machine; all else does not."""


def train_after_stages(cfg: DictConfig, names: Names, overrides: list[str], *, job: int = 0) -> Run:
    """Train what the configuration says, from the weights of its stages where it has any.

    Each stage is a run of its own in a folder below the run's; one that is finished is not trained again.

    Args:
        cfg: the configuration.
        names: the choices it was composed from.
        overrides: what the user typed.
        job: number of the job in a sweep.

    Returns:
        The finished run.

    Raises:
        MateError: something the user can mend; the record says so too.
        Interrupted: the user asked to stop; the state is saved.
    """

    def pretrain(folder: RunFolder, record: RunRecord) -> DictConfig:
        return _pretrain(cfg, overrides, folder, record, job)

    return train(cfg, names.after(cfg.stages), overrides, job=job, prepare=pretrain if cfg.stages else None)


def _pretrain(cfg: DictConfig, overrides: list[str], folder: RunFolder, record: RunRecord, job: int) -> DictConfig:
    """Run all stages, and return the configuration with the weights of the last one."""
    console, before = Console(highlight=False), None
    typed = [item for item in overrides if _is_shared(item)]
    for name, options in cfg.stages.items():
        if options:
            stage = compose_stage(str(name), options, typed)
            done = run_stage(_beginning_with(stage, before, record), folder, console, job)
            before, record.pretraining[stage.name] = done, str(done.folder.path)
            folder.write_record(record)
    console.rule(f"[bold]{record.task.replace('_', ' ')}")
    return with_weights(cfg, before) if before else cfg


def _is_shared(override: str) -> bool:
    return override.lstrip("+~").partition("=")[0].partition(".")[0] in SHARED


def _beginning_with(stage: Stage, before: Run | None, record: RunRecord) -> Stage:
    if before is None:
        return stage
    names = stage.names.after(record.pretraining)
    return replace(stage, cfg=with_weights(stage.cfg, before), names=names)


def with_weights(cfg: DictConfig, before: Run) -> DictConfig:
    """A configuration whose network begins with the last weights of a run."""
    weights = before.folder.checkpoints / "final.safetensors"
    shape = {key: before.cfg.model[key] for key in ("size", "activation")}
    found = cfg.copy()
    with open_dict(found):
        found.model = {**cfg.model, **shape}
        found.init = {**cfg.init, "kind": "path", "checkpoint": str(weights.absolute())}
        found.init.tokenizer = before.cfg.init.tokenizer
    return found
