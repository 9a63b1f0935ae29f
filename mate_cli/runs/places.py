"""Places of data and weights that a run's configuration names, after the run or the folder of its project has moved.

A relative path begins at the working folder of training. The run's config.yaml says where that is, seen from the run's
folder, and where it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mate_cli.errors import DataError, RunError
from mate_cli.files.safe_load import read_yaml

ORIGIN, BASE = "origin", "base"
"""Key of config.yaml under which stands where the values come from, and that of the working folder below it."""
ROOTS = ("root", "datasets")
"""Keys of folders of data, at which other paths of the same part begin."""
PLACED = ("data", "init", "encoding")
"""Parts of a configuration that name files and folders."""


@dataclass(frozen=True)
class Base:
    """The folder that relative paths of a run begin at.

    Args:
        folder: where it is now.
        before: where it was when the run was trained.
    """

    folder: Path
    before: Path

    def place(self, value: Any, key: str = "") -> Any:  # noqa: ANN401 - any value
        """Return a value of the configuration, and a path in it as what it means here and now."""
        if isinstance(value, Mapping):
            return {name: self.place(part, str(name)) for name, part in value.items()}
        if isinstance(value, list):
            return [self.place(part) for part in value]
        if not isinstance(value, str) or not (os.sep in value or key in ROOTS) or value.startswith("~"):
            return value
        place, absolute = self._find(value), Path(value).is_absolute()
        is_here = Path(value).exists() if absolute else self.folder == Path.cwd()
        return str(place) if not is_here and (place.exists() or (key in ROOTS and not absolute)) else value

    def count(self, data: Mapping[str, Any]) -> int:
        """Count the files and folders of data that are there."""
        texts = {key: value for key, value in data.items() if isinstance(value, str)}
        roots = [self._find(texts[key]) for key in ROOTS if key in texts]
        return sum(place.exists() for place in (*roots, *(root / text for root in roots for text in texts.values())))

    def _find(self, value: str) -> Path:
        return _join(self.folder, os.path.relpath(value, self.before) if Path(value).is_absolute() else value)


def describe_base(folder: Path) -> dict[str, str]:
    """Return where the working folder is, by itself and seen from the folder of a run; see `find_base`."""
    here = Path.cwd()
    return {"at": str(here), "from_run": os.path.relpath(here, folder)}


def find_base(values: Mapping[str, Any], folder: Path) -> Base:
    """Find the folder that paths of a run begin at: where most of its data are.

    Of equals it is the one that lies as it did to the run's folder, then the one that it was, then the working folder.

    Args:
        values: what the run's config.yaml holds.
        folder: of the run.
    """
    here, origin = Path.cwd(), values.get(ORIGIN)
    described = origin.get(BASE) if isinstance(origin, dict) else None
    if not isinstance(described, dict):
        return Base(here, here)
    before = Path(str(described.get("at", here)))
    tried = [Base(place, before) for place in (_join(folder, str(described.get("from_run", ""))), before, here)]
    stages = values.get("stages")
    parts = [values, *(stages.values() if isinstance(stages, dict) else ())]
    data = [part["data"] for part in parts if isinstance(part, dict) and isinstance(part.get("data"), dict)]
    return max((base for base in tried if base.folder.is_dir()), key=lambda base: sum(map(base.count, data)))


def read_base(folder: Path) -> Base:
    """Find the folder that paths of a run begin at by its config.yaml.

    Raises:
        RunError: it is missing or damaged.
    """
    return find_base(read_yaml(folder / "config.yaml", RunError, "Give a folder below outputs/"), folder)


@contextmanager
def explain_places(run: str | Path) -> Iterator[None]:
    """Say of a run's data that are not there where its paths begin, and which key gives another place.

    Raises:
        DataError: what was wrong with the data.
    """
    try:
        yield
    except DataError as error:
        if not error.where or Path(error.where).exists():
            raise
        told = f"Paths of this run begin at {read_base(Path(run)).folder}, and data.root=FOLDER is another place."
        raise DataError(error.problem, where=error.where, remedy=f"{told} {error.remedy or ''}".strip()) from error


def _join(folder: Path, value: str) -> Path:
    return Path(os.path.normpath(folder.absolute() / value))
