"""Sets of words, written as one text."""

from __future__ import annotations

from mate_cli.tokenization.hybrider.stop_words import STOP_WORDS


def word_set(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


LITTLE = frozenset(STOP_WORDS) - {"won"}
"""Words that say little."""
MONTHS = word_set("January February March April May June July August September October November December")
