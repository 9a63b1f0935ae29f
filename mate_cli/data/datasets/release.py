"""Base of most readers of datasets: files are found, and damage is refused or left out."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from mate_cli.data.archive import ReleaseFiles, find_file, find_store, folders_below
from mate_cli.data.check import (
    CheckReport,
    Problem,
    count_splits,
    find_gaps,
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


@dataclass(eq=False)
class Release(ABC):
    """A dataset as its authors ship it, on disk. A subclass says which files there are and how to read a split.

    What is known of the release as a whole is in the `release.json` beside the subclass, see `DatasetInfo`.

    Args:
        root: the folder of the files, or the archive that the authors offer; see `ReleaseFiles`.
        download: "auto" fetches the public release into `root` when nothing is there; False never does.
        damaged: "error" refuses a split with damaged entries; "skip" leaves those questions out and warns.
        name: the dataset's name in commands and records; "" for that of its folder.

    Attributes:
        notes: what a subclass met when it read the files that is worth knowing, but no damage.
        suspicions: what looks like damage and can be read all the same; a check reports it among the problems.
        origins: the file of each question by its id, where a split has several.
    """

    folders: ClassVar[Sequence[str]] = ("",)
    """Where files may lie, below the root."""
    archives: ClassVar[Sequence[str]] = ("*",)
    """Patterns of the names of archives that hold files of the release."""
    unit: ClassVar[str] = "tables"
    """What questions are about, for people; passages have no names of columns."""
    as_written: ClassVar[Mapping[str, Any]] = {}
    """Options with which cells are as the authors wrote them."""
    metric = "mate_cli.metrics.system_answers.TableAnswers"
    """The `AnswerMetric` that scores what any system answers."""

    root: Path
    _: KW_ONLY
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
        self._loaded: dict[str, tuple[list[TableExample], list[Problem]]] = {}
        self._kept: dict[str, list[TableExample]] = {}
        self._files = ReleaseFiles(self.root, self.archives)

    @property
    def arguments(self) -> str:
        """Words of the command line for these data."""
        return f"data={self.name} {format_setting('data.root', self.root)}"

    @property
    @abstractmethod
    def split_files(self) -> Mapping[str, str]:
        """The file of questions of each split (train, dev, test), relative to the root and without .gz."""

    @property
    def wanted_files(self) -> Sequence[str]:
        """The files and folders that are looked for, for people."""
        return tuple(dict.fromkeys(self.split_files.values()))

    @property
    def remote_files(self) -> Sequence[RemoteFile]:
        """The files that are fetched."""
        return self.info.remote_files if self.info else ()

    @property
    def published(self) -> Mapping[str, int]:
        """Numbers of questions, tables, ... of the whole release, by its authors."""
        return self.info.published if self.info else {}

    @abstractmethod
    def read(self, split: str, problems: list[Problem]) -> Iterable[TableExample]:
        """Read the sound examples of a split that is on disk; what is wrong with the others is appended to `problems`.

        One that yields them is read no further than questions are wanted.

        Questions about the same table share one `Table`. What is known of an answer is in `Answer`; one from which
        nothing can be learnt has neither cells nor number nor label, and its `source` says why in a word or two.

        Raises:
            DataError: a file that all of the split needs is missing or damaged.
        """

    def left_out(self, example: TableExample) -> str:
        """Say why a sound example is not used at all, in a few words; "" where it is."""
        return ""

    @property
    def train_tables(self) -> Collection[str]:
        """Names of the tables of train; none where other splits are not scored by whether theirs are among them."""
        return ()

    @property
    def facts(self) -> Mapping[str, str]:
        """Facts of the data that are learnt from for the record of a run, in words."""
        return {}

    @cached_property
    def splits(self) -> tuple[str, ...]:
        """The splits that are on disk, of train, dev and test; where there are none, they may be fetched.

        Raises:
            DataError: there are none.
        """
        splits = self._found_splits()
        if splits:
            return splits
        refusal = self.refusal(self.wanted_files)
        if not self.download:
            raise refusal
        try:
            self.fetch()
        except DataError as error:
            problem = f"{refusal.problem}; {error.problem}"
            raise DataError(problem, where=refusal.where, remedy=refusal.remedy) from error
        splits = self._found_splits()
        if not splits:
            raise refusal
        return splits

    def examples(self, split: str) -> list[TableExample]:
        """Return all questions of a split.

        Raises:
            DataError: files are missing, or damaged and `damaged` is "error".
        """
        if split not in self._kept:
            examples, problems = self.load(split)
            self._settle(problems)
            reasons = [self.left_out(example) for example in examples]
            self._kept[split] = [example for example, why in zip(examples, reasons, strict=True) if not why]
            for why, count in Counter(filter(None, reasons)).items():
                warnings.warn(
                    f"{self.name} {split}: {count:,} of {len(examples):,} questions left out ({why}).", stacklevel=2
                )
        return list(self._kept[split])

    def first_examples(self, split: str, count: int) -> list[TableExample]:
        """Return the first questions of a split, without reading what follows where `read` yields one by one.

        Raises:
            DataError: as `examples`; of damage only where it was read.
        """
        has_own = type(self).examples is not Release.examples  # of a subclass: what it does holds here too
        if has_own or split in self._kept or split not in self.splits:
            return self.examples(split)[:count]
        problems: list[Problem] = []
        used = (example for example in self.read(split, problems) if not self.left_out(example))
        examples = [*islice(used, count)]
        self._settle(problems)
        return self._mark_seen_tables(split, examples)

    def load(self, split: str) -> tuple[list[TableExample], list[Problem]]:
        """Return the sound examples of a split, also those that are left out, and all that is wrong with the others.

        Raises:
            DataError: the split is not on disk, or a file that all of it needs is missing or damaged.
        """
        if split not in self.splits:
            wanted = self.split_files.get(split)
            raise DataError(
                f"has no split {split!r}; choose from {', '.join(self.splits)}",
                where=str(self.root),
                remedy=f"Put {wanted} into {self.root}" if wanted else f"Choose split={self.splits[-1]}",
            )
        if split not in self._loaded:
            problems: list[Problem] = []
            with Progress(f"reading {self.name} {split}"):
                self._loaded[split] = self._mark_seen_tables(split, [*self.read(split, problems)]), problems
        return self._loaded[split]

    def check(self) -> CheckReport:
        """Read everything to its end and report every problem, the counts and the sizes.

        Noted as problems: whatever the reader notes or suspects, files that cannot be read at all, ids that are blank
        or occur twice, splits without questions, and tables without rows that nothing is said of.
        Tables that serve two splits are only mentioned.

        Raises:
            DataError: the data are not there at all.
        """
        problems: list[Problem] = []
        files, splits = self.split_files, self._sound(problems)
        wanting = find_gaps(splits, files, self.left_out, (*problems, *self.suspicions), self.unit)
        used = {
            split: [example for example in examples if not self.left_out(example)] for split, examples in splits.items()
        }
        more = (
            *find_repeated_ids(used, files, self.origins),
            *find_unanswered(used, files),
            *wanting,
            *self.suspicions,
        )
        problems += [problem for problem in dict.fromkeys(more) if problem not in problems]
        tables = {split: {example.table.table_id for example in examples} for split, examples in splits.items()}
        notes = (*find_overlaps(tables, self.unit, files), *self.notes)
        counts = count_splits(splits, self.left_out)
        return CheckReport(tuple(problems), counts, measure_sizes(splits).percentiles(), notes, self.published)

    def _sound(self, problems: list[Problem]) -> dict[str, list[TableExample]]:
        """Return the sound examples of each split; what is wrong with others, or with a whole file, is noted."""
        splits: dict[str, list[TableExample]] = {}
        for split in self.splits:
            try:
                splits[split], wrong = self.load(split)
            except DataError as error:
                splits[split] = []
                problem = Problem(error.where or self.split_files[split], "", error.problem)
                problems += [problem] if problem not in problems else []
            else:
                known = set(problems)  # a table that two splits share has the same problem in both
                problems += [problem for problem in wrong if problem not in known]
        return splits

    def fetch(self) -> None:
        """Fetch the public release into `root`; what is there and intact is kept.

        Raises:
            DataError: there is no public release, or a file of it cannot be fetched.
        """
        from mate_cli.data.download import fetch_all

        if not self.remote_files:
            remedy = f"Download its files manually: {self.info.homepage}" if self.info and self.info.homepage else None
            where = self.name or type(self).__name__
            raise DataError("has no public release", where=where, remedy=remedy)
        fetch_all(self.remote_files, self.root)
        self._files = ReleaseFiles(self.root, self.archives)

    def content(self, file: str) -> bytes | None:
        """Return a file's content, wherever `ReleaseFiles` finds it; None where it is nowhere.

        Raises:
            DataError: it is cut short or damaged.
        """
        places = (str(PurePosixPath(folder, file)) for folder in self.folders)
        contents = (self._files.content(place) for place in places)
        return next((content for content in contents if content is not None), None)

    def train_content(self) -> bytes:
        """Return the content of train's file for what others say of it; nothing where it cannot be had."""
        with suppress(DataError):
            return self.content(self.split_files["train"]) or b""
        return b""

    def need(self, file: str) -> bytes:
        """Return the content of a file that has to be there.

        Raises:
            DataError: it is not, or it is damaged.
        """
        content = self.content(file)
        if content is None:
            raise self.refusal((file,))
        return content

    def refusal(self, wanted: Sequence[str]) -> DataError:
        """Build the error for files that are not there: their names, and how to get them."""
        there = "lacks files of the dataset" if self.root.exists() else "there is no such folder"
        lower = self._place_of(wanted)
        by_hand = self.info is not None and not self.info.files and self.info.homepage
        get = f"fetch the files: {by_hand}" if by_hand else f"type: mate data download {self.arguments}"
        elsewhere = f"Give another data.root, or {get}"
        remedy = f"They are in another folder: {format_setting('data.root', lower)}" if lower else elsewhere
        return DataError(
            f"{there}; looked for {', '.join(wanted)} (also packed: .gz, .bz2, .xz, .zip; or in an archive: "
            ".tar, .tar.*, .zip)",
            where=str(self.root),
            remedy=remedy,
        )

    def _place_of(self, wanted: Sequence[str]) -> Path | None:
        """Find the folder that would do as a root, below the one that is named, or around it; else None."""
        inside = self.root.is_file() or any(PurePosixPath(file).parts[:-1][:1] == (self.root.name,) for file in wanted)
        places = [*folders_below(self.root), *(self.root.parents[:2] if inside else ())]
        names = [str(PurePosixPath(folder, file)) for folder in self.folders for file in wanted]
        tried = ((place, name) for place in places for name in names)
        return next((place for place, name in tried if find_file(place, name) or find_store(place, name)), None)

    def _found_splits(self) -> tuple[str, ...]:
        return tuple(split for split, file in self.split_files.items() if self._has(file))

    def _has(self, file: str) -> bool:
        return any(self._files.has(str(PurePosixPath(folder, file))) for folder in self.folders)

    def _settle(self, problems: Sequence[Problem]) -> None:
        """Refuse or report what is damaged."""
        remedy = f"See all: mate data check {self.arguments}; or leave them out: data.damaged=skip"
        if self.damaged == "error":
            raise_problems(problems, remedy)
        if problems:
            warnings.warn(
                f"{self.root}: {len(problems)} problems; damaged examples are left out. {remedy}", stacklevel=3
            )

    def _mark_seen_tables(self, split: str, examples: list[TableExample]) -> list[TableExample]:
        """Put each example into the subset of those about tables of train or the others, where there are both."""
        known = () if split == "train" else self.train_tables
        in_train = [example.table.table_id in known for example in examples]
        if len(set(in_train)) < 2:
            return examples
        names = ("unseen_tables", "seen_tables")
        pairs = zip(examples, in_train, strict=True)
        return [replace(example, subsets=(*example.subsets, names[is_seen])) for example, is_seen in pairs]
