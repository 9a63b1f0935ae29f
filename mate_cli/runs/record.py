"""The folder of a run: config.yaml, record.json, metrics.jsonl, checkpoints/, predictions/."""

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
from mate_cli.files.io_errors import wrap_read_errors
from mate_cli.files.safe_load import read_object, read_yaml, to_json
from mate_cli.metrics.specs import Score
from mate_cli.runs.configuration import ORIGIN
from mate_cli.runs.identity import hash_package
from mate_cli.runs.lock import check_in_place, process_id, release_lock

SCHEMA = 1
STOPPED = "stopped by the user or the scheduler"
"""The reason of a run that was interrupted."""
DAMAGED = "its record was damaged"
"""The reason of one whose record was made again."""
NOT_TRAINED = "not trained here"
"""First weights of a system whose answers alone are known, and the fact that says where they are from."""
NOT_LEARNT = "not learnt"
"""The fact that a run, or a kind of its answers, has learnt nothing."""
MAX_RECORD, MAX_PARTS = 1 << 22, 10_000
"""Bytes of a record, and entries or letters of a part of it."""
UNREADABLE, REMEDY = "this is not a run folder with a readable record", "Give a folder below outputs/"
NAMES = ("experiment", "dataset", "model", "attention", "init", "task")
PACKAGES = ("torch", "pytorch-lightning", "transformers", "datasets", "hydra-core", "wandb")


@dataclass
class RunRecord:
    """The summary of a run; `metrics` are fractions by name, `throughput` is per second of training.

    Args:
        settings: what sets the run apart from others of its experiment, by values.
        status: running, finished, failed or interrupted.
        process: what trains it, see `runs/lock.py`.
        sweep: the folder's name of the sweep that it is a job of; empty without one.
        wandb_id: by which W&B knows it, whatever part of it runs; empty before it is logged there.
        monitor: the metric that counts, such as `dev/f1`: what a search looks at; empty where nothing is trained.
        best: the best value of `monitor` in validations, by its name, and the `step`.
        peak_memory_mb: of the process, or of the GPU where there is one; of several processes, the sum.
        stages: the run folder of each stage of a chain.
        counts: the number of questions behind each of `metrics` that is a mean over questions.
        questions: the number of questions of each split and a hash of them, see `describe_questions`.
        pretraining: the run folders of the stages whose weights it began with, one after the other.
        digests: of the questions and tables of each split.
        code: the hash of each of the user's own files that it is made of, see `runs/identity.py`.
        facts: what a benchmark says in words: the machine, and why something was not measured.
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
    started: str = field(default_factory=lambda: now())
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
        """Record scores below a prefix such as `dev/`, and the number of questions behind each."""
        self.metrics |= {f"{prefix}{name}": float(score) for name, score in scores.items()}
        known = {name: score.questions for name, score in scores.items() if isinstance(score, Score)}
        self.counts |= {f"{prefix}{name}": questions for name, questions in known.items()}

    def summary(self) -> dict[str, float]:
        """Return the final metrics, with the best validation as `best/<name>`, and costs as `cost/<name>`."""
        costs = {name: getattr(self, name) for name in ("parameters", "wall_seconds", "peak_memory_mb")}
        parts = {"best": self.best, "cost": {**costs, **self.throughput}}
        named = {f"{part}/{name}": value for part, values in parts.items() for name, value in values.items()}
        return {**self.metrics, **named}


@dataclass
class TrainedRun(RunRecord):
    """The record of a run that was trained here, and its folder."""

    folder: Path = Path()


class RunFolder:
    """One run's folder; every file in it is written to the side and then moved into place, and through no link.

    It remembers what this command changed in it, so that a refusal can undo that and nothing else.

    Args:
        path: of the folder.
        new: nobody else may have it.

    Raises:
        FileExistsError: it is there, and should be new.
        RunError: it cannot be made.
    """

    def __init__(self, path: Path, *, new: bool = False) -> None:
        self.path = path
        self._made: list[Path] = []
        self._before: dict[Path, bytes | None] = {}
        try:
            if new:
                self._made += make_folders(path.parent)
                path.mkdir()
                self._made.insert(0, path)
            else:
                self._made += make_folders(path)
        except OSError as error:
            if new and isinstance(error, FileExistsError) and path.is_dir():
                raise
            raise RunError(
                f"the run folder cannot be made: {error.strerror}",
                where=str(path),
                remedy="Choose another paths.outputs",
            ) from error

    @property
    def checkpoints(self) -> Path:
        """The folder of weights."""
        return self.path / "checkpoints"

    def place(self, name: str) -> Path:
        """Return where a file of the run is written.

        Raises:
            RunError: its folder is a link that leads out of the run's, or the run's was moved or deleted.
        """
        check_in_place(self.path)
        target = self.path / name
        check_inside(self.path, target)
        return target

    def below(self, name: str) -> "RunFolder":
        """Return a folder below this one, as of a stage.

        Raises:
            RunError: it is a link that leads out of this one, or cannot be made.
        """
        folder = RunFolder(self.place(f"{name}/record.json").parent)
        self._made[:0] = folder._made
        return folder

    def remember(self, name: str) -> Path:
        """Remember a file as it is before this command writes it; return where it is written."""
        target = self.place(name)
        if target not in self._before and not target.is_symlink() and (target.is_file() or not target.exists()):
            self._before[target] = target.read_bytes() if target.exists() else None
            with suppress(OSError):  # who writes the file says so
                self._made[:0] = make_folders(target.parent)
        return target

    def write_text(self, name: str, text: str) -> Path:
        """Write a file of the run atomically.

        Raises:
            RunError: the disk is full or the folder is read-only; what was there stays.
        """
        return write_text(self.remember(name), text, "Free space, then use resume=last")

    def write_json(self, name: str, value: Any) -> Path:  # noqa: ANN401 - whatever JSON can hold
        """Write a JSON file of the run atomically."""
        return self.write_text(name, to_json(value, indent=2))

    def write_record(self, record: RunRecord) -> None:
        """Write record.json."""
        self.write_json("record.json", asdict(record))

    def has_record(self) -> bool:
        """Say whether there is a record."""
        return (self.path / "record.json").exists()

    def metrics_sizes(self) -> dict[Path, int]:
        """Return the bytes of each metrics.jsonl, of the run and its stages; once one trains, they are others."""
        return {path: path.lstat().st_size for path in find_files(self.path, "metrics.jsonl")}

    def undo(self) -> None:
        """Undo what this command wrote, as for a run that is refused: new files go, others are again as they were.

        A folder goes where this command made it and nothing else lies in it.
        """
        try:
            check_in_place(self.path)
        except RunError:  # another run may have taken its path
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
            with suppress(OSError):  # others lie in it
                folder.rmdir()

    def complete_records(self, status: str, reason: str) -> None:
        """Say in the record of this run, and of its stages, how it ended where its processes could not."""
        for path in find_files(self.path, "record.json"):
            folder = RunFolder(path.parent)
            record = folder.read_record()
            if record.status != "finished":
                record.status, record.reason, record.finished = status, reason[:500], now()
                folder.write_record(record)

    def read_record(self) -> RunRecord:
        """Read record.json; a damaged one is made again from config.yaml, and that is said.

        Raises:
            RunError: it is missing or damaged, and config.yaml too.
        """
        try:
            with wrap_read_errors(self.path / "record.json", RunError, UNREADABLE, REMEDY):
                return _record(read_entries(self.path))
        except RunError:
            record = _rebuild_record(self.path)
            if record is None:
                raise
            _say_rebuilt(self.path)
            return record


def read_entries(folder: Path, problem: str = UNREADABLE, remedy: str = REMEDY) -> dict[str, Any]:
    """Read record.json as it stands, whichever version wrote it.

    Raises:
        RunError: it is missing, damaged, too large, or holds something else.
    """
    return read_object(folder / "record.json", RunError, remedy, problem, largest=MAX_RECORD)


def _record(values: Mapping[str, Any]) -> RunRecord:
    from pydantic import TypeAdapter

    if unknown := set(values) - set(RunRecord.__dataclass_fields__):
        raise ValueError(f"it has {sorted(unknown)[0]!r}, which is unknown to this version of mate")
    for key, value in values.items():
        if isinstance(value, (dict, list, str)) and len(value) > MAX_PARTS:
            raise ValueError(f"its {key} has more than {MAX_PARTS:,} parts")
    numbers = ("metrics", "throughput")  # NaN stands as null there
    known = {key: _with_nan(value) if key in numbers else value for key, value in values.items()}
    return TypeAdapter(RunRecord).validate_python(known)


def _rebuild_record(folder: Path) -> RunRecord | None:
    """Make a record from config.yaml; None where that does not say all."""
    file = folder / "config.yaml"
    with suppress(RunError), wrap_read_errors(file, RunError, UNREADABLE, REMEDY):
        values = read_yaml(file, RunError, REMEDY)
        names = {name: values[ORIGIN][name] for name in (*NAMES, "overrides", "settings")}
        stages = {name: str(folder / name) for name in (values.get("stages") or {}) if values.get("system")}
        state = {"status": "interrupted", "reason": DAMAGED, "process": "", "stages": stages}
        return _record({"command": "train", "seed": values["seed"], **names, **state})
    return None


@cache
def _say_rebuilt(folder: Path) -> None:
    print(f"{folder / 'record.json'} is missing or damaged: made again from config.yaml", flush=True)


def _with_nan(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {key: math.nan if part is None else part for key, part in value.items()}


class ReadOnlyFolder(RunFolder):
    """A run's folder as all processes but the first have it: they read it and write nothing.

    Raises:
        RunError: this process does not see it.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise RunError(
                "another process does not see this folder, which the first one created",
                where=str(path),
                remedy="Put paths.outputs on a file system that all nodes share",
            )
        super().__init__(path)

    def write_text(self, name: str, text: str) -> Path:
        """Leave the writing to the first process."""
        return self.path / name

    def undo(self) -> None:
        """Leave it to the first process."""


class Clock:
    """Seconds of wall time, counted on from those of earlier parts of the same run."""

    def __init__(self, before: float = 0.0) -> None:
        self._start = time.monotonic() - before

    def __call__(self) -> float:
        """Return the seconds so far."""
        return time.monotonic() - self._start


def now() -> str:
    """Return the time in ISO 8601, UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def package_versions() -> dict[str, str]:
    """Return the versions of what shapes a run, without importing any of it."""
    versions = {"python": platform.python_version(), "mate_cli": mate_cli.__version__}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def code_version() -> str:
    """Return the commit of the package, with -dirty where its checkout was changed; installed, a hash of its files."""
    folder = Path(mate_cli.__file__).parent
    git = ["git", "-C", str(folder)]
    try:
        # A package that was installed below another repository is not of that repository's commit.
        subprocess.run([*git, "ls-files", "--error-unmatch", "__init__.py"], capture_output=True, check=True, timeout=5)
        command = [*git, "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return f"wheel-{hash_package()}"
