"""Labelled questions in a dataset of the Hugging Face hub, or in a folder that the `datasets` library wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mate_cli.data.check import Problem
from mate_cli.data.datasets.labelled.base import LabelledRows, typed
from mate_cli.data.datasets.labelled.columns import check_columns
from mate_cli.data.datasets.labelled.rows import LabelledRow
from mate_cli.errors import DataError

SAVED = ("dataset_dict.json", "state.json")
"""In a folder that `save_to_disk` wrote."""
USUAL = {"train": ("train",), "dev": ("validation", "dev", "valid", "val"), "test": ("test",)}
"""What splits are called there."""


@dataclass(eq=False, kw_only=True)
class HubDataset(LabelledRows):
    """A dataset by its name on the hub, or a folder; for the other options see `LabelledRows`.

    Args:
        name: on the hub, or the path of a folder: of files that `datasets.load_dataset` reads, or saved by
            `save_to_disk`.
        subset: of a dataset that has several; the library calls it a configuration.
        revision: of the dataset; None for the newest.
    """

    subset: str | None = None
    revision: str | None = None

    @property
    def arguments(self) -> str:
        """What is typed for these data."""
        names = ("name", "subset", "train", "dev", "test")
        return f"data=hub {typed({name: getattr(self, name) for name in names})}"

    @property
    def split_files(self) -> Mapping[str, str]:
        """What each split is called there."""
        there = set(self._tables)
        named = {split: getattr(self, split) for split in USUAL}
        found = {split: named[split] or next((n for n in USUAL[split] if n in there), None) for split in USUAL}
        if found["dev"] is None and self.dev_share:
            found["dev"] = found["train"]
        return {split: name for split, name in found.items() if name is not None}

    def is_there(self, place: str) -> bool:
        """Whether the dataset has such a split."""
        return place in self._tables

    def refusal(self, wanted: Sequence[str]) -> DataError:
        """What to say when there is no such split."""
        there = ", ".join(self._tables)
        return DataError(f"its splits are {there}", where=self.name, remedy="Set data.train=SPLIT and data.dev=SPLIT")

    def rows(self, place: str, problems: list[Problem]) -> Iterator[LabelledRow]:
        """The rows of a split; see `LabelledRows.rows`."""
        if place not in self._tables:
            raise self.refusal((place,))
        check_columns(getattr(self._tables[place], "column_names", ()), self.called, f"{self.name}, {place}")
        for values in self._tables[place]:
            yield LabelledRow.of(values, self.called, self.root, plain=False)

    @cached_property
    def _tables(self) -> Mapping[str, Any]:
        """The splits of the dataset, by their names there.

        Raises:
            DataError: there is none of this name, or it cannot be reached.
        """
        if not self.name:
            raise DataError("no dataset is named", where="data.name", remedy="Set data.name=NAME, or a folder")
        import datasets
        from huggingface_hub import constants

        from mate_cli.files.hub import is_reachable

        folder = Path(self.name).expanduser()
        if not folder.exists() and not is_reachable():
            constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True  # or else it is asked for half a minute
        try:
            if any((folder / file).is_file() for file in SAVED):
                found: Any = datasets.load_from_disk(str(folder))
            else:
                found = datasets.load_dataset(self.name, self.subset, revision=self.revision)
        except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
            problem = " ".join(str(error).split())[:200] or type(error).__name__
            raise DataError(f"cannot be loaded: {problem}", where=self.name, remedy=self._remedy()) from error
        return found if isinstance(found, Mapping) else {"train": found}

    def _remedy(self) -> str:
        """What to do where the library finds no such dataset: how it gets here without network."""
        from mate_cli.files.hub import NAME, is_reachable

        if not NAME.fullmatch(self.name) or is_reachable():
            return "Check data.name"
        fetch = f"hf download --repo-type dataset {self.name} --local-dir FOLDER"
        return f"The hub is not reachable: on a machine with network type {fetch}, and set data.name=FOLDER here"
