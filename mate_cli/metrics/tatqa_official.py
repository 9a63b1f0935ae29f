"""Official metrics of TAT-QA: exact match and F1 of answers with a scale, such as 1,496.5 million.

Source: Zhu et al. 2021, "TAT-QA"; NExTplusplus/TAT-QA, `tatqa_metric.py` and `tatqa_utils.py`. Numbers are compared by
their value times the scale, rounded to four digits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from mate_cli.metrics.exact_match import ANSWERS, EM, F1, normalize_answer
from mate_cli.metrics.specs import MetricSpec, SubsetSpec
from mate_cli.metrics.subsets import average_by_group, average_by_part
from mate_cli.metrics.system_answers import AnswerMetric
from mate_cli.tables.example import ScaledExample

SCALE_ACCURACY = MetricSpec("scale_accuracy", "Scale", 1, order=17, table=ANSWERS, hub_name="accuracy")
SUBSETS = tuple(
    SubsetSpec(name, name.capitalize(), "by type of the answer", 50 + index)
    for index, name in enumerate(("span", "multi-span", "arithmetic", "count"))
)
TABLE_AND_TEXT = SubsetSpec("table-text", "In both", "by place of the answer", order=9)
FACTORS = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000, "percent": 0.01}
_NOT_IN_NUMBERS = str.maketrans("", "", "'\"\\$€£¥%(),[]")
_NUMBER, _WITH_WORD = re.compile(r"([+-]?\d+(?:\.\d+)?)|[+-]?\.\d+"), re.compile(r"[\d.]+\s?[a-zA-Z]+")
_NEGATIVE, _PERCENT = re.compile(r"\([\d.\s]+\)"), re.compile(r"[\d.\s]+%")


class ScaledAnswers(AnswerMetric[ScaledExample]):
    """Exact match, F1 and accuracy of the scale, by type and source of the answer."""

    def score(self, examples: Mapping[str, ScaledExample]) -> dict[str, float]:
        """Compute exact match, F1 and scale accuracy over all questions with a gold answer."""
        questions = {name: example for name, example in examples.items() if name in self.answers and example.answer}
        pairs = {name: self._score(example) for name, example in questions.items()}
        scales = {n: bool(self.answers[n].texts) and self.answers[n].scale == e.scale for n, e in questions.items()}
        exact, overlap = ({name: pair[index] for name, pair in pairs.items()} for index in (0, 1))
        scores = average_by_part(exact, examples, EM.name) | average_by_part(overlap, examples, F1.name)
        answered = [name for name, example in examples.items() if example.answer]
        return scores | average_by_group(SCALE_ACCURACY.name, scales, answered)

    def text(self, example: ScaledExample) -> str:
        """Format the predicted answer with its scale, such as "1.5 million"."""
        return f"{super().text(example)} {self.answers[example.example_id].scale}".strip()

    def _score(self, example: ScaledExample) -> tuple[float, float]:
        assert example.answer
        answer = self.answers[example.example_id]
        gold = join_items(example.answer.texts, example.scale)
        exact, overlap = max((score_pair(text, gold) for text in _readings(answer.texts, answer.scale)), default=(0, 0))
        return exact, exact if {"arithmetic", "count"} & {*example.subsets} else overlap


def _readings(items: Sequence[str], scale: str) -> list[str]:
    """Return the texts that a predicted answer may mean, of which the best match is scored.

    A number without a scale may also be a share.
    """
    texts = [join_items(items, scale)] if items else []
    if len(items) == 1 and not scale and "%" not in items[0] and is_number(items[0]):
        number = to_number(items[0])
        texts += [] if number is None else [f"{number:.4f}"]
    return texts


def join_items(items: Sequence[str], scale: str) -> str:
    """Convert an answer to the official text form: sorted items, numbers times the scale."""
    texts = []
    for item in sorted(items):
        number = to_number(item) if is_number(item) else None
        if number is None:
            texts.append(f"{item} {scale}" if scale else item)
        else:
            texts.append(f"{number if '%' in item else round(number, 2) * scale_factor(scale):.4f}")
    return " ".join(texts)


def score_pair(predicted: str, gold: str) -> tuple[float, float]:
    """Compute exact match, and F1 of the sets of normalized words, of an answer.

    F1 is rounded to two digits.
    """
    texts = normalize_words(predicted), normalize_words(gold)
    predicted_words, gold_words = ({*text.split()} for text in texts)
    common = len(predicted_words & gold_words)
    precision = common / len(predicted_words) if predicted_words else 1.0
    recall = common / len(gold_words) if gold_words else 1.0
    total = precision + recall
    return float(texts[0] == texts[1]), float(np.round(2 * precision * recall / total, 2)) if total else 0.0


def normalize_words(text: str) -> str:
    """Normalize the words of a text: numbers to their values, other words as for HybridQA."""
    words: list[str] = []
    for token in text.split(" "):
        word = token if is_number(token) else normalize_answer(token)
        words += [str(to_number(word))] if is_number(word) else word.split()
    return " ".join(words)


def scale_factor(text: str) -> float:
    """Return the factor of the scale in a text, such as 1,000 for "thousand", else 1."""
    return next((factor for name, factor in FACTORS.items() if name in text.lower()), 1)


def is_number(text: str) -> bool:
    """Return whether a text is a number, possibly with a currency sign or a scale."""
    words = text.translate(_NOT_IN_NUMBERS).split()
    with suppress(ValueError):
        return bool(words) and not math.isnan(float(words[0])) and (len(words) < 2 or scale_factor(words[1]) != 1)
    return False


def to_number(text: str) -> float | None:
    """Return the first number in a text, rounded to four digits, or None without a number."""
    match, word = _NUMBER.search(text.translate(_NOT_IN_NUMBERS)), _WITH_WORD.search(text)
    if match is None or match[1] is None:
        return None
    number = float(match[1]) if "." in match[1] else int(match[1])
    sign, percent = -1 if _NEGATIVE.search(text.strip()) else 1, 0.01 if _PERCENT.search(text.strip()) else 1
    return round(number * (scale_factor(word[0]) if word else 1) * sign * percent, 4)
