"""Report section on SQL errors: their types in questions that all, or any, configurations answer incorrectly.

Source: Xu et al. 2021 (DT-Fixup), section 5.4, figures 3 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mate_cli.papers.dt_fixup.metrics.exact_set_match import COLUMN_ERROR, DOUBLE_ERROR, EXACT_SET_MATCH, SKETCH_ERROR
from mate_cli.reports.compare.configuration import Configuration
from mate_cli.reports.compare.questions import Prediction, Questions, ScoredQuestion, common_questions, load_questions
from mate_cli.reports.compare.report import Report
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell

MAX_ROWS = 30
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "wrong": (COLUMN_ERROR, SKETCH_ERROR, DOUBLE_ERROR),
    "wrong columns": (COLUMN_ERROR, DOUBLE_ERROR),
    "wrong structure": (SKETCH_ERROR, DOUBLE_ERROR),
}
"""Columns of the tables, each with the error types (names of scores) that it counts."""
NOTES = (
    "percent of the questions above each table; a query may have both wrong columns and a wrong structure",
    "of a configuration with several seeds the run with the median score counts",
    "name the folders of runs to compare only these",
)


def report_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return the tables of SQL errors, or None if fewer than two configurations answer with queries."""
    split = (report.metric or "dev/").partition("/")[0]
    blocks: dict[str, dict[str, Questions]] = {}
    for group in report.groups[:MAX_ROWS]:
        if queries := scored_queries(group, split):
            blocks.setdefault(group.block, {})[group.label] = queries
    views = [view for name, answers in blocks.items() for view in error_views(name, answers)]
    section = ReportSection("query_errors", "Errors in queries", "Queries", tuple(views), NOTES, hint=split)
    return section if views else None


def scored_queries(group: Configuration, split: str) -> Questions:
    """Load the scored SQL answers of one run of a configuration, or {} if no SQL was predicted.

    The median run is preferred.
    """
    metric = f"{split}/{EXACT_SET_MATCH.name}"
    runs = [run for run in (group.median_run, *group.counted) if run and metric in run.metrics]
    questions = load_questions(runs[0], split) if runs else {}
    return {question: answer for question, answer in questions.items() if EXACT_SET_MATCH.name in answer.scores}


def error_views(dataset: str, answers: Mapping[str, Questions]) -> list[View]:
    """Return two error tables: questions that all configurations get wrong, and that any gets wrong.

    Args:
        dataset: name of the dataset, for the titles.
        answers: answers by question, of each configuration.
    """
    questions = common_questions(list(answers.values()))
    errors = {q: [has_any(predictions[q], COLUMNS["wrong"]) for predictions in answers.values()] for q in questions}
    if len(answers) < 2 or not questions:
        return []
    owners = "both" if len(answers) == 2 else f"all {len(answers)}"
    shared_errors = [question for question, flags in errors.items() if all(flags)]
    any_errors = [question for question, flags in errors.items() if any(flags)]
    return [
        error_view(f"{dataset}: {len(group):,} of {len(questions):,} questions that {owner} get wrong", group, answers)
        for owner, group in ((owners, shared_errors), ("any", any_errors))
        if group
    ]


def error_view(title: str, questions: Sequence[ScoredQuestion], answers: Mapping[str, Questions]) -> View:
    """Return a table with the percentage of questions that have each SQL error type, by configuration.

    Args:
        title: title of the table.
        questions: questions to count.
        answers: answers by question, of each configuration.
    """
    rows = []
    for label, predictions in answers.items():
        counts = [sum(has_any(predictions[question], kinds) for question in questions) for kinds in COLUMNS.values()]
        shares = [100 * count / len(questions) for count in counts]
        rows.append(Row(label, tuple(ViewCell(f"{share:.1f}", share) for share in shares)))
    columns = tuple(Column(name, less_is_better=True) for name in COLUMNS)
    return View(title, columns, tuple(rows), unit="%", bars=True)


def has_any(prediction: Prediction, kinds: Sequence[str]) -> bool:
    """Return whether a predicted query has an error of one of the types `kinds`."""
    return any(prediction.scores.get(kind, 0) > 0 for kind in kinds)
