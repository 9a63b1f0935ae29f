"""Where the reference systems' numbers are: `tapas` ships with the tests, `others` is found through MATE_SHARED."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("MATE_SHARED", ROOT.parent / "shared")).resolve()


def tapas(name: str) -> Path:
    """A file of numbers made by running google-research/tapas."""
    return ROOT / "tests" / "golden" / "tapas" / name


def others(name: str) -> Path:
    """A file of numbers made by running the other reference systems; skips where it is absent."""
    return shared("golden", "others", name)


def shared(*parts: str) -> Path:
    """A file or folder below MATE_SHARED; skips where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{'/'.join(parts)} is not below MATE_SHARED={SHARED}")
    return path
