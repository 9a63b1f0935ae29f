"""Questions about tables, and the records of their answers for all outputs."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mate_cli.errors import ConfigError, DataError
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.tables.example import Coordinates
from mate_cli.tables.formats.cell_text import valid
from mate_cli.tables.read_options import MEGABYTE, Limits, ReadOptions
from mate_cli.tables.table import Table

QUESTION_COLUMNS = ("question", "statement")
NOT_IN_FOLDERS = (".txt",)
"""Suffixes of files that are tables if the user names the file, but are ignored if the user names its folder."""


class QuestionInput(NamedTuple):
    """A question of a user. `table` is the name of its table file, or None to ask all tables."""

    question: str
    table: str | None = None


def find_tables(patterns: Iterable[str]) -> list[Path]:
    """List the table files that paths, glob patterns and folders refer to, without duplicates.

    The files of a folder are sorted by name. Subfolders, hidden files and lock files (`~$...`) are skipped.

    Raises:
        DataError: a path does not exist, a pattern matches no file, or a folder contains no table.
    """
    files: dict[Path, None] = {}
    for pattern in patterns:
        with wrap_file_errors(pattern, DataError, "cannot be searched", "Check the name"):
            files |= dict.fromkeys(_find_files(pattern))
    return list(files)


def _find_files(pattern: str) -> list[Path]:
    path = Path(pattern).expanduser()
    if path.is_dir():
        from mate_cli.tables.read import SUFFIXES

        kinds = tuple(suffix for suffix in SUFFIXES if suffix not in NOT_IN_FOLDERS)
        # Office programs write lock files whose names start with "~$".
        entries = (file for file in path.iterdir() if not file.name.startswith((".", "~$")))
        files = sorted(file for file in entries if file.suffix.lower() in kinds and file.is_file())
        if not files:
            raise DataError("no table in this folder", where=pattern, remedy=f"Tables end in {', '.join(kinds)}")
    else:
        # Path.glob takes no absolute patterns
        files = [path] if path.exists() else [Path(name) for name in sorted(glob.glob(str(path)))]  # noqa: PTH207
        if not files:
            raise DataError("there is no such table", where=pattern, remedy="Give a file, a folder or a pattern")
    return files


def read_questions(path: str, encoding: str | None = None) -> list[QuestionInput]:
    """Read questions from a text file, one per line, or from a table with a column `question`.

    The column may also be called `statement`. An optional column `table` names the table of each question.

    Args:
        path: a .txt file, or a table file of any format.
        encoding: text encoding, UTF-8 by default. A byte order mark takes precedence. The encoding is never guessed,
            because users would not notice a wrong guess in a question.

    Raises:
        DataError: the file is missing, cannot be read, or contains no question.
    """
    file, encoding = Path(path).expanduser(), encoding or "utf-8"
    with wrap_file_errors(path, DataError, "questions cannot be read", "Write one per line"):
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
    link = names.index("table") if "table" in names else None
    return [QuestionInput(row[column], row[link] or None if link is not None else None) for row in table if row[column]]


def pair_up(questions: Sequence[QuestionInput], tables: Sequence[Path], folder: Path | None) -> dict[Path, list[str]]:
    """Assign each question to the table that it names, or to all tables if it names none.

    Args:
        questions: questions, in their order.
        tables: table files given on the command line.
        folder: folder of the questions file, in which tables named by questions are searched too. None if the
            questions come from no file.

    Returns:
        The questions of each table. Tables without questions are omitted.

    Raises:
        ConfigError: there is no question, or a question names no table and `tables` is empty.
        DataError: a question names a table that does not exist.
    """
    if not questions:
        raise ConfigError("no question given", where="question", remedy='Write question="..." or questions=FILE')
    pairs: dict[Path, list[str]] = {table: [] for table in tables}
    if not tables and any(question.table is None for question in questions):
        raise ConfigError("no table given", where="table", remedy="Write table=FILE")
    for question in questions:
        targets = tables if question.table is None else [_find_table(question.table, tables, folder)]
        for table in targets:
            pairs.setdefault(table, []).append(question.question)
    return {table: questions for table, questions in pairs.items() if questions}


def _find_table(name: str, tables: Sequence[Path], folder: Path | None) -> Path:
    matches = [table for table in tables if name in (str(table), table.name, table.stem)]
    paths = (os.path.expanduser(name), os.path.join(folder or "", name))  # noqa: PTH111, PTH118
    files = [Path(path) for path in paths if os.path.isfile(path)]  # noqa: PTH113 - raises for no text
    if not matches and not files:
        raise DataError("a question names this table, which was not found", where=name, remedy="Check the name")
    return (matches or files)[0]


@dataclass(frozen=True)
class TableAnswerResult:
    """The answer of a model to one question about one table.

    Args:
        source: path of the table file.
        question: text of the question.
        table: the rows that the model read.
        row_numbers: for each row of `table`, its number in the file, counted from 1 below the header.
        rows_in_file: number of rows in the file.
        answer: text of the answer. Empty if no answer was found.
        more_rows: whether more than `rows_in_file` rows exist, in unknown number.
        result: rows of `table` as Python values if `table` is the result of a query, else None.
        cells: (row, column) of the predicted body cells. The row is an index of `table`.
        probabilities: probability of each of `cells`.
        aggregation: aggregation of `cells`, one of `AGGREGATIONS`.
        value: number computed by the aggregation, or None.
        verdict: whether the answer is a verdict on a statement: entailed or refuted.
        confidence: confidence in the answer, from 0 to 1, or None if unknown.
        calibrated: whether the confidence is calibrated, so that it estimates the share of correct answers.
        threshold: confidence below which an answer is withheld. None for no threshold.
        cut: sentences that describe how rows, columns and cells were selected or truncated to fit the model.
        warnings: sentences that warn of possible errors.
        failure: reason why there is no answer. Empty if there is an answer.
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
        """True if the answer is withheld because its confidence is below `threshold`."""
        return self.threshold is not None and (self.confidence or 0.0) < self.threshold and not self.failure


@dataclass
class Session:
    """All answers of one `mate predict` command.

    Args:
        model: name of the model.
        answers: all answers.
        notes: notes on reading each file, by path.
        skipped: reason why a file could not be read, by path.
        seconds: duration of the steps "tables", "model", "rows" (row selection) and "answers".
    """

    model: str
    answers: list[TableAnswerResult] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def per_second(self) -> float:
        """Questions per second. Loading the model and reading the tables are not included in the time."""
        return len(self.answers) / max(1e-9, self.seconds.get("answers", 0.0))
