"""Base class of dataset readers, which finds or downloads the files, and rejects or skips damaged examples."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from mate_cli.data.archive import ReleaseFiles, find_file, find_store, folders_below
from mate_cli.data.check import (
    CheckReport,
    Problem,
    count_splits,
    find_empty_entries,
    find_overlaps,
    find_repeated_ids,
    find_unanswered,
    measure_sizes,
    raise_problems,
)
from mate_cli.data.datasets.catalogue import find_info
from mate_cli.errors import DataError
from mate_cli.quoting import format_setting
from mate_cli.tables.example import TableExample
from mate_cli.terminal.progress import Progress

if TYPE_CHECKING:
    from mate_cli.data.download import RemoteFile


@dataclass(eq=False, kw_only=True)
class Release(ABC):
    """Base class of dataset readers, which read the files that a dataset's authors released.

    A subclass names the files of each split, and parses them in `read`.

    The `release.json` next to the subclass describes the release as a whole, see `DatasetInfo`.

    Args:
        root: folder of the files, or the authors' archive, see `ReleaseFiles`.
        download: "auto" downloads the public release into `root` if no split is on disk. False never downloads.
        damaged: "error" raises an error for a split with damaged entries. "skip" skips these questions with a warning.
        name: name of the dataset in commands and records. "" means the name of its folder.

    Attributes:
        notes: observations made while reading the files that are not problems.
        suspicions: possible damage of readable files. A check reports it with the problems.
        origins: file of each question by its id, for splits with several files.
    """

    folders: ClassVar[Sequence[str]] = ("",)
    """Folders below the root that may contain the files."""
    archives: ClassVar[Sequence[str]] = ("*",)
    """Name patterns of archives with files of the release."""
    unit: ClassVar[str] = "tables"
    """Plural name of the documents that questions are about. Passages have no column names."""
    as_written: ClassVar[Mapping[str, Any]] = {}
    """Options that leave cells as written by the authors."""
    metric = "mate_cli.metrics.system_answers.TableAnswers"
    """Class path of the `AnswerMetric` that scores the answers of any system."""
    untrainable: ClassVar[str] = ""
    """Why no task can train on the dataset. "" if a task can."""

    root: Path = field(kw_only=False)
    download: Literal["auto", False] = False
    damaged: Literal["error", "skip"] = "error"
    name: str = ""

    def __post_init__(self) -> None:
        self.root = Path(self.root).expanduser()
        self.info = find_info(type(self))
        self.name = self.name or (self.info.name if self.info else "")
        self.notes: list[Problem] = []
        self.suspicions: list[Problem] = []
        self.origins: dict[str, str] = {}
        self._splits: dict[str, tuple[list[TableExample], list[Problem]]] = {}
        self._included: dict[str, list[TableExample]] = {}
        self._files = ReleaseFiles(self.root, self.archives)

    @property
    def arguments(self) -> str:
        """Command-line arguments that select this dataset, such as `data=NAME data.root=FOLDER`."""
        return f"data={self.name} {format_setting('data.root', self.root)}"

    @property
    @abstractmethod
    def split_files(self) -> Mapping[str, str]:
        """Question file of each split (train, dev, test), relative to the root and without .gz."""

    @property
    def wanted_files(self) -> Sequence[str]:
        """Paths of the required files and folders, for error messages."""
        return tuple(dict.fromkeys(self.split_files.values()))

    @property
    def remote_files(self) -> Sequence[RemoteFile]:
        """Files of the public release that `fetch` downloads."""
        return self.info.remote_files if self.info else ()

    @property
    def published(self) -> Mapping[str, int]:
        """Counts of the whole release, such as its number of tables, as stated by its authors."""
        return self.info.published if self.info else {}

    @abstractmethod
    def read(self, split: str, problems: list[Problem]) -> Iterable[TableExample]:
        """Read the valid examples of a split on disk.

        A generator is read only until enough questions were found. Questions about the same table share one `Table`
        object. An `Answer` without a training signal has no cells, number or label, and its `source` is the reason.

        Args:
            split: name of the split.
            problems: list that receives the problems of invalid examples.

        Raises:
            DataError: a file that the whole split needs is missing or damaged.
        """

    def skip_reason(self, example: TableExample) -> str:
        """Return a short reason to exclude a valid example from its split, or "" to include it."""
        return ""

    @property
    def train_tables(self) -> Collection[str]:
        """Ids of the tables in the train split, to score seen and unseen tables separately.

        Empty by default: no separate scores.
        """
        return ()

    @property
    def facts(self) -> Mapping[str, str]:
        """Notes on the training data, such as excluded questions, for the run record."""
        return {}

    @cached_property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits that exist on disk, such as ("train", "dev").

        Without any, the release is downloaded if `download` allows it.

        Raises:
            DataError: no split is available.
        """
        splits = self._found_splits()
        if splits:
            return splits
        missing_error = self.missing_files_error(self.wanted_files)
        if not self.download:
            raise missing_error
        try:
            self.fetch()
        except DataError as error:
            problem = f"{missing_error.problem}; {error.problem}"
            raise DataError(problem, where=missing_error.where, remedy=missing_error.remedy) from error
        splits = self._found_splits()
        if not splits:
            raise missing_error
        return splits

    def examples(self, split: str) -> list[TableExample]:
        """Return the valid questions of a split that are not excluded.

        Raises:
            DataError: files are missing, or files are damaged and `damaged` is "error".
        """
        if split not in self._included:
            examples, problems = self.load(split)
            self._raise_or_warn(problems)
            reasons = [self.skip_reason(example) for example in examples]
            self._included[split] = [example for example, reason in zip(examples, reasons, strict=True) if not reason]
            for reason, count in Counter(filter(None, reasons)).items():
                text = f"{self.name} {split}: {count:,} of {len(examples):,} questions left out ({reason})."
                warnings.warn(text, stacklevel=2)
        return list(self._included[split])

    def first_examples(self, split: str, count: int) -> list[TableExample]:
        """Return the first `count` questions of a split.

        If `read` is a generator, further questions are not read.

        Raises:
            DataError: files are missing, or the part that was read is damaged and `damaged` is "error".
        """
        # The `examples` of a subclass determine the first examples too.
        is_overridden = type(self).examples is not Release.examples
        if is_overridden or split in self._included or split not in self.splits:
            return [*islice(self.examples(split), count)]
        problems: list[Problem] = []
        used_examples = (example for example in self.read(split, problems) if not self.skip_reason(example))
        examples = [*islice(used_examples, count)]
        self._raise_or_warn(problems)
        return self._mark_seen_tables(split, examples)

    def load(self, split: str) -> tuple[list[TableExample], list[Problem]]:
        """Return the valid examples of a split, and the problems of invalid examples.

        The valid examples include excluded examples.

        Raises:
            DataError: the split is not on disk, or a file that the whole split needs is missing or damaged.
        """
        if split not in self.splits:
            split_file = self.split_files.get(split)
            problem = f"has no split {split!r}; choose from {', '.join(self.splits)}"
            hint = f"Put {split_file} into {self.root}" if split_file else f"Choose split={self.splits[-1]}"
            raise DataError(problem, where=str(self.root), remedy=hint)
        if split not in self._splits:
            problems: list[Problem] = []
            with Progress(f"reading {self.name} {split}"):
                self._splits[split] = self._mark_seen_tables(split, [*self.read(split, problems)]), problems
        return self._splits[split]

    def check(self) -> CheckReport:
        """Read the whole dataset, and report its problems, counts and sizes.

        Problems are everything that the reader reports or suspects, unreadable files, blank or duplicate ids, splits
        without questions, and tables without rows for which no other problem is reported. Tables that occur in two
        splits are notes only.

        Raises:
            DataError: no split is available.
        """
        problems: list[Problem] = []
        files, splits = self.split_files, self._sound(problems)
        empty_entries = find_empty_entries(splits, files, self.skip_reason, (*problems, *self.suspicions), self.unit)
        used_examples = {split: [e for e in part if not self.skip_reason(e)] for split, part in splits.items()}
        # A public release answers all of its questions. Files of a user may leave some answers out.
        unanswered = [*find_unanswered(used_examples, files)]
        damage, remarks = (unanswered, []) if self.published else ([], unanswered)
        more = (*find_repeated_ids(used_examples, files, self.origins), *damage, *empty_entries, *self.suspicions)
        problems += [problem for problem in dict.fromkeys(more) if problem not in problems]
        tables = {split: {example.table.table_id for example in examples} for split, examples in splits.items()}
        notes = (*find_overlaps(tables, self.unit, files), *self.notes, *remarks)
        counts = count_splits(splits, self.skip_reason)
        return CheckReport(tuple(problems), counts, measure_sizes(splits).percentiles(), notes, self.published)

    def _sound(self, problems: list[Problem]) -> dict[str, list[TableExample]]:
        """Read all splits, and return their valid examples by split name.

        Problems of invalid examples and of whole files are appended to `problems`.
        """
        splits: dict[str, list[TableExample]] = {}
        for split in self.splits:
            try:
                splits[split], split_problems = self.load(split)
            except DataError as error:
                splits[split] = []
                problem = Problem(error.where or self.split_files[split], "", error.problem)
                problems += [problem] if problem not in problems else []
            else:
                # A table in two splits has the same problem in both.
                reported_problems = set(problems)
                problems += [problem for problem in split_problems if problem not in reported_problems]
        return splits

    def fetch(self) -> None:
        """Download the public release into `root`. Intact files on disk are not downloaded again.

        Raises:
            DataError: the dataset has no public release, or a file cannot be downloaded.
        """
        from mate_cli.data.download import fetch_all

        if not self.remote_files:
            hint = f"Download its files manually: {self.info.homepage}" if self.info and self.info.homepage else None
            dataset_name = self.name or type(self).__name__
            raise DataError("has no public release", where=dataset_name, remedy=hint)
        fetch_all(self.remote_files, self.root)
        self._files = ReleaseFiles(self.root, self.archives)

    def content(self, file: str) -> bytes | None:
        """Return the content of a file of the release, decompressed, or None if it is missing.

        The file may also be in an archive. See `ReleaseFiles`.

        Return None if the file does not exist. See `ReleaseFiles`.

        Raises:
            DataError: the file is truncated or damaged.
        """
        paths = (str(PurePosixPath(folder, file)) for folder in self.folders)
        contents = (self._files.content(path) for path in paths)
        return next((content for content in contents if content is not None), None)

    def train_content(self) -> bytes:
        """Return the content of the train file, to find tables that other splits share with train.

        Return b"" if the file is missing or damaged.
        """
        with suppress(DataError):
            return self.content(self.split_files["train"]) or b""
        return b""

    def need(self, file: str) -> bytes:
        """Return the content of a required file of the release, decompressed.

        Raises:
            DataError: the file is missing or damaged.
        """
        content = self.content(file)
        if content is None:
            raise self.missing_files_error((file,))
        return content

    def missing_files_error(self, files: Sequence[str]) -> DataError:
        """Build the error for missing files, with their names and a hint how to get them."""
        folder_problem = "lacks files of the dataset" if self.root.exists() else "there is no such folder"
        lower = self._find_folder(files)
        by_hand = self.info is not None and not self.info.files and self.info.homepage
        get = f"download the files: {by_hand}" if by_hand else f"type: mate data download {self.arguments}"
        other_hint = f"Give another data.root, or {get}"
        hint = f"They are in another folder: {format_setting('data.root', lower)}" if lower else other_hint
        forms = "also packed: .gz, .bz2, .xz, .zip; or in an archive: .tar, .tar.*, .zip"
        problem = f"{folder_problem}; searched for {', '.join(files)} ({forms})"
        return DataError(problem, where=str(self.root), remedy=hint)

    def _find_folder(self, files: Sequence[str]) -> Path | None:
        """Search nearby folders for missing files, to suggest another `data.root` in an error.

        Return the folder with the files, or None if no folder has them.
        """
        is_inside = self.root.is_file() or (self.root.name,) in [PurePosixPath(file).parts[:-1][:1] for file in files]
        folders = [*folders_below(self.root), *(self.root.parents[:2] if is_inside else ())]
        names = [str(PurePosixPath(subfolder, file)) for subfolder in self.folders for file in files]
        candidates = ((folder, name) for folder in folders for name in names)
        existing = (folder for folder, name in candidates if find_file(folder, name) or find_store(folder, name))
        return next(existing, None)

    def _found_splits(self) -> tuple[str, ...]:
        return tuple(split for split, file in self.split_files.items() if self._has_file(file))

    def _has_file(self, file: str) -> bool:
        return any(self._files.has(str(PurePosixPath(folder, file))) for folder in self.folders)

    def _raise_or_warn(self, problems: Sequence[Problem]) -> None:
        """Raise `DataError` for damaged examples, or only warn if `damaged` is "skip"."""
        hint = f"See all: mate data check {self.arguments}; or leave them out: data.damaged=skip"
        if self.damaged == "error":
            raise_problems(problems, hint)
        if problems:
            warnings.warn(f"{self.root}: {len(problems)} problems; damaged examples are left out. {hint}", stacklevel=3)

    def _mark_seen_tables(self, split: str, examples: list[TableExample]) -> list[TableExample]:
        """Add each example to the subset "seen_tables" or "unseen_tables".

        A table is seen if the train split has questions about it.

        The examples are returned unchanged if all of them would be in the same subset.
        """
        train_tables = () if split == "train" else self.train_tables
        in_train = [example.table.table_id in train_tables for example in examples]
        if len(set(in_train)) < 2:
            return examples
        names = ("unseen_tables", "seen_tables")
        pairs = zip(examples, in_train, strict=True)
        return [replace(example, subsets=(*example.subsets, names[is_seen])) for example, is_seen in pairs]
