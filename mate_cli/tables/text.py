"""Normal forms of texts, and the body cells in which an answer may be found.

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
"""What `format_text` gives for a text without any word."""

_NOT_WORD = re.compile(r"\W+")
_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, " "))
_ARTICLES = frozenset(("a", "an", "the"))
_TOKEN = re.compile(r"\w+|[^\w\s]+")

_PLAIN_MARKS = str.maketrans(dict.fromkeys("\u2018\u2019\u00b4`", "'") | dict.fromkeys("\u201c\u201d", '"'))
_PLAIN_MARKS |= str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"))
_CITATIONS = re.compile(r"(?:(?<!^)\[[^\]]*\]|^\[\d+\]|[\u2022\u2666\u2020\u2021*#+])*$")
_DETAILS = re.compile(r"(?<!^)(?: \([^)]*\))*$")
_QUOTED = re.compile(r'^"([^"]*)"$')
_TAG = re.compile(r"<[^<]+?>")


def normalize_for_match(text: str) -> str:
    """Lower-case a text and collapse its white space; numbers are parsed in this form."""
    return " ".join(text.lower().split())


def format_text(text: str) -> str:
    """Lower-case a text and keep its words only; `EMPTY` when there is none, or for "n/a" and "?"."""
    text = text.lower().strip()
    if text in ("n/a", "?"):
        return EMPTY
    return " ".join(_NOT_WORD.sub(" ", text).replace("_", " ").split()) or EMPTY


def strip_accents(text: str) -> str:
    """Return a text with its compatible characters as such, and without accents."""
    if text.isascii():
        return text
    return "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))


def is_empty(text: str) -> bool:
    """Tell whether `format_text` finds no word in a text."""
    return format_text(text) == EMPTY


def tokenize_string(text: str) -> tuple[str, ...]:
    """Return the words and runs of punctuation of a lower-cased text."""
    return tuple(_TOKEN.findall(text.lower()))


@lru_cache(maxsize=1 << 16)
def wtq_normalize(text: str) -> str:
    """Return the normal form in which WikiTableQuestions compares texts, lower-cased.

    Diacritics go, quotation marks and dashes become plain ones; citations, footnote marks and details in
    parentheses at the end go, as do quotation marks around the whole, one final dot and HTML tags.
    """
    if text.isascii() and text.isalnum():
        return text.lower()
    if not text.isascii():
        text = "".join(char for char in unicodedata.normalize("NFKD", text) if unicodedata.category(char) != "Mn")
    text = text.translate(_PLAIN_MARKS)
    before = None
    while text != before:
        before = text
        text = _CITATIONS.sub("", text.strip())
        text = _DETAILS.sub("", text.strip())
        text = _QUOTED.sub(r"\1", text.strip())
    return _TAG.sub("", " ".join(text.removesuffix(".").split()).lower())


@lru_cache(maxsize=1 << 14)
def normalize_for_candidates(text: str) -> str:
    """Lower-case a text, turn ASCII punctuation into spaces and drop the articles a, an, the.

    This form decides which cells may hold an answer. The scorer's normal form is another one: it deletes
    punctuation instead.
    """
    return " ".join(word for word in text.translate(_PUNCTUATION).lower().split() if word not in _ARTICLES)


@lru_cache(maxsize=1 << 10)
def compile_words(needle: str) -> re.Pattern[str]:
    """Return the pattern whose first group is a needle that stands as whole words."""
    return re.compile(rf"(?:\b| )({re.escape(needle)})(?: |\b)")


def table_matches(table: Table, answer_text: str) -> list[tuple[int, int]]:
    """Return (row, column) of the body cells whose own text holds the answer as whole words, row by row."""
    needle = normalize_for_candidates(answer_text)
    return [(row, column) for row, column, cell in table.cells() if _holds(cell.text, needle)]


def linking_cells(table: Table, texts: Sequence[str], cells: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the cells of an answer that do not hold any of its texts, but link to a passage that does."""
    inside = {cell for text in texts for cell in table_matches(table, text)} if table.passages else set(cells)
    return [cell for cell in cells if cell not in inside]


def candidate_cells(table: Table, answer_text: str) -> list[tuple[int, int]]:
    """Return (row, column) of the body cells that hold the answer, in their text or in a linked passage, row by row.

    An answer without any word left after normalisation ("The", "?") has no candidates; in the reference it
    would match every cell.

    Source: the MATE paper, section 4.1 (candidates of the marginal likelihood).
    """
    needle = normalize_for_candidates(answer_text)
    linked = {link for link, passage in table.passages.items() if _holds(passage, needle)}
    return [
        (row, column)
        for row, column, cell in table.cells()
        if not linked.isdisjoint(cell.links) or _holds(cell.text, needle)
    ]


def _holds(text: str, needle: str) -> bool:
    """Tell whether a text holds a needle in normal form as whole words; "" is in none."""
    if not needle or _longest_word(needle) not in text.casefold():
        return False  # most texts lack it, and normal forms take long
    words = normalize_for_candidates(text)
    return needle in words and compile_words(needle).search(words) is not None


@lru_cache(maxsize=1 << 10)
def _longest_word(needle: str) -> str:
    """Return the longest word of a needle, without case: unlike `lower`, `casefold` has one form of a sigma."""
    return max(needle.split(), key=len).casefold()


_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def split_sentences(text: str) -> list[str]:
    """Split a passage after ., ! or ? and white space."""
    text = text.strip()
    return _SENTENCE_END.split(text) if text else []
