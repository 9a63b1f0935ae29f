"""The datasets that there are, in the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.table import Column, Table

from mate_cli.data.datasets.catalogue import DatasetInfo, all_datasets, find_dataset
from mate_cli.reports.format import NOTHING
from mate_cli.terminal.console import Console


def print_datasets(root: Path, console: Console) -> None:
    """Print name, title, size, licence and whereabouts of every dataset.

    Args:
        root: the folder in which each dataset has a folder of its name.
        console: where to print.
    """
    table = Table("data=", "dataset", Column("questions", justify="right"), "licence", "files")
    for info in all_datasets():
        questions = info.published.get("questions")
        table.add_row(
            info.name, info.title, f"{questions:,}" if questions else NOTHING, info.licence, whereabouts(info, root)
        )
    console.print(table)
    console.print("Fetch a public release with: mate data download data=<name>", markup=False)


def whereabouts(info: DatasetInfo, root: Path) -> str:
    """Where the files of a dataset are, or whether they can be fetched."""
    if info.shipped:
        return "with the package"
    if (root / info.folder).is_dir():
        return str(root / info.folder)
    return "public" if find_dataset(info.folder).files else "not public"
