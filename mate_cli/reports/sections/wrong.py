"""The wrong answers of one run, the surest first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mate_cli.metrics.answer_errors import KINDS, PLACES, answer_error, place_of
from mate_cli.metrics.specs import SPLITS
from mate_cli.reports.compare.questions import Prediction, ScoredQuestion, load_questions
from mate_cli.reports.compare.report import Report
from mate_cli.reports.format import NOTHING
from mate_cli.reports.runs.load import LoadedRun
from mate_cli.reports.sections.difference import common_score, is_right
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell

COLUMNS = (
    Column("Answer", is_number=False),
    Column("Right answer", is_number=False),
    Column("Cell", is_number=False),
    Column("What is wrong", is_number=False),
    Column("Confidence", stacked="Confi-\ndence"),
)
MAX_ROWS = 200
"""Questions on the page; the file of `csv=` has all."""


class WrongAnswer(NamedTuple):
    """A question, what was answered, and what is wrong: the kind of error, and where its cell stands."""

    question: ScoredQuestion
    prediction: Prediction
    kind: str


def report_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return the wrong answers, None where the comparison is not of one run."""
    runs = [run for run in report.runs if run.parent is None]
    if wide or len(runs) != 1:
        return None
    first = (report.metric or "dev/").partition("/")[0]
    for split in dict.fromkeys((first, *SPLITS)):
        if questions := load_questions(runs[0], split):
            wrong = list(wrong_answers(runs[0], split))
            title = f"Wrong answers on {split}"
            view = View(title, COLUMNS, tuple(map(answer_row, wrong[:MAX_ROWS])), "Question")
            told = f"{len(wrong):,} of {len(questions):,} questions are not answered right"
            notes = (
                f"{told}; those the run was surest of come first; a cell is row:column, from 1",
                "all of them: sections=wrong csv=FILE",
            )
            return ReportSection("wrong", title, "Wrong answers", (view,), notes)
    return None


def wrong_answers(run: LoadedRun, split: str) -> Iterator[WrongAnswer]:
    """Yield the questions that a run does not answer wholly right, those it was surest of first."""
    questions = load_questions(run, split)
    score = common_score(list(questions.values()), split)
    wrong = [(q, prediction) for q, prediction in questions.items() if is_right(q, prediction, score) < 1]
    for question, prediction in sorted(wrong, key=lambda pair: -(pair[1].confidence or 0.0)):
        kind = answer_error(prediction.text, question.answers)
        cell = prediction.cells[0] if prediction.cells and question.candidates else None
        told = (KINDS[kind] if kind else "", PLACES[place_of(cell, question.candidates)] if cell else "")
        yield WrongAnswer(question, prediction, "; ".join(filter(None, told)))


def answer_row(wrong: WrongAnswer) -> Row:
    """Return the line of a question; rows and columns are counted from 1."""
    question, prediction, kind = wrong
    cells = ", ".join(f"{row + 1}:{column + 1}" for row, column in prediction.chosen)
    gold, sure = " / ".join(question.answers), prediction.confidence
    confidence = ViewCell() if sure is None else ViewCell(f"{sure:.2f}", sure)
    words = (ViewCell(text or NOTHING) for text in (prediction.text, gold, cells, kind))
    return Row(question.text or question.question_id, (*words, confidence))
