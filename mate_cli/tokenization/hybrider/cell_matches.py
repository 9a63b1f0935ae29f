"""Cells whose text stands in a question, nearly or exactly.

Source: wenhuchen/HybridQA, `preprocessing.py`; the ratio is `partial_ratio` of fuzzywuzzy in pure Python, which at
times misses the best alignment. What it misses decides which nodes there are, so it is computed as it is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from difflib import SequenceMatcher

LEAST_RATIO = 90
"""A cell matches when its ratio is greater."""


def partial_ratio(first: str, second: str, floor: int = 0) -> int:
    """How well the shorter text fits somewhere into the longer one, 0 to 100.

    Alignments are tried where `SequenceMatcher` finds a common block; each is scored by the share of characters in
    common blocks.
    What is not greater than `floor` may come out as 0, which is much faster.
    """
    shorter, longer = sorted((first, second), key=len)
    letters, length = Counter(shorter), len(shorter)
    common = _common(letters, longer)  # no more characters can match, in however short a part
    if not common or 200 * common <= floor * (length + common):
        return 0
    blocks = SequenceMatcher(None, shorter, longer).get_matching_blocks()
    starts = dict.fromkeys(max(0, place - shorter_place) for shorter_place, place, _ in blocks)
    parts = [longer[start : start + length] for start in starts]
    parts = [part for part in parts if 200 * _common(letters, part) > floor * (length + len(part))]
    return round(100 * max((SequenceMatcher(None, shorter, part).ratio() for part in parts), default=0))


def _common(letters: Counter[str], text: str) -> int:
    return (letters & Counter(text)).total()


def matching_texts(texts: Iterable[str], question: str) -> dict[str, float]:
    """The texts that match a question as whole words, each with its ratio as a share, case apart."""
    asked = f" {question.lower()} "
    ratios = {text: partial_ratio(f" {text.lower()} ", asked, LEAST_RATIO) for text in dict.fromkeys(texts)}
    return {text: ratio / 100 for text, ratio in ratios.items() if ratio > LEAST_RATIO}
