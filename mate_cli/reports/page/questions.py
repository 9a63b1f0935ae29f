"""Questions that configurations answer differently, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mate_cli.metrics.specs.names import MetricName, subset_title
from mate_cli.metrics.subsets import IN_PASSAGE
from mate_cli.reports.answers.terminal import hidden_text
from mate_cli.reports.answers.window import cell_window, shorten
from mate_cli.reports.compare.answer_tables import AnswerTable, read_tables
from mate_cli.reports.compare.disagreements import Disagreement, ModelAnswer, disagreements
from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.questions import Cell, ScoredQuestion
from mate_cli.reports.compare.report import Report
from mate_cli.reports.format import NOTHING, plural
from mate_cli.reports.page.page_data import score_names
from mate_cli.reports.view import ReportSection

MAX_QUESTIONS, MAX_GROUPS, MAX_TEXTS, FIRST = 40, 8, 2, 6


def report_section(report: Report, *, wide: bool) -> ReportSection:
    """Return the questions on which the best configurations disagree most, with a field to search them."""
    title = "Questions with different answers"
    content = partial(questions_content, report)
    return ReportSection("questions", title, "Questions", template="questions.html", content=content)


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
    tables, missing = tables_of(cases, groups, MetricName.parse(metric).split, report.cache)
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
        read = read_tables(dict.fromkeys(told), split, [case.question.question_id for case in questions], cache)
        tables |= read.by_question
        missing |= {read.missing: None} if read.missing else {}
    return tables, "; ".join(missing)


def question_card(case: Disagreement, table: AnswerTable | None, places: Mapping[str, int]) -> Mapping[str, Any]:
    """Return one question: its text, the right answer, what each configuration answered, and the table."""
    question = case.question
    facts = [subset_title(question.source), question.table_id.replace("_", " ")]
    return {
        "text": question.text or question.question_id,
        "gold": " / ".join(question.answers) or NOTHING,
        "detail": " · ".join(fact for fact in facts if fact),
        "answers": [answer_row(answer, question, places[answer.label]) for answer in case.answers],
        "right": [answer.label for answer in case.answers if answer.score >= 1.0],
        "wrong": [answer.label for answer in case.answers if answer.score <= 0.0],
        "table": QuestionTable(table, case.answers) if table else None,
    }


def answer_row(answer: ModelAnswer, question: ScoredQuestion, place: int) -> Mapping[str, Any]:
    """Return the answer of one configuration, with a mark that does not rely on colour, and the seeds that gave it."""
    kind, mark, word = verdict(answer.score)
    seeds = sum(number for _, number in answer.texts)
    several = len(answer.texts) > 1
    return {
        "label": answer.label,
        "place": place,
        "kind": kind,
        "mark": mark,
        "word": word,
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


def verdict(score: float) -> tuple[str, str, str]:
    """Say how right an answer is: its class, its mark, its word."""
    if score >= 1.0:
        return ("right", "✓", "right")
    return ("wrong", "✗", "wrong") if score <= 0.0 else ("partly", "◐", "partly right")


MAX_ROWS, MAX_COLUMNS, MAX_LETTERS = 6, 4, 80
HOLDS, LINKS = "●", "○"
MEANINGS = {
    HOLDS: "holds the right answer",
    LINKS: "not the answer itself: links to a passage with the right answer",
}


class QuestionTable:
    """The part of a table that tells a question's story.

    Args:
        table: the table.
        answers: what configurations answered.
    """

    def __init__(self, table: AnswerTable, answers: Sequence[ModelAnswer]) -> None:
        self._table = table
        shape = len(table.rows), len(table.header)
        self._chosen: dict[Cell, list[str]] = {}
        for answer in answers:
            for place in answer.cells:
                if all(0 <= at < size for at, size in zip(place, shape, strict=True)):
                    self._chosen.setdefault(place, []).append(answer.label)
        self.shown = cell_window(order_by_importance(table, self._chosen), shape, MAX_ROWS, MAX_COLUMNS)
        self.names = {place: (shorten(name, MAX_LETTERS), False) for place, name in enumerate(table.header)}

    def number(self, row: int) -> str:
        """Return the number of a row."""
        return str(row + 1)

    def sign(self, row: int, column: int) -> tuple[str, str]:
        """Return the mark of a cell that is right, and its meaning; empty for another."""
        if (row, column) not in self._table.gold:
            return "", ""
        sign = LINKS if (row, column) in self._table.linking else HOLDS
        return sign, MEANINGS[sign]

    def chosen_by(self, row: int, column: int) -> Sequence[str]:
        """Return the configurations that chose a cell."""
        return self._chosen.get((row, column), ())

    def text(self, row: int, column: int) -> str:
        """Return the text of a cell, shortened."""
        return shorten(self._table.rows[row][column], MAX_LETTERS)

    @property
    def legend(self) -> str:
        """The meaning of the marks in it, and how much is not shown."""
        cells = [(row, column) for row in self.shown.rows for column in self.shown.columns]
        signs = {self.sign(row, column)[0] for row, column in cells if row is not None and column is not None}
        entries = [f"{mark} {meaning}" for mark, meaning in MEANINGS.items() if mark in signs]
        entries += ["coloured squares: the cells that each configuration chose"] * bool(self._chosen)
        return "; ".join(filter(None, [*entries, hidden_text(self.shown, "marked cell")]))


def order_by_importance(table: AnswerTable, chosen: Mapping[Cell, Sequence[str]]) -> list[Cell]:
    """Order the cells to show: those both right and chosen, then by turns one that is right and one that is chosen."""
    gold = [cell for cell in table.gold if cell not in chosen]
    wrong = [cell for cell in chosen if cell not in table.gold]
    turns = [cell for pair in zip(gold, wrong, strict=False) for cell in pair]
    both = [cell for cell in chosen if cell in table.gold]
    return list(dict.fromkeys([*both, *turns, *gold, *wrong]))
