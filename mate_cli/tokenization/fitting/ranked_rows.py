"""The rows of tables that a finished run thinks best for each question, so that another network reads these alone."""

from __future__ import annotations

import hashlib
import json
import warnings
from functools import cached_property
from pathlib import Path

from mate_cli.errors import DataError
from mate_cli.files.door import reading


class RankedRows:
    """Rows in the order in which a run ranked their cells, by question.

    Args:
        run: folder of a run that ranks cells; `predictions/<split>.json` of each split that is asked about.
    """

    def __init__(self, run: str) -> None:
        self.folder = Path(run).expanduser() / "predictions"

    def of(self, question: str, count: int) -> tuple[int, ...]:
        """The best rows of a question's table, from 0 and in their order there; none where the run ranked nothing.

        Warns where the run has never seen the question: its data were others.

        Raises:
            DataError: the run left no predictions, or they cannot be read.
        """
        if question not in self._rows:
            problem = "of a question that is not among these predictions all rows are read"
            remedy = "Rank each split of the same data: mate evaluate run=... split=train"
            warnings.warn(f"{self.folder}: {problem}. {remedy}", stacklevel=2)
        return tuple(sorted(list(dict.fromkeys(self._rows.get(question, ())))[:count]))

    @cached_property
    def digest(self) -> str:
        """Equal for equal predictions.

        Raises:
            DataError: there are none.
        """
        return hashlib.sha256(b"".join(file.read_bytes() for file in self._files)).hexdigest()[:16]

    @cached_property
    def _files(self) -> list[Path]:
        files = sorted(self.folder.glob("*.json"))
        if not files:
            remedy = "Rank each split: mate evaluate run=... split=train"
            raise DataError("there are no predictions of a run", where=str(self.folder), remedy=remedy)
        return files

    @cached_property
    def _rows(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for file in self._files:
            with reading(file, DataError, "these predictions cannot be read", "Evaluate the run again"):
                for row in json.loads(file.read_text(encoding="utf-8")):
                    found[str(row["question_id"])] = tuple(int(cell[0]) for cell in row.get("cells", ()))
        return found
