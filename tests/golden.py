"""Where the reference systems' numbers are, and data that are found through MATE_SHARED."""

import json
import lzma
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("MATE_SHARED", ROOT.parent / "shared")).resolve()


def tapas(name: str) -> Path:
    """A file of numbers made by running google-research/tapas."""
    return ROOT / "tests" / "golden" / "tapas" / name


def numbers(name: str) -> Any:
    """What a JSON file of the tests says, packed with xz, by its path below golden without the ending."""
    with lzma.open(ROOT / "tests" / "golden" / f"{name}.json.xz", "rt", encoding="utf-8") as file:
        return json.load(file)


def others(name: str) -> Path:
    """A file of numbers made by running the other reference systems."""
    return ROOT / "tests" / "golden" / "others" / name


def shared(*parts: str) -> Path:
    """A file or folder below MATE_SHARED; skips where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{'/'.join(parts)} is not below MATE_SHARED={SHARED}")
    return path
