"""Report section of questions that configurations answer differently, with their tables.

The tables are read again from the dataset.
"""

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
from mate_cli.errors import MateError, RunError, known_cause
from mate_cli.files.atomic import write_text
from mate_cli.files.io_errors import shorten_reason
from mate_cli.files.renamed import rename_targets
from mate_cli.files.safe_load import read_yaml
from mate_cli.metrics.specs import subset_of
from mate_cli.metrics.subsets import IN_PASSAGE
from mate_cli.reports.answers.terminal import cell_window, hidden_text, shorten
from mate_cli.reports.compare.configuration import Configuration
from mate_cli.reports.compare.questions import Cell, Disagreement, ModelAnswer, ScoredQuestion, disagreements
from mate_cli.reports.compare.report import Report
from mate_cli.reports.format import NOTHING, plural
from mate_cli.reports.runs.load import LoadedRun, clean
from mate_cli.reports.sections.results import list_scores
from mate_cli.reports.view import ReportSection
from mate_cli.tables.example import TableExample
from mate_cli.tables.text import linking_cells

MAX_QUESTIONS, MAX_GROUPS, MAX_TEXTS, FIRST = 40, 8, 2, 6


def questions_section(report: Report, *, wide: bool) -> ReportSection:
    """Return questions that configurations answer differently.

    The page has a search field that filters the questions.

    Args:
        report: comparison of runs.
        wide: not used.
    """
    title = "Questions with different answers"
    content = partial(questions_content, report)
    return ReportSection("questions", title, "Questions", template="questions", content=content)


def questions_content(report: Report) -> Mapping[str, Any] | None:
    """Return the template values of the list of questions with different answers.

    Return None if configurations answer no question differently.
    """
    groups = report.groups[:MAX_GROUPS]
    shares = (metric for metric in list_scores(report) if metric.spec.is_share)
    candidates = ((metric, disagreements(groups, metric.full, MAX_QUESTIONS)) for metric in shares)
    metric, cases = next(((metric, cases) for metric, cases in candidates if cases), (None, ()))
    if metric is None:
        return None
    labels = list(dict.fromkeys(answer.label for case in cases for answer in case.answers))
    positions = {group.label: position for position, group in enumerate(groups)}
    tables, missing_reason = tables_of(cases, groups, metric.split, report.options.cache)
    note = f"The {plural(len(cases), 'question')} with the largest differences of {metric.title}, "
    note += f"at most {MAX_GROUPS} configurations. ✓ correct, ✗ wrong, ◐ partly correct or for some seeds only."
    note += f" Tables are not shown: {missing_reason.rstrip('.')}." if missing_reason else ""
    return {
        "cards": [question_card(case, tables.get(case.question.question_id), positions) for case in cases],
        "choices": [("", "any"), *((label, label) for label in labels)],
        "count": plural(len(cases), "question"),
        "first": FIRST,
        "places": positions,
        "note": note,
    }


def tables_of(
    cases: Sequence[Disagreement], groups: Sequence[Configuration], split: str, cache: Path | None
) -> tuple[dict[str, AnswerTable], str]:
    """Read the tables to which the given questions refer, one dataset at a time.

    Args:
        cases: questions with different answers.
        groups: configurations that answered the questions.
        split: split of the questions.
        cache: folder for caching tables, None disables the cache.

    Returns:
        The tables by question id, and the reason why tables are missing ("" if none is missing).
    """
    runs = {group.label: group.runs for group in groups}
    datasets = {group.label: group.dataset for group in groups}
    by_dataset: dict[str, list[Disagreement]] = {}
    for case in cases:
        by_dataset.setdefault(datasets[case.answers[0].label], []).append(case)
    tables: dict[str, AnswerTable] = {}
    reasons: dict[str, None] = {}
    for questions in by_dataset.values():
        answering_runs = [run for case in questions for answer in case.answers for run in runs[answer.label]]
        ids = [case.question.question_id for case in questions]
        found_tables, reason = read_tables(dict.fromkeys(answering_runs), split, ids, cache)
        tables |= found_tables
        reasons[reason] = None
    return tables, "; ".join(filter(None, reasons))


def question_card(case: Disagreement, table: AnswerTable | None, places: Mapping[str, int]) -> Mapping[str, Any]:
    """Return the template values of a question with gold answer, predicted answers and table.

    Args:
        case: question with its answers.
        table: table of the question, None if missing.
        places: index of each configuration by its label.
    """
    question = case.question
    details = [subset_of(question.source).title, question.table_id.replace("_", " ")]
    return {
        "text": question.text or question.question_id,
        "gold": " / ".join(question.answers) or NOTHING,
        "detail": " · ".join(fact for fact in details if fact),
        "answers": [answer_row(answer, question, places[answer.label]) for answer in case.answers],
        "right": [answer.label for answer in case.answers if answer.score >= 1.0],
        "wrong": [answer.label for answer in case.answers if answer.score <= 0.0],
        "table": question_table(table, case.answers) if table else None,
    }


def answer_row(answer: ModelAnswer, question: ScoredQuestion, place: int) -> Mapping[str, Any]:
    """Return the HTML template values of the answer that a configuration gave to a question.

    The values include a mark for the correctness, which is distinguishable without color, and the number of seeds that
    predicted each answer text.

    Args:
        answer: answer of the configuration.
        question: answered question.
        place: index of the configuration.
    """
    seeds = sum(number for _, number in answer.texts)
    is_mixed = len(answer.texts) > 1
    return {
        **verdict(answer.score),
        "label": answer.label,
        "place": place,
        "percent": f"{100 * answer.score:.0f}",
        "texts": [(t or NOTHING, f"{n} of {seeds} seeds" if is_mixed else "") for t, n in answer.texts[:MAX_TEXTS]],
        "is_link": is_link(answer, question),
        "more": len(answer.texts) - MAX_TEXTS,
    }


def is_link(answer: ModelAnswer, question: ScoredQuestion) -> bool:
    """Return whether a correct answer is a cell that links to the answer's passage.

    The cell itself does not contain the answer.
    """
    texts = {" ".join(text.lower().split()) for text in question.answers}
    predictions = (" ".join(text.lower().split()) for text, _ in answer.texts)
    return answer.score >= 1.0 and question.source == IN_PASSAGE.name and not any(text in texts for text in predictions)


def verdict(score: float) -> Mapping[str, str]:
    """Return how a page shows a score: CSS class, symbol, and text such as "partly correct".

    Args:
        score: score of the answer, from 0 to 1.
    """
    if 0 < score < 1:
        return {"kind": "partly", "mark": "◐", "word": "partly correct"}
    word, mark = ("right", "✓") if score >= 1 else ("wrong", "✗")
    return {"kind": word, "mark": mark, "word": word}


MAX_ROWS, MAX_COLUMNS, MAX_LETTERS = 6, 4, 80
HOLDS, LINKS = "●", "○"
MEANINGS = {HOLDS: "contains the gold answer", LINKS: "links to a passage with the gold answer"}


def question_table(table: AnswerTable, answers: Sequence[ModelAnswer]) -> Mapping[str, Any]:
    """Return the part of a table around gold and predicted cells as HTML template values.

    Args:
        table: table of the question.
        answers: answers of the configurations.
    """
    shape = len(table.rows), len(table.header)
    labels_by_cell: dict[Cell, list[str]] = {}
    for answer in answers:
        for position in answer.cells:
            if all(0 <= index < size for index, size in zip(position, shape, strict=True)):
                labels_by_cell.setdefault(position, []).append(answer.label)
    shown_part = cell_window(order_by_importance(table, labels_by_cell), shape, MAX_ROWS, MAX_COLUMNS)
    signs = {cell: LINKS if cell in table.linking else HOLDS for cell in table.gold}
    used_signs = {
        sign for (row, column), sign in signs.items() if row in shown_part.rows and column in shown_part.columns
    }
    legend = [f"{sign} {meaning}" for sign, meaning in MEANINGS.items() if sign in used_signs]
    legend += ["coloured squares: the cells that each configuration chose"] * bool(labels_by_cell)
    return {
        "shown": shown_part,
        "names": {position: (shorten(name, MAX_LETTERS), False) for position, name in enumerate(table.header)},
        "number": lambda row: row + 1,
        "signs": signs,
        "meanings": MEANINGS,
        "chosen": labels_by_cell,
        "text": lambda row, column: shorten(table.rows[row][column], MAX_LETTERS),
        "legend": "; ".join(filter(None, [*legend, hidden_text(shown_part, "marked cell")])),
    }


def order_by_importance(table: AnswerTable, chosen: Mapping[Cell, Sequence[str]]) -> list[Cell]:
    """Sort table cells by importance: correct predictions, then gold and wrong cells in turn.

    Args:
        table: table with its gold cells.
        chosen: labels of the configurations that predicted a cell, by cell.
    """
    gold = [cell for cell in table.gold if cell not in chosen]
    incorrect = [cell for cell in chosen if cell not in table.gold]
    alternating = [cell for pair in zip(gold, incorrect, strict=False) for cell in pair]
    correct_choices = [cell for cell in chosen if cell in table.gold]
    return list(dict.fromkeys([*correct_choices, *alternating, *gold, *incorrect]))


MAX_PACKED = 100_000_000
"""Maximum size in bytes of packed archives from which single tables are read."""
AGAIN = "Download the dataset, or compare on a machine that has it"


@dataclass(frozen=True)
class AnswerTable:
    """The table of a question, with the cells that contain the gold answer.

    Args:
        header: column titles.
        rows: cell texts of each body row.
        gold: cells of the gold answer, as (row, column).
        linking: cells of `gold` that only link to a passage with the answer.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    gold: Sequence[Cell]
    linking: Sequence[Cell]


Tables = dict[str, AnswerTable | None]
"""Tables by question id, None for questions that the dataset does not contain."""


def read_tables(
    runs: Iterable[LoadedRun], split: str, asked: Sequence[str], cache: Path | None
) -> tuple[dict[str, AnswerTable], str]:
    """Read the tables of questions from the dataset that the runs were evaluated on.

    Args:
        runs: runs that answered the questions.
        split: split of the dataset.
        asked: ids of the questions.
        cache: folder for caching tables, because reading a packed dataset is slow. None disables the cache.

    Returns:
        The tables by question id, and the reason why tables are missing ("" if none is missing).
    """
    options = next((data for run in runs if (data := data_options(run))), None)
    if options is None:
        return {}, "the runs did not record the folder of their dataset"
    try:
        file = _cache_file(options, split, cache) if cache else None
        tables = _read_cache(file)
        if not set(asked) <= tables.keys():
            tables |= _read(options, split, asked)
            # The cache is optional.
            with suppress(RunError):
                if file:
                    write_text(file, TypeAdapter(Tables).dump_json(tables).decode())
    except Exception as error:
        return {}, clean(known_cause(error) or f"the dataset cannot be read ({shorten_reason(error)})")
    found_tables = {name: table for name in asked if (table := tables.get(name)) is not None}
    return found_tables, "" if len(found_tables) == len(asked) else "the dataset has changed since"


def data_options(run: LoadedRun) -> dict[str, Any] | None:
    """Return the dataset configuration of a run, or of the first stage that has a dataset.

    Return None if neither has a dataset, or the configuration is unreadable.
    """
    try:
        config = rename_targets(read_yaml(run.folder / "config.yaml", RunError, AGAIN))
    except MateError:
        return None
    stages = config.get("stages")
    parts = [config, *(stages.values() if isinstance(stages, dict) else ())]
    candidates = (part.get("data") for part in parts if isinstance(part, dict))
    return next((dict(data) for data in candidates if isinstance(data, dict) and "_target_" in data), None)


def _read(options: Mapping[str, Any], split: str, ids: Sequence[str]) -> Tables:
    """Read the tables of questions from the dataset on which the runs were evaluated.

    Only dataset readers of this package are called, because records are untrusted. The table is None for questions that
    the dataset does not contain.
    """
    info = next((dataset for dataset in all_datasets() if dataset.target == options.get("_target_")), None)
    if info is None:
        raise RunError(f"{options.get('_target_')} is not a dataset of mate", remedy=AGAIN)
    root = Path(str(options.get("root", "."))).expanduser()
    archive_sizes = (file.stat().st_size for file in root.glob("*") if file.name.endswith(SUFFIXES[1:]))
    if not info.shipped and sum(archive_sizes) > MAX_PACKED:
        raise RunError("is packed and too large to read single tables from", where=str(root), remedy="Unpack it")
    reader_options = {name: value for name, value in options.items() if name not in ("_target_", "root", "extra_train")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reader = info.open(root, **reader_options | {"download": False, "damaged": "skip"})
        tables = {
            example.example_id: _table(example) for example in reader.examples(split) if example.example_id in ids
        }
    return {name: tables.get(name) for name in ids}


def _table(example: TableExample) -> AnswerTable:
    header, *rows = [[clean(cell.text) for cell in row] for row in (example.table.header, *example.table.rows)]
    if (answer := example.answer) is None:
        return AnswerTable(header, rows, [], [])
    linking = linking_cells(example.table, answer.texts, answer.coordinates)
    return AnswerTable(header, rows, list(answer.coordinates), linking)


def _cache_file(options: Mapping[str, Any], split: str, cache: Path) -> Path:
    """Return the path of the file that caches the tables of a dataset, named by a hash."""
    root = Path(str(options["root"])).expanduser().resolve() if "root" in options else None
    state = sorted((file.name, file.stat().st_mtime_ns) for file in root.iterdir()) if root and root.is_dir() else []
    key = json.dumps([options, root, split, state], sort_keys=True, default=str)
    return cache / "compare" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _read_cache(file: Path | None) -> Tables:
    with suppress(OSError, ValueError):
        return TypeAdapter(Tables).validate_json(file.read_bytes()) if file else {}
    return {}
