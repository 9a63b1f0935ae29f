"""What is wrong with the wrong answers of runs, beside what the MATE paper says of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mate_cli.metrics.answer_errors import KINDS, PAPER, PLACES, AnsweredQuestion, ErrorCounts, count_errors
from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.questions import Questions, load_questions, read_predictions
from mate_cli.reports.compare.report import Report
from mate_cli.reports.format import NOTHING
from mate_cli.reports.terminal.views import print_views
from mate_cli.reports.view import Column, Row, View, ViewCell
from mate_cli.terminal.console import Console

SCORED = ("em", "gold_em")
"""Runs with one of these scores answer with texts."""


@dataclass(frozen=True)
class ErrorRow:
    """The wrong answers of a configuration on a split, all its seeds together."""

    label: str
    split: str
    counts: ErrorCounts


def error_rows(report: Report) -> list[ErrorRow]:
    """Sorts the wrong answers of every configuration, on the split that the report ranks by."""
    split = (report.metric or "dev/").partition("/")[0]
    rows = [ErrorRow(group.label, split, _of_group(group, split)) for group in report.groups]
    return [row for row in rows if row.counts.wrong]


def errors_in(questions: Questions) -> ErrorCounts:
    """Sorts the wrong answers among what was answered; nothing where the answers are no texts."""
    scored = [(question, made) for question, made in questions.items() if set(SCORED) & made.scores.keys()]
    return count_errors(
        AnsweredQuestion(
            made.text, (*q.answers, " ".join(q.answers)), made.cells[0] if made.cells else None, q.candidates
        )
        for q, made in scored
    )


def error_shares(counts: ErrorCounts) -> dict[str, str]:
    """Writes the shares of what is wrong in percent by their names: kinds, those the paper has, places of cells."""
    placed, shares = counts.places.total(), counts.shares()
    kinds = {title: _percent(counts.kinds[kind], counts.wrong) for kind, title in KINDS.items()}
    known = {name: f"{100 * shares[name]:.1f}" for name in PAPER if name in shares}
    return kinds | known | {title: _percent(counts.places[place], placed) for place, title in PLACES.items() if placed}


def print_errors(file: Path, console: Console) -> None:
    """Prints what is wrong with the answers in a file of predictions; nothing where none is a wrong text."""
    counts = errors_in(read_predictions(file))
    if not counts.wrong:
        return
    none = {title for kind, title in KINDS.items() if not counts.kinds[kind]}
    shown = {name: share for name, share in error_shares(counts).items() if name not in none}
    theirs = {name: paper_text(name) if name in PAPER else "" for name in shown}
    rows = (Row(name, (ViewCell(share), ViewCell(theirs[name]))) for name, share in shown.items())
    title = f"{counts.wrong:,} wrong answers of {counts.questions:,}, in percent"
    console.print()
    print_views([View(title, (Column("Share"), Column("MATE paper")), tuple(rows), head="")], console)


def _of_group(group: Configuration, split: str) -> ErrorCounts:
    total = ErrorCounts()
    for run in group.counted:
        own = errors_in(load_questions(run, split) or {})
        total.questions += own.questions
        total.kinds += own.kinds
        total.places += own.places
    return total


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else NOTHING


def paper_text(name: str) -> str:
    """Writes a share of the paper."""
    value = f"{100 * PAPER[name]:.0f}"
    return f"> {value}" if name == [*PAPER][-1] else value
