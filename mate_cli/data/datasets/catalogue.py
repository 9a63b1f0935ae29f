"""Catalogue of datasets: all folders with a `release.json`.

The folders are next to this file, or in the `datasets` subpackage of a paper.

Corpora, contamination checks, benchmarks, model cards and `mate data` use this catalogue. A new dataset therefore only
needs a folder. The code of a dataset is imported only when its reader is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from mate_cli.data import datasets
from mate_cli.errors import DataError
from mate_cli.files.papers import find_packages

if TYPE_CHECKING:
    from mate_cli.data.download import RemoteFile
    from mate_cli.tables.example import TableExample

FILE = "release.json"


class TableDataset(Protocol):
    """Protocol of a dataset reader, which returns each split as a list of `TableExample`."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits that can be read, such as ("train", "dev").

        Raises:
            DataError: the data are missing and cannot be downloaded.
        """

    @property
    def facts(self) -> Mapping[str, str]:
        """Notes on the training data, such as excluded questions, for the run record."""

    def examples(self, split: str) -> list[TableExample]:
        """Return all questions of a split as examples."""


@dataclass(frozen=True)
class DatasetInfo:
    """Metadata of a dataset, read from its `release.json`: names, licence, files, statistics.

    For the licence, the statement of the authors is authoritative.

    Args:
        name: name of the dataset's folder, and of its file in `conf/data`.
        title: human-readable name of the dataset.
        licence: lower-case identifier of the licence on the Hugging Face Hub, or "other" if there is none.
        terms: human-readable licence.
        splits: all splits that the dataset can have.
        evaluation: splits whose tables must not be used for pre-training.
        reader: class in the dataset's `reader.py`, or a module next to the folder and its class
            (`passage_readers.SQuAD`).
        homepage: homepage of the dataset. None for a dataset of this package.
        hub_name: name on the Hugging Face Hub. None if the dataset is not there.
        files: files of the public release, see `RemoteFile`.
        published: number of questions, tables, ... of the whole release, as published by its authors.
        papers: statistics of the whole release in papers: `source`, `counts` by split ("all" for all splits) and
            `means` of sizes, under the names used by `mate data check`.
        shipped: whether the files are part of the package.
        package: Python package of the dataset's folder.
    """

    name: str
    title: str
    licence: str
    terms: str
    splits: Sequence[str]
    evaluation: Sequence[str]
    reader: str
    homepage: str | None = None
    hub_name: str | None = None
    files: Sequence[Mapping[str, str | None]] = ()
    published: Mapping[str, int] = field(default_factory=dict)
    papers: Sequence[Mapping[str, Any]] = ()
    shipped: bool = False
    package: str = datasets.__name__

    def __post_init__(self) -> None:
        if set(self.evaluation) - set(self.splits):
            raise ValueError(
                f"evaluation splits {', '.join(self.evaluation)} are not all among the splits {', '.join(self.splits)}"
            )

    @property
    def remote_files(self) -> tuple[RemoteFile, ...]:
        """Download addresses, destinations and checksums of the files of the public release."""
        from mate_cli.data.download import RemoteFile

        return tuple(RemoteFile(**cast(dict[str, Any], file)) for file in self.files)

    @property
    def target(self) -> str:
        """Import path of the reader class, which is the `_target_` of its configuration."""
        return f"{self.package}.{self.reader if '.' in self.reader else f'{self.name}.reader.{self.reader}'}"

    def open(self, root: Path, *, as_written: bool = False, **options: Any) -> TableDataset:
        """Create the reader of the dataset, an object with `splits` and `examples`.

        Args:
            root: folder of the files. Ignored if the files are part of the package.
            as_written: whether cells stay as written by the authors, see `Release`.
            options: further arguments of the reader.
        """
        module, _, name = self.target.rpartition(".")
        reader = getattr(import_module(module), name)
        options |= getattr(reader, "as_written", {}) if as_written else {}
        return cast(TableDataset, reader(**options) if self.shipped else reader(root, **options))


def require_train(dataset: TableDataset) -> None:
    """Raise `DataError` if no task can train on a dataset, or its train split is missing.

    Raises:
        DataError: no task fits the dataset, or the train split is missing and cannot be downloaded.
    """
    if reason := getattr(dataset, "untrainable", ""):
        hint = "Score answers with mate evaluate answers=; docs/reference/data.md names the tasks of each dataset"
        raise DataError(f"{reason}: no task trains on it", where=type(dataset).__name__, remedy=hint)
    if "train" not in dataset.splits:
        # Raises the error for the missing files.
        dataset.examples("train")


def dataset_names() -> tuple[str, ...]:
    """Return the names of all datasets, sorted."""
    return tuple(sorted(_folders()))


def all_datasets() -> list[DatasetInfo]:
    """Return the `DatasetInfo` of every dataset, sorted by name."""
    return [read_info(folder) for _, folder in sorted(_folders().items())]


def find_dataset(name: str) -> DatasetInfo:
    """Return the `DatasetInfo` of the dataset with this name.

    Raises:
        DataError: the dataset does not exist.
    """
    folder = _folders().get(name)
    if folder is None:
        raise DataError("is not a dataset", where=name, remedy=f"Datasets are {', '.join(dataset_names())}")
    return read_info(folder)


def evaluation_splits() -> tuple[str, ...]:
    """Return the evaluation splits of all datasets, each as `<dataset>/<split>`."""
    return tuple(f"{info.name}/{split}" for info in all_datasets() for split in info.evaluation)


def find_info(reader: type) -> DatasetInfo | None:
    """Return the `DatasetInfo` of the dataset that a reader class reads.

    The dataset may be that of a base class.

    Return None if the class reads no dataset of the catalogue.
    """
    info_by_target = {info.target: info for info in all_datasets()}
    names = (f"{base_class.__module__}.{base_class.__qualname__}" for base_class in reader.__mro__)
    return next((info_by_target[name] for name in names if name in info_by_target), None)


def read_info(folder: Path) -> DatasetInfo:
    """Read the description of a dataset from the `release.json` of its folder.

    Raises:
        DataError: the file is not JSON, or has invalid keys.
    """
    file = folder / FILE
    try:
        homes = {folder_of_package: name for name, folder_of_package in find_packages("datasets").items()}
        package = homes.get(folder.parent, datasets.__name__)
        return DatasetInfo(name=folder.name, package=package, **json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        hint = f"See {DatasetInfo.__name__}"
        raise DataError(f"does not describe a dataset ({error})", where=str(file), remedy=hint) from error


def _folders() -> dict[str, Path]:
    """Find the dataset folders (with `release.json`) of mate and its papers, by dataset name."""
    parents = [*map(Path, datasets.__path__), *find_packages("datasets").values()]
    folders = (file.parent for parent in parents for file in parent.glob(f"*/{FILE}"))
    return {folder.name: folder for folder in folders}
