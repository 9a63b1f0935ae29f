"""The tables that networks are pre-trained on: many sources, each table once, none of an evaluation split."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from shutil import rmtree

import numpy as np

from mate_cli.data.check import CheckReport, Problem, Sizes, counts_in_words
from mate_cli.data.corpora.corpus_sources import Sources
from mate_cli.data.corpora.preparation import merge_parts, read_evaluation, write_parts
from mate_cli.data.corpora.shards import CorpusTable, Shard, open_shards, read_shard
from mate_cli.data.datasets.catalogue import evaluation_splits
from mate_cli.data.loading.stream import Maker, Masks, StreamedDataset
from mate_cli.errors import ConfigError, DataError
from mate_cli.files.atomic import replace_file
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tokenization.layout import TableEncoding
from mate_cli.tokenization.serializers.masking import GeneratorDraws, MaskingSerializer
from mate_cli.tokenization.serializers.serializer import Serializer

MAX_TEXT_LENGTH = 2000
"""Characters of what is said of a table that is held out; the rest is not looked at."""
LAYOUT = 2
"""Changes when prepared corpora have to be made again."""


def mask_table(
    serializer: MaskingSerializer, name: str, table: Callable[[], CorpusTable], generator: np.random.Generator
) -> Sequence[TableEncoding]:
    """Make one example of masked language modelling; a table is split into word pieces the first time only."""
    known = serializer.split_table(name, lambda: table().content)
    return [serializer.mask(known, GeneratorDraws(generator), name)]


@dataclass(eq=False)
class TableCorpus(StreamedDataset):
    """A corpus, prepared once: read from its sources, rid of repeated tables and of those of evaluation splits.

    The record of a run says how many tables were left out and why. One table in a thousand, but 16 of each file
    where that is less, is not learnt from: these are the split "dev".

    Args:
        datasets: the folder in which each dataset has a folder of its name.
        cache: where the prepared corpus is kept.
        sources: datasets by name, folders or files of tables (csv, tsv, json, jsonl, parquet, xlsx), or published
            interactions (.txtpb, .txtpb.gz).
        exclude: the splits whose tables are left out, as `<dataset>/<split>`; those that are not on disk are not. None:
            the evaluation splits of every dataset that there is.
        shards: in place of sources, Parquet files that are read as they are, see `shards`: paths or patterns. What is
            in them is left out by nobody.
        masks: "dynamic" makes other examples of a table in every epoch, "static" always the same.
        name: the dataset's name in commands and records.
    """

    datasets: Path
    cache: Path
    sources: Sequence[str] = ("hybridqa", "wtq", "tabfact", "sqa")
    exclude: Sequence[str] | None = None
    shards: Sequence[str] = ()
    masks: Masks = "dynamic"
    name: str = "corpus"

    def __post_init__(self) -> None:
        self.datasets, self.cache = Path(self.datasets).expanduser(), Path(self.cache).expanduser()
        self.excluded = evaluation_splits() if self.exclude is None else tuple(self.exclude)

    def maker(self, serializer: Serializer) -> Maker:
        """Build the maker of the examples that are learnt from.

        Raises:
            ConfigError: the serializer masks nothing.
        """
        if not isinstance(serializer, MaskingSerializer):
            raise ConfigError("this encoding does not mask tokens", where="encoding", remedy="Use encoding=masked")
        return partial(mask_table, serializer)

    @cached_property
    def files(self) -> list[Shard]:
        """The files of the corpus; prepared where they are not there yet.

        Raises:
            DataError: a source is missing or damaged, or no tables are left.
        """
        if self.shards:
            return open_shards([path for pattern in self.shards for path in _matching(pattern)])
        if not self._manifest.is_file():
            self._prepare()
        return open_shards(sorted(self.folder.glob("*.parquet")))

    @cached_property
    def folder(self) -> Path:
        """Folder of the prepared corpus."""
        return self.cache / "corpora" / self.fingerprint

    @cached_property
    def fingerprint(self) -> str:
        """Equal for corpora of the same tables: the same files, by size and time, and the same options."""
        named = {*self.sources, *(name.partition("/")[0] for name in self.excluded)}
        paths = [self.datasets / name for name in named]
        paths += [Path(source).expanduser() for source in self.sources]
        files = [file for path in paths for file in _files_below(path)]
        versions = sorted({(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files})
        content = [LAYOUT, tuple(self.sources), sorted(self.excluded), tuple(self.shards), versions]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:24]

    @property
    def facts(self) -> dict[str, str]:
        """Facts of the corpus for the record of a run."""
        if self.shards:
            return {"corpus": f"{len(self.files)} files as they are; not checked for tables of evaluation splits"}
        counts, unchecked = self._counts()
        missing = {"corpus, not checked (not on disk)": ", ".join(unchecked)} if unchecked else {}
        return {f"corpus, {name}": counts_in_words(part) for name, part in counts.items() if part} | missing

    def check_sources(self) -> None:
        """Refuse sources that are not there, where they are to be read.

        Raises:
            DataError: naming the first of them.
        """
        for source in () if self.is_prepared else self.sources:
            Sources(self.datasets).require(source)

    @property
    def is_prepared(self) -> bool:
        """The tables can be read without writing anything."""
        return bool(self.shards) or self._manifest.is_file()

    def tables(self) -> Iterator[CorpusTable]:
        """Return all tables, also those held out, in an order that never changes."""
        for shard in self.files:
            yield from read_shard(shard.path)

    def examples(self, split: str) -> list[TableExample]:
        """Return the tables that are held out, with what is said of them as the question, a text in each line.

        There are none of other splits: what is learnt from is streamed.
        """
        if split != "dev":
            return []
        tables = (table for shard in self.files for table in islice(read_shard(shard.path), shard.held_out))
        return [_held_out_example(table) for table in tables]

    def check(self) -> CheckReport:
        """Prepare the corpus and report what is in it, what was left out and why, and how large the tables are."""
        sizes = Sizes()
        count = 0
        for table in self.tables():
            count += 1
            sizes.add_table(table.table)
            sizes.add("words describing a table", sum(len(text.split()) for text in table.texts))
        held_out = sum(shard.held_out for shard in self.files)
        counts = {"corpus": {"tables": count, "held out": held_out}}
        if self.shards:
            return CheckReport((), counts, sizes.percentiles())
        prepared, unchecked = self._counts()
        what = f"not checked for tables of {', '.join(unchecked)}: not on disk in {self.datasets}"
        notes = [Problem("corpus", "", what)] if unchecked else []
        return CheckReport((), counts | prepared, sizes.percentiles(), notes)

    def _counts(self) -> tuple[dict[str, dict[str, int]], list[str]]:
        """Return the counts of the preparation, and the evaluation splits that were not on disk then."""
        self.files  # noqa: B018 - prepares it
        counts: dict[str, dict[str, int]] = json.loads(self._manifest.read_text())
        unchecked = [split for split, count in counts["excluded"].items() if not count]
        return counts | {"excluded": {split: count for split, count in counts["excluded"].items() if count}}, unchecked

    @property
    def _manifest(self) -> Path:
        return self.folder / "counts.json"

    @property
    def _parts(self) -> Path:
        return self.folder.with_suffix(".parts")

    @cached_property
    def _written(self) -> tuple[list[tuple[str, Path]], dict[str, int]]:
        """The parts, written where nobody else has, with their sources; and how many tables of evaluation there are."""
        sources = Sources(self.datasets)
        evaluation, excluded = read_evaluation(sources, self.excluded)
        return write_parts(self._parts, sources, self.sources, evaluation, self._manifest), excluded

    def prepare_share(self) -> None:
        """Write the parts of the corpus beside other processes: the first that asks for `files` only merges them.

        Raises:
            DataError: a source is missing or damaged, or the parts cannot be written.
        """
        if not self.is_prepared:
            with self._writing():
                self._written  # noqa: B018 - writes them

    def _prepare(self) -> None:
        """Write the corpus, whole or not at all; what was killed goes on, and processes share the work."""
        with self._writing():
            written, excluded = self._written
            with replace_file(self.folder) as draft:
                draft.mkdir()
                counts = merge_parts(written, draft)
                (draft / "counts.json").write_text(json.dumps(counts | {"excluded": excluded}, indent=2))
        rmtree(self._parts, ignore_errors=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._manifest.is_file():  # else another process was faster
                remedy = "Free space or choose another folder with paths.cache=..."
                problem = f"cannot be written: {error.strerror}"
                raise DataError(problem, where=str(self.folder), remedy=remedy) from error


def _held_out_example(table: CorpusTable) -> TableExample:
    return TableExample(table.key, "\n".join(table.texts)[:MAX_TEXT_LENGTH], table.table, Answer(()))


def _files_below(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else []


def _matching(pattern: str) -> list[Path]:
    path = Path(pattern).expanduser()
    paths = [path] if path.is_file() else sorted(path.parent.glob(path.name)) if path.name else []
    files = [file for path in paths for file in (sorted(path.glob("*.parquet")) if path.is_dir() else [path])]
    if not files:
        raise DataError(
            "there is no such file", where=pattern, remedy="Name Parquet files, a folder of them or a pattern"
        )
    return files
