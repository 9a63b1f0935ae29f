"""The specification of a run, resolved and checked: a list of stages, of which a plain run has one.

A run folder keeps it as `config.yaml`, and `mate run FOLDER` trains it from there.
"""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from mate_cli.errors import MateError, MissingRunError, RunError
from mate_cli.files.atomic import remove_drafts
from mate_cli.files.io_errors import wrap_read_errors
from mate_cli.files.outside import PATHS, check_inside_run, check_names, remove_paths, stay_inside
from mate_cli.files.renamed import rename_targets
from mate_cli.files.safe_load import read_yaml, to_yaml
from mate_cli.files.targets import check_targets, find_targets, find_user_modules
from mate_cli.runs.configuration import BASE, ORIGIN, Base, Node, RunConfig, describe_base, find_base, load_config
from mate_cli.runs.folders import find_resumable, find_same, finished_run, is_running, new_folder
from mate_cli.runs.identity import Names, code_setting, hash_modules
from mate_cli.runs.lock import acquire_lock, process_id
from mate_cli.runs.record import DAMAGED, STOPPED, RunFolder, RunRecord

After = Literal["weights", "predictions", "rows"]
"""Output of a stage: the weights that the next one begins with, predictions that a system joins, or an order of
rows for the stages whose `encoding.ranked_by` names it."""
SHAPE = ("size", "activation", "pruner", "select")
"""Keys of a network that its weights decide, as far as it has them."""
MACHINE = ("hardware", "logger", "paths", "seed", "deterministic")
"""Parts that a system has of its own, whatever runs stand in for its stages."""
PATIENCE_SECONDS = 60.0
"""Seconds that `resume=missing` waits while another process looks for a run of the same experiment."""
FROM_STAGE = "stages."
"""Before the name of the stage that a configuration begins with or ranks rows by, in place of a file or folder."""


@dataclass(frozen=True)
class Stage:
    """One training run of a specification.

    Args:
        names: the choices it was composed from.
        overrides: what it was composed of, for its record.
        run: the folder of a finished run to take instead of training, or None.
        after: what it hands on.
        shared: it has a folder beside those of whole runs, and is trained once for all that have such a stage.
        trust: what is typed of `trust=`, for the finished run.
        conf: the hash of each of the user's files of configuration that it was composed from.
    """

    name: str
    config: RunConfig
    names: Names
    overrides: list[str]
    run: str | None = None
    after: After | None = None
    shared: bool = False
    trust: Sequence[str] = ()
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def code(self) -> dict[str, str]:
        """The hash of each of the user's own files that it is made of, as they are now."""
        return {} if self.run else {**self.conf, **hash_modules(find_targets(self.values()))}

    def values(self) -> dict[str, Any]:
        """Return the values that it runs with; of a finished run, its folder."""
        return {"after": self.after} | ({"run": self.run} if self.run else self.config.model_dump())

    def document(self) -> dict[str, Any]:
        """Return its part of config.yaml: its values and where they come from."""
        origin = {**asdict(self.names), "overrides": [*self.overrides], "shared": self.shared}
        origin |= {"conf": {**self.conf}}
        return {**self.values(), ORIGIN: origin}


@dataclass(frozen=True)
class RunSpec:
    """All that one command trains, checked and complete.

    Without a system the last stage is the run itself, and those before it hand on their weights.

    Args:
        overrides: what was typed.
        system: what makes answers of the stages.
        resume: null, `last`, `missing` (the same run if there is one, else a new one), or the path of a run folder.
        taken: what was typed, and the stages that it holds for.
        name: of the run's folder; None for the time of its start.
        settings: what sets the run apart from others of its experiment, by values.
        conf: the hash of each of the user's files of configuration that the whole was composed from.
    """

    stages: tuple[Stage, ...]
    names: Names
    overrides: list[str]
    system: Node | None = None
    resume: str | None = None
    taken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    name: str | None = None
    settings: list[str] = field(default_factory=list)
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def code(self) -> dict[str, str]:
        """The hash of each of the user's own files that it is made of, as they are now."""
        code = {**self.conf, **hash_modules(find_targets(self.system))}
        return {name: mark for part in (code, *(stage.code for stage in self.stages)) for name, mark in part.items()}

    @property
    def told_by(self) -> list[str]:
        """Settings, and the user's own code, that set the run apart from others of its experiment."""
        return [*self.settings, *code_setting(self.code)]

    @property
    def last(self) -> Stage:
        """The stage that ends it."""
        return self.stages[-1]

    @property
    def outputs(self) -> Path:
        """The folder of all runs."""
        return Path(self.last.config.paths.outputs)

    @property
    def below(self) -> str:
        """The place of the runs of its experiment below that folder."""
        return f"train/{self.names.experiment}"

    @property
    def parent(self) -> Path:
        """The folder of the runs of its experiment."""
        return self.outputs / self.below

    @property
    def before(self) -> tuple[Stage, ...]:
        """The stages that have folders of their own."""
        return self.stages if self.system else self.stages[:-1]

    def values(self) -> dict[str, Any]:
        """Return the values that the run and its stages run with, and nothing else."""
        values = self.last.config.model_dump(include=set(MACHINE) if self.system else None)
        values = {"system": self.system, **values} if self.system else values
        return values | ({"stages": {stage.name: stage.values() for stage in self.before}} if self.before else {})

    def document(self, folder: Path) -> dict[str, Any]:
        """Return what config.yaml of a folder holds: the values, and where they come from."""
        origin = {
            **asdict(self.names),
            **{key: [*getattr(self, key)] for key in ("overrides", "settings")},  # YAML would write one list once
            **{key: getattr(self, key) for key in ("resume", "name")},
            "stage": "" if self.system else self.last.name,
            "taken": {word: [*names] for word, names in self.taken.items()},
            "conf": {**self.conf},
            BASE: describe_base(folder),
        }
        stages = {"stages": {stage.name: stage.document() for stage in self.before}} if self.before else {}
        return {**self.values(), **stages, ORIGIN: origin}

    def with_root(self, root: str) -> "RunSpec":
        """Return the same with the folder of data elsewhere, in all stages that have one."""
        stages = [
            replace(stage, config=stage.config.model_copy(update={"data": {**stage.config.data, "root": root}}))
            if "root" in stage.config.data and not stage.run
            else stage
            for stage in self.stages
        ]
        return replace(self, stages=tuple(stages))

    def trusted(self, folder: Path | None = None) -> list[str]:
        """Return the words of `trust=` that `mate run` of its folder needs: modules, and "paths" if it has own paths.

        Args:
            folder: folder that the run has begun in. Its data have been downloaded. None for a new run.
        """
        values = self.document(folder or Path())
        finished = [find_user_modules(stage.config.model_dump()) for stage in self.stages if stage.run]
        paths = [key for key in remove_paths(values, folder)[1] if folder is None or not key.endswith("download")]
        return sorted(find_user_modules(values).union(*finished, [PATHS] if paths else []))


def load_spec(file: Path, trust: Sequence[str] = ()) -> RunSpec:
    """Read a specification from config.yaml of a run folder, which may come from anyone.

    Args:
        file: that of a run, or one like it.
        trust: what is typed of `trust=`.

    Raises:
        RunError: the file is missing, damaged, or of another version.
        TrustError: it names something to build that is neither ours nor trusted.
    """
    values = rename_targets(read_yaml(file, RunError, "Give a folder below outputs/"))
    modules = [word for word in trust if word != PATHS]
    check_targets(values, str(file), modules)
    values, trust = stay_inside(values, file.parent, trust, str(file)), modules
    with wrap_read_errors(file, RunError, "it does not fit this version of mate", "Train the run again"):
        origin = values[ORIGIN]
        machine = {key: values[key] for key in MACHINE}
        base = find_base(values, file.parent)
        parts = (values.get("stages") or {}).items()
        stages = [_load_stage(name, node, machine, base, trust) for name, node in parts]
        names = Names.read(origin)
        check_names([*(part for stage in stages for part in (stage.name, stage.names.experiment))], str(file))
        if not values.get("system"):
            config = RunConfig.model_validate({key: values[key] for key in RunConfig.model_fields})
            stages.append(Stage(origin["stage"], config.placed(base), names, origin["overrides"]))
        return RunSpec(
            tuple(stages),
            names,
            system=values.get("system"),
            taken={word: tuple(names) for word, names in origin["taken"].items()},
            **{key: origin[key] for key in ("overrides", "settings", "resume", "name")},
            conf={**origin.get("conf", {})},
        )


def _load_stage(name: str, node: Node, machine: Node, base: Base, trust: Sequence[str]) -> Stage:
    """Read a stage; a finished run that stands in for it has its configuration in its own folder."""
    origin = node[ORIGIN]
    if run := node.get("run") and str(base.place(node["run"])):
        config = load_config(Path(run), trust)
        config = RunConfig.model_validate({**config.model_dump(), **machine})
    else:
        config = RunConfig.model_validate({key: node[key] for key in RunConfig.model_fields}).placed(base)
    names, conf = Names.read(origin), {**origin.get("conf", {})}
    return Stage(name, config, names, origin["overrides"], run, node["after"], origin["shared"], trust, conf)


def init_from_stage(config: RunConfig, before: RunConfig, stage: str) -> RunConfig:
    """Return a configuration whose network starts from the weights of a stage, and has its shape and word pieces."""
    init = {"checkpoint": f"{FROM_STAGE}{stage}", "tokenizer": before.tokenizer}
    if "kind" in config.init:
        init["kind"] = "path"
    shape = {key: before.model[key] for key in SHAPE if key in before.model and key in config.model}
    return config.model_copy(update={"init": {**config.init, **init}, "model": {**config.model, **shape}})


def resolve_finished_run(
    run: str, stage: str, task: str, outputs: Path, train_command: Callable[[str], str] = lambda _: ""
) -> tuple[RunFolder, RunRecord]:
    """Find the folder and record of the finished run, or newest one of an experiment, that stands in for a stage.

    Args:
        run: its folder, or the experiment.
        stage: the name of the stage.
        task: of the stage.
        outputs: the folder of all runs.
        train_command: returns the command that trains an experiment; empty for another name.

    Raises:
        MissingRunError: there is none.
        RunError: it is not there, not finished, or of another task.
    """
    try:
        folder = finished_run(run, outputs, f"stages.{stage}.run", stage)
    except RunError as error:
        where, problem, remedy = error.where, f"stages.{stage}.run: {error.problem}", error.remedy
        if command := train_command(run):
            where, problem = f"stages.{stage}.run", f"there is no finished run of {run}"
            remedy = f"Train it first: {command}"
        raise MissingRunError(problem, where=where, remedy=remedy, stage=stage) from error
    record = folder.read_record()
    if record.status != "finished" or record.task != task:
        raise RunError(
            f"stages.{stage}.run: a {record.status} run of {record.task} cannot replace stage {stage}",
            where=str(folder.path),
            remedy=f"Give a finished run of {task}",
        )
    return folder, record


def prepare_run(spec: RunSpec, job: int = 0) -> tuple[RunFolder, RunRecord]:
    """Choose or make the folder of a run, lock it, and leave its configuration and record in it.

    Raises:
        RunError: the run cannot be resumed, or another process trains it.
    """
    with _lock_experiment(spec.parent) if spec.resume == "missing" else nullcontext():
        folder = choose_folder(spec, job)
        try:
            record = open_record(spec, folder)
            if record.status != "finished":
                record.argv = ["mate", "train", *spec.overrides]
                folder.write_text("config.yaml", to_yaml(spec.document(folder.path)))
                try:
                    folder.write_record(record)
                except KeyboardInterrupt:
                    folder.complete_records("interrupted", STOPPED)
                    raise
        except MateError:
            folder.undo()
            raise
    return folder, record


@contextmanager
def _lock_experiment(parent: Path) -> Iterator[None]:
    """Let one process at a time look for a run of an experiment and begin it if it is missing.

    Raises:
        RunError: the folder cannot be locked.
    """
    made = RunFolder(parent)
    try:
        acquire_lock(parent, PATIENCE_SECONDS)
        yield
    finally:
        made.undo()


def choose_folder(spec: RunSpec, job: int) -> RunFolder:
    """Return the folder of a new run, or of the one that `resume` names.

    Raises:
        RunError: there is none to resume, it was started with another configuration, or it is still running.
    """
    if spec.resume == "missing" and (same := find_same(spec.parent, spec.values(), spec.code)):
        if is_running(same):
            raise RunError("another process is training this run", where=str(same.path), remedy="Wait for it")
        return same
    if spec.resume and spec.resume != "missing":
        return find_resumable(spec.resume, spec.parent, spec.values())
    return new_folder(spec.outputs, spec.below, job, spec.name)


def open_record(spec: RunSpec, folder: RunFolder) -> RunRecord:
    """Lock the folder of a run and open its record: one that is continued, or a new one.

    Raises:
        RunError: another process trains it.
    """
    if is_finished(folder.path):
        return folder.read_record()
    check_inside_run(folder.path)
    acquire_lock(folder.path)
    remove_drafts(folder.path)
    if not folder.has_record() and not (folder.path / "config.yaml").exists():
        named = {"seed": spec.last.config.seed, "settings": spec.told_by, "code": spec.code, **asdict(spec.names)}
        return RunRecord(command="train", overrides=spec.overrides, **named)
    record = folder.read_record()
    last = folder.checkpoints / "last.ckpt"
    if record.reason == DAMAGED and last.exists():
        from mate_cli.runs.checkpoints import read_start

        record.started = read_start(last) or record.started
    if record.status != "finished":
        record.status, record.reason, record.finished = "running", None, None
        record.process, record.host = process_id(), platform.node()
    return record


def is_finished(folder: Path) -> bool:
    """Say whether a folder has a run that is done."""
    return (folder / "config.yaml").exists() and RunFolder(folder).read_record().status == "finished"
