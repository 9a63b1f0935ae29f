"""Malicious run folders with links, pipes, devices and huge files at any path."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILES = (
    *("record.json", "config.yaml", "metrics.jsonl", "predictions/dev.json", "calibration.json", "stderr.txt", ".lock"),
    *("checkpoints/best.safetensors", "checkpoints/last.ckpt", "evaluation/dev.json", "evaluation/settings.json"),
)
FOLDERS = ("predictions", "evaluation", "checkpoints", "wandb", "analysis")
HUGE = 1 << 31
LONG = "m" * 1_000_000


def precious_folder(place: Path) -> Path:
    """Create files that must not change, with all file names of a run and a lock."""
    for name in (*FILES, "precious"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("{}")
    return place


def content_of(place: Path) -> dict[Path, bytes]:
    """Return the contents of all files below a folder."""
    return {path: path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


def _link(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "precious")


def _hard_link(path: Path, outside: Path) -> None:
    os.link(outside / "precious", path)


def _dangling(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "new")


def _device(path: Path, outside: Path) -> None:
    path.symlink_to("/dev/zero")


def _pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def _huge(path: Path, outside: Path) -> None:
    with path.open("wb") as file:
        file.truncate(HUGE)


def _many(path: Path, outside: Path) -> None:
    path.write_text("a: [" + "[]," * 2_000_000 + "]" if path.suffix == ".yaml" else "[" + "[]," * 9_000_000 + "1]")


def _deep(path: Path, outside: Path) -> None:
    path.write_text("[" * 200_000 + "]" * 200_000)


def _folder(path: Path, outside: Path) -> None:
    path.mkdir()


WAYS: tuple[Callable[[Path, Path], None], ...] = (
    *(_link, _hard_link, _dangling, _device, _pipe, _huge, _many, _deep, _folder),
)
ODD: tuple[Any, ...] = (
    *("x" * 251, LONG, "\x1b]0;x\x07", "\u202e", "../../x", "", None, True, -1, 10**400, 1.5, [], {}),
    *([LONG] * 3, {LONG: LONG}, {f"dev/m{number}": 0.5 for number in range(100_000)}, [[[["x"]]]], ["=1+1"] * 99_999),
)
"""Values that no run writes to its record."""


def make_hostile(run: Path, outside: Path, seed: int) -> str:
    """Apply the malicious change of a seed to a run folder, and return its description.

    Args:
        run: run folder.
        outside: folder that links lead to.
        seed: seed of the change.
    """
    chance = random.Random(seed)
    kind = chance.randrange(3)
    if kind == 0:
        record = json.loads((run / "record.json").read_text())
        key, value = chance.choice(sorted(record)), chance.choice(ODD)
        (run / "record.json").write_text(json.dumps(record | {key: value}))
        return f"{key}={str(value)[:40]!r}"
    if kind == 1:
        name = chance.choice(FOLDERS)
        shutil.rmtree(run / name, ignore_errors=True)
        (run / name).symlink_to(outside / name)
        return f"{name}/ behind a link"
    name, way = chance.choice(FILES), chance.choice(WAYS)
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).unlink(missing_ok=True)
    way(run / name, outside)
    return f"{name}: {way.__name__}"
