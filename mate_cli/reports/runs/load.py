"""Loading of run folders from disk, including incomplete folders of interrupted runs."""

from __future__ import annotations

import glob
import hashlib
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from mate_cli.errors import RunError
from mate_cli.files.io_errors import shorten_reason
from mate_cli.files.safe_load import MAX_SIZE, open_file
from mate_cli.metrics.specs import MetricName, Score, read_specs
from mate_cli.runs.configuration import read_settings
from mate_cli.runs.identity import flat_keys
from mate_cli.runs.record import MAX_PARTS as MAX_FIGURES
from mate_cli.runs.record import is_foreign, read_entries
from mate_cli.terminal.progress import track

STATUSES = ("finished", "running", "interrupted", "failed")
MAX_NUMBER = 10**300
MAX_TEXT, MAX_NAME, MAX_PARTS, MAX_NAMED = 500, 200, 500, 5
"""Maximum characters of a text and of a name, parts of an entry, and reported problems."""
NEVER_RUNS = frozenset({"checkpoints", "predictions", "wandb", ".git", ".hydra", "__pycache__"})

COUNTED = re.compile(r"\d{1,18}:")
QuestionSet = Mapping[str, str]
"""Number and hash of the questions of each split, as `{"dev": "40:1a2b"}`.

The hash identifies the questions, so that scores on different questions are not compared.
"""


def count(asked: str) -> int:
    """Return the number of questions from an entry `count:hash`, such as 40 for `40:1a2b`."""
    return int(asked.partition(":")[0])


@dataclass(frozen=True, eq=False)
class LoadedRun:
    """A run folder that was read from disk: its record and its resolved configuration.

    Args:
        folder: run folder.
        name: path for display, which begins with the folder that the user passed.
        record: content of record.json, not validated.
        config: config.yaml as flat settings, `dotted.key: text`. Empty if the file is missing.
        parent: pipeline run of which this run is a stage, None for other runs.
        touched: time of the last write to the folder, in seconds since the epoch.
    """

    folder: Path
    name: str
    record: Mapping[str, Any]
    config: Mapping[str, str] = field(default_factory=dict)
    parent: LoadedRun | None = None
    touched: float = 0.0

    @property
    def status(self) -> str:
        """Recorded status of the run: one of `STATUSES`, or `unknown`."""
        status = self.text("status")
        return status if status in STATUSES else "unknown"

    @cached_property
    def metrics(self) -> dict[str, Score]:
        """Final metrics of the run by name, as `Score` with the number of questions.

        Invalid numbers are omitted.

        Records store NaN as null, because JSON has no NaN.
        """
        values = {name: math.nan if value is None else value for name, value in self.part("metrics").items()}
        return {clean(name): Score(value, self._count(name)) for name, value in values.items() if is_number(value)}

    def _count(self, metric: str) -> int | None:
        """Return the number of questions over which a metric was averaged, None if unknown.

        Records of older versions have no counts per metric. There, a share of all questions has the count of its split.
        """
        if self.part("counts"):
            number = self.number(metric, "counts")
            return None if number is None else int(number)
        name = self.parse(metric)
        entry = self.questions.get(name.split) if not name.part else None
        return count(entry) if entry and name.spec.is_share else None

    @cached_property
    def names(self) -> dict[str, MetricName]:
        """Parsed names of the final metrics of the run, by logged name."""
        return {name: self.parse(name) for name in self.metrics}

    def parse(self, full: str) -> MetricName:
        """Parse the name of a logged metric, which may be user-defined in this run."""
        return MetricName.parse(full, read_specs(self.part("specs")))

    @cached_property
    def questions(self) -> QuestionSet:
        """The questions on which the run was scored, as `count:hash` by split."""
        return {key: str(entry) for key, entry in self.part("questions").items() if COUNTED.match(str(entry))}

    def text(self, key: str) -> str:
        """Return an entry of the record as one line of printable text, or "" if it is missing."""
        value = self.record.get(key)
        return "" if value is None else clean(value)

    def part(self, key: str) -> dict[str, Any]:
        """Return an entry of the record that is a dictionary, such as `metrics`, else {}.

        The result is empty if the entry is missing or has another type.
        """
        value = self.record.get(key)
        return value if isinstance(value, dict) else {}

    def texts(self, key: str) -> Iterator[str]:
        """Yield the items of a list in the record, each as text in one printable line.

        Nothing is yielded if the entry is no list.
        """
        value = self.record.get(key)
        yield from map(clean, value if isinstance(value, list) else ())

    def number(self, key: str, inside: str | None = None) -> float | None:
        """Return a number in the record, or None if the entry is missing or no number.

        Args:
            key: name of the entry.
            inside: mapping in the record that contains the entry, None for the record itself.
        """
        value = (self.part(inside) if inside else self.record).get(key)
        return float(value) if value is not None and is_number(value) else None

    def setting(self, key: str) -> str:
        """Return an entry of the record, or if it is missing the configuration value of that key.

        The result is empty if both are missing.
        """
        if key == "task" and self.parent is not None:
            return f"{self.folder.name} in {self.parent.setting('task') or self.parent.folder.name}"
        return self.text(key) or self.config.get(key, "")


@dataclass(frozen=True)
class LoadedRuns:
    """Runs found in some folders, and warnings about unreadable files.

    Args:
        runs: runs in order of their folders.
        warnings: one line per skipped file or folder.
        folders: folders that were searched.
    """

    runs: tuple[LoadedRun, ...]
    warnings: tuple[str, ...]
    folders: tuple[Path, ...]


def load_runs(folders: Iterable[str | os.PathLike[str]]) -> LoadedRuns:
    """Read all runs in or below some folders, each run once even if folders overlap.

    Args:
        folders: folders, or glob patterns of folders such as `outputs/train/hybridqa_*`.

    Raises:
        RunError: a folder does not exist, nothing matches a pattern, or no run is readable.
    """
    runs: dict[Path, LoadedRun] = {}
    warnings: list[str] = []
    roots = [root for folder in folders for root in match_folders(str(folder), warnings)]
    for root in roots:
        for folder in track(run_folders(root), "reading runs", "folders"):
            key = folder.resolve()
            if key not in runs and (run := read_run(folder, runs.get(key.parent), warnings)) is not None:
                runs[key] = run
    if not runs:
        raise RunError(describe_missing_runs(roots, warnings), remedy="Start one with `mate train experiment=<name>`")
    return LoadedRuns(tuple(runs.values()), tuple(warnings), tuple(roots))


def open_runs(folders: Sequence[Path]) -> LoadedRuns:
    """Read the run in each of the given folders, without searching subfolders for runs.

    Raises:
        RunError: a folder contains no readable run.
    """
    warnings: list[str] = []
    runs = []
    for folder in folders:
        if not (folder / "record.json").is_file():
            nested_runs = first_runs(folder, 2)
            problem = (
                "no such folder" if not folder.is_dir() else "not a run" if nested_runs else "no run here or below"
            )
            hint = f"Give {' or '.join(nested_runs)}" if nested_runs else "Name a folder that contains record.json"
            raise RunError(problem, where=str(folder), remedy=hint)
        if (run := read_run(folder, None, warnings)) is None:
            raise RunError(warnings[-1], remedy="Give another run")
        runs.append(run)
    return LoadedRuns(tuple(runs), tuple(warnings), tuple(folders))


def first_runs(folder: Path, most: int) -> list[str]:
    """Return the paths of the first few runs below a folder, without benchmarks and stages.

    Args:
        folder: folder to search.
        most: maximum number of runs.
    """
    top_level = (path for path in run_folders(folder) if not (path.parent / "record.json").is_file())
    runs = (run for path in top_level if (run := read_run(path, None, [])) and run.text("command") != "benchmark")
    return [str(run.folder) for run in islice(runs, most)]


def match_folders(asked: str, warnings: list[str]) -> list[Path]:
    """Return the folders that a path or glob pattern names.

    A file is only reported in `warnings`, because a shell expands `*` to files, too.

    Args:
        asked: folder or glob pattern.
        warnings: list to which warnings are appended.

    Raises:
        RunError: the folder does not exist, or nothing matches the pattern.
    """
    if Path(asked).is_dir():
        return [Path(asked)]
    if Path(asked).is_file():
        warnings.append(f"{asked}: left out, it is not a folder")
        return []
    if not glob.has_magic(asked):
        raise RunError(f"no such folder: {asked}", remedy="Name a folder of runs, which mate train creates")
    paths = sorted(glob.glob(asked, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
    matches = [Path(match) for match in paths if Path(match).is_dir()]
    if not matches:
        raise RunError(f"no folder matches {asked}", remedy=f"See {find_base_folder(asked)}/ for the folders it has")
    return matches


def find_base_folder(asked: str) -> Path:
    """Return the folder in which a glob pattern is searched: the path before its wildcards.

    A folder is returned unchanged.
    """
    folder = Path(asked)
    while glob.has_magic(str(folder)) and not folder.is_dir():
        folder = folder.parent
    return folder


def describe_missing_runs(asked: list[Path], warnings: list[str]) -> str:
    """Describe which folders were searched for runs, and how many damaged runs were found."""
    if not asked:
        return f"no folder to search for runs ({'; '.join(warnings)})" if warnings else "no folder to search for runs"
    searched = ", ".join(f"{str(folder).rstrip('/')}/" for folder in asked)
    damaged = f" ({len(warnings)} damaged: {warnings[0]})" if warnings else ""
    return f"no runs below {searched}{damaged}"


def run_folders(root: Path) -> Iterator[Path]:
    """Yield all run folders (with a record.json) in and below `root`, sorted, parents first.

    Targets of symbolic links come last.
    """
    waiting, visited = [root], set[Path]()
    while waiting:
        start = waiting.pop(0)
        path = start.resolve()
        if path in visited or (start != root and root.resolve().is_relative_to(path)):  # a link to /, for example
            continue
        for folder, subfolders, files in os.walk(start):
            visited.add(Path(folder).resolve())
            subfolders[:] = sorted(name for name in subfolders if name not in NEVER_RUNS)
            waiting += [path for name in subfolders if (path := Path(folder, name)).is_symlink()]
            if "record.json" in files:
                yield Path(folder)


def read_run(folder: Path, parent: LoadedRun | None, warnings: list[str]) -> LoadedRun | None:
    """Read a run folder, or return None if the run's record is unreadable.

    Args:
        folder: run folder.
        parent: pipeline run of which the run is a stage, None for other runs.
        warnings: list to which a line is appended per damaged file.
    """
    record_file = folder / "record.json"
    try:
        record = load_record(folder, warnings)
    except RunError as error:
        warnings.append(f"{clean(record_file)}: left out, {clean(error.problem)}")
        return None
    warnings += list_unreadable(folder)
    return LoadedRun(
        folder=folder,
        name=clean(folder),
        record=record,
        config=read_flat_config(folder / "config.yaml", warnings),
        parent=parent,
        touched=max(file.stat().st_mtime for file in (record_file, folder / "metrics.jsonl") if file.is_file()),
    )


def list_unreadable(folder: Path) -> Iterator[str]:
    """Yield a warning for each log or prediction file that is too large or not a regular file."""
    for file in (*folder.glob("metrics.jsonl"), *sorted(folder.glob("predictions/*.json"))):
        try:
            with open_file(file, largest=MAX_SIZE):
                pass
        except (OSError, ValueError) as error:
            yield f"{clean(file)}: left out, {shorten_reason(error)}"


def load_record(folder: Path, warnings: list[str]) -> dict[str, Any]:
    """Read and validate record.json of a run. Oversized entries are shortened with a warning.

    Raises:
        RunError: the file is missing, damaged, too large, or not a record.
    """
    content = read_entries(folder, "cannot be read", "")
    if is_foreign(content):
        raise RunError("it is not the record of a run")
    record: dict[str, Any] = {}
    problems: list[str] = []
    max_entries = MAX_FIGURES if content.get("command") == "benchmark" else MAX_PARTS
    for key, value in content.items():
        if len(key) <= MAX_NAME and len(record) < MAX_PARTS:
            record[key], problem = tidy_entry(value, max_entries)
            problems += [f"{clean(key)} {problem}"] * bool(problem)
    if problems:
        warnings.append(
            f"{clean(folder / 'record.json')}: {'; '.join(problems[:MAX_NAMED])}{' ...' * (len(problems) > MAX_NAMED)}"
        )
    return record


def tidy_entry(value: object, most: int = MAX_PARTS) -> tuple[Any, str]:
    """Limit the size of an untrusted record entry: at most `most` items with short texts.

    Returns:
        The limited entry, and a description of what exceeded a limit ("" if nothing).
    """
    if isinstance(value, str):
        return shorten_text(value), f"has {len(value):,} letters" if len(value) > MAX_TEXT else ""
    if not isinstance(value, (list, dict)):
        return value, ""
    problem = f"has {len(value):,} parts" if len(value) > most else ""
    if isinstance(value, list):
        return [tidy_entry(part)[0] for part in value[:most]], problem
    parts = {key: tidy_entry(part)[0] for key, part in islice(value.items(), most) if len(key) <= MAX_NAME}
    return parts, problem or "has names that are too long" * (len(parts) < len(value))


def read_flat_config(file: Path, warnings: list[str]) -> dict[str, str]:
    """Read config.yaml of a run as {dotted key: text}, such as {"optimizer.lr": "5e-05"}.

    If the file is unreadable, the result is empty, and a line is appended to `warnings`.
    """
    if not file.is_file():
        return {}
    try:
        status = file.stat()
        return dict(_settings(file, status.st_mtime_ns, status.st_size))
    # A broken configuration of any type must not make the report fail.
    except Exception as error:
        warnings.append(f"{file}: ignored, cannot be read ({clean(error)[:120]})")
        return {}


@lru_cache(maxsize=1024)
def _settings(file: Path, changed: int, size: int) -> Mapping[str, str]:
    """Read a run's configuration. It is cached, because YAML is slow to parse."""
    leaves = flat_keys(read_settings(file.parent)).items()
    texts = {key: f"[{','.join(map(_word, leaf))}]" if isinstance(leaf, list) else _word(leaf) for key, leaf in leaves}
    return {clean(key): shorten_text(text) for key, text in texts.items()}


def _word(value: object) -> str:
    """Format a value as in YAML, with `null`, `true` and `false`."""
    is_named = value is None or isinstance(value, bool)
    return {None: "null", True: "true", False: "false"}[value] if is_named else clean(value)  # type: ignore[index]


def is_number(value: object) -> bool:
    """Return whether a JSON value is a number, but not a boolean, and fits a float."""
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < MAX_NUMBER
    return isinstance(value, float)


def shorten_text(text: str) -> str:
    """Truncate a text to `MAX_TEXT` characters, and append a hash to keep it distinct."""
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}… {hashlib.sha256(text.encode(errors='replace')).hexdigest()[:6]}"


def clean(value: object) -> str:
    """Convert an untrusted value to one printable line, without terminal control characters."""
    text = str(value)
    return (text if text.isprintable() else "".join(letter if letter.isprintable() else " " for letter in text)).strip()
