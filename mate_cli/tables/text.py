"""Normal forms of texts, and the body cells that may contain an answer.

Source: google-research/tapas, `utils/text_utils.py` and `utils/hybridqa_utils.py`; ppasupat/WikiTableQuestions,
`evaluator.py`.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from mate_cli.tables.table import Table

EMPTY = "EMPTY"
"""Result of `format_text` for a text without words."""

_NOT_WORD = re.compile(r"\W+")
_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, " "))
_ARTICLES = frozenset(("a", "an", "the"))
_TOKEN = re.compile(r"\w+|[^\w\s]+")

_ASCII_MARKS = str.maketrans(dict.fromkeys("\u2018\u2019\u00b4`", "'") | dict.fromkeys("\u201c\u201d", '"'))
_ASCII_MARKS |= str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"))
_CITATIONS = re.compile(r"(?:(?<!^)\[[^\]]*\]|^\[\d+\]|[\u2022\u2666\u2020\u2021*#+])*$")
_DETAILS = re.compile(r"(?<!^)(?: \([^)]*\))*$")
_QUOTATION = re.compile(r'^"([^"]*)"$')
_TAG = re.compile(r"<[^<]+?>")


def normalize_for_match(text: str) -> str:
    """Lower-case a text and collapse its white space. Numbers are parsed in this form."""
    return " ".join(text.lower().split())


def format_text(text: str) -> str:
    """Lower-case a text and remove punctuation. Return `EMPTY` if no word remains, and for "n/a" and "?"."""
    text = text.lower().strip()
    if text in ("n/a", "?"):
        return EMPTY
    return " ".join(_NOT_WORD.sub(" ", text).replace("_", " ").split()) or EMPTY


def strip_accents(text: str) -> str:
    """Apply Unicode normalization NFKD to a text and remove its combining characters."""
    if text.isascii():
        return text
    return "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))


def is_empty(text: str) -> bool:
    """Return whether a text contains no words, such as "-", or means a missing value: "n/a" or "?"."""
    return format_text(text) == EMPTY


def tokenize_string(text: str) -> tuple[str, ...]:
    """Lower-case a text and split it into words and runs of punctuation."""
    return tuple(_TOKEN.findall(text.lower()))


@lru_cache(maxsize=1 << 16)
def wtq_normalize(text: str) -> str:
    """Normalize a text as the official evaluator of WikiTableQuestions does before it compares answers.

    Diacritics are removed, and quotation marks and dashes become ASCII. Citations, footnote marks and details in
    parentheses are removed from the end. Enclosing quotation marks, one final period and HTML tags are removed.
    """
    if text.isascii() and text.isalnum():
        return text.lower()
    if not text.isascii():
        text = "".join(char for char in unicodedata.normalize("NFKD", text) if unicodedata.category(char) != "Mn")
    text = text.translate(_ASCII_MARKS)
    previous = None
    while text != previous:
        previous = text
        text = _CITATIONS.sub("", text.strip())
        text = _DETAILS.sub("", text.strip())
        text = _QUOTATION.sub(r"\1", text.strip())
    return _TAG.sub("", " ".join(text.removesuffix(".").split()).lower())


@lru_cache(maxsize=1 << 14)
def normalize_for_candidates(text: str) -> str:
    """Lower-case a text, replace ASCII punctuation by spaces and remove a, an and the.

    This form decides which cells may contain an answer. Evaluation uses another normal form, which deletes
    punctuation.
    """
    return " ".join(word for word in text.translate(_PUNCTUATION).lower().split() if word not in _ARTICLES)


@lru_cache(maxsize=1 << 10)
def compile_words(needle: str) -> re.Pattern[str]:
    """Compile a pattern whose first group matches `needle` as whole words."""
    return re.compile(rf"(?:\b| )({re.escape(needle)})(?: |\b)")


def table_matches(table: Table, answer_text: str) -> list[tuple[int, int]]:
    """Return (row, column) of the body cells whose text contains the answer as whole words.

    The cells are in row order. Linked passages are not searched.
    """
    needle = normalize_for_candidates(answer_text)
    return [(row, column) for row, column, cell in table.cells() if _holds(cell.text, needle)]


def linking_cells(table: Table, texts: Sequence[str], cells: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the answer cells whose own text lacks the answer, but that link to a passage with it.

    Args:
        table: table of the cells.
        texts: answer texts.
        cells: (row, column) of the cells that contain an answer text or link to one.
    """
    direct = {cell for text in texts for cell in table_matches(table, text)} if table.passages else set(cells)
    return [cell for cell in cells if cell not in direct]


def candidate_cells(table: Table, answer_text: str) -> list[tuple[int, int]]:
    """Return (row, column) of the body cells whose text or linked passage contains the answer.

    The cells are in row order. An answer without words after normalization ("The", "?") has no candidates. In
    google-research/tapas, it matches every cell.

    Source: the MATE paper, section 4.1 (candidates of the marginal likelihood).
    """
    needle = normalize_for_candidates(answer_text)
    links = {link for link, passage in table.passages.items() if _holds(passage, needle)}
    cells = table.cells()
    return [(row, column) for row, column, c in cells if not links.isdisjoint(c.links) or _holds(c.text, needle)]


def _holds(text: str, needle: str) -> bool:
    """Return whether a text contains a normalized needle as whole words. No text contains ""."""
    # Most texts lack the longest word, and this check is faster than normalization.
    if not needle or _longest_word(needle) not in text.casefold():
        return False
    words = normalize_for_candidates(text)
    return needle in words and compile_words(needle).search(words) is not None


@lru_cache(maxsize=1 << 10)
def _longest_word(needle: str) -> str:
    """Return the longest word of a needle in the case-folded form, in which the two lower-case sigmas are equal."""
    return max(needle.split(), key=len).casefold()


_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def split_sentences(text: str) -> list[str]:
    """Split a passage into sentences, after ., ! or ? followed by white space."""
    return list(filter(None, _SENTENCE_END.split(text.strip())))
