"""Answers about one's own tables as one self-contained page, readable on a phone and in print."""

from __future__ import annotations

from itertools import groupby

from mate_cli.reports.answers.terminal import hidden_text, speed_text
from mate_cli.reports.answers.window import (
    answer_text,
    computed_text,
    confidence_text,
    how_sure,
    numeric_columns,
    window,
)
from mate_cli.reports.html_elements import Markup, element
from mate_cli.reports.page.page import asset
from mate_cli.tables.answered import Session, TableQuestion

MOST_ROWS, MOST_COLUMNS = 60, 40
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render_answers(session: Session) -> str:
    """Returns the page."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("title", "Answers · MATE"),
        element("style", asset("answers.css")),
    )
    groups = groupby(session.answers, key=lambda answered: answered.source)
    tables = [table_section(source, list(answers), session) for source, answers in groups]
    skipped = element("ul", [element("li", reason) for reason in session.skipped.values()], class_="skipped")
    body = element(
        "body",
        element("header", element("h1", "Answers")),
        element("main", skipped if session.skipped else None, tables),
        element("footer", speed_text(session)),
    )
    return f'<!DOCTYPE html>\n<html lang="en">{head}{body}</html>\n'


def table_section(source: str, answers: list[TableQuestion], session: Session) -> Markup:
    """Returns all questions about one table."""
    notes = [element("li", note) for note in session.notes.get(source, ())]
    return element(
        "section",
        element("h2", source),
        element("ul", notes, class_="notes") if notes else None,
        [answer_card(answered) for answered in answers],
    )


def answer_card(answered: TableQuestion) -> Markup:
    """Returns one question with its answer and table."""
    confidence = confidence_text(answered)
    facts = [computed_text(answered), f"confidence {confidence}" if confidence else ""]
    return element(
        "article",
        element("h3", answered.question),
        element("p", answer_text(answered), class_=f"answer {how_sure(answered)}"),
        element("p", " · ".join(filter(None, facts)), class_="facts") if any(facts) else None,
        [element("p", warning, class_="warning") for warning in answered.warnings],
        answered_table_element(answered),
        [element("p", sentence, class_="notes") for sentence in answered.cut],
    )


def answered_table_element(answered: TableQuestion) -> Markup:
    """Returns the part of the table around the chosen cells; chosen ones are marked, for screen readers too."""
    shown = window(answered, MOST_ROWS, MOST_COLUMNS)
    header, chosen = answered.table.header, frozenset(answered.cells)
    columns = list(zip(shown.columns, numeric_columns(answered, shown), strict=True))
    names = [
        element("th", "⋯" if column is None else header[column].text, scope="col", class_="number" if right else None)
        for column, right in columns
    ]
    lines = []
    for row in shown.rows:
        if row is None:
            lines.append(element("tr", element("td", "⋯", colspan=len(names) + 1), class_="gap"))
            continue
        cells = [
            element("td", "⋯", class_="gap")
            if column is None
            else cell_element(answered.table.rows[row][column].text, chosen=(row, column) in chosen, right=right)
            for column, right in columns
        ]
        number = element("th", f"{answered.row_numbers[row]:,}", scope="row")
        hit = any((row, column) in chosen for column in shown.columns)
        lines.append(element("tr", number, cells, class_="hit" if hit else None))
    table = element(
        "table", element("thead", element("tr", element("th", "row", scope="col"), names)), element("tbody", lines)
    )
    hidden = hidden_text(shown)
    return Markup(
        element("div", table, class_="scroll", tabindex="0") + element("p", hidden, class_="notes") * bool(hidden)
    )


def cell_element(text: str, *, chosen: bool, right: bool) -> Markup:
    """Returns one cell."""
    content = element("mark", text or "(empty)", title="chosen") if chosen else text
    return element("td", content, class_="number" if right else None)
