"""The run folder and its record (record.json), the summary of the run.

A run folder contains config.yaml, record.json, metrics.jsonl, checkpoints/ and predictions/.
"""

import math
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import mate_cli
from mate_cli.errors import RunError
from mate_cli.files.atomic import check_inside, find_files, make_folders, replace_file, write_text
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.files.safe_load import read_object, read_yaml, to_json
from mate_cli.metrics.specs import USER_METRICS, Score
from mate_cli.runs.configuration import ORIGIN
from mate_cli.runs.identity import hash_package
from mate_cli.runs.lock import check_in_place, process_id, release_lock

SCHEMA = 1
STOPPED = "stopped by the user or the scheduler"
"""Value of `reason` in the record of an interrupted run."""
DAMAGED = "its record was damaged"
"""Value of `reason` in a record that was rebuilt from config.yaml."""
NOT_TRAINED = "not trained here"
"""Value of `init` for an external system of which only the predictions are known, and the key of `facts` with their
source."""
NOT_LEARNT = "not learnt"
"""Key of `facts` with the reasons why a run, or a type of its answers, was not learned."""
MAX_RECORD, MAX_PARTS = 1 << 22, 10_000
"""Maximum bytes of record.json, and maximum entries or characters of each of its values."""
UNREADABLE, REMEDY = "this is not a run folder with a readable record", "Give a folder below outputs/"
RUN_NAME_FIELDS = ("experiment", "dataset", "model", "attention", "init", "task")
PACKAGES = ("torch", "pytorch-lightning", "transformers", "datasets", "hydra-core", "wandb")


@dataclass
class RunRecord:
    """The summary of a run, stored as record.json.

    `metrics` are fractions by name, and `throughput` is per second of training.

    Args:
        settings: settings that distinguish the run within its experiment.
        status: running, finished, failed or interrupted.
        process: process that trains the run, as `pid:start`, see `runs/lock.py`.
        sweep: folder name of the sweep of this job. Empty without a sweep.
        wandb_id: ID of the W&B run, kept when the run is resumed. Empty before the run is logged to W&B.
        monitor: monitored metric, such as `dev/f1`, which a sweep optimizes. Empty if nothing is trained.
        best: best validation value of `monitor`, by its name, and its `step`.
        peak_memory_mb: peak memory of the GPU, or of the process without a GPU, summed over ranks.
        stages: run folder of each stage.
        counts: number of questions over which a metric is a mean, for each such entry of `metrics`.
        specs: declarations of the user-defined metrics among `metrics`, see `MetricSpec.to_json`.
        questions: number of questions of each split and their hash, see `describe_questions`.
        pretraining: run folders of the previous stages from which the weights originate, in order.
        digests: hashes of the questions and tables of each split.
        code: hash of each user-defined source file of the run, see `runs/identity.py`.
        facts: notes of a benchmark as text: the machine, and why something was not measured.
    """

    command: str
    experiment: str
    overrides: list[str]
    dataset: str
    model: str
    attention: str
    init: str
    task: str
    seed: int
    settings: list[str] = field(default_factory=list)
    status: str = "running"
    reason: str | None = None
    argv: list[str] = field(default_factory=lambda: list(sys.argv))
    started: str = field(default_factory=lambda: utc_timestamp())
    finished: str | None = None
    wall_seconds: float = 0.0
    host: str = field(default_factory=platform.node)
    process: str = field(default_factory=process_id)
    device: str = ""
    versions: dict[str, str] = field(default_factory=lambda: package_versions())
    code_version: str | None = field(default_factory=lambda: code_version())
    parameters: int = 0
    trainable_parameters: int = 0
    sweep: str = ""
    wandb_id: str = ""
    monitor: str = ""
    total_steps: int = 0
    weights_sha256: str | None = None
    resumed: int = 0
    best: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)
    throughput: dict[str, float] = field(default_factory=dict)
    peak_memory_mb: float = 0.0
    data: dict[str, int] = field(default_factory=dict)
    questions: dict[str, str] = field(default_factory=dict)
    stages: dict[str, str] = field(default_factory=dict)
    pretraining: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    schema: int = SCHEMA

    def add_scores(self, prefix: str, scores: Mapping[str, float]) -> None:
        """Add scores to the recorded metrics, under names with a prefix such as `dev/`.

        The number of questions of each score is added to `counts`, and declarations of user-defined metrics to `specs`.
        """
        self.metrics |= {f"{prefix}{name}": float(score) for name, score in scores.items()}
        counts = {name: score.questions for name, score in scores.items() if isinstance(score, Score)}
        self.counts |= {f"{prefix}{name}": questions for name, questions in counts.items() if questions is not None}
        self.specs |= {name: spec.to_json() for name, spec in USER_METRICS.items() if name in scores}

    def summary(self) -> dict[str, float]:
        """Return the metrics, the best validation scores and the costs of the run as one dict.

        Names of best validation scores start with `best/`, and names of costs with `cost/`.
        """
        costs = {name: getattr(self, name) for name in ("parameters", "wall_seconds", "peak_memory_mb")}
        parts = {"best": self.best, "cost": {**costs, **self.throughput}}
        prefixed = {f"{part}/{name}": value for part, values in parts.items() for name, value in values.items()}
        return {**self.metrics, **prefixed}


@dataclass
class TrainedRun(RunRecord):
    """The record of a run, with the path of the run folder, as returned by `train`."""

    folder: Path = Path()


class RunFolder:
    """The folder of a run, with methods that read and write its files safely.

    Files are written atomically and never through symbolic links. The object stores the changes made by this command,
    so that `undo` reverts exactly these changes if a check fails.

    Args:
        path: path of the folder.

    Raises:
        RunError: the folder cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._before: dict[Path, bytes | None] = {}
        with wrap_file_errors(path, RunError, "the run folder cannot be made", "Choose another paths.outputs"):
            self._made = make_folders(path)

    @property
    def is_new(self) -> bool:
        """True if this object created the folder."""
        return self.path in self._made

    @property
    def checkpoints(self) -> Path:
        """Path of the folder with the checkpoints of the run."""
        return self.path / "checkpoints"

    def place(self, name: str) -> Path:
        """Return the path of a file in the run folder, and check that it is safe to write.

        Raises:
            RunError: a link leads out of the run folder, or the run folder was moved or deleted.
        """
        check_in_place(self.path)
        target = self.path / name
        check_inside(self.path, target)
        return target

    def below(self, name: str) -> "RunFolder":
        """Open a subfolder of the run folder, such as the folder of a stage, as `RunFolder`.

        Raises:
            RunError: the subfolder is a link that leads out of this folder, or cannot be created.
        """
        folder = RunFolder(self.place(f"{name}/record.json").parent)
        self._made[:0] = folder._made
        return folder

    def back_up(self, name: str) -> Path:
        """Remember the content of a file for `undo`, and return the path of the file."""
        target = self.place(name)
        if target not in self._before and not target.is_symlink() and (target.is_file() or not target.exists()):
            self._before[target] = target.read_bytes() if target.exists() else None
            # The write that follows reports the error.
            with suppress(OSError):
                self._made[:0] = make_folders(target.parent)
        return target

    def write_text(self, name: str, text: str) -> Path:
        """Write a file of the run atomically.

        Raises:
            RunError: the disk is full or the folder is read-only. An existing file is unchanged.
        """
        return write_text(self.back_up(name), text, "Free space, and run it again (training: with resume=last)")

    def write_json(self, name: str, value: Any) -> Path:  # noqa: ANN401 - whatever JSON can hold
        """Write a JSON file of the run atomically."""
        return self.write_text(name, to_json(value, indent=2))

    def write_record(self, record: RunRecord) -> None:
        """Write the record of the run to record.json."""
        self.write_json("record.json", asdict(record))

    def has_record(self) -> bool:
        """Return whether record.json exists."""
        return (self.path / "record.json").exists()

    def metrics_sizes(self) -> dict[Path, int]:
        """Return the size in bytes of each metrics.jsonl of the run and its stages.

        A change of the sizes shows that a run has trained.
        """
        return {path: path.lstat().st_size for path in find_files(self.path, "metrics.jsonl")}

    def undo(self) -> None:
        """Restore the run folder to its state before this command.

        Called if a run fails a check before training. New files are removed and changed files are restored. Folders
        that this command created are removed if empty.
        """
        try:
            check_in_place(self.path)
        except RunError:  # another run may have the path now
            return
        finally:
            release_lock(self.path)
        for target, content in self._before.items():
            with suppress(OSError):
                if content is None:
                    target.unlink(missing_ok=True)
                elif target.read_bytes() != content:
                    with replace_file(target) as draft:
                        draft.write_bytes(content)
        for folder in self._made:
            # OSError: the folder contains other files.
            with suppress(OSError):
                folder.rmdir()

    def complete_records(self, status: str, reason: str) -> None:
        """Write the final status to the unfinished records of this run and its stages.

        Used if the process that trained the run ended before it wrote its final status.

        Args:
            status: status of the run.
            reason: reason, truncated to 500 characters.
        """
        for path in find_files(self.path, "record.json"):
            folder = RunFolder(path.parent)
            record = folder.read_record()
            if record.status != "finished":
                record.status, record.reason, record.finished = status, reason[:500], utc_timestamp()
                folder.write_record(record)

    def read_record(self) -> RunRecord:
        """Read the record of the run from record.json.

        A missing or damaged record is rebuilt from config.yaml, with a message.

        Raises:
            RunError: both record.json and config.yaml are missing or damaged.
        """
        try:
            with wrap_file_errors(self.path / "record.json", RunError, UNREADABLE, REMEDY):
                return _record(read_entries(self.path))
        except RunError:
            record = _rebuild_record(self.path)
            if record is None:
                raise
            _say_rebuilt(self.path)
            return record


def read_entries(folder: Path, problem: str = UNREADABLE, remedy: str = REMEDY) -> dict[str, Any]:
    """Read record.json as a dict, without validating its entries.

    The file may be written by any version of mate.

    Args:
        folder: run folder.
        problem: fault in the error message.
        remedy: hint in the error message.

    Raises:
        RunError: record.json is missing, damaged, too large, or not a mapping.
    """
    return read_object(folder / "record.json", RunError, remedy, problem, largest=MAX_RECORD)


def is_foreign(content: Mapping[str, Any]) -> bool:
    """Return whether the content of a record.json was written by another program than mate."""
    return bool(content) and not {"command", "experiment", "status", "metrics"} & content.keys()


def _record(values: Mapping[str, Any]) -> RunRecord:
    from pydantic import TypeAdapter

    if unknown := set(values) - set(RunRecord.__dataclass_fields__):
        raise ValueError(f"it has {sorted(unknown)[0]!r}, which is unknown to this version of mate")
    for key, value in values.items():
        if isinstance(value, (dict, list, str)) and len(value) > MAX_PARTS:
            raise ValueError(f"its {key} has more than {MAX_PARTS:,} parts")
    values = dict(values)
    for key in ("metrics", "throughput"):
        if isinstance(part := values.get(key), dict):  # JSON has no NaN, so null stands for it.
            values[key] = {name: math.nan if number is None else number for name, number in part.items()}
    return TypeAdapter(RunRecord).validate_python(values)


def _rebuild_record(folder: Path) -> RunRecord | None:
    """Create a record from config.yaml, or return None if config.yaml lacks an entry."""
    file = folder / "config.yaml"
    with suppress(RunError), wrap_file_errors(file, RunError, UNREADABLE, REMEDY):
        values = read_yaml(file, RunError, REMEDY)
        names = {name: values[ORIGIN][name] for name in (*RUN_NAME_FIELDS, "overrides", "settings")}
        stages = {name: str(folder / name) for name in (values.get("stages") or {}) if values.get("system")}
        state = {"status": "interrupted", "reason": DAMAGED, "process": "", "stages": stages}
        return _record({"command": "train", "seed": values["seed"], **names, **state})
    return None


@cache
def _say_rebuilt(folder: Path) -> None:
    print(f"{folder / 'record.json'} is missing or damaged: made again from config.yaml", flush=True)


class ReadOnlyFolder(RunFolder):
    """The folder of a run on ranks other than 0, where methods that write have no effect.

    Raises:
        RunError: the folder does not exist on the machine of this rank.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            problem = "this folder of rank 0 does not exist on the machine of another rank"
            hint = "Put paths.outputs on a file system that all nodes share"
            raise RunError(problem, where=str(path), remedy=hint)
        super().__init__(path)

    def write_text(self, name: str, text: str) -> Path:
        """Return the path of a file that only rank 0 writes."""
        return self.path / name

    def undo(self) -> None:
        """Do nothing, because rank 0 restores the run folder."""


class Clock:
    """A timer of the wall time of a run, including the time before it was resumed.

    Args:
        before: seconds of the run before it was resumed.
    """

    def __init__(self, before: float = 0.0) -> None:
        self._start = time.monotonic() - before

    def __call__(self) -> float:
        """Return the wall time of the run in seconds."""
        return time.monotonic() - self._start


def utc_timestamp() -> str:
    """Return the current UTC time in ISO 8601 with a resolution of seconds."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def package_versions() -> dict[str, str]:
    """Return the versions of Python, mate and the packages that affect a run.

    The packages are not imported.
    """
    versions = {"python": platform.python_version(), "mate_cli": mate_cli.__version__}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def code_version() -> str:
    """Return the Git commit of mate_cli, with `-dirty` for a modified checkout.

    If the package is installed without its repository, return `wheel-` and a hash of its files.
    """
    folder = Path(mate_cli.__file__).parent
    git = ["git", "-C", str(folder)]
    try:
        # An installed package may lie inside another repository, whose commit says nothing about it.
        subprocess.run([*git, "ls-files", "--error-unmatch", "__init__.py"], capture_output=True, check=True, timeout=5)
        command = [*git, "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return f"wheel-{hash_package()}"
