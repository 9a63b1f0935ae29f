"""Subpackages of papers, found by their folders, because the core must not import them."""

from __future__ import annotations

from pathlib import Path

PAPERS = "mate_cli.papers"
FOLDER = Path(__file__).parents[1] / "papers"


def find_packages(name: str) -> dict[str, Path]:
    """Return the folders, by dotted name, of the packages with this name in all papers."""
    return {f"{PAPERS}.{folder.parent.name}.{name}": folder for folder in sorted(FOLDER.glob(f"*/{name}"))}


def find_room(module: str) -> Path | None:
    """Return the folder of the paper that contains a module.

    Return None if the module is not part of a paper.
    """
    return FOLDER / module.split(".")[2] if module.startswith(f"{PAPERS}.") else None
