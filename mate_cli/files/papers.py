"""Lookup of the subpackages of `mate_cli.papers` by their folders, without imports.

The core package must not import papers.
"""

from __future__ import annotations

from pathlib import Path

PAPERS = "mate_cli.papers"
FOLDER = Path(__file__).parents[1] / "papers"


def find_packages(name: str) -> dict[str, Path]:
    """Find the subpackage `name`, such as "models", of every paper that has one.

    Returns:
        The folder of each subpackage by its dotted module name.
    """
    return {f"{PAPERS}.{folder.parent.name}.{name}": folder for folder in sorted(FOLDER.glob(f"*/{name}"))}


def find_room(module: str) -> Path | None:
    """Return the folder of the paper that contains a module, or None for other modules.

    Args:
        module: dotted name of the module.
    """
    return FOLDER / module.split(".")[2] if module.startswith(f"{PAPERS}.") else None
