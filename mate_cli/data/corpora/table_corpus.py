"""Corpus of tables for pre-training, without duplicates and evaluation tables."""

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

from mate_cli.data.check import CheckReport, Problem, Sizes, format_counts
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
"""Maximum number of characters of the texts of a held-out table. Further text is ignored."""
LAYOUT = 2
"""Version of the file layout of prepared corpora. If it is increased, every corpus is prepared again."""


def mask_table(
    serializer: MaskingSerializer, name: str, table: Callable[[], CorpusTable], generator: np.random.Generator
) -> Sequence[TableEncoding]:
    """Encode a random window of a table with masked tokens, as one MLM training example.

    The window includes some of the texts about the table.

    The tokens of the table are cached under `name`.

    Args:
        serializer: serializer that masks tokens.
        name: key of the table, and id of the example.
        table: function that reads the table if it is not cached.
        generator: source of randomness.
    """
    tokenized = serializer.split_table(name, lambda: table().content)
    return [serializer.mask(tokenized, GeneratorDraws(generator), name)]


@dataclass(eq=False)
class TableCorpus(StreamedDataset):
    """A cached corpus of tables, without duplicates and without tables of evaluation splits.

    The record of a run counts the excluded tables by reason. One table in a thousand, but at least 16 per file (a
    tenth of small files), is held out as split "dev".

    Args:
        datasets: folder with a subfolder for each dataset.
        cache: folder of the cache, which contains prepared corpora.
        sources: names of datasets, folders or files of tables (csv, tsv, json, jsonl, parquet, xlsx), or published
            interactions (.txtpb, .txtpb.gz).
        exclude: evaluation splits whose tables are excluded, as `<dataset>/<split>`. Tables of splits that are not on
            disk cannot be excluded. None means the evaluation splits of all datasets.
        shards: paths or patterns of Parquet files, which replace `sources`. They are read unchanged, without excluding
            any table. See the module `shards`.
        masks: "dynamic" generates other examples of a table in every epoch, "static" always the same.
        name: name of the dataset in commands and records.
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
        """Return a function that samples a training example from a corpus table and encodes it.

        Raises:
            ConfigError: the serializer is not a `MaskingSerializer`.
        """
        if not isinstance(serializer, MaskingSerializer):
            raise ConfigError("this encoding does not mask tokens", where="encoding", remedy="Use encoding=masked")
        return partial(mask_table, serializer)

    @cached_property
    def files(self) -> list[Shard]:
        """Files of the corpus, which is prepared on first access.

        Raises:
            DataError: a source is missing or damaged, or no tables are left.
        """
        if self.shards:
            return open_shards([path for pattern in self.shards for path in _find_shards(pattern)])
        if not self._manifest.is_file():
            self._prepare()
        return open_shards(sorted(self.folder.glob("*.parquet")))

    @cached_property
    def folder(self) -> Path:
        """Path of the prepared corpus, whose name is a hash of the options and sources."""
        return self.cache / "corpora" / self.fingerprint

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the options and of the source files, by size and modification time."""
        dataset_names = {*self.sources, *(name.partition("/")[0] for name in self.excluded)}
        paths = [self.datasets / name for name in dataset_names]
        paths += [Path(source).expanduser() for source in self.sources]
        files = [file for path in paths for file in (path, *path.rglob("*")) if file.is_file()]
        versions = sorted({(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files})
        content = [LAYOUT, tuple(self.sources), sorted(self.excluded), tuple(self.shards), versions]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:24]

    @property
    def facts(self) -> dict[str, str]:
        """Notes for the run record, such as the number of tables excluded from the corpus."""
        if self.shards:
            return {"corpus": f"{len(self.files)} files as they are; not checked for tables of evaluation splits"}
        counts, unchecked = self._counts()
        unchecked_note = {"corpus, not checked (not on disk)": ", ".join(unchecked)} if unchecked else {}
        return {f"corpus, {name}": format_counts(part) for name, part in counts.items() if part} | unchecked_note

    def check_sources(self) -> None:
        """Raise `DataError` if the corpus is not yet prepared and one of its sources is missing.

        Raises:
            DataError: a source does not exist.
        """
        for source in () if self.is_prepared else self.sources:
            Sources(self.datasets).require(source)

    @property
    def is_prepared(self) -> bool:
        """True if the tables can be read without preparing the corpus."""
        return bool(self.shards) or self._manifest.is_file()

    def tables(self) -> Iterator[CorpusTable]:
        """Yield all tables, including held-out tables, in a deterministic order."""
        for shard in self.files:
            yield from read_shard(shard.path)

    def examples(self, split: str) -> list[TableExample]:
        """Return one example per held-out table if `split` is "dev".

        The question has one text about the table per line.

        Other splits are empty, because training examples are streamed.
        """
        if split != "dev":
            return []
        tables = (table for shard in self.files for table in islice(read_shard(shard.path), shard.held_out))
        return [TableExample(t.key, "\n".join(t.texts)[:MAX_TEXT_LENGTH], t.table, Answer(())) for t in tables]

    def check(self) -> CheckReport:
        """Prepare the corpus, and report its table counts, exclusions by reason, and table sizes."""
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
        preparation_counts, unchecked = self._counts()
        note = f"not checked for tables of {', '.join(unchecked)}: not on disk in {self.datasets}"
        notes = [Problem("corpus", "", note)] if unchecked else []
        return CheckReport((), counts | preparation_counts, sizes.percentiles(), notes)

    def _counts(self) -> tuple[dict[str, dict[str, int]], list[str]]:
        """Return the table counts of the corpus, and the evaluation splits missing at preparation.

        Tables of missing splits are not excluded from the corpus.
        """
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
    def _written_parts(self) -> tuple[list[tuple[str, Path]], dict[str, int]]:
        """Intermediate files (parts) as (source, path), and table counts of evaluation splits.

        The counts are those of the tables that the corpus must not contain.

        The first access writes the parts that do not exist.
        """
        sources = Sources(self.datasets)
        evaluation, excluded = read_evaluation(sources, self.excluded)
        return write_parts(self._parts, sources, self.sources, evaluation, self._manifest), excluded

    def prepare_share(self) -> None:
        """Write intermediate files of the corpus that no other process has written yet.

        Several processes can share this work.

        The first access to `files` then merges them.

        Raises:
            DataError: a source is missing or damaged, or the parts cannot be written.
        """
        if not self.is_prepared:
            with self._writing():
                self._written_parts  # noqa: B018 - writes them

    def _prepare(self) -> None:
        """Write the corpus atomically, to a temporary folder that is renamed once it is complete.

        Processes share the work, and an interrupted preparation is resumed.
        """
        with self._writing():
            parts, excluded = self._written_parts
            with replace_file(self.folder) as draft:
                draft.mkdir()
                counts = merge_parts(parts, draft)
                (draft / "counts.json").write_text(json.dumps(counts | {"excluded": excluded}, indent=2))
        rmtree(self._parts, ignore_errors=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            # If the manifest exists, another process has finished the corpus.
            if not self._manifest.is_file():
                hint = "Free space or choose another folder with paths.cache=..."
                problem = f"cannot be written: {error.strerror}"
                raise DataError(problem, where=str(self.folder), remedy=hint) from error


def _find_shards(pattern: str) -> list[Path]:
    path = Path(pattern).expanduser()
    paths = [path] if path.is_file() else sorted(path.parent.glob(path.name)) if path.name else []
    files = [file for path in paths for file in (sorted(path.glob("*.parquet")) if path.is_dir() else [path])]
    if not files:
        hint = "Name Parquet files, a folder of them or a pattern"
        raise DataError("there is no such file", where=pattern, remedy=hint)
    return files
