"""User tables and questions, read without torch before a network is loaded."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mate_cli.errors import ConfigError, DataError, MateError, RunError
from mate_cli.quoting import format_setting
from mate_cli.runs.folders import open_run
from mate_cli.tables.formats.cell_text import valid
from mate_cli.tables.questions import QuestionInput, find_tables, pair_up, read_questions
from mate_cli.tables.read_options import ReadOptions

if TYPE_CHECKING:
    from mate_cli.tables.table import TableFile


@dataclass(frozen=True)
class OpenTables:
    """Opened tables with their questions, and reasons why other files are unreadable.

    Args:
        files: tables by path.
        questions: questions by path of their table.
        skipped: reasons why other files cannot be read, by path.
        seconds: reading time in seconds, with the key `tables`.
    """

    files: Mapping[Path, TableFile]
    questions: Mapping[Path, list[str]]
    skipped: Mapping[str, str]
    seconds: Mapping[str, float]


@contextmanager
def record_time(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Measure the duration of the context, and store the duration as `seconds[name]`."""
    start = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - start


def find_questions(path: str) -> Path:
    """Return the path of a question file, in which `~` is expanded.

    Raises:
        DataError: the file is missing.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise DataError("question file not found", where=path, remedy="Check the path")
    return file


def open_tables(
    tables: Sequence[str],
    questions: Sequence[str],
    questions_file: str | None,
    output: str | None,
    options: ReadOptions,
    say: Callable[[str], None],
) -> OpenTables:
    """Read the questions and tables of a request.

    An unreadable table is skipped unless it is the only one.

    Args:
        tables: files, folders or glob patterns.
        questions: questions about each table.
        questions_file: file of additional questions, or None.
        output: file to which answers are written, which is not read as a table. None: answers are only printed.
        options: options for reading tables. Their character encoding also applies to the question file.
        say: callback for progress messages.

    Raises:
        ConfigError: no question or no table is passed.
        DataError: no table can be read.
    """
    seconds: dict[str, float] = {}
    inputs = all_questions(questions, questions_file, options.encoding)
    folder = Path(questions_file).expanduser().parent if questions_file else None
    # The question file and earlier answers may be in the folder of the tables.
    excluded = {os.path.realpath(Path(file).expanduser()) for file in (questions_file, output) if file}
    pairs = pair_up(inputs, [file for file in find_tables([*tables]) if os.path.realpath(file) not in excluded], folder)
    with record_time(seconds, "tables"):
        files, skipped = _open_all(list(pairs), options, say)
    return OpenTables(files, pairs, skipped, seconds)


def all_questions(texts: Sequence[str], file: str | None, encoding: str | None = None) -> list[QuestionInput]:
    """Return the questions that the command line and a question file contain, in this order.

    Args:
        texts: questions of the command line.
        file: question file, or None.
        encoding: character encoding of the file. None: UTF-8.

    Raises:
        ConfigError: a question is blank.
        DataError: the file is missing or contains no question.
    """
    if not all(map(str.strip, texts)):
        raise ConfigError("is blank", where="question", remedy='Write question="..."')
    if file and not os.path.lexists(Path(file).expanduser()):
        hint = f"Check its name; to ask it: {format_setting('question', file)}"
        raise DataError("no such file", where=f"questions={file}", remedy=hint)
    return [*(QuestionInput(valid(text)) for text in texts), *(read_questions(file, encoding) if file else ())]


def _open_all(
    paths: Sequence[Path], options: ReadOptions, report: Callable[[str], None]
) -> tuple[dict[Path, TableFile], dict[str, str]]:
    from mate_cli.tables.read import open_table  # Imported late: the import takes a second, and tables may be missing.

    files: dict[Path, TableFile] = {}
    skipped: dict[str, str] = {}
    for path in paths:
        report(f"reading {path}")
        try:
            files[path] = open_table(path, options)
        except MateError as error:
            if len(paths) == 1:
                raise
            skipped[str(path)] = str(error)
    check_some(files, skipped)
    return files, skipped


def check_some(items: Sequence[object] | Mapping[Path, object], skipped: Mapping[str, str]) -> None:
    """Raise `DataError` if all tables or all questions of a request were skipped.

    Args:
        items: remaining tables or questions.
        skipped: reason for each skipped table, by path.

    Raises:
        DataError: all tables were skipped. The message contains the reason of the first.
    """
    if not items:
        first = next(iter(skipped.values()))
        raise DataError(f"none of {len(skipped):,} tables can be read", remedy=f"The first one: {first}")


def check_model(run: str | None, checkpoint: str | None) -> None:
    """Check that either `run` or `checkpoint` is set, and that its model has a single stage.

    Raises:
        ConfigError: a run and a checkpoint are both specified or both missing.
        RunError: the run is missing, or is a system of stages, which cannot answer about user tables.
    """
    if (run is None) == (checkpoint is None):
        problem = "needs a value" if run is None else "cannot be combined with checkpoint"
        raise ConfigError(problem, where="run", remedy="Write run=FOLDER or checkpoint=NAME")
    if run is not None and (stages := open_run(run).read_record().stages):
        stage = Path(run).expanduser() / next(iter(stages))
        hint = f"Load a stage, such as {stage}, or ask with input=questions.jsonl (docs/how-to/train_on_your_data.md)"
        raise RunError("this run is a system of stages, for tables with linked passages", where=run, remedy=hint)
