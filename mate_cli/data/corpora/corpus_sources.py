"""Sources of tables for pre-training: datasets by their names, folders of table files, published interactions."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from mate_cli.data.corpora.interactions import INTERACTIONS, read_interactions
from mate_cli.data.corpora.shards import CorpusTable, is_corpus, read_shard
from mate_cli.data.datasets.catalogue import Dataset, dataset_names, find_dataset
from mate_cli.errors import DataError, MateError
from mate_cli.quoting import format_setting
from mate_cli.tables.example import TableExample
from mate_cli.tables.read import SUFFIXES, open_table
from mate_cli.tables.read_options import ReadOptions
from mate_cli.tables.table import Table

PARQUET = (".parquet", ".pq")
MAX_ROWS = 1000
"""Of one's own table; networks read fewer."""


class Sources:
    """Reads tables from datasets, each in a folder of its name, and from folders and files."""

    def __init__(self, datasets: Path) -> None:
        self.datasets = datasets
        self._read: dict[str, Dataset] = {}

    def is_on_disk(self, name: str) -> bool:
        """Tell whether anything of a dataset is on disk.

        Raises:
            DataError: there is no such dataset.
        """
        info = find_dataset(name)
        return info.shipped or any(path.is_file() for path in (self.datasets / info.folder).rglob("*"))

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

    def tables(self, source: str) -> Iterator[CorpusTable]:
        """Yield the tables of a dataset (of all its splits), a folder or a file, in an order that never changes.

        Raises:
            DataError: there is no such source.
        """
        self.require(source)
        if source in dataset_names():
            dataset = self._dataset(source)
            for table in _distinct(chain(*(dataset.examples(split) for split in dataset.splits))):
                yield CorpusTable.of(table, source)
            return
        yield from _files(Path(source).expanduser())

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

    def _dataset(self, name: str) -> Dataset:
        info = find_dataset(name)
        root = self.datasets / info.folder
        if not self.is_on_disk(name):
            get = f"mate data download data={info.folder} {format_setting('data.root', root)}"
            remedy = f"Get it with {get}, or leave it out"
            raise DataError("the dataset is not on disk", where=str(root), remedy=remedy)
        if name not in self._read:
            self._read[name] = info.open(root, damaged="skip", **info.corpus)
        return self._read[name]


def _distinct(examples: Iterable[TableExample]) -> list[Table]:
    return list({id(example.table): example.table for example in examples}.values())


def _files(path: Path) -> Iterator[CorpusTable]:
    """Yield the tables of a file, or of all files of a folder that can be read; of others a warning tells."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    left_out = []
    for file in files:
        if file.name.endswith(INTERACTIONS):
            yield from read_interactions(file)
        elif file.suffix.lower() in SUFFIXES and file.is_file():
            try:
                yield from _table_files(file, path.name)
            except MateError as error:
                if not path.is_dir():
                    raise
                left_out.append(f"{file.name} ({error.problem})")
    if left_out:
        warnings.warn(f"{path}: {len(left_out)} files left out: {', '.join(left_out[:5])}", stacklevel=2)


def _table_files(file: Path, source: str) -> Iterator[CorpusTable]:
    """Yield the tables of a Parquet file of a corpus, or the one table of any other file."""
    if file.suffix.lower() in PARQUET and is_corpus(file):
        for one in read_shard(file):
            yield replace(one, source=one.source or source)
        return
    opened = open_table(file, ReadOptions(encoding="utf-8"))  # nobody would see what was guessed of one among thousands
    table = opened.table(range(min(len(opened), MAX_ROWS)))
    said = file.stem.replace("_", " ").replace("-", " ")
    yield CorpusTable.of(table, source, () if table.title else (said,))
