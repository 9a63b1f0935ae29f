"""Sources of tables for pre-training: datasets, table files and published interactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from mate_cli.data.corpora.interactions import INTERACTIONS, read_interactions
from mate_cli.data.corpora.shards import CorpusTable, is_corpus, read_rows
from mate_cli.data.datasets.catalogue import TableDataset, dataset_names, find_dataset
from mate_cli.errors import DataError, MateError
from mate_cli.quoting import format_setting
from mate_cli.tables.example import TableExample
from mate_cli.tables.read import SUFFIXES, open_table
from mate_cli.tables.read_options import ReadOptions
from mate_cli.tables.table import Table

PARQUET = (".parquet", ".pq")
MAX_ROWS = 1000
"""Maximum number of rows to read from a table file. Networks read fewer rows."""

Reader = Callable[[], Iterator[CorpusTable | str]]
"""Function that yields the tables of one source. For an unreadable file, it yields a text with its name and the
reason."""


class Sources:
    """Reader of the pre-training tables of sources: names of datasets, folders and files.

    Args:
        datasets: folder with a subfolder for each dataset.
    """

    def __init__(self, datasets: Path) -> None:
        self.datasets = datasets
        self._datasets: dict[str, TableDataset] = {}

    def is_on_disk(self, name: str) -> bool:
        """Return whether at least one file of a dataset exists in the folder of datasets.

        Raises:
            DataError: the name is not a dataset.
        """
        info = find_dataset(name)
        return info.shipped or any(path.is_file() for path in (self.datasets / name).rglob("*"))

    def require(self, source: str) -> None:
        """Raise `DataError` if a source of tables does not exist, without reading the source.

        Raises:
            DataError: the source does not exist.
        """
        if source in dataset_names():
            self._dataset(source)
        elif not Path(source).expanduser().exists():
            dataset_list = ", ".join(dataset_names())
            raise DataError("is not a dataset, folder or file", where=source, remedy=f"Datasets are {dataset_list}")

    def readers(self, source: str) -> Iterator[Reader]:
        """Yield functions that read the tables of a source, which is a dataset, folder or file.

        A dataset has one function for all tables. A folder or file has one function per table.

        The order is deterministic. Files are parsed only if the reader is called.

        Raises:
            DataError: the source does not exist.
        """
        self.require(source)
        if source in dataset_names():
            yield partial(self._tables, source)
        else:
            yield from _files(Path(source).expanduser())

    def _tables(self, name: str) -> Iterator[CorpusTable]:
        dataset = self._dataset(name)
        for table in _distinct(chain(*(dataset.examples(split) for split in dataset.splits))):
            yield CorpusTable.build(table, name)

    def split(self, name: str, split: str) -> Iterator[Table]:
        """Yield the distinct tables of a dataset's split, or nothing if the split is not on disk.

        Raises:
            DataError: the name is not a dataset.
        """
        dataset = self._dataset(name)
        if split in dataset.splits:
            yield from _distinct(dataset.examples(split))

    def forget(self, name: str) -> None:
        """Remove a dataset's reader from the cache, to free the memory of its tables."""
        self._datasets.pop(name, None)

    def _dataset(self, name: str) -> TableDataset:
        info = find_dataset(name)
        root = self.datasets / name
        if not self.is_on_disk(name):
            get = f"mate data download data={name} {format_setting('data.root', root)}"
            hint = f"Get it with {get}, or leave it out"
            raise DataError("the dataset is not on disk", where=str(root), remedy=hint)
        if name not in self._datasets:
            self._datasets[name] = info.open(root, as_written=True, damaged="skip")
        return self._datasets[name]


def _distinct(examples: Iterable[TableExample]) -> list[Table]:
    return list({id(example.table): example.table for example in examples}.values())


def _files(path: Path) -> Iterator[Reader]:
    """Yield a function that reads one table, for each table of a file or folder."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.name.endswith(INTERACTIONS):
            yield from (partial(_of_corpus, read_table, path.name) for read_table in read_interactions(file))
        elif file.suffix.lower() in PARQUET and is_corpus(file):
            yield from (partial(_of_corpus, read_table, path.name) for read_table in read_rows(file))
        elif file.suffix.lower() in SUFFIXES and file.is_file():
            yield partial(_of_file, file, path)


def _of_corpus(read_table: Callable[[], CorpusTable], source: str) -> Iterator[CorpusTable]:
    table = read_table()
    yield replace(table, source=table.source or source)


def _of_file(file: Path, path: Path) -> Iterator[CorpusTable | str]:
    """Yield the table that a file contains, or an error text if the file is unreadable.

    The error text consists of the file name and the reason.

    Args:
        file: file to read.
        path: source that contains the file. If it is the file itself, `DataError` is raised for an unreadable file.
    """
    # The encoding is fixed, because a wrong guess would go unnoticed among thousands of files.
    try:
        reader = open_table(file, ReadOptions(encoding="utf-8"))
        table = reader.table(range(min(len(reader), MAX_ROWS)))
    except MateError as error:
        if not path.is_dir():
            raise
        yield f"{file.name} ({error.problem})"
        return
    caption = file.stem.replace("_", " ").replace("-", " ")
    yield CorpusTable.build(table, path.name, () if table.title else (caption,))
