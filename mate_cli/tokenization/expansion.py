"""Append what linked passages say to the text of a cell: chosen sentences, or whole passages.

Source: google-research/tapas, `utils/tf_example_utils.py` and `utils/text_index.py`; a regular expression takes
the place of the Punkt sentence splitter.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from mate_cli.tables.table import Cell
from mate_cli.tables.text import split_sentences

Parts = tuple[str, ...]
"""A cell's text in parts; the text is the parts joined by spaces. Parts shared by many cells are split once."""
_WORD = re.compile(r"\w+")
_ASCII_WORDS = "".join(chr(code).lower() if _WORD.match(chr(code)) else " " for code in range(128))
"""Each ASCII letter as a word has it; a space for those that no word has."""
_LONG_WORD = re.compile(r"\w\w+")
_LETTERS = _ASCII_WORDS.encode() + bytes(range(128, 256))
_FACTOR = 0x9E3779B97F4A7C15
_INVERSE = pow(_FACTOR, -1, 1 << 64)
"""An odd number of 64 bits, the golden ratio's, and its inverse: what is odd has one modulo 2 ** 64."""
BLOCK = 512
"""Texts that are hashed at a time, so that memory does not grow with the table."""
MAX_SENTENCE_SHARE = 0.9
"""Words and pairs of words in more than this share of the sentences tell nothing apart."""


def split_words(text: str) -> list[str]:
    """Split a text into its words, of one letter or more, in lower case."""
    if text.isascii():
        return text.translate(_ASCII_WORDS).split()
    return _WORD.findall(text.lower())


def hash_words(texts: Sequence[str], length: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Hash the words of two or more letters of texts, one text after the other.

    The letters c of a word give the sum of c[i] * FACTOR ** i modulo 2 ** 64. As a difference of two running sums it
    costs no string a word. Two words of a table of 10,000 share a hash once in 10 ** 11 tables.

    Args:
        texts: T texts.
        length: hash this many letters of each word; none means all.

    Returns:
        The hash of each word, uint64 [N], and the number of its text, int64 [N].
    """
    plain = [text if text.isascii() else " ".join(_LONG_WORD.findall(text.lower())) for text in texts]
    encoded = [text.encode("utf-8", "surrogatepass") for text in plain]
    letters = np.frombuffer(b" ".join(encoded).translate(_LETTERS), np.uint8)
    edges = np.flatnonzero(np.diff(letters != ord(" "), prepend=False, append=False))
    begins, ends = edges[::2], edges[1::2]
    several = ends - begins > 1
    begins, ends = begins[several], ends[several]
    places = np.searchsorted(np.cumsum([len(text) + 1 for text in encoded]), begins, "right")
    powers, inverses = _powers(1 << len(letters).bit_length())
    sums = np.empty(len(letters) + 1, np.uint64)
    sums[0] = 0
    np.cumsum(letters * powers[: len(letters)], out=sums[1:])
    if length is not None:
        starts = np.append(np.flatnonzero((letters & 0xC0) != 0x80), [len(letters)] * length)
        ends = np.minimum(ends, starts[np.searchsorted(starts, begins) + length])
    return (sums[ends] - sums[begins]) * inverses[begins], places


@lru_cache(maxsize=32)
def _powers(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the powers of the factor and of its inverse modulo 2 ** 64, from the first on, both uint64 [count]."""
    powers, inverses = (np.cumprod(np.full(count, factor, np.uint64)) for factor in (_FACTOR, _INVERSE))
    return powers, inverses


@dataclass(frozen=True, slots=True)
class NumberedWords:
    """The words of two or more letters of S texts, as numbers.

    Args:
        hashes: of the W words that occur, in ascending order, uint64 [W].
        order: the number of each of them, counted as they are first met, int64 [W].
        numbers: of the words of all texts, one text after the other, int64 [N].
        places: the text of each, from 0, int64 [N].
        count: S.
        length: words that have so many first letters in common are the same; none means all letters.
    """

    hashes: np.ndarray
    order: np.ndarray
    numbers: np.ndarray
    places: np.ndarray
    count: int
    length: int | None

    @classmethod
    def of(cls, texts: Sequence[str], length: int | None = None) -> NumberedWords:
        """Give the words of texts numbers."""
        blocks = [hash_words(texts[begin : begin + BLOCK], length) for begin in range(0, max(1, len(texts)), BLOCK)]
        all_hashes = np.concatenate([block[0] for block in blocks])
        hashes, sorted_places = np.unique(all_hashes, return_inverse=True)
        first, order = np.empty(len(hashes), int), np.empty(len(hashes), int)
        first[sorted_places[::-1]] = np.arange(len(all_hashes))[::-1]  # of several the last stays
        order[first.argsort()] = np.arange(len(first))
        places = np.concatenate([block[1] + number * BLOCK for number, block in enumerate(blocks)])
        return cls(hashes, order, order[sorted_places], places, len(texts), length)

    def find(self, text: str) -> list[int]:
        """Return the numbers of the words of a text, -1 for words that do not occur."""
        hashes, _ = hash_words([text], self.length)
        if not len(self.hashes):
            return [-1] * len(hashes)
        places = np.searchsorted(self.hashes, hashes).clip(max=len(self.hashes) - 1)
        return np.where(self.hashes[places] == hashes, self.order[places], -1).tolist()

    def join(self, texts: np.ndarray, lengths: np.ndarray) -> NumberedWords:
        """Lay the words of some texts [M], given by their places, end to end: so many texts make one, [S']."""
        begins = np.searchsorted(self.places, np.arange(self.count + 1))
        sizes = np.diff(begins)[texts]
        ends = sizes.cumsum()
        indices = np.arange(sizes.sum()) + np.repeat(begins[texts] - ends + sizes, sizes)
        places = np.repeat(np.repeat(np.arange(len(lengths)), lengths), sizes)
        return replace(self, numbers=self.numbers[indices], places=places, count=len(lengths))


class WordIndex:
    """Compares texts with a question, by the cosine of their TF-IDF weights.

    Terms are words of two or more letters and pairs of them; term frequency is raw, idf is
    ln((1 + n) / (1 + df)) + 1. The numbers are those of scikit-learn's `TfidfVectorizer(ngram_range=(1, 2),
    max_df=0.9)`, which takes many times as long for a table with one question, and more for each further one.
    Terms are integers: word w is w, the pair v w is (v + 1) * words + w.

    Args:
        words: those of S texts; repeated texts count each time.
    """

    def __init__(self, words: NumberedWords) -> None:
        self.words, size = words, max(1, words.count)
        neighbours = words.places[1:] == words.places[:-1]
        pairs = (words.numbers[:-1][neighbours] + 1) * len(words.hashes) + words.numbers[1:][neighbours]
        entries = np.append(words.numbers, pairs) * size + np.append(words.places, words.places[1:][neighbours])
        entries, counts = np.unique(entries, return_counts=True)
        terms, self._places = np.divmod(entries, size)
        first = np.flatnonzero(np.diff(terms, prepend=-1))
        self._terms, self._bounds = terms[first], np.append(first, len(terms))
        frequency = np.diff(self._bounds)
        idf = np.log((1 + words.count) / (1 + frequency)) + 1
        self._idf = np.where(frequency <= MAX_SENTENCE_SHARE * words.count, idf, 0)
        weights = counts * np.repeat(self._idf, frequency)
        norms = np.sqrt(np.bincount(self._places, weights * weights, minlength=words.count))
        self._weights = weights / np.maximum(norms, np.finfo(float).tiny)[self._places]

    def scores(self, question: str) -> np.ndarray:
        """Return the cosine of every text to a question, [S]."""
        query = {n: count * self._idf[n] for n, count in self._terms_of(question).items() if self._idf[n]}
        length = math.sqrt(sum(weight * weight for weight in query.values()))
        scores = np.zeros(self.words.count)
        for number, weight in query.items():
            postings = slice(self._bounds[number], self._bounds[number + 1])
            scores[self._places[postings]] += weight / length * self._weights[postings]
        return scores

    def _terms_of(self, question: str) -> Counter[int]:
        """Count how often each known term, by its place in the index, occurs in a question."""
        words = self.words.find(question)
        terms = [word for word in words if word >= 0]
        terms += [(v + 1) * len(self.words.hashes) + w for v, w in pairwise(words) if v >= 0 and w >= 0]
        places = np.searchsorted(self._terms, terms)
        matches = (
            n for n, term in zip(places.tolist(), terms, strict=True) if n < len(self._terms) and self._terms[n] == term
        )
        return Counter(matches)


class SentenceIndex(WordIndex):
    """Finds the sentences nearest to a question.

    Args:
        sentences: S sentences of a table's passages; repeated ones count each time.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__(NumberedWords.of(sentences))
        self.sentences = list(sentences)

    def search(self, question: str, limit: int) -> list[tuple[str, float]]:
        """Return the best sentences with a cosine above 0, best first; the earlier one wins a tie."""
        scores = self.scores(question)
        best = np.argsort(-scores, kind="stable")[:limit]
        return [(self.sentences[number], float(scores[number])) for number in best if scores[number] > 0]


class Expander:
    """Chooses sentences of a table's passages for a question and appends them to the cells that link there.

    A table with one sentence only, or whose terms are all too common, is not expanded; the reference drops
    such examples.
    """

    def __init__(self, passages: Mapping[str, str], limit: int, *, titles: bool) -> None:
        self._by_link = {link: split_sentences(text) for link, text in passages.items()}
        self._index = SentenceIndex([sentence for sentences in self._by_link.values() for sentence in sentences])
        self._limit, self._titles = limit, titles

    def choose(self, question: str) -> dict[str, Parts]:
        """Return the text to append for each link with a chosen sentence: "( s1 s2 )" in the order of the passage."""
        best = {sentence for sentence, _ in self._index.search(question, self._limit)}
        by_link = {link: [s for s in sentences if s in best] for link, sentences in self._by_link.items()}
        return {link: self._parts(link, sentences) for link, sentences in by_link.items() if sentences}

    def _parts(self, link: str, sentences: list[str]) -> Parts:
        title = (link.rsplit("/", 1)[-1].replace("_", " "), ":") if self._titles else ()
        return ("(", *title, *sentences, ")")


def expand_cell(cell: Cell, additions: Mapping[str, Parts]) -> Parts:
    """Return a cell's text, followed by what is added for each of its links."""
    return (cell.text, *(part for link in cell.links for part in additions.get(link, ())))


def whole_passages(passages: Mapping[str, str]) -> dict[str, Parts]:
    """Return the text that the reader appends for each link: ": passage"."""
    return {link: (":", text) for link, text in passages.items()}
