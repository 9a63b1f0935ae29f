"""Answers about one's own tables as one self-contained page, readable on a phone and in print."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import groupby

from mate_cli.reports.answers.terminal import hidden_text, speed_text
from mate_cli.reports.answers.window import (
    TableWindow,
    answer_text,
    computed_text,
    confidence_text,
    how_sure,
    numeric_columns,
    window,
)
from mate_cli.reports.html_elements import Markup, element, html_page
from mate_cli.tables.answered import Session, TableQuestion

MOST_ROWS, MOST_COLUMNS = 60, 40
GAP = "⋯"


def render_answers(session: Session) -> str:
    """Returns the page."""
    groups = groupby(session.answers, key=lambda answered: answered.source)
    tables = [table_section(source, list(answers), session) for source, answers in groups]
    skipped = element("ul", [element("li", reason) for reason in session.skipped.values()], class_="skipped")
    return html_page(
        "Answers",
        "answers.css",
        element("header", element("h1", "Answers")),
        element("main", skipped if session.skipped else None, tables),
        element("footer", speed_text(session)),
    )


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
    table, chosen, hidden = answered.table, frozenset(answered.cells), hidden_text(shown)
    right = dict(zip(shown.columns, numeric_columns(answered, shown), strict=True))

    def cell(row: int, column: int) -> Markup:
        return cell_element(table.rows[row][column].text, chosen=(row, column) in chosen, right=right[column])

    hits = {row for row, column in chosen if column in shown.columns}
    names = {
        column: element("th", table.header[column].text, scope="col", class_="number" if right[column] else None)
        for column in shown.columns
        if column is not None
    }
    drawn = window_element(shown, names, cell, lambda row: f"{answered.row_numbers[row]:,}", hits)
    return Markup(drawn + element("p", hidden, class_="notes") * bool(hidden))


def window_element(
    shown: TableWindow,
    names: Mapping[int, Markup],
    cell: Callable[[int, int], Markup],
    number: Callable[[int], str],
    hits: Collection[int] = (),
) -> Markup:
    """Returns a part of a table.

    Args:
        shown: which rows and columns.
        names: the heading of each column.
        cell: draws the cell of a row and a column.
        number: of each row.
        hits: rows that stand out.
    """
    gap = element("td", GAP, class_="gap")
    heads = [element("th", GAP, scope="col") if column is None else names[column] for column in shown.columns]
    lines = [
        element("tr", element("td", GAP, colspan=len(heads) + 1), class_="gap")
        if row is None
        else element(
            "tr",
            element("th", number(row), scope="row"),
            [gap if column is None else cell(row, column) for column in shown.columns],
            class_="hit" if row in hits else None,
        )
        for row in shown.rows
    ]
    head = element("thead", element("tr", element("th", "row", scope="col"), heads))
    return element("div", element("table", head, element("tbody", lines)), class_="scroll", tabindex="0")


def cell_element(text: str, *, chosen: bool, right: bool) -> Markup:
    """Returns one cell."""
    content = element("mark", text or "(empty)", title="chosen") if chosen else text
    return element("td", content, class_="number" if right else None)
