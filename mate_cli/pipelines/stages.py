"""Training of all stages of a run. A plain run has one stage.

Each stage is a separate training run. Its output are weights that initialize the next stage, an order of rows, or
predictions that a system combines with the predictions of the other stages.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hydra.utils import instantiate
from rich.text import Text

from mate_cli.data.datasets.catalogue import require_train
from mate_cli.data.loading.batching import check_shares
from mate_cli.errors import known_cause
from mate_cli.files.run_weights import WEIGHT_FILES
from mate_cli.files.safe_load import to_yaml
from mate_cli.pipelines.assembly import assemble, load_best
from mate_cli.pipelines.evaluation.evaluation import describe_questions
from mate_cli.pipelines.machine import resolve_hardware
from mate_cli.pipelines.run import Run, broadcast_folder, print_results, record_outcome, reused_runs_table
from mate_cli.pipelines.run_spec import FROM_STAGE, RunSpec, Stage, is_finished, open_record, resolve_finished_run
from mate_cli.pipelines.systems.base import PARAMETERS, System, TrainedStage, joint_throughput, save_answers
from mate_cli.pipelines.trainer import open_run_loggers
from mate_cli.pipelines.training import train_run
from mate_cli.quoting import format_command
from mate_cli.runs import ranks
from mate_cli.runs.configuration import RunConfig, load_config
from mate_cli.runs.folders import find_same
from mate_cli.runs.identity import digest_run, warn_changed
from mate_cli.runs.lock import LockedError, acquire_lock, release_lock
from mate_cli.runs.record import RunFolder, RunRecord
from mate_cli.runs.wandb_runs import detach_sweep_agent
from mate_cli.terminal.console import Console

WEIGHTS = "checkpoints/final.safetensors"
"""File of the weights that initialize the next stage."""
POLL = 1.0
"""Seconds between two checks of a stage that another process is training."""


def train_spec(spec: RunSpec, folder: RunFolder, *, is_stage: bool = False) -> Run:
    """Train all unfinished stages of a run, and write a record of each stage and of the run.

    Args:
        spec: specification of the run.
        folder: run folder.
        is_stage: whether the run is a stage of another run. Then no command to continue is printed after an interrupt.

    Returns:
        The finished run.

    Raises:
        MateError: an error that the user can fix. The records contain it too.
        KeyboardInterrupt: the user interrupted the run. A checkpoint is saved.
    """
    system: System | None = instantiate(spec.system) if spec.system else None
    spec = replace(spec, stages=tuple(map(resolve_hardware, spec.stages)))
    record = ranks.broadcast_from_rank_zero(lambda: open_record(spec, folder))
    run = Run.of(broadcast_folder(lambda: folder), record)
    try:
        if ranks.is_rank_zero():
            warn_changed(run.record.code, spec.code, folder.path)
        if run.record.status == "finished":
            lost = not (spec.system or any((run.folder.checkpoints / name).exists() for name in WEIGHT_FILES))
            suffix = ", but its weights are gone; to train it again, move its record.json away" if lost else ""
            run.console.print(f"{run.folder.path} is already finished{suffix}", soft_wrap=True)
        else:
            _train(spec, run, system)
        return run
    except KeyboardInterrupt:
        if not is_stage:
            trust = (f"trust={name}" for name in spec.required_trust(run.folder.path))
            print(f"interrupted; to continue, type {format_command('mate', 'run', str(run.folder.path), *trust)}")
        raise
    finally:
        # Restore config.yaml if it was deleted during training.
        if run.folder.has_record() and not (run.folder.path / "config.yaml").exists():
            run.folder.write_text("config.yaml", to_yaml(spec.document(run.folder.path)))
        release_lock(run.folder.path)


def _train(spec: RunSpec, run: Run, system: System | None) -> None:
    with record_outcome(run):
        run.folder.write_text("config.yaml", to_yaml(spec.document(run.folder.path)))
        run.folder.write_record(run.record)
        if spec.override_stages:
            run.console.print(reused_runs_table(spec))
        ranks.broadcast_from_rank_zero(lambda: validate_later_stages(spec, run.folder.path))
        runs, configs = run_stages(spec, run)
        if system is None:
            if spec.upstream_stages:
                run.console.rule(_heading(spec.last.name))
            train_run(run, resolve_stage_references(spec.last, runs), spec.values())
        else:
            run.record.monitor = system.monitor
            open_run_loggers(run, spec.last.logger, spec.values())
            ranking = [stage.name for stage in spec.stages if stage.after == "rows"]
            add_up_stages(run.record, runs, [*ranking, *system.stages])
            predict_with_system(run, system, runs, configs)
            print_results(run.console, run.folder, run.record)


def validate_later_stages(spec: RunSpec, folder: Path) -> None:
    """Check the data and components of later stages before any stage is trained.

    Missing files are downloaded. Checks the data, tokenizer, initial weights and parts of each later stage.

    Args:
        spec: specification of the run.
        folder: run folder.

    Raises:
        MateError: something is missing and cannot be downloaded, or the parts of a stage do not fit together.
    """
    waiting = [stage for stage in spec.stages if not stage.run and not is_finished(folder / stage.name)]
    for stage in waiting[1:]:
        try:
            require_train(dataset := instantiate(stage.data))
            check_shares(stage.trainer.batch_size, ranks.world_size())
            assemble(disable_stage_ranking(stage), dataset, load=not names_stage(stage.init.get("checkpoint")))
        except Exception as error:
            # Hydra wraps errors raised by the constructors it calls.
            cause = known_cause(error)
            if cause is None:
                raise
            key = ": ".join(filter(None, [f"stages.{stage.name}", cause.where]))
            raise type(cause)(cause.problem, where=key, remedy=cause.remedy) from error


def disable_stage_ranking(config: RunConfig) -> RunConfig:
    """Disable row ranking in a configuration if another stage of the run ranks the rows.

    That stage may not be trained yet.
    """
    encoding = dict(config.encoding)
    if names_stage(encoding.get("ranked_by")):
        encoding |= {"ranked_by": None, "best_rows": None}
    return config.model_copy(update={"encoding": encoding})


def names_stage(value: object) -> bool:
    """Return whether a configuration value refers to a stage of the run, as in `stages.NAME`."""
    return str(value).startswith(FROM_STAGE)


def _heading(stage: str) -> Text:
    return Text(stage.replace("_", " "), style="bold")


def run_stages(spec: RunSpec, whole: Run) -> tuple[dict[str, Run], dict[str, RunConfig]]:
    """Train all upstream stages of a run, or open the finished runs that replace stages.

    The last stage of a chain is not included.

    Args:
        spec: specification of the run.
        whole: complete run.

    Returns:
        The run and the configuration of each stage, by stage name.
    """
    runs: dict[str, Run] = {}
    configs: dict[str, RunConfig] = {}
    for stage in spec.upstream_stages:
        whole.console.rule(_heading(stage.name))
        run = load_stage(stage, whole.console) if stage.run else train_stage(stage, runs, whole)
        config = load_config(run.folder.path, stage.trust) if stage.run else resolve_stage_references(stage, runs)
        runs[stage.name], configs[stage.name] = run, config
        folders = whole.record.stages if spec.system else whole.record.pretraining
        folders[stage.name] = str(run.folder.path)
        whole.folder.write_record(whole.record)
    return runs, configs


def train_stage(stage: Stage, done: Mapping[str, Run], whole: Run) -> Run:
    """Train one stage in a subfolder of its run, or in a folder that several runs share.

    Args:
        stage: stage to train.
        done: finished stages by name.
        whole: complete run.
    """
    stage = resolve_stage_references(stage, done)
    spec = RunSpec((stage,), stage.names, stage.overrides, settings=stage.overrides, conf=stage.conf)
    folder = shared_folder(stage, whole.console) if stage.shared else whole.folder.below(stage.name)
    with detach_sweep_agent():
        return train_spec(spec, folder, is_stage=True)


def load_stage(stage: Stage, console: Console) -> Run:
    """Open the finished run that replaces a stage."""
    outputs = Path(stage.paths.outputs)
    run = Run.of(*resolve_finished_run(str(stage.run), stage.name, stage.names.task, outputs))
    console.print(f"using the finished run {run.folder.path}", soft_wrap=True)
    return run


def resolve_stage_references(stage: Stage, done: Mapping[str, Run]) -> Stage:
    """Replace stage references `stages.NAME` in a configuration by the paths of runs.

    Args:
        stage: stage with the references.
        done: finished stages by name.
    """
    init, encoding = dict(stage.init), dict(stage.encoding)
    if run := _find_stage(init.get("checkpoint"), done):
        init["checkpoint"] = str((run.folder.path / WEIGHTS).absolute())
    if run := _find_stage(encoding.get("ranked_by"), done):
        encoding["ranked_by"] = str(run.folder.path.absolute())
    return stage.model_copy(update={"init": init, "encoding": encoding})


def _find_stage(value: object, runs: Mapping[str, Run]) -> Run | None:
    """Return the finished run of the stage to which a value `stages.NAME` refers.

    Return None for other values.
    """
    return runs.get(str(value).removeprefix(FROM_STAGE)) if names_stage(value) else None


def add_up_stages(record: RunRecord, runs: Mapping[str, Run], answering: Sequence[str]) -> None:
    """Add the sizes and costs of all stages to the record of the system that combines them.

    Parameters and throughput are added up over the stages in `answering` only.

    Args:
        record: record of the system, changed in place.
        runs: run of each stage by name.
        answering: names of the stages that process an example.
    """
    for name, run in runs.items():
        record.data |= {f"{name}/{key}": value for key, value in run.record.data.items()}
        record.device = run.record.device
    records = [runs[name].record for name in answering]
    record.parameters = sum(entry.parameters for entry in records)
    record.throughput = joint_throughput([entry.throughput for entry in records])


def predict_with_system(run: Run, system: System, done: Mapping[str, Run], configs: Mapping[str, RunConfig]) -> None:
    """Answer the dev and test questions with a system, and save metrics and predictions.

    Args:
        run: run of the system.
        system: system that combines the stages. Its parameters are fitted on the dev split.
        done: finished stages by name.
        configs: configuration of each stage by name.
    """
    stages = {
        name: TrainedStage(name, load_best(configs[name], done[name].folder), configs[name]) for name in system.stages
    }
    run.console.rule(_heading("answers"))
    data = stages[system.stages[0]].parts.data
    for split in ("dev", "test"):
        if split in data.dataset.splits:
            examples = data.questions(split)
            if split == "dev":
                system, answers = system.learn(stages, examples, split)
            else:
                answers = system.answer(stages, examples, split)
            run.record.add_scores(f"{split}/", system.score(answers, examples))
            run.record.questions |= describe_questions(split, examples)
            save_answers(run.folder, split, system, examples, answers)
    if system.parameters:
        run.folder.write_json(PARAMETERS, dict(system.parameters))


def shared_folder(stage: Stage, console: Console) -> RunFolder:
    """Return the run folder of a stage that several runs share, and lock an unfinished one.

    If another process is training the stage, wait until it ends. The folder is that of an existing run of the
    experiment with the same identity, else a new folder named by the digest of the identity.

    Raises:
        RunError: the folder cannot be locked, or a run of the experiment is damaged.
    """
    parent, values = Path(stage.paths.outputs) / "train" / stage.names.experiment, stage.model_dump()
    path = parent / digest_run(values, stage.code)
    folder = broadcast_folder(lambda: find_same(parent, values, stage.code) or RunFolder(path))
    waited = False
    while not ranks.broadcast_from_rank_zero(lambda: _is_free(folder.path)):
        if not waited:
            console.print(f"waiting for {folder.path}, in training by another process", soft_wrap=True)
        waited = True
        time.sleep(POLL)
    return folder


def _is_free(folder: Path) -> bool:
    """Return whether this process may use a run folder, and lock the folder if necessary.

    A finished run needs no lock. The result is False if another process has locked the folder.
    """
    with suppress(LockedError):
        if not is_finished(folder):
            acquire_lock(folder)
        return True
    return False
