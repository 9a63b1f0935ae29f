"""Report sections of incorrect answers: types of errors, and the errors of a single run."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from mate_cli.metrics.answer_errors import (
    KINDS,
    PAPER,
    PLACES,
    AnsweredQuestion,
    ErrorCounts,
    answer_error,
    count_errors,
    place_of,
)
from mate_cli.metrics.specs import SPLITS
from mate_cli.reports.compare.configuration import Configuration
from mate_cli.reports.compare.questions import (
    Prediction,
    Questions,
    ScoredQuestion,
    describe_unscored,
    keep_scored,
    load_questions,
    read_predictions,
)
from mate_cli.reports.compare.report import Report
from mate_cli.reports.format import NOTHING
from mate_cli.reports.runs.load import LoadedRun
from mate_cli.reports.sections.runs import common_score, is_right, word_columns
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell

MAX_ROWS = 30
SHORT = (
    "near\nmisses",
    "numbers (%\nof near\nmisses)",
    "words (% of\nnear misses)",
    "right answer\ntype (% of\nother errors)",
)
HEADINGS = dict(zip(PAPER, SHORT, strict=True))
NARROW = 12
NOTES = (
    "percent of the wrong answers, all seeds together",
    "near miss: the answer contains the gold answer, is a part of it, or is the same number in another format",
    "cells: the cells that were read, for questions whose answer is in a cell",
    "the paper sorted its errors manually (section 7); here rules do it",
)


def errors_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return the percentages of error types next to the MATE paper's.

    Args:
        report: comparison of runs.
        wide: not used.

    Returns:
        The section, None if no configuration has incorrect answer texts.
    """
    split = (report.metric or "dev/").partition("/")[0]
    metrics = {f"{split}/{name}" for name in SCORED}
    answering = [group for group in report.groups if metrics & group.names.keys()]
    rows = list(count_wrong_answers(answering[:MAX_ROWS], split).items())
    if not rows:
        return None
    names = {name: error_column(name) for name in (*PAPER, *PLACES.values(), *KINDS.values())}
    lines = [Row(label, (ViewCell(f"{count.wrong:,}", count.wrong), *shares(count, names))) for label, count in rows]
    paper_cells = [ViewCell(paper_text(name)) if name in PAPER else ViewCell() for name in names]
    columns = (Column("Wrong"), *names.values())
    view = View("Wrong answers", columns, (*lines, Row("MATE paper", (ViewCell(), *paper_cells), "published")))
    return ReportSection("errors", "Wrong answers", "Errors", (view,), NOTES, hint=split)


def error_column(name: str) -> Column:
    """Build the table column of a type of errors, whose heading is wrapped to short lines."""
    heading = HEADINGS.get(name) or "\n".join(textwrap.wrap(name, NARROW))
    return Column(name, short=heading, stacked=heading, minor=name not in PAPER)


def shares(counts: ErrorCounts, names: Iterable[str]) -> list[ViewCell]:
    """Build one table cell per error type, with the percentage of this error.

    A cell is empty if its percentage is unknown.
    """
    percents = error_shares(counts)
    return [ViewCell(percents[name], float(percents[name])) if name in percents else ViewCell() for name in names]


SCORED = ("em", "gold_em")
"""Scores of runs that answer with text, instead of cells."""


def count_wrong_answers(groups: Iterable[Configuration], split: str) -> dict[str, ErrorCounts]:
    """Count the types of wrong answers of each configuration on a split, over all seeds.

    Configurations without incorrect answers are omitted.

    Returns:
        The counts by label of the configuration.
    """
    counts_by_label = {group.label: errors_in(load_questions(run, split) for run in group.counted) for group in groups}
    return {label: errors for label, errors in counts_by_label.items() if errors.wrong}


def errors_in(answers: Iterable[Questions]) -> ErrorCounts:
    """Count the types of errors in the predicted answers of several runs.

    Only questions with an exact-match score (`SCORED`) are counted. An answer with the score 1 is correct.
    """
    scored_pairs = (pair for questions in answers for pair in questions.items() if set(SCORED) & pair[1].scores.keys())
    return count_errors(
        AnsweredQuestion(
            answer.text,
            (answer.text,) if 1 in map(answer.scores.get, SCORED) else (*q.answers, " ".join(q.answers)),
            answer.cells[0] if answer.cells else None,
            q.candidates,
        )
        for q, answer in scored_pairs
    )


def error_shares(counts: ErrorCounts) -> dict[str, str]:
    """Return percentages of wrong answers by name: error types, and locations of wrong cells.

    The error types of the MATE paper are included.

    Args:
        counts: numbers of incorrect answers by error type and position.

    Returns:
        The percentages as text, by name.
    """
    total, shares = counts.places.total(), counts.shares()
    kinds = {title: _percent(counts.kinds[kind], counts.wrong) for kind, title in KINDS.items()}
    paper = {name: f"{100 * shares[name]:.1f}" for name in PAPER if name in shares}
    return kinds | paper | {title: _percent(counts.places[key], total) for key, title in PLACES.items() if total}


def errors_view(file: Path) -> View | None:
    """Build the table of error types for one file of predictions.

    Return None if the file has no incorrect answer texts.
    """
    counts = errors_in([read_predictions(file)])
    if not counts.wrong:
        return None
    unseen = {title for kind, title in KINDS.items() if not counts.kinds[kind]}
    percents = {name: share for name, share in error_shares(counts).items() if name not in unseen}
    paper = {name: paper_text(name) if name in PAPER else "" for name in percents}
    rows = tuple(Row(name, (ViewCell(share), ViewCell(paper[name]))) for name, share in percents.items())
    title = f"{counts.wrong:,} wrong answers of {counts.questions:,}, in percent"
    return View(title, (Column("Share"), Column("MATE paper")), rows, head="")


def _percent(part: int, total: int) -> str:
    return f"{100 * part / total:.1f}" if total else NOTHING


def paper_text(name: str) -> str:
    """Return as text the percentage that the MATE paper reports for an error type."""
    value = f"{100 * PAPER[name]:.0f}"
    return f"> {value}" if name == [*PAPER][-1] else value


WRONG_COLUMNS = (
    *word_columns(("Answer", "Right answer", "Cell", "What is wrong")),
    Column("Confidence", stacked="Confi-\ndence"),
)
MAX_WRONG = 200
"""Maximum number of questions on the page. The file of `csv=` contains all questions."""


class WrongAnswer(NamedTuple):
    """A question that a run answers incorrectly.

    Args:
        question: the question.
        prediction: prediction of the run.
        kind: error type and position of the predicted cell, as text.
    """

    question: ScoredQuestion
    prediction: Prediction
    kind: str


def wrong_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return the incorrect answers of a single run, most confident first.

    Args:
        report: comparison of runs.
        wide: whether the report shows all splits as columns. Such a report has no section of incorrect answers.

    Returns:
        The section, None if the report has several runs or no predictions.
    """
    runs = [run for run in report.runs if run.parent is None]
    if wide or len(runs) != 1:
        return None
    first = (report.metric or "dev/").partition("/")[0]
    for split in dict.fromkeys((first, *SPLITS)):
        if questions := load_questions(runs[0], split):
            errors = list(wrong_answers(runs[0], split))
            title = f"Wrong answers on {split}"
            view = View(title, WRONG_COLUMNS, tuple(map(answer_row, errors[:MAX_WRONG])), "Question")
            count_text = f"{len(errors):,} of {len(keep_scored(questions)):,} questions are answered incorrectly"
            count_text += describe_unscored(questions)
            has_confidence = any(answer.prediction.confidence is not None for answer in errors)
            order = "most confident answers first" if has_confidence else "the run recorded no confidence"
            notes = (f"{count_text}; {order}; a cell is row:column, from 1", "all of them: sections=wrong csv=FILE")
            return ReportSection("wrong", title, "Wrong answers", (view,), notes)
    return None


def wrong_answers(run: LoadedRun, split: str) -> Iterator[WrongAnswer]:
    """Yield the questions that a run answers incorrectly, highest confidence first.

    A question is answered incorrectly if the main score of its prediction is below 1.
    """
    questions = keep_scored(load_questions(run, split))
    score = common_score(list(questions.values()), split, run)
    errors = [(q, prediction) for q, prediction in questions.items() if is_right(q, prediction, score) < 1]
    for question, prediction in sorted(errors, key=lambda pair: -(pair[1].confidence or 0.0)):
        kind = answer_error(prediction.text, question.answers)
        cell = prediction.cells[0] if prediction.cells and question.candidates else None
        details = (KINDS[kind] if kind else "", PLACES[place_of(cell, question.candidates)] if cell else "")
        yield WrongAnswer(question, prediction, "; ".join(filter(None, details)))


def answer_row(wrong: WrongAnswer) -> Row:
    """Build the table row of one incorrect answer.

    Rows and columns of cells are numbered from 1.
    """
    question, prediction, kind = wrong
    cells = ", ".join(f"{row + 1}:{column + 1}" for row, column in prediction.chosen)
    texts = (prediction.text, " / ".join(question.answers), cells, kind)
    words = (ViewCell(text or NOTHING) for text in texts)
    return Row(question.text or question.question_id, (*words, ViewCell.of(prediction.confidence, "{:.2f}".format)))
