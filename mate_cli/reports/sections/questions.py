"""Questions that configurations answer differently, side by side, with their tables read again from the data."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from mate_cli.data.archive import SUFFIXES
from mate_cli.data.datasets.catalogue import all_datasets
from mate_cli.errors import MateError, RunError
from mate_cli.files.atomic import write_text
from mate_cli.files.renamed import rename_targets
from mate_cli.files.safe_load import read_yaml
from mate_cli.metrics.specs import MetricName, subset_of
from mate_cli.metrics.subsets import IN_PASSAGE
from mate_cli.reports.answers.terminal import cell_window, hidden_text, shorten
from mate_cli.reports.compare.configuration import Configuration
from mate_cli.reports.compare.questions import Cell, Disagreement, ModelAnswer, ScoredQuestion, disagreements
from mate_cli.reports.compare.report import Report
from mate_cli.reports.format import NOTHING, plural
from mate_cli.reports.runs.load import LoadedRun, clean
from mate_cli.reports.sections.results import score_names
from mate_cli.reports.view import ReportSection
from mate_cli.tables.example import TableExample
from mate_cli.tables.text import linking_cells

MAX_QUESTIONS, MAX_GROUPS, MAX_TEXTS, FIRST = 40, 8, 2, 6


def questions_section(report: Report, *, wide: bool) -> ReportSection:
    """Return questions that configurations answer differently, side by side; a field searches them."""
    title = "Questions with different answers"
    content = partial(questions_content, report)
    return ReportSection("questions", title, "Questions", template="questions", content=content)


def questions_content(report: Report) -> Mapping[str, Any] | None:
    """Return cards of questions, and how they were chosen; None where no two configurations disagree."""
    groups = report.groups[:MAX_GROUPS]
    names = (name for name in score_names(report) if MetricName.parse(name).is_share)
    every = ((name, disagreements(groups, name, MAX_QUESTIONS)) for name in names)
    metric, cases = next(((name, questions) for name, questions in every if questions), ("", ()))
    if not cases:
        return None
    labels = list(dict.fromkeys(answer.label for case in cases for answer in case.answers))
    places = {group.label: place for place, group in enumerate(groups)}
    tables, missing = tables_of(cases, groups, MetricName.parse(metric).split, report.options.cache)
    note = f"The {plural(len(cases), 'question')} with the widest spread of {MetricName.parse(metric).title}, "
    note += f"best {MAX_GROUPS} configurations at most. ✓ right, ✗ wrong, ◐ partly or for some seeds."
    note += f" Tables are not shown: {missing.rstrip('.')}." if missing else ""
    return {
        "cards": [question_card(case, tables.get(case.question.question_id), places) for case in cases],
        "choices": [("", "any"), *((label, label) for label in labels)],
        "count": plural(len(cases), "question"),
        "first": FIRST,
        "places": places,
        "note": note,
    }


def tables_of(
    cases: Sequence[Disagreement], groups: Sequence[Configuration], split: str, cache: Path | None
) -> tuple[dict[str, AnswerTable], str]:
    """Return the tables of questions by their ids, and why some are not there; a data set at a time."""
    runs = {group.label: group.runs for group in groups}
    datasets = {group.label: group.dataset for group in groups}
    asked: dict[str, list[Disagreement]] = {}
    for case in cases:
        asked.setdefault(datasets[case.answers[0].label], []).append(case)
    tables: dict[str, AnswerTable] = {}
    missing: dict[str, None] = {}
    for questions in asked.values():
        told = [run for case in questions for answer in case.answers for run in runs[answer.label]]
        ids = [case.question.question_id for case in questions]
        shown, reason = read_tables(dict.fromkeys(told), split, ids, cache)
        tables |= shown
        missing[reason] = None
    return tables, "; ".join(filter(None, missing))


def question_card(case: Disagreement, table: AnswerTable | None, places: Mapping[str, int]) -> Mapping[str, Any]:
    """Return one question: its text, the right answer, what each configuration answered, and the table."""
    question = case.question
    facts = [subset_of(question.source).title, question.table_id.replace("_", " ")]
    return {
        "text": question.text or question.question_id,
        "gold": " / ".join(question.answers) or NOTHING,
        "detail": " · ".join(fact for fact in facts if fact),
        "answers": [answer_row(answer, question, places[answer.label]) for answer in case.answers],
        "right": [answer.label for answer in case.answers if answer.score >= 1.0],
        "wrong": [answer.label for answer in case.answers if answer.score <= 0.0],
        "table": question_table(table, case.answers) if table else None,
    }


def answer_row(answer: ModelAnswer, question: ScoredQuestion, place: int) -> Mapping[str, Any]:
    """Return the answer of one configuration, with a mark that does not rely on colour, and the seeds that gave it."""
    seeds = sum(number for _, number in answer.texts)
    several = len(answer.texts) > 1
    return {
        **verdict(answer.score),
        "label": answer.label,
        "place": place,
        "percent": f"{100 * answer.score:.0f}",
        "texts": [(t or NOTHING, f"{n} of {seeds} seeds" if several else "") for t, n in answer.texts[:MAX_TEXTS]],
        "is_link": is_link(answer, question),
        "more": len(answer.texts) - MAX_TEXTS,
    }


def is_link(answer: ModelAnswer, question: ScoredQuestion) -> bool:
    """Say whether what is right here is not the answer itself, but the cell whose passage holds it."""
    texts = {" ".join(text.lower().split()) for text in question.answers}
    predictions = (" ".join(text.lower().split()) for text, _ in answer.texts)
    return answer.score >= 1.0 and question.source == IN_PASSAGE.name and not any(text in texts for text in predictions)


def verdict(score: float) -> Mapping[str, str]:
    """Say how right an answer is: its class, its mark, its word."""
    if 0 < score < 1:
        return {"kind": "partly", "mark": "◐", "word": "partly right"}
    word, mark = ("right", "✓") if score >= 1 else ("wrong", "✗")
    return {"kind": word, "mark": mark, "word": word}


MAX_ROWS, MAX_COLUMNS, MAX_LETTERS = 6, 4, 80
HOLDS, LINKS = "●", "○"
MEANINGS = {
    HOLDS: "holds the right answer",
    LINKS: "not the answer itself: links to a passage with the right answer",
}


def question_table(table: AnswerTable, answers: Sequence[ModelAnswer]) -> Mapping[str, Any]:
    """Return the part of a table that tells a question's story: which cells are right, and who chose which."""
    shape = len(table.rows), len(table.header)
    chosen: dict[Cell, list[str]] = {}
    for answer in answers:
        for place in answer.cells:
            if all(0 <= at < size for at, size in zip(place, shape, strict=True)):
                chosen.setdefault(place, []).append(answer.label)
    shown = cell_window(order_by_importance(table, chosen), shape, MAX_ROWS, MAX_COLUMNS)
    signs = {cell: LINKS if cell in table.linking else HOLDS for cell in table.gold}
    used = {sign for (row, column), sign in signs.items() if row in shown.rows and column in shown.columns}
    legend = [f"{sign} {meaning}" for sign, meaning in MEANINGS.items() if sign in used]
    legend += ["coloured squares: the cells that each configuration chose"] * bool(chosen)
    return {
        "shown": shown,
        "names": {place: (shorten(name, MAX_LETTERS), False) for place, name in enumerate(table.header)},
        "number": lambda row: row + 1,
        "signs": signs,
        "meanings": MEANINGS,
        "chosen": chosen,
        "text": lambda row, column: shorten(table.rows[row][column], MAX_LETTERS),
        "legend": "; ".join(filter(None, [*legend, hidden_text(shown, "marked cell")])),
    }


def order_by_importance(table: AnswerTable, chosen: Mapping[Cell, Sequence[str]]) -> list[Cell]:
    """Order the cells to show: those both right and chosen, then by turns one that is right and one that is chosen."""
    gold = [cell for cell in table.gold if cell not in chosen]
    wrong = [cell for cell in chosen if cell not in table.gold]
    turns = [cell for pair in zip(gold, wrong, strict=False) for cell in pair]
    both = [cell for cell in chosen if cell in table.gold]
    return list(dict.fromkeys([*both, *turns, *gold, *wrong]))


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


Tables = dict[str, AnswerTable | None]
"""By the id of their question; None of one that the data set does not have."""


def read_tables(
    runs: Iterable[LoadedRun], split: str, asked: Sequence[str], cache: Path | None
) -> tuple[dict[str, AnswerTable], str]:
    """Read the tables of some questions from the data set that the first run with one names.

    Args:
        runs: which answered the questions.
        split: of the data set.
        asked: the ids of the questions.
        cache: a folder where tables are kept once read, as a packed data set takes long; None: nowhere.

    Returns:
        The tables by the id of their question, and why those of the others are not there; empty where all are.
    """
    options = next((data for run in runs if (data := data_options(run))), None)
    if options is None:
        return {}, "the runs do not record where their dataset is"
    try:
        file = _cache_file(options, split, cache) if cache else None
        tables = _read_cache(file)
        if not set(asked) <= tables.keys():
            tables |= _read(options, split, asked)
            with suppress(RunError):  # a cache that cannot be written makes nothing wrong
                if file:
                    write_text(file, TypeAdapter(Tables).dump_json(tables).decode())
    except (MateError, OSError) as error:
        return {}, clean(error)
    except Exception as error:  # of whatever kind: a report must outlive what a record says of its data
        return {}, f"the dataset cannot be read ({clean(error)[:120]})"
    there = {name: table for name in asked if (table := tables.get(name)) is not None}
    return there, "" if len(there) == len(asked) else "the dataset has changed since"


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


def _read(options: Mapping[str, Any], split: str, asked: Sequence[str]) -> Tables:
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
    header, *rows = [[clean(cell.text) for cell in row] for row in (example.table.header, *example.table.rows)]
    if (answer := example.answer) is None:
        return AnswerTable(header, rows, [], [])
    linking = linking_cells(example.table, answer.texts, answer.coordinates)
    return AnswerTable(header, rows, list(answer.coordinates), linking)


def _cache_file(options: Mapping[str, Any], split: str, cache: Path) -> Path:
    """Return where tables are kept: a name for the reader's options and the state of its folder."""
    root = Path(str(options["root"])).expanduser().resolve() if "root" in options else None
    state = sorted((file.name, file.stat().st_mtime_ns) for file in root.iterdir()) if root and root.is_dir() else []
    key = json.dumps([options, root, split, state], sort_keys=True, default=str)
    return cache / "compare" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _read_cache(file: Path | None) -> Tables:
    with suppress(OSError, ValueError):
        return TypeAdapter(Tables).validate_json(file.read_bytes()) if file else {}
    return {}
