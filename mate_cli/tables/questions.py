"""Questions about tables, and their answers as plain values for terminal, page and files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mate_cli.errors import ConfigError, DataError
from mate_cli.files.io_errors import wrap_read_errors
from mate_cli.tables.example import Coordinates
from mate_cli.tables.formats.cell_text import valid
from mate_cli.tables.read_options import MEGABYTE, Limits, ReadOptions
from mate_cli.tables.table import Table

QUESTION_COLUMNS = ("question", "statement")
NOT_IN_FOLDERS = (".txt",)
"""Files that can be tables, but are none where a folder is named."""


class QuestionInput(NamedTuple):
    """A question, and its table where it names one."""

    question: str
    table: str | None = None


def find_tables(places: Iterable[str]) -> list[Path]:
    """Return the files that paths, patterns and folders name, each once; those of a folder in the order of their names.

    Raises:
        DataError: one of them names nothing.
    """
    files: dict[Path, None] = {}
    for place in places:
        with wrap_read_errors(place, DataError, "cannot be looked for", "Check the name"):
            files |= dict.fromkeys(_find_files(place))
    return list(files)


def _find_files(place: str) -> list[Path]:
    path = Path(place).expanduser()
    if path.is_dir():
        from mate_cli.tables.read import SUFFIXES

        kinds = tuple(suffix for suffix in SUFFIXES if suffix not in NOT_IN_FOLDERS)
        named = (file for file in path.iterdir() if not file.name.startswith((".", "~$")))  # drafts of programs
        files = sorted(file for file in named if file.suffix.lower() in kinds and file.is_file())
        if not files:
            raise DataError("no table in this folder", where=place, remedy=f"Tables end in {', '.join(kinds)}")
    else:
        # Path.glob takes no absolute patterns
        files = [path] if path.exists() else [Path(name) for name in sorted(glob.glob(str(path)))]  # noqa: PTH207
        if not files:
            raise DataError("there is no such table", where=place, remedy="Give a file, a folder or a pattern")
    return files


def read_questions(path: str, encoding: str | None = None) -> list[QuestionInput]:
    """Read questions: a line each (.txt), or a table with `question` and perhaps `table`.

    Without an encoding it is UTF-8, or what its mark says: nobody would see what was guessed of a question.

    Raises:
        DataError: the file is missing or holds no question.
    """
    file, encoding = Path(path).expanduser(), encoding or "utf-8"
    with wrap_read_errors(path, DataError, "questions cannot be read", "Write one per line"):
        if file.exists() and not file.is_file():
            raise DataError("this is not a regular file", where=str(file), remedy="Save the questions in a file")
        if file.suffix.lower() == ".txt":
            from mate_cli.tables.formats.encoding import read_text

            Limits().check(file, megabytes=file.stat().st_size / MEGABYTE)
            lines = map(str.strip, valid(read_text(file, encoding).content).splitlines())
            questions = [QuestionInput(line) for line in lines if line]
        else:
            questions = _read_table(file, encoding)
    if not questions:
        raise DataError("it has no question", where=path, remedy="Write one per line")
    return questions


def _read_table(file: Path, encoding: str) -> list[QuestionInput]:
    from mate_cli.tables.read import open_table

    table = open_table(file, ReadOptions(encoding=encoding))
    names = [name.lower() for name in table.header]
    column = next((names.index(name) for name in QUESTION_COLUMNS if name in names), None)
    if column is None:
        problem = f"no column named question, only {', '.join(' '.join(name.split()) for name in table.header[:6])}"
        raise DataError(problem, where=str(file), remedy="Name the columns question and table")
    of = names.index("table") if "table" in names else None
    return [QuestionInput(row[column], row[of] or None if of is not None else None) for row in table if row[column]]


def pair_up(asked: Sequence[QuestionInput], tables: Sequence[Path], beside: Path | None) -> dict[Path, list[str]]:
    """Return the questions of each table: those that name it, and those that name none.

    Tables that questions name may also lie `beside` the file of questions.

    Raises:
        ConfigError: there is no table, or no question.
        DataError: a question names a table that is not there.
    """
    if not asked:
        raise ConfigError("no question given", where="question", remedy='Write question="..." or questions=FILE')
    pairs: dict[Path, list[str]] = {table: [] for table in tables}
    if not tables and any(question.table is None for question in asked):
        raise ConfigError("no table given", where="table", remedy="Write table=FILE")
    for question in asked:
        of = tables if question.table is None else [_find_table(question.table, tables, beside)]
        for table in of:
            pairs.setdefault(table, []).append(question.question)
    return {table: questions for table, questions in pairs.items() if questions}


def _find_table(name: str, tables: Sequence[Path], beside: Path | None) -> Path:
    same = [table for table in tables if name in (str(table), table.name, table.stem)]
    places = (os.path.expanduser(name), os.path.join(beside or "", name))  # noqa: PTH111, PTH118
    near = [Path(path) for path in places if os.path.isfile(path)]  # noqa: PTH113 - of any text, without an error
    if not same and not near:
        raise DataError("a question names this table, which was not found", where=name, remedy="Check the name")
    return (same or near)[0]


@dataclass(frozen=True)
class TableAnswerResult:
    """One question about one table.

    Args:
        source: the file of the table.
        question: as it was asked.
        table: the rows that were looked at.
        row_numbers: of each of these rows, its number below the header, from 1.
        rows_in_file: how many there are in all.
        answer: its text; empty where nothing was found.
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
    answer: str = ""
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
        """True if the answer is withheld for want of confidence."""
        return self.threshold is not None and (self.confidence or 0.0) < self.threshold and not self.failure


@dataclass
class Session:
    """All that one command answered.

    Notes on reading files, and why others could not be read, are by path. Seconds are those of "tables", "model",
    "rows" (their choice) and "answers".
    """

    model: str
    answers: list[TableAnswerResult] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def per_second(self) -> float:
        """Questions answered per second, once the model was loaded and the tables were read."""
        return len(self.answers) / max(1e-9, self.seconds.get("answers", 0.0))
