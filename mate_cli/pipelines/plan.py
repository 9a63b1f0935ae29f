"""What one command trains, complete and checked: a run is a list of stages, and a plain run has one."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from mate_cli.errors import RunError
from mate_cli.files.atomic import remove_drafts
from mate_cli.runs.configuration import Node, RunConfig
from mate_cli.runs.folders import choose_folder, finished_run
from mate_cli.runs.liveness import own_process
from mate_cli.runs.lock import hold
from mate_cli.runs.names import Names
from mate_cli.runs.record import RunFolder, RunRecord

After = Literal["weights", "predictions", "rows"]
"""What a stage hands on: the weights that the next one begins with, predictions that a system joins, or an order of
rows for the stages whose `encoding.ranked_by` names it."""
SHAPE = ("size", "activation", "pruner", "select")
"""What of a network its weights decide, as far as it has it."""
FROM_STAGE = "stages."
"""Before the name of the stage that a configuration begins with or ranks rows by, in place of a file or folder."""


@dataclass(frozen=True)
class Stage:
    """One training run of a plan.

    Args:
        names: the choices it was composed from.
        overrides: what it was composed of, for its record.
        run: the folder of a finished run to take instead of training, or None.
        after: what it hands on.
        shared: it has a folder beside those of whole runs, and is trained once for all that have such a stage.
        trust: modules of the user's own that it may be made of.
    """

    name: str
    config: RunConfig
    names: Names
    overrides: list[str]
    run: str | None = None
    after: After | None = None
    shared: bool = False
    trust: Sequence[str] = ()

    def values(self) -> dict[str, Any]:
        """What it truly runs with; of a finished run, where that stands."""
        return {"after": self.after} | ({"run": self.run} if self.run else self.config.model_dump())


@dataclass(frozen=True)
class Plan:
    """All that one command trains, checked and complete.

    Without a system the last stage is the run itself, and those before it hand on their weights.

    Args:
        system: what makes answers of the stages.
        resume: see `choose_folder`.
        taken: what was typed, and the stages that it holds for.
        name: of the run's folder; None for the time of its start.
        settings: what was typed as far as it tells the run apart, in one way of writing; None for all of it.
    """

    stages: tuple[Stage, ...]
    names: Names
    overrides: list[str]
    system: Node | None = None
    resume: str | None = None
    taken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    name: str | None = None
    settings: list[str] | None = None

    @property
    def last(self) -> Stage:
        """The stage that ends it."""
        return self.stages[-1]

    @property
    def before(self) -> tuple[Stage, ...]:
        """The stages that have folders of their own."""
        return self.stages if self.system else self.stages[:-1]

    def values(self) -> dict[str, Any]:
        """What config.yaml holds: what the run and its stages truly run with, and nothing else."""
        config = self.last.config
        own = ("hardware", "logger", "paths", "seed", "deterministic")
        values = {"system": self.system, **config.model_dump(include=set(own))} if self.system else config.model_dump()
        return values | ({"stages": {stage.name: stage.values() for stage in self.before}} if self.before else {})


def beginning_with(config: RunConfig, before: RunConfig, stage: str) -> RunConfig:
    """A configuration whose network begins with the weights of a stage, and has its shape and word pieces."""
    init = {"checkpoint": f"{FROM_STAGE}{stage}", "tokenizer": before.tokenizer}
    if "kind" in config.init:
        init["kind"] = "path"
    shape = {key: before.model[key] for key in SHAPE if key in before.model and key in config.model}
    return config.model_copy(update={"init": {**config.init, **init}, "model": {**config.model, **shape}})


def standing_in(run: str, stage: str, task: str, outputs: Path) -> tuple[RunFolder, RunRecord]:
    """The folder and record of the finished run, or newest one of an experiment, that stands in for a stage.

    Raises:
        RunError: it is not there, not finished, or of another task.
    """
    try:
        folder = finished_run(run, outputs, "train")
    except RunError as error:
        raise RunError(f"stages.{stage}.run: {error.problem}", where=error.where, remedy=error.remedy) from error
    record = folder.read_record()
    if record.status != "finished" or record.task != task:
        raise RunError(
            f"stages.{stage}.run: a {record.status} run of {record.task} cannot stand in for {stage}",
            where=str(folder.path),
            remedy=f"Give a finished run of {task}",
        )
    return folder, record


def open_plan(plan: Plan, job: int, folder: RunFolder | None = None) -> tuple[RunFolder, RunRecord]:
    """Choose or make the folder of a plan's run, lock it, and open its record: one that is continued, or a new one.

    Raises:
        RunError: the run cannot be resumed, or another process trains it.
    """
    outputs = Path(plan.last.config.paths.outputs)
    chosen = folder or choose_folder(
        plan.resume, outputs, "train", plan.names.experiment, plan.values(), job, plan.name
    )
    if is_finished(chosen.path):
        return chosen, chosen.read_record()
    hold(chosen.path)
    remove_drafts(chosen.path)
    if not _is_there(chosen.path):
        settings = plan.overrides if plan.settings is None else plan.settings
        named = {"seed": plan.last.config.seed, "settings": settings, **asdict(plan.names)}
        record = RunRecord(command="train", overrides=plan.overrides, **named)
        return chosen, record
    record = chosen.read_record()
    if record.status != "finished":
        record.status, record.reason, record.finished = "running", None, None
        record.process, record.host = own_process(), platform.node()
    return chosen, record


def is_finished(folder: Path) -> bool:
    """Whether a folder has a run that is done."""
    return _is_there(folder) and RunFolder(folder).read_record().status == "finished"


def _is_there(folder: Path) -> bool:
    return (folder / "record.json").exists()
