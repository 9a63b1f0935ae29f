"""The part of a table around the cells that were chosen, and an answer in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mate_cli.tables.formats.cell_text import list_names
from mate_cli.tables.questions import TableAnswerResult
from mate_cli.tables.table import find_table_formats

MAX_TEXTS = 10
EVEN = 0.5
"""A confidence below which an answer is more likely wrong than right."""
COMPUTED = {"sum": "sum of", "average": "average of", "count": "count of"}


@dataclass(frozen=True)
class TableWindow:
    """The part of a table that is shown.

    Args:
        rows: places of its rows; None stands for a gap.
        columns: places of its columns; None stands for a gap.
        hidden_rows: how many rows are not shown.
        hidden_columns: how many columns are not shown.
        hidden_cells: how many chosen cells are not shown.
        more: there are rows that are not counted.
    """

    rows: tuple[int | None, ...]
    columns: tuple[int | None, ...]
    hidden_rows: int
    hidden_columns: int
    hidden_cells: int
    more: bool = False


def window(answered: TableAnswerResult, most_rows: int, most_columns: int) -> TableWindow:
    """Choose the rows and columns around the chosen cells."""
    shape = len(answered.table.rows), len(answered.table.header)
    shown = cell_window(_best_first(answered), shape, most_rows, most_columns)
    if answered.result is None:
        return shown
    unread = answered.rows_in_file - len(answered.result)
    return replace(shown, hidden_rows=shown.hidden_rows + unread, more=answered.more_rows)


def cell_window(
    cells: Sequence[tuple[int, int]], shape: tuple[int, int], most_rows: int, most_columns: int
) -> TableWindow:
    """Choose the rows and columns around some cells; the first column is shown, as it often names the row.

    Args:
        cells: (row, column) of each, the most important first.
        shape: rows and columns of the table.
        most_rows: so many are shown.
        most_columns: so many are shown.
    """
    height, width = shape
    rows = pick_neighbours(list(dict.fromkeys(row for row, _ in cells)), height, most_rows)
    columns = pick_neighbours([*dict.fromkeys(column for _, column in cells), 0], width, most_columns)
    shown_rows, shown_columns = _with_gaps(rows, height), _with_gaps(columns, width)
    hidden = sum(row not in shown_rows or column not in shown_columns for row, column in cells)
    hidden_rows, hidden_columns = height - _count(shown_rows), width - _count(shown_columns)
    return TableWindow(shown_rows, shown_columns, hidden_rows, hidden_columns, hidden)


def _count(shown: Sequence[int | None]) -> int:
    return sum(place is not None for place in shown)


def numeric_columns(answered: TableAnswerResult, shown: TableWindow) -> list[bool]:
    """Tell of each shown column whether all that is shown of it is numbers; people like those on the right."""
    table = answered.table
    formats = table.formats or find_table_formats(table)
    texts = [
        [table.rows[row][column].text for row in shown.rows if row is not None] if column is not None else []
        for column in shown.columns
    ]
    return [
        column is not None
        and any(cells)
        and all(formats[column].read_number(text) is not None for text in cells if text)
        for column, cells in zip(shown.columns, texts, strict=True)
    ]


def _best_first(answered: TableAnswerResult) -> list[tuple[int, int]]:
    pairs = zip(answered.cells, answered.probabilities, strict=True)
    return [cell for cell, _ in sorted(pairs, key=lambda pair: -pair[1])]


def pick_neighbours(wanted: Sequence[int], size: int, most: int) -> list[int]:
    """Pick at most so many of 0..size-1: the wanted ones, the first of them first, their neighbours, then the first.

    Args:
        wanted: in the order of their importance.
        size: how many there are.
        most: how many to take.
    """
    if size <= most:
        return list(range(size))
    places = dict.fromkeys(wanted[:most])
    for distance in range(1, size):
        for place in wanted[:most] or [0]:
            for near in (place - distance, place + distance):
                if 0 <= near < size and len(places) < most:
                    places.setdefault(near)
    if not wanted:
        return list(range(most))
    return sorted(places)


def _with_gaps(places: Sequence[int], size: int) -> tuple[int | None, ...]:
    """Return places with None for those that are missing; where a single one is, it takes no more room itself."""
    shown: list[int | None] = []
    for before, place in zip([-1, *places], [*places, size], strict=True):
        if place - before == 2:
            shown.append(place - 1)
        elif place - before > 2:
            shown.append(None)
        if place < size:
            shown.append(place)
    return tuple(shown)


def answer_text(answered: TableAnswerResult) -> str:
    """Return the answer in words."""
    if answered.failure:
        return f"no answer: {answered.failure}"
    if answered.abstained:
        return f"abstained: {answered.confidence or 0:.2f} < {answered.threshold:g}"
    if answered.verdict:
        return answered.answer
    if answered.cells and answered.value is None and answered.aggregation == "none":
        return _few(answered)
    return answered.answer or "(an empty cell)"


def _few(answered: TableAnswerResult) -> str:
    """Return the texts of the chosen cells, equal ones once; only the first of many."""
    texts = dict.fromkeys(answered.table.rows[row][column].text for row, column in answered.cells)
    return list_names((shorten(text) or "(an empty cell)" for text in texts), MAX_TEXTS)


def shorten(text: str, most: int = 200) -> str:
    """Return a text in one line, cut where it is longer than anyone reads."""
    line = " ".join(text[: 2 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def rate_certainty(answered: TableAnswerResult) -> Literal["none", "unsure", "given"]:
    """Tell whether there is an answer, and one that is more likely right than wrong."""
    if answered.failure or answered.abstained or not (answered.cells or answered.verdict or answered.answer):
        return "none"
    return "unsure" if answered.confidence is not None and answered.confidence < EVEN else "given"


def computed_text(answered: TableAnswerResult) -> str:
    """Return how the value was computed, such as `sum of 3 cells = 1,204`; empty where it was not."""
    if answered.aggregation == "none" or not answered.cells or answered.abstained:
        return ""
    count = len(answered.cells)
    result = "" if answered.value is None else f" = {answered.answer}"
    return f"{COMPUTED[answered.aggregation]} {count:,} cell{'' if count == 1 else 's'}{result}"


def confidence_text(answered: TableAnswerResult) -> str:
    """Return the confidence and whether it is calibrated; empty where none is known."""
    if answered.confidence is None or answered.failure:
        return ""
    return f"{answered.confidence:.2f}{'' if answered.calibrated else ' (uncalibrated)'}"
