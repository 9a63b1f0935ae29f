"""Sets of words, written as one text."""

from __future__ import annotations

from mate_cli.tokenization.hybrider.linking import STOP_WORDS


def word_set(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def word_pairs(text: str) -> dict[str, str]:
    """What stands before and behind the colon of each pair; commas part the pairs."""
    pairs = (pair.partition(":") for pair in text.split(","))
    return {before.strip(): behind.strip() for before, _, behind in pairs}


LITTLE = frozenset(STOP_WORDS) - {"won"}
"""Words that say little."""
MONTHS = word_set("January February March April May June July August September October November December")
