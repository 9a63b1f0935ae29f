"""The table that a question is about: the part around the right cells and those that were chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mate_cli.reports.answers.terminal import hidden_text
from mate_cli.reports.answers.window import cell_window, shorten
from mate_cli.reports.compare.answer_tables import AnswerTable
from mate_cli.reports.compare.disagreements import GivenAnswer
from mate_cli.reports.compare.questions import Cell

MOST_ROWS, MOST_COLUMNS, LONGEST = 6, 4, 80
HOLDS, LINKS = "●", "○"
MEANINGS = {
    HOLDS: "holds the right answer",
    LINKS: "holds no answer itself: it links to a passage with the right one",
}


class QuestionTable:
    """The part of a table that tells a question's story.

    Args:
        table: the table.
        answers: what configurations answered.
    """

    def __init__(self, table: AnswerTable, answers: Sequence[GivenAnswer]) -> None:
        self._table = table
        shape = len(table.rows), len(table.header)
        self._chosen: dict[Cell, list[str]] = {}
        for answer in answers:
            for place in answer.cells:
                if all(0 <= at < size for at, size in zip(place, shape, strict=True)):
                    self._chosen.setdefault(place, []).append(answer.label)
        self.shown = cell_window(by_importance(table, self._chosen), shape, MOST_ROWS, MOST_COLUMNS)
        self.names = {place: (shorten(name, LONGEST), False) for place, name in enumerate(table.header)}

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
        return shorten(self._table.rows[row][column], LONGEST)

    @property
    def legend(self) -> str:
        """The meaning of the marks in it, and how much is not shown."""
        cells = [(row, column) for row in self.shown.rows for column in self.shown.columns]
        signs = {self.sign(row, column)[0] for row, column in cells if row is not None and column is not None}
        said = [f"{mark} {meaning}" for mark, meaning in MEANINGS.items() if mark in signs]
        said += ["coloured squares: the cells that each configuration chose"] * bool(self._chosen)
        return "; ".join(filter(None, [*said, hidden_text(self.shown, "marked cell")]))


def by_importance(table: AnswerTable, chosen: Mapping[Cell, Sequence[str]]) -> list[Cell]:
    """Order the cells to show: those both right and chosen, then by turns one that is right and one that is chosen."""
    gold = [cell for cell in table.gold if cell not in chosen]
    wrong = [cell for cell in chosen if cell not in table.gold]
    turns = [cell for pair in zip(gold, wrong, strict=False) for cell in pair]
    both = [cell for cell in chosen if cell in table.gold]
    return list(dict.fromkeys([*both, *turns, *gold, *wrong]))
