"""The official evaluation of WikiTableQuestions, which compares lists of texts.

An item is a number, a date or a text. Two items agree if their normalized texts are equal, if both are numbers that
differ by less than 1e-6, or if both are the same date. A prediction is correct under two conditions: it has the
same number of distinct items as the gold answer, and every gold item agrees with a predicted item.

Source: ppasupat/WikiTableQuestions, `evaluator.py`, version 1.0.2, run by Python 2.7, including its bugs: a number that
is almost an integer is rounded down, 2.9999999 to 2.
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
"""Numbers are equal if they differ by less than this value."""
OFFICIAL_ACCURACY = MetricSpec("official_accuracy", "Official", 1, order=60, table=ACCURACIES, hub_name="accuracy")

_SIGNS = str.maketrans({**dict.fromkeys("‘’´`", "'"), **dict.fromkeys("“”", '"'), **dict.fromkeys("‐‑‒–—−", "-")})  # noqa: RUF001
_FOOTNOTE_MARKS = re.compile(r"(?:[•♦†‡*#+]|\[[0-9]+\]|(?<=.)\[[^\]]*\])+\Z", re.DOTALL)
"""Footnote marks at the end of a text. Brackets with other contents than digits must follow other text."""
_ASIDES = re.compile(r"(?<=.)(?: \([^)]*\))+\Z", re.DOTALL)
_QUOTED_TEXT = re.compile(r'"([^"]*)"')
_SIGN_APART = re.compile(r"^\s*([+-])\s+")
_UNKNOWN_YEAR, _UNKNOWN = ("xx", "xxxx"), ("xx",)


@dataclass(frozen=True)
class Item:
    """One item of an answer list: a number, a date or a text.

    Args:
        text: normalized text.
        number: value of the item if it is a number, else None.
        date: year, month and day if the item is a date, with None for unknown parts. None if it is not a date.
    """

    text: str
    number: float | None = None
    date: Date | None = None

    @property
    def key(self) -> object:
        """Value by which items are compared, so that duplicate items count once."""
        return next(value for value in (self.number, self.date, self.text) if value is not None)

    def agrees(self, item: Item) -> bool:
        """Return whether two items are equal by the official rules, numbers within a tolerance."""
        if self.text == item.text:
            return True
        if self.number is not None and item.number is not None:
            return abs(self.number - item.number) < TOLERANCE
        return self.date is not None and self.date == item.date


def normalize(text: str) -> str:
    """Normalize an answer by the official rules of WikiTableQuestions.

    The text is lower-cased. Accents, footnote marks, trailing brackets, outer quotes and a final period are removed.
    """
    text = "".join(sign for sign in unicodedata.normalize("NFKD", text) if unicodedata.category(sign) != "Mn")
    text = text.translate(_SIGNS)
    previous_text = None
    while text != previous_text:
        previous_text = text
        text = _FOOTNOTE_MARKS.sub("", text.strip())
        text = _ASIDES.sub("", text.strip()).strip()
        quotation = _QUOTED_TEXT.fullmatch(text)
        text = quotation[1] if quotation else text
    words = text.removesuffix(".").split()
    # Lower each character separately, without the special form for the last letter of a word.
    return "".join(map(str.lower, " ".join(words)))


def read_item(text: str, canonical: str = "") -> Item:
    """Parse the text of an answer item as a number, a date or a text.

    Args:
        text: text of the item.
        canonical: number or date (yyyy-mm-dd, with xx for unknown parts) that the dataset states for a gold item.
            Empty if the text itself is parsed.
    """
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
    """Parse the texts of an answer to distinct items: numbers, dates and texts."""
    meanings = canonical or [""] * len(texts)
    items = [read_item(text, meaning) for text, meaning in zip(texts, meanings, strict=True)]
    return tuple({(type(item.key), item.key): item for item in reversed(items)}.values())


def is_right(predicted: Sequence[str], texts: Sequence[str], canonical: Sequence[str] = ()) -> bool:
    """Return whether an answer equals the gold answer by WikiTableQuestions' official rules.

    Args:
        predicted: text of each predicted item.
        texts: text of each gold item in the dataset.
        canonical: number, date or text that each gold item represents. Empty if unknown.
    """
    items, gold_items = read_items(predicted), read_items(texts, canonical)
    return len(items) == len(gold_items) and all(
        any(item.agrees(predicted_item) for predicted_item in items) for item in gold_items
    )


def official_accuracy(
    predictions: Mapping[str, SelectedCells], examples: Mapping[str, TableExample]
) -> dict[str, float]:
    """Compute the official accuracy of WikiTableQuestions, over all questions and subsets.

    Questions without an answer are ignored.

    Args:
        predictions: predicted cells and aggregation by question id. A missing prediction is wrong.
        examples: questions by id.

    Returns:
        official_accuracy, see `average_by_part`. Empty if no answer has canonical values, which the evaluation needs.
    """
    answerable = {name: example for name, example in examples.items() if example.answer}
    if not any(example.answer and example.answer.canonical for example in answerable.values()):
        return {}
    is_correct = {name: is_right_for(predictions[name], answerable[name]) for name in answerable if name in predictions}
    return average_by_part(is_correct, answerable, "official_accuracy")


def is_right_for(selection: SelectedCells, example: TableExample) -> bool:
    """Return whether predicted cells and aggregation give the gold answer, by official rules."""
    if example.answer is None:
        return False
    items = sorted(map(str, denotation_of(selection.aggregation, selection.cells, example.table)))
    return is_right(items, example.answer.texts, example.answer.canonical)


def _read_number(text: str) -> float | None:
    """Parse a finite integer or decimal number, or return None for any other text."""
    for parse in (_integer, _decimal):
        try:
            number = parse(text)
            return _snap_to_integer(number) if math.isfinite(number) else None
        except (ValueError, OverflowError):
            continue
    return None


def _integer(text: str) -> int:
    """Parse an integer by the rules of Python 2, which the official evaluator uses.

    Spaces after the sign are allowed, underscores are not.
    """
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
    is_valid = (month is None or 1 <= month <= 12) and (day is None or 1 <= day <= 31)
    return Date(year, month, day) if is_valid and (year, month, day) != (None, None, None) else None
