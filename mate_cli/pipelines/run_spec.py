"""The resolved and checked specification of a run: a list of stages.

A plain run has one stage.

The specification is stored as `config.yaml` in the run folder, from which `mate run FOLDER` trains it.
"""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from mate_cli.errors import MateError, MissingRunError, RunError
from mate_cli.files.atomic import remove_drafts
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.files.renamed import rename_targets
from mate_cli.files.safe_load import read_yaml, to_yaml
from mate_cli.files.sandbox import PATHS, check_inside_run, check_names, remove_paths, restrict_to_folder
from mate_cli.files.targets import check_targets, find_targets, find_user_modules
from mate_cli.runs.configuration import BASE, ORIGIN, Base, Node, RunConfig, describe_base, find_base, load_config
from mate_cli.runs.folders import find_resumable, find_same, finished_run, is_running, new_folder
from mate_cli.runs.identity import Names, code_setting, hash_modules
from mate_cli.runs.lock import acquire_lock, process_id
from mate_cli.runs.record import DAMAGED, STOPPED, RunFolder, RunRecord

After = Literal["weights", "predictions", "rows"]
"""Output of a stage: weights that initialize the next stage, predictions that a system combines, or an order of rows
for the stages whose `encoding.ranked_by` names the stage."""
SHAPE = ("size", "activation", "pruner", "select")
"""Keys of `model` that are determined by its weights. A network may lack some of them."""
MACHINE = ("hardware", "logger", "paths", "seed", "deterministic")
"""Parts of the configuration of a system itself, independent of reused runs."""
PATIENCE_SECONDS = 60.0
"""Seconds that `resume=missing` waits for another process that searches runs of the same experiment."""
FROM_STAGE = "stages."
"""Prefix of stage names in `init.checkpoint` and `encoding.ranked_by`, instead of a file or folder."""


class Stage(RunConfig):
    """The configuration of one stage of a run, and the options from which it was composed.

    A stage is a separate training run, or a finished run that is reused for the stage. The fields below are not values
    of the configuration, so `model_dump` omits them.

    Args:
        name: name of the stage.
        names: config group options from which the stage was composed.
        overrides: overrides from which the stage was composed, for its record.
        run: folder of a finished run to reuse instead of training. None: the stage is trained.
        after: output of the stage that a later stage or the system uses. None: the stage is the last stage of a chain.
        shared: whether the stage is trained once for all runs with the same stage, in a folder next to complete runs.
        trust: trusted modules, for the reused run.
        conf: hash of each user-defined configuration file from which the stage was composed.
    """

    name: str = Field(exclude=True)
    names: Names = Field(exclude=True)
    overrides: list[str] = Field(exclude=True)
    run: str | None = Field(None, exclude=True)
    after: After | None = Field(None, exclude=True)
    shared: bool = Field(False, exclude=True)
    trust: Sequence[str] = Field((), exclude=True)
    conf: Mapping[str, str] = Field({}, exclude=True)

    @classmethod
    def of(cls, config: RunConfig, **fields: Any) -> Self:
        """Create a stage from a configuration that is already validated.

        `fields` are the fields that `Stage` adds to `RunConfig`.
        """
        return cls.model_construct(**{key: getattr(config, key) for key in RunConfig.model_fields}, **fields)

    @property
    def code(self) -> dict[str, str]:
        """Hashes of the user-defined code and YAML files that the stage uses, by file name.

        Empty for a reused run.
        """
        return {} if self.run else {**self.conf, **hash_modules(find_targets(self.values()))}

    def values(self) -> dict[str, Any]:
        """Return the configuration of the stage as dict, as it is written to config.yaml.

        If a finished run replaces the stage, its folder is returned instead.
        """
        return {"after": self.after} | ({"run": self.run} if self.run else self.model_dump())

    def document(self) -> dict[str, Any]:
        """Return the content of config.yaml for this stage: its configuration and its overrides."""
        origin = {**asdict(self.names), "overrides": [*self.overrides], "shared": self.shared, "conf": {**self.conf}}
        return {**self.values(), ORIGIN: origin}


@dataclass(frozen=True)
class RunSpec:
    """The validated specification of a run, with the configurations of all its stages.

    Without a system the last stage is the run itself, and each earlier stage passes its weights to the next stage.

    Args:
        stages: stages in training order.
        names: config group options from which the run was composed.
        overrides: command-line overrides.
        system: configuration of the system that combines predictions of the stages; None for a chain of stages.
        resume: null, `last`, `missing` (the same run if it exists, else a new run), or the path of a run folder.
        override_stages: names of the stages that use each override.
        name: name of the run folder; None for the start time.
        settings: settings that distinguish the run within its experiment.
        conf: hash of each user-defined configuration file from which the run was composed.
    """

    stages: tuple[Stage, ...]
    names: Names
    overrides: list[str]
    system: Node | None = None
    resume: str | None = None
    override_stages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    name: str | None = None
    settings: list[str] = field(default_factory=list)
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def code(self) -> dict[str, str]:
        """Hashes of the user-defined code and YAML files of the run and its stages, by file name."""
        code = {**self.conf, **hash_modules(find_targets(self.system))}
        return {name: mark for part in (code, *(stage.code for stage in self.stages)) for name, mark in part.items()}

    @property
    def identity_settings(self) -> list[str]:
        """Settings (and a hash of user code) that distinguish the run within its experiment."""
        return [*self.settings, *code_setting(self.code)]

    @property
    def last(self) -> Stage:
        """The stage that is trained last."""
        return self.stages[-1]

    @property
    def outputs(self) -> Path:
        """The folder that contains all runs."""
        return Path(self.last.paths.outputs)

    @property
    def experiment_path(self) -> str:
        """Path of the experiment folder, which contains the run, relative to `outputs`."""
        return f"train/{self.names.experiment}"

    @property
    def parent(self) -> Path:
        """The experiment folder, which contains all runs of the experiment."""
        return self.outputs / self.experiment_path

    @property
    def upstream_stages(self) -> tuple[Stage, ...]:
        """Stages that the system, or else the last stage, is based on.

        A run without a system is the run of its last stage. All other stages have separate run folders.
        """
        return self.stages if self.system else self.stages[:-1]

    def values(self, values_of: Callable[[Stage], dict[str, Any]] = Stage.values) -> dict[str, Any]:
        """Return the configuration of the run and its stages, by default without the section `origin`."""
        values = self.last.model_dump(include=set(MACHINE) if self.system else None)
        values = {"system": self.system, **values} if self.system else values
        stages = {stage.name: values_of(stage) for stage in self.upstream_stages}
        return {**values, "stages": stages} if stages else values

    def document(self, folder: Path) -> dict[str, Any]:
        """Return the content of the run's config.yaml: its configuration and its overrides.

        Args:
            folder: run folder, relative to which paths are described.
        """
        origin = {
            **asdict(self.names),
            # Copies, because YAML would write a list that occurs twice as an alias.
            **{key: [*getattr(self, key)] for key in ("overrides", "settings")},
            **{key: getattr(self, key) for key in ("resume", "name")},
            "stage": "" if self.system else self.last.name,
            "taken": {override: [*names] for override, names in self.override_stages.items()},
            "conf": {**self.conf},
            BASE: describe_base(folder),
        }
        return {**self.values(Stage.document), ORIGIN: origin}

    def with_root(self, root: str) -> "RunSpec":
        """Return a copy in which the stages to train read their data from the folder `root`.

        The key `data.root` is set in stages that have this key.
        """
        stages = list(self.stages)
        for index, stage in enumerate(stages):
            if "root" in stage.data and not stage.run:
                stages[index] = stage.model_copy(update={"data": {**stage.data, "root": root}})
        return replace(self, stages=tuple(stages))

    def required_trust(self, folder: Path | None = None) -> list[str]:
        """Return the values for `trust=` that `mate run` needs to continue or repeat this run.

        The values are names of user modules, and `paths` if the run has paths outside its folder.

        Args:
            folder: folder of a started run, whose data have been downloaded; None for a new run.
        """
        values = self.document(folder or Path())
        finished = [find_user_modules(stage.model_dump()) for stage in self.stages if stage.run]
        paths = [key for key in remove_paths(values, folder)[1] if folder is None or not key.endswith("download")]
        return sorted(find_user_modules(values).union(*finished, [PATHS] if paths else []))


def load_spec(file: Path, trust: Sequence[str] = ()) -> RunSpec:
    """Read the specification of a run from its config.yaml, which is untrusted input.

    Args:
        file: config.yaml of a run, or a file in the same format.
        trust: values of `trust=`: modules, and `paths` to keep paths that lead outside the run folder. Without
            `paths` they are replaced by defaults.

    Raises:
        RunError: the file is missing, damaged, or of another version.
        TrustError: the file has a target that is neither mate's nor trusted, or positional arguments for data.
    """
    values = rename_targets(read_yaml(file, RunError, "Give a folder below outputs/"))
    modules = [name for name in trust if name != PATHS]
    check_targets(values, str(file), modules)
    values, trust = restrict_to_folder(values, file.parent, trust, str(file)), modules
    with wrap_file_errors(file, RunError, "it does not fit this version of mate", "Train the run again"):
        origin = values[ORIGIN]
        machine = {key: values[key] for key in MACHINE}
        base = find_base(values, file.parent)
        parts = (values.get("stages") or {}).items()
        stages = [_load_stage(name, node, machine, base, trust) for name, node in parts]
        names = Names.read(origin)
        check_names([*(part for stage in stages for part in (stage.name, stage.names.experiment))], str(file))
        if not values.get("system"):
            source = {"name": origin["stage"], "names": names, "overrides": origin["overrides"]}
            stages.append(Stage.of(RunConfig.read(values).placed(base), **source))
        return RunSpec(
            tuple(stages),
            names,
            system=values.get("system"),
            override_stages={override: tuple(names) for override, names in origin["taken"].items()},
            **{key: origin[key] for key in ("overrides", "settings", "resume", "name")},
            conf={**origin.get("conf", {})},
        )


def _load_stage(name: str, node: Node, machine: Node, base: Base, trust: Sequence[str]) -> Stage:
    """Create a stage of a saved run from the section of the stage in config.yaml.

    If a finished run replaces the stage, the configuration of that run is used.
    """
    origin = node[ORIGIN]
    if run := node.get("run") and str(base.place(node["run"])):
        config = load_config(Path(run), trust)
        config = RunConfig.model_validate({**config.model_dump(), **machine})
    else:
        config = RunConfig.read(node).placed(base)
    source = {"name": name, "names": Names.read(origin), "overrides": origin["overrides"]}
    options = {"run": run, "after": node["after"], "shared": origin["shared"], "conf": {**origin.get("conf", {})}}
    return Stage.of(config, **source, **options, trust=trust)


def init_from_stage(stage: Stage, previous: Stage) -> Stage:
    """Return a copy of a stage that is initialized with the weights of an earlier stage.

    The copy also has the network size and the tokenizer of the earlier stage.
    """
    init = {"checkpoint": f"{FROM_STAGE}{previous.name}", "tokenizer": previous.tokenizer}
    if "kind" in stage.init:
        init["kind"] = "path"
    shape = {key: previous.model[key] for key in SHAPE if key in previous.model and key in stage.model}
    names = replace(stage.names, init=f"{previous.names.init} + {previous.name}")
    return stage.model_copy(update={"init": {**stage.init, **init}, "model": {**stage.model, **shape}, "names": names})


def resolve_finished_run(
    run: str, stage: str, task: str, outputs: Path, train_command: Callable[[str], str] = lambda _: ""
) -> tuple[RunFolder, RunRecord]:
    """Find the finished run that replaces a stage of another run.

    Args:
        run: run folder, or name of an experiment, whose newest finished run is used.
        stage: name of the stage.
        task: task of the stage.
        outputs: folder of all runs.
        train_command: returns the command that trains an experiment; empty if the name is not an experiment.

    Returns:
        The folder and the record of the run.

    Raises:
        MissingRunError: there is no such run.
        RunError: the run is not finished, or has another task.
    """
    try:
        folder = finished_run(run, outputs, f"stages.{stage}.run", stage)
    except RunError as error:
        key, problem, hint = error.where, f"stages.{stage}.run: {error.problem}", error.remedy
        if command := train_command(run):
            key, problem = f"stages.{stage}.run", f"there is no finished run of {run}"
            hint = f"Train it first: {command}"
        raise MissingRunError(problem, where=key, remedy=hint, stage=stage) from error
    record = folder.read_record()
    if record.status != "finished" or record.task != task:
        raise RunError(
            f"stages.{stage}.run: a {record.status} run of {record.task} cannot replace stage {stage}",
            where=str(folder.path),
            remedy=f"Give a finished run of {task}",
        )
    return folder, record


def prepare_run(spec: RunSpec, job: int = 0) -> tuple[RunFolder, RunRecord]:
    """Choose or create the folder of a run, lock it, and write config.yaml and record.json.

    Args:
        spec: specification of the run.
        job: number of the job in a sweep.

    Returns:
        The folder and the record of the run.

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
    """Lock an experiment inside the context, so that no other process creates the same run.

    Raises:
        RunError: the folder cannot be locked.
    """
    folder = RunFolder(parent)
    try:
        acquire_lock(parent, PATIENCE_SECONDS)
        yield
    finally:
        folder.undo()


def choose_folder(spec: RunSpec, job: int) -> RunFolder:
    """Return the folder for a run: a new folder, or the folder of the run to resume.

    Args:
        spec: specification of the run, whose `resume` determines the choice.
        job: number of the job in a sweep, for the name of a new folder.

    Raises:
        RunError: the run to resume is missing, was started with another configuration, or is still running.
    """
    if spec.resume == "missing" and (match := find_same(spec.parent, spec.values(), spec.code)):
        if is_running(match):
            raise RunError("another process is training this run", where=str(match.path), remedy="Wait for it")
        return match
    if spec.resume and spec.resume != "missing":
        return find_resumable(spec.resume, spec.parent, spec.values())
    return new_folder(spec.outputs, spec.experiment_path, job, spec.name)


def open_record(spec: RunSpec, folder: RunFolder) -> RunRecord:
    """Lock a run folder, and return its existing record or a new record.

    The folder of a finished run is not locked.

    Raises:
        RunError: another process is training the run.
    """
    if is_finished(folder.path):
        return folder.read_record()
    check_inside_run(folder.path)
    acquire_lock(folder.path)
    remove_drafts(folder.path)
    if not folder.has_record() and not (folder.path / "config.yaml").exists():
        identity = {**asdict(spec.names), "settings": spec.identity_settings, "code": spec.code}
        return RunRecord(command="train", overrides=spec.overrides, seed=spec.last.seed, **identity)
    record = folder.read_record()
    checkpoint = folder.checkpoints / "last.ckpt"
    if record.reason == DAMAGED and checkpoint.exists():
        from mate_cli.runs.checkpoints import read_start

        record.started = read_start(checkpoint) or record.started
    if record.status != "finished":
        record.status, record.reason, record.finished = "running", None, None
        record.process, record.host = process_id(), platform.node()
    return record


def is_finished(folder: Path) -> bool:
    """Return whether a folder contains a finished run."""
    return (folder / "config.yaml").exists() and RunFolder(folder).read_record().status == "finished"
