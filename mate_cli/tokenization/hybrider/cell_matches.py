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
_AS_GOOD_AS_EQUAL = 0.995


def partial_ratio(first: str, second: str) -> int:
    """How well the shorter text fits somewhere into the longer one, 0 to 100.

    Alignments are tried where `SequenceMatcher` finds a common block; each is scored by the share of characters in
    common blocks.
    """
    shorter, longer = sorted((first, second), key=len)
    best = 0.0
    for place, longer_place, _ in SequenceMatcher(None, shorter, longer).get_matching_blocks():
        start = max(0, longer_place - place)
        ratio = SequenceMatcher(None, shorter, longer[start : start + len(shorter)]).ratio()
        if ratio > _AS_GOOD_AS_EQUAL:
            return 100
        best = max(best, ratio)
    return round(100 * best)


def matching_texts(texts: Iterable[str], question: str) -> dict[str, float]:
    """The texts that match a question as whole words, each with its ratio as a share, case apart."""
    asked = f" {question.lower()} "
    letters = Counter(asked)
    found = {text: _ratio(f" {text.lower()} ", asked, letters) for text in dict.fromkeys(texts)}
    return {text: ratio / 100 for text, ratio in found.items() if ratio > LEAST_RATIO}


def _ratio(text: str, question: str, letters: Counter[str]) -> int:
    length = min(len(text), len(question))
    common = (Counter(text) & letters).total()
    # However a text is aligned, no more than the characters that both hold can match.
    if 100 * 2 * common / (length + common) <= LEAST_RATIO:
        return 0
    return partial_ratio(text, question)
