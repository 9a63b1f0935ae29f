"""The tables that questions are about, read again from the data sets of the runs that answered them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mate_cli.data.archive import SUFFIXES
from mate_cli.data.datasets.catalogue import all_datasets
from mate_cli.errors import MateError, RunError
from mate_cli.files.atomic import write_text
from mate_cli.files.renamed import rename_targets
from mate_cli.files.safe_load import read_object, read_yaml, to_json
from mate_cli.reports.compare.questions import Cell
from mate_cli.reports.runs.load import LoadedRun, clean
from mate_cli.tables.example import TableExample
from mate_cli.tables.text import table_matches

MAX_PACKED = 100_000_000
"""Bytes of archives that are read from end to end for a few tables."""
AGAIN = "Download the dataset, or compare on a machine that has it"


@dataclass(frozen=True)
class AnswerTable:
    """A table as it is shown with a question.

    Args:
        header: a text per column.
        rows: of the body, a text per cell.
        gold: the cells of the right answer, as (row, column).
        linking: those of them that do not hold the answer, but link to a passage that does.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    gold: Sequence[Cell]
    linking: Sequence[Cell]


@dataclass(frozen=True)
class AnswerTables:
    """Tables by the id of their question, and why those of the others are not there; empty where all are."""

    by_question: Mapping[str, AnswerTable]
    missing: str = ""


def read_tables(runs: Iterable[LoadedRun], split: str, asked: Sequence[str], cache: Path | None) -> AnswerTables:
    """Read the tables of some questions from the data set that the first run with one names.

    Args:
        runs: which answered the questions.
        split: of the data set.
        asked: the ids of the questions.
        cache: a folder where tables are kept once read, as a packed data set takes long; None: nowhere.
    """
    options = next((data for run in runs if (data := data_options(run))), None)
    if options is None:
        return AnswerTables({}, "the runs do not record where their dataset is")
    try:
        tables = _read_cache(options, split, cache)
        if not set(asked) <= tables.keys():
            tables |= _read(options, split, asked)
            _keep(tables, options, split, cache)
    except (MateError, OSError) as error:
        return AnswerTables({}, clean(error))
    except Exception as error:  # of whatever kind: a report must outlive what a record says of its data
        return AnswerTables({}, f"the dataset cannot be read ({clean(error)[:120]})")
    there = {name: table for name in asked if (table := tables.get(name)) is not None}
    return AnswerTables(there, "" if len(there) == len(asked) else "the dataset has changed since")


def data_options(run: LoadedRun) -> dict[str, Any] | None:
    """Return the options of the data set that a run was trained on, of a stage where it has stages; None without."""
    try:
        config = rename_targets(read_yaml(run.folder / "config.yaml", RunError, AGAIN))
    except MateError:
        return None
    stages = config.get("stages")
    parts = [config, *(stages.values() if isinstance(stages, dict) else ())]
    candidates = (part.get("data") for part in parts if isinstance(part, dict))
    return next((dict(data) for data in candidates if isinstance(data, dict) and "_target_" in data), None)


def _read(options: Mapping[str, Any], split: str, asked: Sequence[str]) -> dict[str, AnswerTable | None]:
    """Return the tables of questions, None of those that the data set does not have.

    Only its own readers are trusted.
    """
    info = next((dataset for dataset in all_datasets() if dataset.target == options.get("_target_")), None)
    if info is None:
        raise RunError(f"{options.get('_target_')} is not a dataset of mate", remedy=AGAIN)
    root = Path(str(options.get("root", "."))).expanduser()
    packed = (file.stat().st_size for file in root.glob("*") if file.name.endswith(SUFFIXES[1:]))
    if not info.shipped and sum(packed) > MAX_PACKED:
        raise RunError("is packed and too large to read single tables from", where=str(root), remedy="Unpack it")
    told = {name: value for name, value in options.items() if name not in ("_target_", "root", "extra_train")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reader = info.open(root, **told | {"download": False, "damaged": "skip"})
        tables = {
            example.example_id: _table(example) for example in reader.examples(split) if example.example_id in asked
        }
    return {name: tables.get(name) for name in asked}


def _table(example: TableExample) -> AnswerTable:
    table, answer = example.table, example.answer
    gold = list(answer.coordinates) if answer else []
    inside = {cell for text in answer.texts for cell in table_matches(table, text)} if answer else set()
    linking = [cell for cell in gold if cell not in inside] if table.passages else []
    return AnswerTable(
        [clean(cell.text) for cell in table.header],
        [[clean(cell.text) for cell in row] for row in table.rows],
        gold,
        linking,
    )


def _file(options: Mapping[str, Any], split: str, cache: Path) -> Path:
    """Return where tables are kept: a name for the reader's options and the state of its folder."""
    root = Path(str(options.get("root", "."))).expanduser()
    state = sorted((file.name, file.stat().st_mtime_ns) for file in root.iterdir()) if root.is_dir() else []
    key = json.dumps([options, str(root.resolve()), split, state], sort_keys=True, default=str)
    return cache / "compare" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _read_cache(options: Mapping[str, Any], split: str, cache: Path | None) -> dict[str, AnswerTable | None]:
    file = _file(options, split, cache) if cache else None
    if file is None or not file.is_file():
        return {}
    try:
        entries = read_object(file, RunError, AGAIN)
        return {name: entry and _restored(**entry) for name, entry in entries.items()}
    except (MateError, TypeError):
        return {}


def _restored(header: list[str], rows: list[list[str]], gold: list[list[int]], linking: list[list[int]]) -> AnswerTable:
    """Return a table as it was before JSON made lists of its places."""
    return AnswerTable(header, rows, [(r, c) for r, c in gold], [(r, c) for r, c in linking])


def _keep(tables: Mapping[str, AnswerTable | None], options: Mapping[str, Any], split: str, cache: Path | None) -> None:
    if cache is not None:
        entries = {name: table and asdict(table) for name, table in tables.items()}
        with contextlib.suppress(RunError):  # a cache that cannot be written makes nothing wrong
            write_text(_file(options, split, cache), to_json(entries))
