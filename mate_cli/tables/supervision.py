"""Labels from answer texts: the cells that contain an answer, and its number.

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
"""Labels to replace: "none" keeps the labels of the dataset. "remove_all" keeps only the answer texts and derives new
labels from them. "remove_all_strict" also rejects an answer text that several cells contain."""

NO_TEXT, ABSENT, SEVERAL, SHARED = REASONS = ("no text", "not found", "in several cells", "ambiguous")
"""Why an answer has no label. `NO_TEXT`: the dataset states no answer text. `ABSENT`: a text is not a cell, and the
answer is not a number. `SEVERAL`: several cells contain a text (strict mode only). `SHARED`: two texts are one cell."""

Form = Callable[[str], Hashable]


def read_tapas_number(text: str) -> float | None:
    """Parse an answer text as a number by the rules of TAPAS. Return None if it is not a finite number."""
    number = read_float(text)
    return number if number is not None and math.isfinite(number) else None


_FORMS: tuple[Form, ...] = (str, str.lower, tokenize_string, wtq_normalize)
"""Normal forms in which a cell may equal an answer text, from strictest to most lenient."""


class CellFinder:
    """Index of the body cells of one table, which finds cells that equal an answer text.

    The normal forms of the cells are computed once and cached.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._cells: dict[Form, dict[Hashable, list[tuple[int, int]]]] = {}

    def find(self, texts: Sequence[str], strict: bool = False) -> tuple[Coordinates, str]:
        """Find a distinct table cell for each answer text.

        The search uses the strictest normal form in which every text equals a distinct cell. If several cells equal
        a text, the first cell in row order is returned.

        Args:
            texts: answer texts.
            strict: reject a text that several cells equal.

        Returns:
            The coordinates and "", or no coordinates and the reason, one of `REASONS`.
        """
        reason = ABSENT
        for form in _FORMS:
            candidates = [self._find_cells(form, form(text)) for text in texts]
            reason = _objection(candidates, strict)
            if not reason:
                return tuple(cells[0] for cells in candidates), ""
        return (), reason

    def _find_cells(self, form: Form, text: Hashable) -> list[tuple[int, int]]:
        """Return (row, column) of the cells that `form` normalizes to `text`, in row order."""
        if form not in self._cells:
            cells = self._cells[form] = defaultdict[Hashable, list[tuple[int, int]]](list)
            for row, column, cell in self.table.cells():
                cells[form(cell.text)].append((row, column))
        return self._cells[form].get(text, [])


def supervise(
    answer: Answer, cells: CellFinder, mode: Mode, read_number: Callable[[str], float | None] = read_tapas_number
) -> Answer:
    """Derive the labels of an answer from its texts: coordinates, a number, or both.

    If the dataset states a number, it replaces the texts, unless the only text already is that number. A number that
    is not finite is ignored. google-research/tapas keeps it.

    Args:
        answer: answer of the dataset.
        cells: cell finder of the example's table.
        mode: labels to replace. "none" returns the answer unchanged.
        read_number: parser of numbers: the rules of TAPAS by default, or the column formats of user tables.

    Returns:
        The answer with its labels. If no label can be derived, the answer has neither coordinates nor number, and its
        source is one of `REASONS`.
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
    number = as_float32(answer.number)
    parsed = read_number(answer.texts[0]) if len(answer.texts) == 1 else None
    if parsed is not None and as_float32(parsed) == number:
        return answer.texts
    return (str(int(number)) if number.is_integer() else str(number),)
