"""What Hybrider reads of a linked page: its title and its sentences."""

from __future__ import annotations

import re

from mate_cli.tokenization.expansion import split_sentences

_TOKENISED_END = re.compile(r"(?<=\s[.!?])\s+")


def page_title(link: str) -> str:
    """What a link names: "/wiki/Anna_Berg" is "Anna Berg"."""
    return link.replace("/wiki/", "").replace("_", " ")


def page_sentences(text: str) -> list[str]:
    """Split a page into sentences.

    In a tokenised text a full stop that ends a sentence stands alone, so that "U.S. Navy ." is cut at its end
    only; a text without such a full stop is split at every one.
    """
    parts = _TOKENISED_END.split(text)
    return [part.strip() for part in parts if part.strip()] if len(parts) > 1 else split_sentences(text)


def first_sentence(text: str) -> str:
    """The first sentence of a page, empty without any."""
    return next(iter(page_sentences(text)), "")
