"""An index of the runs of an experiment, one line a run, so that nobody has to read all of their files to find one.

It is a cache: a line is read anew when a file of its run has changed, and what is lost when several processes write at
once is read again by the next.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from yaml import YAMLError  # type: ignore[import-untyped]

from mate_cli.errors import RunError
from mate_cli.files.atomic import check_inside, write_text
from mate_cli.files.safe_load import MAX_YAML, parse_yaml, read_bytes, read_lines, to_json
from mate_cli.runs.identity import CODE, NO_EFFECT, digest, telling_texts
from mate_cli.runs.lock import is_dead
from mate_cli.runs.record import read_entries
from mate_cli.terminal.progress import track

FOLDER = ".runs"
BLOCK = re.compile(r"^(?=[^\s#-])", re.MULTILINE)
"""Where a key at the top of a file of YAML begins."""
FILES = ("config.yaml", "record.json")
RECORDED = ("status", "started", "seed", "settings")
"""Entries of the record that the index has."""
VERSION = digest({"schema": 1, "ignored": list(NO_EFFECT)})
"""Changes with what tells runs apart, so that lines of another version are read anew."""


@dataclass(frozen=True)
class IndexedRun:
    """A line of the index.

    Args:
        name: of the run's folder.
        stamp: times and sizes of its files, and the version of the index.
        digest: what it is, see `digest_run`; empty where its configuration cannot be read.
        score: its metric that counts, by name; empty without one.
    """

    name: str
    stamp: list[int | str]
    digest: str = ""
    status: str = "unknown"
    started: str = ""
    seed: int = 0
    settings: list[str] = field(default_factory=list)
    score: dict[str, float] = field(default_factory=dict)

    def status_now(self, parent: Path) -> str:
        """Return its status; `killed` for one that cannot have said so itself."""
        return "killed" if is_dead(parent / self.name, asdict(self)) else self.status


_lines = TypeAdapter(IndexedRun)


def index_file(parent: Path) -> Path:
    """Return the index of the runs in OUTPUTS/COMMAND/EXPERIMENT, which lies beside the commands."""
    place = parent.absolute()
    return place.parents[1] / FOLDER / place.parent.name / f"{place.name}.jsonl"


def read_index(parent: Path, *, write: bool = True) -> list[IndexedRun]:
    """Return a line for each run in the folder of an experiment, by start; a stale index is written anew."""
    known = {line.name: line for line in _read_lines(index_file(parent))}
    folders = sorted(parent.iterdir()) if parent.is_dir() else []
    stamps = {folder.name: stamp for folder in folders if FILES[0] in (stamp := _stamp(folder))}
    stale = [name for name, stamp in stamps.items() if name not in known or known[name].stamp != stamp]
    for name in track(stale, "indexing runs", "runs") if stale else ():
        known[name] = index_run(parent / name)
    is_stale = bool(stale) or len(known) > len(stamps)
    known = {name: known[name] for name in stamps}
    if write and is_stale:
        text = "".join(to_json(asdict(line)) for line in known.values())
        with suppress(RunError, OSError):  # others' folders may be read-only
            check_inside(index_file(parent).parents[2], index_file(parent))
            write_text(index_file(parent), text) if text else index_file(parent).unlink()
    return sorted(known.values(), key=lambda line: (line.started, line.name))


def _read_lines(file: Path) -> Iterator[IndexedRun]:
    with suppress(OSError, ValueError):
        for row in read_lines(file):
            with suppress(ValidationError):
                yield _lines.validate_python(row)


def _stamp(folder: Path) -> list[int | str]:
    """Return the state of the files of a run, as far as they are there."""
    stamp: list[int | str] = [VERSION]
    for file in FILES:
        with suppress(OSError):
            status = (folder / file).stat()
            stamp += [file, status.st_mtime_ns, status.st_size]
    return stamp


def index_run(folder: Path) -> IndexedRun:
    """Return the line of a run by its files, whatever state they are in."""
    record: dict[str, Any] = {}
    stamp, mark = _stamp(folder), ""
    with suppress(RunError):
        record = read_entries(folder)
    with suppress(OSError, ValueError, RecursionError, YAMLError):
        blocks = BLOCK.split(read_bytes(folder / "config.yaml", largest=MAX_YAML).decode("utf-8"))
        values = {key: value for block in blocks for key, value in _read_block(block).items()}
        mark = digest({**values, CODE: digest(code if isinstance(code := record.get("code"), dict) else {})})
    told: dict[str, Any] = {key: record[key] for key in RECORDED if key in record}
    metrics = part if isinstance(part := record.get("metrics"), dict) else {}
    monitor = str(record.get("monitor") or next(iter(metrics), ""))  # answers of another system name none
    if isinstance(score := metrics.get(monitor), float) and math.isfinite(score):
        told["score"] = {monitor: score}
    try:
        return _lines.validate_python({"name": folder.name, "stamp": stamp, "digest": mark, **told})
    except ValidationError:
        return IndexedRun(folder.name, stamp, mark)


@lru_cache(maxsize=1 << 12)
def _read_block(text: str) -> dict[str, str]:
    """Read a part of config.yaml once for all runs that have the same: YAML is slow."""
    values = parse_yaml(text)
    return telling_texts(values) if isinstance(values, dict) else {}
