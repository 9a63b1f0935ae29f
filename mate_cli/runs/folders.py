"""Run folders: creation, lookup and an index.

The index is a JSON Lines file with a line for each run of an experiment, so that a lookup does not read the files of
all runs. The index is a cache: a line is recomputed when a file of its run has changed. Lines lost to concurrent writes
are recomputed by the next reader.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from mate_cli.errors import RunError
from mate_cli.files.atomic import check_inside, find_files, number_names, remove_drafts, write_text
from mate_cli.files.safe_load import MAX_YAML, parse_yaml, read_bytes, read_lines, to_json
from mate_cli.quoting import format_command, format_setting
from mate_cli.runs.configuration import read_settings
from mate_cli.runs.identity import (
    CODE,
    PLACES,
    RESULT_NEUTRAL_KEYS,
    Difference,
    differences,
    digest,
    digest_run,
    flat_keys,
    format_identity_values,
)
from mate_cli.runs.lock import NAME as LOCK
from mate_cli.runs.lock import acquire_lock, is_dead, is_locked
from mate_cli.runs.record import RunFolder, is_foreign, read_entries
from mate_cli.terminal.progress import track

OF_A_RUN = ("config.yaml", "record.json", "metrics.jsonl", "checkpoints")
"""Names that mark a folder as a run folder: if it contains any of them, no new run uses the folder."""
FOLDER = ".runs"
BLOCK = re.compile(r"^(?=[^\s#-])", re.MULTILINE)
"""Start of a top-level key in a YAML file."""
CHECKSUM = "checksum"
ABANDONED_SECONDS = 60
"""Age in seconds at which a folder with only a lock counts as abandoned. A new run writes config.yaml sooner."""
FILES = ("config.yaml", "record.json")
RECORDED = ("status", "started", "seed", "settings")
"""Entries of record.json that the index contains."""
FOREIGN = "foreign"
"""Status of a folder whose record.json was written by another program."""
VERSION = digest({"schema": 3, "ignored": list(RESULT_NEUTRAL_KEYS)})
"""Version of index lines, which depends on the keys of the run identity. Lines of another version are recomputed."""


def new_folder(outputs: Path, below: str, job: int = 0, name: str | None = None) -> RunFolder:
    """Create and lock the folder of a new run.

    Its path is <outputs>/<command>/<experiment>/<date>_<time>_<job>.

    If several runs start in the same second, a number is appended to the later names.

    Args:
        outputs: folder of all runs.
        below: path of the experiment below `outputs`: <command>/<experiment>.
        job: number of the job in a sweep, from 0. 0 without a sweep.
        name: name of the run folder. None for date and time.

    Raises:
        RunError: a run of this name exists.
    """
    if name:
        folder = RunFolder(check_name(outputs, below, job, name))
    else:
        path = outputs / below / f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{job}"
        check_inside(outputs, path)
        folder = next(folder for folder in map(RunFolder, number_names(path)) if folder.is_new)
    acquire_lock(folder.path)
    return folder


def check_name(outputs: Path, below: str, job: int, name: str) -> Path:
    """Return the path of a new run with a user-defined name, and check that it is unused.

    Args:
        outputs: folder of all runs.
        below: path of the experiment below `outputs`: <command>/<experiment>.
        job: number of the job in a sweep, appended to the name if it is not 0.
        name: name of the run.

    Raises:
        RunError: a run of this name exists.
    """
    folder = outputs / below / (f"{name}_{job}" if job else name)
    check_inside(outputs, folder)
    if is_locked(folder) or any(os.path.lexists(folder / file) for file in OF_A_RUN):
        hint = f"Choose another name, or continue that run: {format_setting('resume', folder)}"
        raise RunError("a run of this name exists", where=str(folder), remedy=hint)
    return folder


def find_same(parent: Path, config: Mapping[str, Any], code: Mapping[str, str]) -> RunFolder | None:
    """Find an earlier run with the same configuration, seed and code, to resume or reuse it.

    Runs are the same if their digests (`digest_run`) are equal. Finished runs are preferred, then running runs, then
    runs with a checkpoint, then the newest run. Return None if no run has this identity.

    Args:
        parent: folder of the experiment.
        config: resolved configuration.
        code: hash of each user-defined source file.
    """

    def progress(run: IndexedRun) -> tuple[bool, bool, bool]:
        status = run.status_now(parent)
        return status == "finished", status == "running", bool(find_files(parent / run.name, "last.ckpt"))

    mark = digest_run(config, code)
    matches = [run for run in read_index(parent) if run.digest == mark and _has_config(parent / run.name, config)]
    # Of equal runs `max` returns the first.
    match = max(reversed(matches), key=progress, default=None)
    return RunFolder(parent / match.name) if match else None


def is_running(folder: RunFolder) -> bool:
    """Return whether a process is training the run in a folder."""
    return index_run(folder.path).status_now(folder.path.parent) == "running"


def _started(folder: Path) -> tuple[str, str]:
    """Return the sort key of a run folder: the start time in the record, then the folder name."""
    return index_run(folder).started, folder.name


def find_resumable(resume: str, parent: Path, config: Mapping[str, Any]) -> RunFolder:
    """Find the run to resume, and check that it was started with this configuration.

    Args:
        resume: `last` for the last run of the experiment, or the path of a run folder.
        parent: folder of the experiment.
        config: resolved configuration of this command.

    Raises:
        RunError: there is no such run, or it was started with other values of settings that affect results.
    """
    if resume == "last":
        folders = [parent / run.name for run in reversed(read_index(parent))]
        if not folders:
            problem = f"no run of {parent.name} to resume"
            raise RunError(problem, where=str(parent), remedy="Start one without resume=last")
        path = next((folder for folder in folders if _has_config(folder, config)), folders[0])
    else:
        path = open_run(resume, "resume").path
    changed = first_difference(path, config, (*PLACES, *RESULT_NEUTRAL_KEYS))
    if changed:
        key, run_value, value = changed
        setting = f"with {key}={run_value}, not {value}" if run_value is not None else f"without {key}={value}"
        hint = f"Resume with {key}={run_value}, or start" if run_value is not None else "Start"
        raise RunError(f"that run was started {setting}", where=str(path), remedy=f"{hint} a new run without resume")
    return RunFolder(path)


def open_run(path: str, key: str = "run", stage: str = "") -> RunFolder:
    """Check and return the run folder whose path was given on the command line.

    Args:
        path: path of the folder, optionally with the prefix `run=` that some commands require.
        key: configuration key or command (such as `mate run`) that has the path as value. Used to suggest another path.
        stage: stage for which a run is requested. Empty for a complete run.

    Raises:
        RunError: the folder is missing or is not a run folder.
    """
    folder = Path(path.removeprefix("run="))
    if not (folder / "config.yaml").is_file():
        candidate = _nearest_run(folder, stage) if folder.is_dir() else _run_beside(folder)
        hint = "Give a folder below outputs/train/"
        if candidate:
            command = format_command(*key.split(), str(candidate)) if " " in key else format_setting(key, candidate)
            hint = f"Did you mean {command}?"
        raise RunError("this is not a run folder", where=str(folder), remedy=hint)
    return RunFolder(folder)


def _nearest_run(folder: Path, stage: str) -> Path | None:
    """Find the newest run below a folder that is a run of the given stage.

    Without such a run, the newest complete run is returned.
    """
    runs = [path.parent for path in find_files(folder, "config.yaml")]
    candidates = [path for path in runs if path.name == stage] or runs
    depth = min((len(path.parts) for path in candidates), default=0)
    return max((path for path in candidates if len(path.parts) == depth), key=_started, default=None)


def _run_beside(path: Path) -> Path | None:
    """Find a run to suggest for a path that does not exist.

    The path of this run differs from `path` only in the first missing folder. Of several runs, the newest is returned.
    """
    ancestor = path
    while not ancestor.parent.is_dir():
        ancestor = ancestor.parent
    paths = [sibling / path.relative_to(ancestor) for sibling in ancestor.parent.glob("*")]
    return max((run for run in paths if (run / "config.yaml").is_file()), key=_started, default=None)


def finished_run(run: str, outputs: Path, key: str, stage: str) -> RunFolder:
    """Return the folder of a run, or of the newest finished run of an experiment.

    Args:
        run: path of a run folder, or name of an experiment.
        outputs: folder of all runs.
        key: configuration key or command for the error message, see `open_run`.
        stage: requested stage for the error message, see `open_run`.

    Raises:
        RunError: there is no such run, or no run of the experiment is finished.
    """
    parent = outputs / "train" / run
    if (Path(run) / "config.yaml").is_file() or not parent.is_dir():
        return open_run(run, key, stage)
    # Write the index only below `outputs`: an absolute `run` may point elsewhere.
    lines = read_index(parent, write=not Path(run).is_absolute())
    finished = sorted(line.name for line in lines if line.status == "finished")
    if not finished:
        hint = f"Train it first: mate train {format_setting('experiment', run)}"
        raise RunError(f"no run of {run} is finished", where=str(parent), remedy=hint)
    return RunFolder(parent / finished[-1])


def first_difference(
    folder: Path, config: Mapping[str, Any], ignored: tuple[str, ...] = RESULT_NEUTRAL_KEYS
) -> Difference | None:
    """Find the first key whose value differs between config.yaml of a run and `config`.

    Args:
        folder: run folder.
        config: resolved configuration.
        ignored: keys that are not compared, by default the keys that cannot change a result.

    Returns:
        The key, its value in config.yaml and its value in `config`; None if no key differs.

    Raises:
        RunError: config.yaml is damaged.
    """
    pair = differences(flat_keys(read_settings(folder)), flat_keys(config), ignored)
    return next(((key, run_value, value) for key, run_value, value in pair if run_value != value), None)


def _has_config(folder: Path, config: Mapping[str, Any]) -> bool:
    """Return whether a run's config.yaml has the same values as `config`.

    The result is False if config.yaml cannot be read.
    """
    with suppress(RunError):
        return first_difference(folder, config) is None
    return False


@dataclass(frozen=True)
class IndexedRun:
    """Summary of a run, stored in the index file of its experiment to list and find runs.

    Args:
        name: name of the run folder.
        stamp: version of the index, and modification times and sizes of the files of the run.
        digest: identity of the run, see `digest_run`. Empty if its configuration cannot be read.
        status: status in the record.
        started: start time in the record.
        seed: seed of the run.
        settings: settings that distinguish the run within its experiment.
        score: monitored metric by name. Empty if there is no such metric.
        reason: reason why a finished run ended early.
    """

    name: str
    stamp: list[int | str]
    digest: str = ""
    status: str = "unknown"
    started: str = ""
    seed: int = 0
    settings: list[str] = field(default_factory=list)
    score: dict[str, float] = field(default_factory=dict)
    reason: str = ""

    def status_now(self, parent: Path) -> str:
        """Return the recorded status, but `killed` for a running run whose process has ended."""
        return "killed" if is_dead(parent / self.name, asdict(self)) else self.status


_lines = TypeAdapter(IndexedRun)


def index_file(parent: Path) -> Path:
    """Return the path of the index file, which lists the runs of an experiment.

    For OUTPUTS/COMMAND/EXPERIMENT it is OUTPUTS/.runs/COMMAND/EXPERIMENT.jsonl.
    """
    folder = parent.absolute()
    return folder.parents[1] / FOLDER / folder.parent.name / f"{folder.name}.jsonl"


def read_index(parent: Path, *, write: bool = True) -> list[IndexedRun]:
    """Return the summary (`IndexedRun`) of each run of an experiment, sorted by start time.

    Lines of runs whose files have changed are recomputed.

    Args:
        parent: folder of the experiment.
        write: whether to write the updated index, and to remove abandoned folders.
    """
    cached = {line.name: line for line in _read_lines(index_file(parent))}
    folders = sorted(parent.iterdir()) if parent.is_dir() else []
    stamps = {folder.name: stamp for folder in folders if FILES[0] in (stamp := _stamp(folder))}
    for folder in folders if write else ():
        if folder.name not in stamps:
            _remove_abandoned(folder)
    stale = [name for name, stamp in stamps.items() if name not in cached or cached[name].stamp != stamp]
    fresh = {name: index_run(parent / name) for name in (track(stale, "indexing runs", "runs") if stale else ())}
    current = {name: fresh.get(name) or cached[name] for name in stamps}
    if write and current != cached:
        rows = map(asdict, current.values())
        text = "".join(to_json({**row, CHECKSUM: digest(row)}) for row in rows)
        # Folders of other users may be read-only.
        with suppress(RunError, OSError):
            check_inside(index_file(parent).parents[2], index_file(parent))
            write_text(index_file(parent), text) if text else index_file(parent).unlink()
    return sorted(current.values(), key=lambda line: (line.started, line.name))


def _read_lines(file: Path) -> Iterator[IndexedRun]:
    with suppress(OSError, ValueError):
        for row in read_lines(file):
            # The run of an invalid line is read again.
            with suppress(Exception):
                if row.pop(CHECKSUM, None) == digest(row):
                    yield _lines.validate_python(row)


def _remove_abandoned(folder: Path) -> None:
    """Remove a run folder that contains only a lock, because its process was terminated."""
    with suppress(OSError):
        age = time.time() - folder.lstat().st_mtime
        if not folder.is_symlink() and not is_locked(folder) and age > ABANDONED_SECONDS:
            remove_drafts(folder)
            if [path.name for path in folder.iterdir()] == [LOCK]:
                (folder / LOCK).unlink()
                folder.rmdir()


def _stamp(folder: Path) -> list[int | str]:
    """Return the state of a run's files, to detect outdated entries of the index.

    It consists of the index version, and the modification time and size of each existing file.
    """
    stamp: list[int | str] = [VERSION]
    for file in FILES:
        with suppress(OSError):
            status = (folder / file).stat()
            stamp += [file, status.st_mtime_ns, status.st_size]
    return stamp


def index_run(folder: Path) -> IndexedRun:
    """Compute the summary (`IndexedRun`) of a run.

    Values from missing or damaged files stay defaults.
    """
    record: dict[str, Any] = {}
    stamp, mark = _stamp(folder), ""
    with suppress(RunError):
        record = read_entries(folder)
    with suppress(Exception):  # A damaged configuration has no identity.
        blocks = BLOCK.split(read_bytes(folder / "config.yaml", largest=MAX_YAML).decode("utf-8"))
        values = {key: value for block in blocks for key, value in _read_block(block).items()}
        mark = digest({**values, CODE: digest(record.get("code") or {})})
    entries: dict[str, Any] = {key: record[key] for key in RECORDED if key in record}
    if is_foreign(record):
        entries["status"] = FOREIGN
    if record.get("status") == "finished" and isinstance(record.get("reason"), str):
        entries["reason"] = record["reason"]
    metrics = part if isinstance(part := record.get("metrics"), dict) else {}
    # Records of imported answers have no monitor: their first metric is used.
    monitor = str(record.get("monitor") or next(iter(metrics), ""))
    if isinstance(score := metrics.get(monitor), float) and math.isfinite(score):
        entries["score"] = {monitor: score}
    try:
        return _lines.validate_python({"name": folder.name, "stamp": stamp, "digest": mark, **entries})
    except ValidationError:
        return IndexedRun(folder.name, stamp, mark)


@lru_cache(maxsize=1 << 12)
def _read_block(text: str) -> dict[str, str]:
    """Return the values of one top-level key of config.yaml that can change a result, as text.

    Cached across runs, because YAML parsing is slow.
    """
    values = parse_yaml(text)
    return format_identity_values(values) if isinstance(values, dict) else {}
