"""Questions about one's own tables, and the tables: read and checked before any network is loaded, without torch."""

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
    """Tables that could be read, with the questions about each.

    Args:
        skipped: why other files could not be read, by path.
        seconds: that reading took, as `tables`.
    """

    files: Mapping[Path, TableFile]
    questions: Mapping[Path, list[str]]
    skipped: Mapping[str, str]
    seconds: Mapping[str, float]


@contextmanager
def record_time(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Note how long something took."""
    start = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - start


def find_questions(path: str) -> Path:
    """Find the file of questions about a dataset's tables, or with tables of their own.

    Raises:
        DataError: it is not there.
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
    """Read the questions and the tables; of several tables those that cannot be read are left out.

    Args:
        tables: files, folders or patterns.
        questions: about each of them.
        questions_file: a file of more, or None.
        output: where answers are written, which is no table.
        options: how tables are read; their encoding is also that of the questions.
        say: is told what is being done.

    Raises:
        ConfigError: no question or no table is given.
        DataError: no table can be read.
    """
    seconds: dict[str, float] = {}
    asked = all_questions(questions, questions_file, options.encoding)
    beside = Path(questions_file).expanduser().parent if questions_file else None
    # Questions and earlier answers may lie in the folder of the tables.
    others = {os.path.realpath(Path(file).expanduser()) for file in (questions_file, output) if file}
    pairs = pair_up(asked, [file for file in find_tables([*tables]) if os.path.realpath(file) not in others], beside)
    with record_time(seconds, "tables"):
        files, skipped = _open_all(list(pairs), options, say)
    return OpenTables(files, pairs, skipped, seconds)


def all_questions(texts: Sequence[str], file: str | None, encoding: str | None = None) -> list[QuestionInput]:
    """Return the questions that are typed, and those of a file.

    Raises:
        ConfigError: one is blank.
        DataError: the file is missing or holds no question.
    """
    if not all(map(str.strip, texts)):
        raise ConfigError("is blank", where="question", remedy='Write question="..."')
    if file and not os.path.lexists(Path(file).expanduser()):
        remedy = f"Check its name; to ask it: {format_setting('question', file)}"
        raise DataError("no such file", where=f"questions={file}", remedy=remedy)
    return [*(QuestionInput(valid(text)) for text in texts), *(read_questions(file, encoding) if file else ())]


def _open_all(
    paths: Sequence[Path], options: ReadOptions, say: Callable[[str], None]
) -> tuple[dict[Path, TableFile], dict[str, str]]:
    from mate_cli.tables.read import open_table  # a second of readers, and a table may be missing

    files: dict[Path, TableFile] = {}
    skipped: dict[str, str] = {}
    for path in paths:
        say(f"reading {path}")
        try:
            files[path] = open_table(path, options)
        except MateError as error:
            if len(paths) == 1:
                raise
            skipped[str(path)] = str(error)
    check_some(files, skipped)
    return files, skipped


def check_some(items: Sequence[object] | Mapping[Path, object], skipped: Mapping[str, str]) -> None:
    """Refuse to go on where nothing is left.

    Raises:
        DataError: with the reason of the first that was left out.
    """
    if not items:
        first = next(iter(skipped.values()))
        raise DataError(f"none of {len(skipped):,} tables can be read", remedy=f"The first one: {first}")


def check_model(run: str | None, checkpoint: str | None) -> None:
    """Refuse what cannot answer about any table or database.

    Raises:
        ConfigError: neither or both of a run and a checkpoint are given.
        RunError: the run is not there, or is a chain of stages.
    """
    if (run is None) == (checkpoint is None):
        problem = "needs a value" if run is None else "cannot be combined with checkpoint"
        raise ConfigError(problem, where="run", remedy="Write run=FOLDER or checkpoint=NAME")
    if run is not None and (stages := open_run(run).read_record().stages):
        stage = Path(run).expanduser() / next(iter(stages))
        remedy = f"Load a stage, such as {stage}, or ask with input=questions.jsonl (docs/how-to/train_on_your_data.md)"
        raise RunError("this run is a system of stages, for tables with linked passages", where=run, remedy=remedy)
