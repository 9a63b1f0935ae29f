"""Answers about tables as one self-contained page, readable on a phone and in print."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from mate_cli.reports.answers.terminal import hidden_text, speed_text
from mate_cli.reports.answers.window import (
    answer_text,
    computed_text,
    confidence_text,
    how_sure,
    numeric_columns,
    window,
)
from mate_cli.reports.html_page import render_template
from mate_cli.tables.questions import Session, TableAnswerResult

MOST_ROWS, MOST_COLUMNS = 60, 40


def render_answers(session: Session) -> str:
    """Render the page."""
    groups = groupby(session.answers, key=lambda answered: answered.source)
    return render_template(
        "answers.html",
        title="Answers",
        style="answers.css",
        scripts=(),
        skipped=list(session.skipped.values()),
        tables=[(name, session.notes.get(name, ()), list(map(answer_card, answers))) for name, answers in groups],
        footer=speed_text(session),
    )


def answer_card(answered: TableAnswerResult) -> Mapping[str, Any]:
    """Return one question with its answer, and the part of the table around the chosen cells."""
    shown = window(answered, MOST_ROWS, MOST_COLUMNS)
    right = dict(zip(shown.columns, numeric_columns(answered, shown), strict=True))
    confidence = confidence_text(answered)
    facts = [computed_text(answered), f"confidence {confidence}" if confidence else ""]
    header = answered.table.header
    return {
        "answered": answered,
        "text": answer_text(answered),
        "sure": how_sure(answered),
        "facts": " · ".join(filter(None, facts)),
        "shown": shown,
        "names": {column: (header[column].text, right[column]) for column in shown.columns if column is not None},
        "number": lambda row: f"{answered.row_numbers[row]:,}",
        "hits": {row for row, column in answered.cells if column in shown.columns},
        "cell": lambda row, column: answered.table.rows[row][column].text,
        "hidden": hidden_text(shown),
    }
