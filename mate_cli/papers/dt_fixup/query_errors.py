"""Errors in SQL: in all configurations, and in any.

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
"""Columns, and the scores that count towards each."""
NOTES = (
    "percent of the questions above each table; a query may have both wrong columns and a wrong structure",
    "of a configuration with several seeds the run with the median score counts",
    "name the folders of some runs to compare these alone",
)


def report_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return the errors per block; None where fewer than two configurations answer with queries."""
    split = (report.metric or "dev/").partition("/")[0]
    blocks: dict[str, dict[str, Questions]] = {}
    for group in report.groups[:MAX_ROWS]:
        if scored := scored_queries(group, split):
            blocks.setdefault(group.block, {})[group.label] = scored
    views = [view for name, answered in blocks.items() for view in error_views(name, answered)]
    return (
        ReportSection("query_errors", "Errors in queries", "Queries", tuple(views), NOTES, hint=split)
        if views
        else None
    )


def scored_queries(group: Configuration, split: str) -> Questions:
    """Return what the median run of a configuration answered; nothing where its answers are no queries."""
    metric = f"{split}/{EXACT_SET_MATCH.name}"
    runs = [run for run in (group.median_run, *group.counted) if run and metric in run.metrics]
    questions = load_questions(runs[0], split) if runs else {}
    return {question: answer for question, answer in questions.items() if EXACT_SET_MATCH.name in answer.scores}


def error_views(dataset: str, answered: Mapping[str, Questions]) -> list[View]:
    """Return a table of the questions that all get wrong, and one of those that any gets wrong."""
    questions = common_questions(list(answered.values()))
    wrong = {q: [has_any(predictions[q], COLUMNS["wrong"]) for predictions in answered.values()] for q in questions}
    if len(answered) < 2 or not questions:
        return []
    whose = "both" if len(answered) == 2 else f"all {len(answered)}"
    common = [question for question, flags in wrong.items() if all(flags)]
    some = [question for question, flags in wrong.items() if any(flags)]
    return [
        error_view(f"{dataset}: {len(chosen):,} of {len(questions):,} questions that {who} get wrong", chosen, answered)
        for who, chosen in ((whose, common), ("any", some))
        if chosen
    ]


def error_view(title: str, questions: Sequence[ScoredQuestion], answered: Mapping[str, Questions]) -> View:
    """Return the shares of errors among some questions."""
    rows = []
    for label, predictions in answered.items():
        counts = [sum(has_any(predictions[question], kinds) for question in questions) for kinds in COLUMNS.values()]
        shares = [100 * count / len(questions) for count in counts]
        rows.append(Row(label, tuple(ViewCell(f"{share:.1f}", share) for share in shares)))
    columns = tuple(Column(name, less_is_better=True) for name in COLUMNS)
    return View(title, columns, tuple(rows), unit="%", bars=True)


def has_any(prediction: Prediction, kinds: Sequence[str]) -> bool:
    """Tell whether a query has an error of one of some kinds."""
    return any(prediction.scores.get(kind, 0) > 0 for kind in kinds)
