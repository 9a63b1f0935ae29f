"""Labelled questions in files: JSON lines, JSON, CSV, Excel or Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mate_cli.data.archive import find_file, read_file
from mate_cli.data.check import Problem
from mate_cli.data.datasets.csv_tables import decode
from mate_cli.data.datasets.labelled.base import LabelledRows, typed
from mate_cli.data.datasets.labelled.columns import check_columns, unknown_columns
from mate_cli.data.datasets.labelled.rows import LabelledRow
from mate_cli.errors import DataError
from mate_cli.tables.read import SUFFIXES, open_table

JSON_LINES, JSON = (".jsonl", ".ndjson"), (".json",)


@dataclass(eq=False, kw_only=True)
class LabelledFiles(LabelledRows):
    """Files of labelled questions; for the options see `LabelledRows`.

    A relative path begins at `root`; a table that a row names lies beside the file of the row, or below `root`.
    """

    @property
    def arguments(self) -> str:
        """What is typed for these data."""
        return f"data=files {typed({split: getattr(self, split) for split in ('train', 'dev', 'test')})}"

    def is_there(self, place: str) -> bool:
        """Whether there is such a file, packed or not."""
        return find_file(self.root, place) is not None

    def refusal(self, wanted: Sequence[str]) -> DataError:
        """What to say when files are not there."""
        missing = [place for place in dict.fromkeys(wanted) if not self.is_there(place)]
        if not missing:
            return DataError("no file is named", where="data.train", remedy="Set data.train=FILE and data.dev=FILE")
        return DataError(
            "there is no such file", where=str(self.root / missing[0]), remedy="Check data.train, data.dev"
        )

    def rows(self, place: str, problems: list[Problem]) -> Iterator[LabelledRow]:
        """The rows of a file; see `LabelledRows.rows`.

        Raises:
            DataError: it is missing or damaged.
        """
        path = find_file(self.root, place)
        if path is None:
            raise self.refusal((place,))
        suffix = Path(place.removesuffix(".gz")).suffix.lower()
        plain = suffix not in (*JSON_LINES, *JSON)
        values = self._of_table(path) if plain else self._of_json(path, place, suffix in JSON_LINES, problems)
        names: dict[str, None] = {}
        rows = [LabelledRow.of(one, self.called, path.parent, plain=plain) for one in _noting(values, names)]
        check_columns(names, self.called, str(path))
        yield from rows
        if unread := unknown_columns(names, self.called):
            self.notes.append(Problem(place, "", f"not read: {', '.join(unread)}"))

    def _of_table(self, path: Path) -> Iterator[Mapping[str, Any]]:
        if path.suffix.lower() not in SUFFIXES:
            raise DataError("no file of questions ends so", where=str(path), remedy="Use .jsonl, .json, .csv or .xlsx")
        file = open_table(path)
        for row in file:
            yield dict(zip(file.header, row, strict=True))

    @staticmethod
    def _of_json(path: Path, place: str, lines: bool, problems: list[Problem]) -> Iterator[Mapping[str, Any]]:
        text = decode(place, read_file(path), problems) or ""
        texts = enumerate(text.splitlines(), 1) if lines else [(1, text)]
        for number, part in texts:
            if not part.strip():
                continue
            try:
                value = json.loads(part)
            except (ValueError, RecursionError) as error:
                problems.append(Problem(place, f"line {number}", f"is not readable JSON ({error})"))
                continue
            if isinstance(value, dict) and not lines:
                value = value.get("data", [value])
            for one in value if isinstance(value, list) and not lines else [value]:
                if isinstance(one, dict):
                    yield one
                else:
                    problems.append(Problem(place, f"line {number}", "is no object with a question"))


def _noting(values: Iterator[Mapping[str, Any]], names: dict[str, None]) -> Iterator[Mapping[str, Any]]:
    """Yield rows, and note the names of their columns."""
    for one in values:
        names |= dict.fromkeys(map(str, one))
        yield one
