"""Find the datasets: every folder beside this file, or in `datasets` of a paper, that holds a `release.json`.

Corpora, contamination checks, benchmarks, model cards and `mate data` ask here, so that a dataset is added by its
folder alone. Nothing of a folder is imported before its reader is asked for.
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
    """A dataset as its authors ship it."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that there are.

        Raises:
            DataError: the data are neither there nor to be fetched.
        """

    @property
    def facts(self) -> Mapping[str, str]:
        """Notes on the training data for the record, in words."""

    def examples(self, split: str) -> list[TableExample]:
        """Return all questions of a split."""


@dataclass(frozen=True)
class DatasetInfo:
    """Content of the `release.json` of a dataset; of its licence it is the authors' word that counts.

    Args:
        name: of its folder, and of its file in `conf/data`.
        title: the dataset, for people.
        licence: its short name in lower case, as the Hugging Face hub writes it; "other" where it has none there.
        terms: the licence in words.
        splits: all that there can be.
        evaluation: those whose tables no network may be pre-trained on.
        reader: the class in its `reader.py`, or a module beside the folder and its class (`passage_readers.SQuAD`).
        homepage: where the dataset comes from, where that is elsewhere.
        hub_name: its name on the Hugging Face hub, where it has one.
        files: of the public release, see `RemoteFile`.
        published: how many questions, tables, ... the whole release has, by its authors.
        papers: what papers say of the whole release: `source`, `counts` by split ("all" is of all) and `means` of
            sizes, under the names that a check gives them.
        shipped: the files come with the package.
        package: whose folder it is in.
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
        """The files of the public release."""
        from mate_cli.data.download import RemoteFile

        return tuple(RemoteFile(**cast(dict[str, Any], file)) for file in self.files)

    @property
    def target(self) -> str:
        """The reader, as `_target_` names it."""
        return f"{self.package}.{self.reader if '.' in self.reader else f'{self.name}.reader.{self.reader}'}"

    def open(self, root: Path, *, as_written: bool = False, **options: Any) -> TableDataset:
        """Build the reader with its options, and the folder of its files where they do not come with the package.

        Cells may be `as_written` by the authors, see `Release`.
        """
        module, _, name = self.target.rpartition(".")
        reader = getattr(import_module(module), name)
        options |= getattr(reader, "as_written", {}) if as_written else {}
        return cast(TableDataset, reader(**options) if self.shipped else reader(root, **options))


def require_train(dataset: TableDataset) -> None:
    """Refuse data to train on that are neither there nor to be fetched.

    Raises:
        DataError: saying what is missing.
    """
    if "train" not in dataset.splits:
        dataset.examples("train")  # says what is missing


def dataset_names() -> tuple[str, ...]:
    """Return the names of all datasets, sorted."""
    return tuple(sorted(_folders()))


def all_datasets() -> list[DatasetInfo]:
    """List the information on every dataset, by name."""
    return [read_info(folder) for _, folder in sorted(_folders().items())]


def find_dataset(name: str) -> DatasetInfo:
    """Find the information on a dataset.

    Raises:
        DataError: there is no such dataset.
    """
    folder = _folders().get(name)
    if folder is None:
        raise DataError("is not a dataset", where=name, remedy=f"Datasets are {', '.join(dataset_names())}")
    return read_info(folder)


def evaluation_splits() -> tuple[str, ...]:
    """Return the splits for evaluation of all datasets, each as `<dataset>/<split>`."""
    return tuple(f"{info.name}/{split}" for info in all_datasets() for split in info.evaluation)


def find_info(reader: type) -> DatasetInfo | None:
    """Find the dataset of a reader, or of a class that it inherits from; None where there is none."""
    known = {info.target: info for info in all_datasets()}
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in reader.__mro__)
    return next((known[name] for name in names if name in known), None)


def read_info(folder: Path) -> DatasetInfo:
    """Read the `release.json` of a folder.

    Raises:
        DataError: it is not JSON, or has other keys than it should.
    """
    file = folder / FILE
    try:
        homes = {place: name for name, place in find_packages("datasets").items()}
        package = homes.get(folder.parent, datasets.__name__)
        return DatasetInfo(name=folder.name, package=package, **json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise DataError(
            f"does not describe a dataset ({error})", where=str(file), remedy=f"See {DatasetInfo.__name__}"
        ) from error


def _folders() -> dict[str, Path]:
    """Return the folder of each dataset, by name."""
    places = [*map(Path, datasets.__path__), *find_packages("datasets").values()]
    folders = (file.parent for place in places for file in place.glob(f"*/{FILE}"))
    return {folder.name: folder for folder in folders}
