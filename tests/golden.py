"""Paths of golden files from reference implementations, and of data below MATE_SHARED."""

import json
import lzma
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("MATE_SHARED", ROOT.parent / "shared")).resolve()


def tapas(name: str) -> Path:
    """Return the path of a golden file computed by google-research/tapas."""
    return ROOT / "tests" / "golden" / "tapas" / name


def numbers(name: str) -> Any:
    """Read an xz-compressed golden JSON file, by its relative path without suffix."""
    with lzma.open(ROOT / "tests" / "golden" / f"{name}.json.xz", "rt", encoding="utf-8") as file:
        return json.load(file)


def others(name: str) -> Path:
    """Return the path of a golden file computed by another reference implementation."""
    return ROOT / "tests" / "golden" / "others" / name


def shared(*parts: str) -> Path:
    """Return a path below MATE_SHARED, or skip the test if it is missing."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{'/'.join(parts)} is not below MATE_SHARED={SHARED}")
    return path
