"""The evaluation of WikiTableQuestions: when a list of texts counts as the true answer.

An item is a number, a date or a text. Two items agree when their texts are equal once normalised, when both are
numbers less than a millionth apart, or when both are the same date. A prediction is right when it has as many
distinct items as the true answer, and every item of the true answer agrees with one of them.

Source: the rule of ppasupat/WikiTableQuestions, `evaluator.py`, version 1.0.2, run by Python 2.7, its slips
included: an amount that is almost whole is cut to its whole part, 2.9999999 to 2.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mate_cli.metrics.accuracy import ACCURACIES
from mate_cli.metrics.denotation_accuracy import SelectedCells
from mate_cli.metrics.specs import MetricSpec
from mate_cli.metrics.subsets import average_by_part
from mate_cli.tables.denotation import denotation_of
from mate_cli.tables.example import TableExample
from mate_cli.tables.numbers import Date

TOLERANCE = 1e-6
"""Numbers that are less than this apart are equal."""
OFFICIAL_ACCURACY = MetricSpec("official_accuracy", "Official", 1, order=60, table=ACCURACIES, hub_name="accuracy")

_SIGNS = str.maketrans({**dict.fromkeys("‘’´`", "'"), **dict.fromkeys("“”", '"'), **dict.fromkeys("‐‑‒–—−", "-")})  # noqa: RUF001
_MARKS = re.compile(r"(?:[•♦†‡*#+]|\[[0-9]+\]|(?<=.)\[[^\]]*\])+\Z", re.DOTALL)
"""Marks of notes at the end. Brackets with anything but digits in them are notes only after something else."""
_ASIDES = re.compile(r"(?<=.)(?: \([^)]*\))+\Z", re.DOTALL)
_QUOTED = re.compile(r'"([^"]*)"')
_SIGN_APART = re.compile(r"^\s*([+-])\s+")
_UNKNOWN_YEAR, _UNKNOWN = ("xx", "xxxx"), ("xx",)


@dataclass(frozen=True)
class Item:
    """One item of an answer.

    Args:
        text: in normal form.
        number: where it is one.
        date: year, month and day where it is a date, None for those that are not known.
    """

    text: str
    number: float | None = None
    date: Date | None = None

    @property
    def key(self) -> object:
        """The key that items which count as one share."""
        return next(value for value in (self.number, self.date, self.text) if value is not None)

    def agrees(self, other: Item) -> bool:
        """Tell whether either may stand for the other."""
        if self.text == other.text:
            return True
        if self.number is not None and other.number is not None:
            return abs(self.number - other.number) < TOLERANCE
        return self.date is not None and self.date == other.date


def normalize(text: str) -> str:
    """Strip a text of accents, marks of notes, trailing brackets, outer quotes and a full stop; in lower case."""
    text = "".join(sign for sign in unicodedata.normalize("NFKD", text) if unicodedata.category(sign) != "Mn")
    text = text.translate(_SIGNS)
    before = None
    while text != before:
        before = text
        text = _MARKS.sub("", text.strip())
        text = _ASIDES.sub("", text.strip()).strip()
        quoted = _QUOTED.fullmatch(text)
        text = quoted[1] if quoted else text
    words = text.removesuffix(".").split()
    return "".join(map(str.lower, " ".join(words)))  # sign by sign: no special form for the last letter of a word


def read_item(text: str, canonical: str = "") -> Item:
    """Read one item; `canonical` is the number that it stands for, or the date as yyyy-mm-dd, xx for unknown parts."""
    meaning = canonical or text
    number = _read_number(meaning)
    if number is not None:
        return Item(normalize(text), number)
    date = _read_date(meaning)
    if date is None:
        return Item(normalize(text))
    if date.month is None and date.day is None:
        return Item(normalize(text), _snap_to_integer(date.year or 0))
    return Item(normalize(text), date=date)


def read_items(texts: Sequence[str], canonical: Sequence[str] = ()) -> tuple[Item, ...]:
    """Read the items of an answer; of those that count as one, the first."""
    meanings = canonical or [""] * len(texts)
    items = [read_item(text, meaning) for text, meaning in zip(texts, meanings, strict=True)]
    return tuple({(type(item.key), item.key): item for item in reversed(items)}.values())


def is_right(predicted: Sequence[str], texts: Sequence[str], canonical: Sequence[str] = ()) -> bool:
    """Tell whether predicted items are the true answer.

    Args:
        predicted: one text per item.
        texts: the true items as the dataset states them.
        canonical: of each of them, the number or date that it stands for, or the text itself; empty where unknown.
    """
    items, wanted = read_items(predicted), read_items(texts, canonical)
    return len(items) == len(wanted) and all(any(item.agrees(other) for other in items) for item in wanted)


def official_accuracy(
    predictions: Mapping[str, SelectedCells], examples: Mapping[str, TableExample]
) -> dict[str, float]:
    """Return the share of questions with an answer that are right by this evaluation, and of each part of them.

    Without a prediction they are not.

    Returns:
        official_accuracy, see `average_by_part`; nothing where no answer says what its texts stand for, as the
        evaluation needs to know.
    """
    known = {name: example for name, example in examples.items() if example.answer}
    if not any(example.answer and example.answer.canonical for example in known.values()):
        return {}
    right = {name: is_right_for(predictions[name], known[name]) for name in known if name in predictions}
    return average_by_part(right, known, "official_accuracy")


def is_right_for(selected: SelectedCells, example: TableExample) -> bool:
    """Tell whether what a selection gives is the example's answer by this evaluation."""
    if example.answer is None:
        return False
    items = sorted(map(str, denotation_of(selected.aggregation, selected.cells, example.table)))
    return is_right(items, example.answer.texts, example.answer.canonical)


def _read_number(text: str) -> float | None:
    """Return the whole or broken number that a text is, where it is finite."""
    for read in (_integer, _decimal):
        try:
            number = read(text)
            return _snap_to_integer(number) if math.isfinite(number) else None
        except (ValueError, OverflowError):
            continue
    return None


def _integer(text: str) -> int:
    """Read as Python 2 did: the sign may stand apart, and there are no underscores."""
    return int(_SIGN_APART.sub(r"\1", text.replace("_", "?")))


def _decimal(text: str) -> float:
    return float(text.replace("_", "?"))


def _snap_to_integer(number: float) -> float:
    return int(number) if abs(number - round(number)) < TOLERANCE else number


def _read_date(text: str) -> Date | None:
    parts = text.lower().split("-")
    if len(parts) != 3:
        return None
    try:
        year, month, day = (
            None if part in unknown else _integer(part)
            for part, unknown in zip(parts, (_UNKNOWN_YEAR, _UNKNOWN, _UNKNOWN), strict=True)
        )
    except ValueError:
        return None
    fits = (month is None or 1 <= month <= 12) and (day is None or 1 <= day <= 31)
    return Date(year, month, day) if fits and (year, month, day) != (None, None, None) else None
