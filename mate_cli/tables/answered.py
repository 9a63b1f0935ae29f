"""What was answered about one's own tables, as plain values: what terminal, page and files show."""

from __future__ import annotations

from dataclasses import dataclass, field

from mate_cli.tables.example import Coordinates
from mate_cli.tables.table import Table


@dataclass(frozen=True)
class TableQuestion:
    """One question about one table.

    Args:
        source: the file of the table.
        question: as it was asked.
        table: the rows that were looked at.
        row_numbers: of each of these rows, its number below the header, from 1.
        rows_in_file: how many there are in all.
        text: the answer; empty where nothing was found.
        more_rows: there are more than `rows_in_file`, and nobody knows how many.
        result: the rows of `table` as plain values, where they are the result of a query; None elsewhere.
        cells: (row, column) of the chosen body cells, rows counted in `table`.
        probabilities: of each of them.
        aggregation: what was done with them.
        value: the number that this gave.
        verdict: the answer says whether the question, a statement, is entailed or refuted.
        confidence: in the answer, from 0 to 1; None where none is known.
        calibrated: the confidence is the share of such answers that are right.
        threshold: answers with less confidence are withheld; None for none.
        cut: what was cut and chosen so that the table fits, as plain sentences.
        warnings: what to beware of, as plain sentences.
        failure: why there is no answer.
    """

    source: str
    question: str
    table: Table
    row_numbers: tuple[int, ...]
    rows_in_file: int
    text: str = ""
    more_rows: bool = False
    result: tuple[tuple[float | str | None, ...], ...] | None = None
    cells: Coordinates = ()
    probabilities: tuple[float, ...] = ()
    aggregation: str = "none"
    value: float | None = None
    verdict: bool = False
    confidence: float | None = None
    calibrated: bool = False
    threshold: float | None = None
    cut: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    failure: str = ""

    @property
    def abstained(self) -> bool:
        """Whether the answer is withheld for want of confidence."""
        return self.threshold is not None and (self.confidence or 0.0) < self.threshold and not self.failure


@dataclass
class Session:
    """All that one command answered.

    Notes on reading files, and why others could not be read, are by path. Seconds are those of "tables", "model",
    "rows" (their choice) and "answers".
    """

    model: str
    answers: list[TableQuestion] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def per_second(self) -> float:
        """Questions answered per second, once the model was loaded and the tables were read."""
        return len(self.answers) / max(1e-9, self.seconds.get("answers", 0.0))
