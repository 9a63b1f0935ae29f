"""A run is a list of stages; a plain run has one.

Each stage is a training run of its own. What it hands on is the weights that the next one begins with, or predictions
that a system joins with those of the others.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hydra.utils import instantiate
from rich.text import Text

from mate_cli.data.datasets.catalogue import require_train
from mate_cli.data.loading.batching import check_shares
from mate_cli.errors import known_cause
from mate_cli.files.run_weights import NAMES
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
from mate_cli.runs.wandb_runs import hide_agent
from mate_cli.terminal.console import Console

WEIGHTS = "checkpoints/final.safetensors"
"""File of the weights that a stage hands on."""
POLL = 1.0
"""Seconds between two looks at a stage that another process trains."""


def train_spec(spec: RunSpec, folder: RunFolder, *, is_stage: bool = False) -> Run:
    """Train all stages, skip those that are finished, and leave a record of each and of the whole.

    Args:
        spec: what is trained.
        folder: of the run.
        is_stage: it is a stage of another run, and goes on with that.

    Returns:
        The finished run.

    Raises:
        MateError: something the user can mend; the records say so too.
        KeyboardInterrupt: the user asked to stop; the state is saved.
    """
    system: System | None = instantiate(spec.system) if spec.system else None
    spec = replace(spec, stages=tuple(replace(stage, config=resolve_hardware(stage.config)) for stage in spec.stages))
    record = ranks.broadcast_from_rank_zero(lambda: open_record(spec, folder))
    run = Run.of(broadcast_folder(lambda: folder), record)
    try:
        if ranks.is_rank_zero():
            warn_changed(run.record.code, spec.code, folder.path)
        if run.record.status == "finished":
            lost = not (spec.system or any((run.folder.checkpoints / name).exists() for name in NAMES))
            gone = ", but its weights are gone; to train it again, move its record.json away" if lost else ""
            run.console.print(f"{run.folder.path} is already finished{gone}", soft_wrap=True)
        else:
            _train(spec, run, system)
        return run
    except KeyboardInterrupt:
        if not is_stage:
            trust = (f"trust={word}" for word in spec.trusted(run.folder.path))
            print(f"interrupted; to continue, type {format_command('mate', 'run', str(run.folder.path), *trust)}")
        raise
    finally:
        if run.folder.has_record() and not (run.folder.path / "config.yaml").exists():  # somebody removed it
            run.folder.write_text("config.yaml", to_yaml(spec.document(run.folder.path)))
        release_lock(run.folder.path)


def _train(spec: RunSpec, run: Run, system: System | None) -> None:
    with record_outcome(run):
        run.folder.write_text("config.yaml", to_yaml(spec.document(run.folder.path)))
        run.folder.write_record(run.record)
        if spec.taken:
            run.console.print(reused_runs_table(spec))
        ranks.broadcast_from_rank_zero(lambda: look_ahead(spec, run.folder.path))
        done, configs = run_stages(spec, run)
        if system is None:
            if spec.before:
                run.console.rule(_heading(spec.last.name))
            train_run(run, with_folders(spec.last.config, done), spec.values())
        else:
            run.record.monitor = system.monitor
            open_run_loggers(run, spec.last.config.logger, spec.values())
            ranking = [stage.name for stage in spec.stages if stage.after == "rows"]
            add_up_stages(run.record, done, [*ranking, *system.stages])
            answer_all(run, system, done, configs)
            print_results(run.console, run.folder, run.record)


def look_ahead(spec: RunSpec, folder: Path) -> None:
    """Look for what later stages need, before the first that is not done trains; fetch what is not there.

    That is their data, word pieces, first weights and parts that fit.

    Raises:
        MateError: something is neither there nor to be fetched, or does not fit.
    """
    waiting = [stage for stage in spec.stages if not stage.run and not is_finished(folder / stage.name)]
    for stage in waiting[1:]:
        try:
            require_train(dataset := instantiate(stage.config.data))
            check_shares(stage.config.trainer.batch_size, ranks.world_size())
            assemble(without_stages(stage.config), dataset, load=not names_stage(stage.config.init.get("checkpoint")))
        except Exception as error:
            known = known_cause(error)  # Hydra wraps what a class refuses that it builds
            if known is None:
                raise
            where = ": ".join(filter(None, [f"stages.{stage.name}", known.where]))
            raise type(known)(known.problem, where=where, remedy=known.remedy) from error


def without_stages(config: RunConfig) -> RunConfig:
    """Return a configuration that reads all rows where a stage is to rank them."""
    encoding = dict(config.encoding)
    if names_stage(encoding.get("ranked_by")):
        encoding |= {"ranked_by": None, "best_rows": None}
    return config.model_copy(update={"encoding": encoding})


def names_stage(value: object) -> bool:
    """Say whether a value of a configuration is the name of a stage, whose file or folder it will be."""
    return str(value).startswith(FROM_STAGE)


def _heading(stage: str) -> Text:
    return Text(stage.replace("_", " "), style="bold")


def run_stages(spec: RunSpec, whole: Run) -> tuple[dict[str, Run], dict[str, RunConfig]]:
    """Train the stages that have folders of their own, one after the other; return runs and configurations by name."""
    done: dict[str, Run] = {}
    configs: dict[str, RunConfig] = {}
    for stage in spec.before:
        whole.console.rule(_heading(stage.name))
        run = load_stage(stage, whole.console) if stage.run else train_stage(stage, done, whole)
        config = load_config(run.folder.path, stage.trust) if stage.run else with_folders(stage.config, done)
        done[stage.name], configs[stage.name] = run, config
        folders = whole.record.stages if spec.system else whole.record.pretraining
        folders[stage.name] = str(run.folder.path)
        whole.folder.write_record(whole.record)
    return done, configs


def train_stage(stage: Stage, done: Mapping[str, Run], whole: Run) -> Run:
    """Train a stage in a folder below the whole run's, or in that which it shares with other runs."""
    stage = replace(stage, config=with_folders(stage.config, done))
    spec = RunSpec((stage,), stage.names, stage.overrides, settings=stage.overrides, conf=stage.conf)
    folder = shared_folder(stage, whole.console) if stage.shared else whole.folder.below(stage.name)
    with hide_agent():
        return train_spec(spec, folder, is_stage=True)


def load_stage(stage: Stage, console: Console) -> Run:
    """Open the finished run that stands in for a stage."""
    outputs = Path(stage.config.paths.outputs)
    run = Run.of(*resolve_finished_run(str(stage.run), stage.name, stage.names.task, outputs))
    console.print(f"using the finished run {run.folder.path}", soft_wrap=True)
    return run


def with_folders(config: RunConfig, done: Mapping[str, Run]) -> RunConfig:
    """Return a configuration with files and folders where it names stages: of first weights, and of what ranks rows."""
    init, encoding = dict(config.init), dict(config.encoding)
    if run := _find_stage(init.get("checkpoint"), done):
        init["checkpoint"] = str((run.folder.path / WEIGHTS).absolute())
    if run := _find_stage(encoding.get("ranked_by"), done):
        encoding["ranked_by"] = str(run.folder.path.absolute())
    return config.model_copy(update={"init": init, "encoding": encoding})


def _find_stage(value: object, done: Mapping[str, Run]) -> Run | None:
    """Return the finished stage that a value names."""
    return done.get(str(value).removeprefix(FROM_STAGE)) if names_stage(value) else None


def add_up_stages(record: RunRecord, runs: Mapping[str, Run], answering: Sequence[str]) -> None:
    """Add up what the stages of a system have, and what an example costs that passes through those that answer."""
    for name, run in runs.items():
        record.data |= {f"{name}/{key}": value for key, value in run.record.data.items()}
        record.device = run.record.device
    records = [runs[name].record for name in answering]
    record.parameters = sum(entry.parameters for entry in records)
    record.throughput = joint_throughput([entry.throughput for entry in records])


def answer_all(run: Run, system: System, done: Mapping[str, Run], configs: Mapping[str, RunConfig]) -> None:
    """Let a system answer the questions of the development and test splits."""
    stages = {
        name: TrainedStage(name, load_best(configs[name], done[name].folder), configs[name]) for name in system.stages
    }
    run.console.rule(_heading("answers"))
    data = stages[system.stages[0]].parts.data
    for split in ("dev", "test"):
        if split in data.dataset.splits:
            examples = data.questions(split)
            if split == "dev":
                system, answered = system.learn(stages, examples, split)
            else:
                answered = system.answer(stages, examples, split)
            run.record.add_scores(f"{split}/", system.score(answered, examples))
            run.record.questions |= describe_questions(split, examples)
            save_answers(run.folder, split, system, examples, answered)
    if system.parameters:
        run.folder.write_json(PARAMETERS, dict(system.parameters))


def shared_folder(stage: Stage, console: Console) -> RunFolder:
    """Find the folder of a shared stage, finished or locked by this process; wait while another one trains it.

    It is that of a run of the stage's experiment with the same values, whoever has begun it, else one that is named
    after them.

    Raises:
        RunError: it cannot be locked, or a run of the experiment is damaged.
    """
    parent, values = Path(stage.config.paths.outputs) / "train" / stage.names.experiment, stage.config.model_dump()
    place = parent / digest_run(values, stage.code)
    folder = broadcast_folder(lambda: find_same(parent, values, stage.code) or RunFolder(place))
    waited = False
    while not ranks.broadcast_from_rank_zero(lambda: _is_free(folder.path)):
        if not waited:
            console.print(f"waiting for {folder.path}, in training by another process", soft_wrap=True)
        waited = True
        time.sleep(POLL)
    return folder


def _is_free(folder: Path) -> bool:
    """Say whether a run is finished, or locked by this process from now on."""
    if is_finished(folder):
        return True
    try:
        acquire_lock(folder)
    except LockedError:
        return False
    return True
