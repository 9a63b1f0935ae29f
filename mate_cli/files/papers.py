"""The rooms of papers, found by their folders: the core imports none of them."""

from __future__ import annotations

from pathlib import Path

PAPERS = "mate_cli.papers"
FOLDER = Path(__file__).parents[1] / "papers"


def find_packages(name: str) -> dict[str, Path]:
    """Find the packages of this name in all rooms: their folders by their dotted names; nothing is imported."""
    return {f"{PAPERS}.{folder.parent.name}.{name}": folder for folder in sorted(FOLDER.glob(f"*/{name}"))}


def find_room(module: str) -> Path | None:
    """Find the folder of the paper that a module belongs to; None where it belongs to none."""
    return FOLDER / module.split(".")[2] if module.startswith(f"{PAPERS}.") else None
