"""The table that a question is about: the part around the right cells and those that were chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mate_cli.reports.answers.page import window_element
from mate_cli.reports.answers.terminal import hidden_text
from mate_cli.reports.answers.window import cell_window, shorten
from mate_cli.reports.compare.answer_tables import AnswerTable
from mate_cli.reports.compare.disagreements import GivenAnswer
from mate_cli.reports.compare.questions import Cell
from mate_cli.reports.html_elements import Markup, element
from mate_cli.reports.plots.style import paint_of

MOST_ROWS, MOST_COLUMNS, LONGEST = 6, 4, 80
HOLDS, LINKS = "●", "○"
MEANINGS = {
    HOLDS: "holds the right answer",
    LINKS: "holds no answer itself: it links to a passage with the right one",
}


def question_table(table: AnswerTable, answers: Sequence[GivenAnswer], places: Mapping[str, int]) -> Markup:
    """Returns the part of a table that tells a question's story, and what the marks in it mean.

    Args:
        table: the table.
        answers: what configurations answered.
        places: the place of each configuration among all, which is that of its colour.
    """
    shape = len(table.rows), len(table.header)
    chosen: dict[Cell, list[str]] = {}
    for answer in answers:
        for place in answer.cells:
            if all(0 <= at < size for at, size in zip(place, shape, strict=True)):
                chosen.setdefault(place, []).append(answer.label)
    shown = cell_window(by_importance(table, chosen), shape, MOST_ROWS, MOST_COLUMNS)
    names = {place: element("th", shorten(name, LONGEST), scope="col") for place, name in enumerate(table.header)}

    def cell(row: int, column: int) -> Markup:
        return table_cell(table, (row, column), chosen.get((row, column), ()), places)

    drawn = window_element(shown, names, cell, lambda row: str(row + 1))
    said = [f"{mark} {meaning}" for mark, meaning in MEANINGS.items() if f">{mark}<" in drawn]
    said += ["coloured squares: the cells that each configuration chose"] * bool(chosen)
    legend = element("p", "; ".join(filter(None, [*said, hidden_text(shown, "marked cell")])), class_="note")
    return element("details", element("summary", "The table"), drawn, legend, open=True, class_="about")


def by_importance(table: AnswerTable, chosen: Mapping[Cell, Sequence[str]]) -> list[Cell]:
    """Orders the cells to show: those both right and chosen, then by turns one that is right and one that is chosen."""
    gold = [cell for cell in table.gold if cell not in chosen]
    wrong = [cell for cell in chosen if cell not in table.gold]
    turns = [cell for pair in zip(gold, wrong, strict=False) for cell in pair]
    both = [cell for cell in chosen if cell in table.gold]
    return list(dict.fromkeys([*both, *turns, *gold, *wrong]))


def table_cell(table: AnswerTable, place: Cell, labels: Sequence[str], places: Mapping[str, int]) -> Markup:
    """Returns one cell: a mark where it is right, and a square in the colour of each configuration that chose it."""
    sign = (LINKS if place in table.linking else HOLDS) if place in table.gold else None
    mark = sign and element("span", sign, class_="mark", role="img", aria_label=MEANINGS[sign], title=MEANINGS[sign])
    squares = [
        element(
            "i",
            class_="swatch",
            style=f"--paint:{paint_of(places[label])}",
            role="img",
            aria_label=f"chosen by {label}",
            title=f"chosen by {label}",
        )
        for label in labels
    ]
    kind = " ".join(filter(None, ["gold" if sign else "", "chosen" if labels else ""]))
    text = shorten(table.rows[place[0]][place[1]], LONGEST)
    return element("td", mark, squares, element("span", text), class_=kind or None)
