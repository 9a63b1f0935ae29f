"""From the texts of an answer to the cells that hold it and to its number.

Source: google-research/tapas, `utils/interaction_utils_parser.py`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Literal

from mate_cli.tables.denotation import read_float
from mate_cli.tables.example import Answer, Coordinates
from mate_cli.tables.numbers import as_float32
from mate_cli.tables.table import Table
from mate_cli.tables.text import tokenize_string, wtq_normalize

Mode = Literal["none", "remove_all", "remove_all_strict"]
"""What is kept of an answer: all that the dataset states ("none"), or its texts only. The strict one also
refuses an answer that several cells hold."""

NO_TEXT, ABSENT, SEVERAL, SHARED = REASONS = ("no text", "not found", "in several cells", "ambiguous")
"""Why nothing can be learnt from an answer: the dataset states none; not all of its texts are cells, and it is no
number; several cells hold a text of it, which only the strict mode refuses; two texts of it are the same cell."""

Form = Callable[[str], Hashable]


def read_tapas_number(text: str) -> float | None:
    """Read a text as TAPAS reads answers; None where it is no finite number."""
    number = read_float(text)
    return number if number is not None and math.isfinite(number) else None


_FORMS: tuple[Form, ...] = (str, str.lower, tokenize_string, wtq_normalize)
"""Normal forms in which a cell may equal an answer, the closest one first."""


class CellFinder:
    """Finds the body cells of one table whose whole text is that of an answer.

    Its cells are normalised once, however many answers are looked for.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._cells: dict[Form, dict[Hashable, list[tuple[int, int]]]] = {}

    def find(self, texts: Sequence[str], strict: bool = False) -> tuple[Coordinates, str]:
        """Find one cell per text: the first one, row by row, in the closest normal form in which all texts are cells.

        Where it is strict, a text that several cells hold is refused.

        Returns:
            The coordinates and "", or no coordinates and the reason, which is one of `REASONS`.
        """
        reason = ABSENT
        for form in _FORMS:
            candidates = [self._places(form, form(text)) for text in texts]
            reason = _objection(candidates, strict)
            if not reason:
                return tuple(cells[0] for cells in candidates), ""
        return (), reason

    def _places(self, form: Form, text: Hashable) -> list[tuple[int, int]]:
        """Return the cells that are a text in a normal form, row by row."""
        if form not in self._cells:
            cells = self._cells[form] = defaultdict[Hashable, list[tuple[int, int]]](list)
            for row, column, cell in self.table.cells():
                cells[form(cell.text)].append((row, column))
        return self._cells[form].get(text, [])


def supervise(
    answer: Answer, cells: CellFinder, mode: Mode, read_number: Callable[[str], float | None] = read_tapas_number
) -> Answer:
    """Derive from an answer's texts what a network can learn from: coordinates, a number, or both.

    A stated number counts as the only text, unless the only text is that number already. A number that is not
    finite is none, which the reference would keep.

    Args:
        answer: as the dataset states it.
        cells: the finder of the example's table.
        mode: with "none" the answer is left as it is.
        read_number: reads a text as a number, by TAPAS's rules or by those of people's tables.

    Returns:
        The answer; where nothing can be learnt from it, it has neither coordinates nor number, and its source is
        one of `REASONS`.
    """
    if mode == "none":
        return answer
    texts = _texts(answer, read_number)
    bare = replace(answer, texts=texts, coordinates=(), number=None, aggregation=None)
    if not texts:
        return replace(bare, source=NO_TEXT)
    strict = mode == "remove_all_strict"
    coordinates, reason = cells.find(texts, strict)
    number = read_number(texts[0]) if len(texts) == 1 else None
    if (strict and reason in (SEVERAL, SHARED)) or (not coordinates and number is None):
        return replace(bare, source=reason)
    return replace(bare, coordinates=coordinates, number=number)


def _objection(candidates: Sequence[Sequence[tuple[int, int]]], strict: bool) -> str:
    if not all(candidates):
        return ABSENT
    if strict and any(len(cells) > 1 for cells in candidates):
        return SEVERAL
    everywhere = [cell for cells in candidates for cell in cells]
    return SHARED if len(set(everywhere)) < len(everywhere) else ""


def _texts(answer: Answer, read_number: Callable[[str], float | None]) -> tuple[str, ...]:
    if answer.number is None:
        return answer.texts
    stated = as_float32(answer.number)
    parsed = read_number(answer.texts[0]) if len(answer.texts) == 1 else None
    if parsed is not None and as_float32(parsed) == stated:
        return answer.texts
    return (str(int(stated)) if stated.is_integer() else str(stated),)
