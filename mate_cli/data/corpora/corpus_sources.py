"""Sources of tables for pre-training: datasets by their names, folders of table files, published interactions."""

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
"""Of one's own table; networks read fewer."""

Reader = Callable[[], Iterator[CorpusTable | str]]
"""Yields tables, or texts that say which file cannot be read, and why."""


class Sources:
    """Reads tables from datasets, each in a folder of its name, and from folders and files."""

    def __init__(self, datasets: Path) -> None:
        self.datasets = datasets
        self._read: dict[str, TableDataset] = {}

    def is_on_disk(self, name: str) -> bool:
        """Tell whether anything of a dataset is on disk.

        Raises:
            DataError: there is no such dataset.
        """
        info = find_dataset(name)
        return info.shipped or any(path.is_file() for path in (self.datasets / name).rglob("*"))

    def require(self, source: str) -> None:
        """Refuse a source that is not there, without reading it.

        Raises:
            DataError: there is no such source.
        """
        if source in dataset_names():
            self._dataset(source)
        elif not Path(source).expanduser().exists():
            known = ", ".join(dataset_names())
            raise DataError("is not a dataset, folder or file", where=source, remedy=f"Datasets are {known}")

    def readers(self, source: str) -> Iterator[Reader]:
        """Yield what reads the tables of a dataset (of all its splits), or each table of a folder or a file.

        They come in an order that never changes; nothing is parsed before a reader is called.

        Raises:
            DataError: there is no such source.
        """
        self.require(source)
        if source in dataset_names():
            yield partial(self._tables, source)
        else:
            yield from _files(Path(source).expanduser())

    def _tables(self, name: str) -> Iterator[CorpusTable]:
        dataset = self._dataset(name)
        for table in _distinct(chain(*(dataset.examples(split) for split in dataset.splits))):
            yield CorpusTable.of(table, name)

    def split(self, name: str, split: str) -> Iterator[Table]:
        """Yield the tables of a dataset's split; none where the split is not on disk.

        Raises:
            DataError: there is no such dataset.
        """
        dataset = self._dataset(name)
        if split in dataset.splits:
            yield from _distinct(dataset.examples(split))

    def forget(self, name: str) -> None:
        """Free what was read of a dataset."""
        self._read.pop(name, None)

    def _dataset(self, name: str) -> TableDataset:
        info = find_dataset(name)
        root = self.datasets / name
        if not self.is_on_disk(name):
            get = f"mate data download data={name} {format_setting('data.root', root)}"
            remedy = f"Get it with {get}, or leave it out"
            raise DataError("the dataset is not on disk", where=str(root), remedy=remedy)
        if name not in self._read:
            self._read[name] = info.open(root, as_written=True, damaged="skip")
        return self._read[name]


def _distinct(examples: Iterable[TableExample]) -> list[Table]:
    return list({id(example.table): example.table for example in examples}.values())


def _files(path: Path) -> Iterator[Reader]:
    """Yield what reads each table of a file, or of all files of a folder."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.name.endswith(INTERACTIONS):
            yield from (partial(_of_corpus, make, path.name) for make in read_interactions(file))
        elif file.suffix.lower() in PARQUET and is_corpus(file):
            yield from (partial(_of_corpus, make, path.name) for make in read_rows(file))
        elif file.suffix.lower() in SUFFIXES and file.is_file():
            yield partial(_of_file, file, path)


def _of_corpus(make: Callable[[], CorpusTable], source: str) -> Iterator[CorpusTable]:
    table = make()
    yield replace(table, source=table.source or source)


def _of_file(file: Path, path: Path) -> Iterator[CorpusTable | str]:
    """Yield the one table of a file; of one in a folder that cannot be read, its name and the reason."""
    try:  # nobody would see what encoding was guessed of one among thousands
        opened = open_table(file, ReadOptions(encoding="utf-8"))
        table = opened.table(range(min(len(opened), MAX_ROWS)))
    except MateError as error:
        if not path.is_dir():
            raise
        yield f"{file.name} ({error.problem})"
        return
    said = file.stem.replace("_", " ").replace("-", " ")
    yield CorpusTable.of(table, path.name, () if table.title else (said,))
