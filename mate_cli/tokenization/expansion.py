"""Append text of linked passages to the text of a cell: selected sentences, or whole passages.

Source: google-research/tapas, `utils/tf_example_utils.py` and `utils/text_index.py`. A regular expression replaces
the Punkt sentence splitter.
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
"""Text of a cell as strings to be joined by spaces. A string that occurs in several cells is tokenized only once."""
_WORD = re.compile(r"\w+")
_ASCII_WORDS = "".join(chr(code).lower() if _WORD.match(chr(code)) else " " for code in range(128))
"""Translation table for ASCII: word characters become lower case, all other characters become spaces."""
_LONG_WORD = re.compile(r"\w\w+")
_LETTERS = _ASCII_WORDS.encode() + bytes(range(128, 256))
_FACTOR = 0x9E3779B97F4A7C15
_INVERSE = pow(_FACTOR, -1, 1 << 64)
"""Inverse of the factor modulo 2 ** 64. The factor, from the golden ratio, is odd and therefore has an inverse."""
BLOCK = 512
"""Number of texts hashed at a time, which bounds the memory for large tables."""
MAX_SENTENCE_SHARE = 0.9
"""Words and word pairs in more than this share of the sentences get weight 0."""


def split_words(text: str) -> list[str]:
    """Split a text into lower-case words of one or more letters."""
    if text.isascii():
        return text.translate(_ASCII_WORDS).split()
    return _WORD.findall(text.lower())


def hash_words(texts: Sequence[str], length: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Hash every word of two or more letters, in the order of the texts.

    The hash of a word with letters c is the sum of c[i] * FACTOR ** i modulo 2 ** 64. Hashes are differences of two
    cumulative sums, which avoids creating a string per word. Two words of a table with 10,000 words collide in one of
    10 ** 11 tables.

    Args:
        texts: T texts.
        length: number of leading letters of each word to hash. None hashes all letters.

    Returns:
        The hash of each word, uint64 [N], and the index of its text, int64 [N].
    """
    normalized_texts = [text if text.isascii() else " ".join(_LONG_WORD.findall(text.lower())) for text in texts]
    encoded = [text.encode("utf-8", "surrogatepass") for text in normalized_texts]
    letters = np.frombuffer(b" ".join(encoded).translate(_LETTERS), np.uint8)
    edges = np.flatnonzero(np.diff(letters != ord(" "), prepend=False, append=False))
    word_starts, word_ends = edges[::2], edges[1::2]
    has_two_bytes = word_ends - word_starts > 1
    word_starts, word_ends = word_starts[has_two_bytes], word_ends[has_two_bytes]
    text_indices = np.searchsorted(np.cumsum([len(text) + 1 for text in encoded]), word_starts, "right")
    powers, inverses = _powers(1 << len(letters).bit_length())
    sums = np.empty(len(letters) + 1, np.uint64)
    sums[0] = 0
    np.cumsum(letters * powers[: len(letters)], out=sums[1:])
    if length is not None:
        letter_starts = np.append(np.flatnonzero((letters & 0xC0) != 0x80), [len(letters)] * length)
        word_ends = np.minimum(word_ends, letter_starts[np.searchsorted(letter_starts, word_starts) + length])
    return (sums[word_ends] - sums[word_starts]) * inverses[word_starts], text_indices


@lru_cache(maxsize=32)
def _powers(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute the powers of the hash factor and of its inverse, both uint64 [count].

    The inverse is modulo 2 ** 64. The powers are 1 to `count`.
    """
    powers, inverses = (np.cumprod(np.full(count, factor, np.uint64)) for factor in (_FACTOR, _INVERSE))
    return powers, inverses


@dataclass(frozen=True, slots=True)
class NumberedWords:
    """Words of two or more letters of S texts, encoded as integer ids.

    Args:
        hashes: sorted hashes of the W distinct words, uint64 [W].
        order: word id of each hash. Ids count the distinct words in the order of first occurrence, int64 [W].
        numbers: word ids of all texts, one text after the other, int64 [N].
        text_ids: 0-based text index of each entry of `numbers`, int64 [N].
        count: number of texts, S.
        length: number of leading letters that identify a word. None compares all letters.
    """

    hashes: np.ndarray
    order: np.ndarray
    numbers: np.ndarray
    text_ids: np.ndarray
    count: int
    length: int | None

    @classmethod
    def build(cls, texts: Sequence[str], length: int | None = None) -> NumberedWords:
        """Split texts into words, and number the distinct words.

        Args:
            texts: S texts.
            length: number of leading letters that identify a word. None compares all letters.
        """
        blocks = [hash_words(texts[start : start + BLOCK], length) for start in range(0, max(1, len(texts)), BLOCK)]
        all_hashes = np.concatenate([block[0] for block in blocks])
        hashes, hash_indices = np.unique(all_hashes, return_inverse=True)
        first, order = np.empty(len(hashes), int), np.empty(len(hashes), int)
        # If an index is assigned several times, NumPy keeps the last value: here the first occurrence.
        first[hash_indices[::-1]] = np.arange(len(all_hashes))[::-1]
        order[first.argsort()] = np.arange(len(first))
        text_indices = np.concatenate([block[1] + number * BLOCK for number, block in enumerate(blocks)])
        return cls(hashes, order, order[hash_indices], text_indices, len(texts), length)

    def find(self, text: str) -> list[int]:
        """Return the id of each word of a new text, -1 for an unknown word."""
        hashes, _ = hash_words([text], self.length)
        if not len(self.hashes):
            return [-1] * len(hashes)
        indices = np.searchsorted(self.hashes, hashes).clip(max=len(self.hashes) - 1)
        return np.where(self.hashes[indices] == hashes, self.order[indices], -1).tolist()

    def join(self, texts: np.ndarray, lengths: np.ndarray) -> NumberedWords:
        """Concatenate texts into S' longer texts without hashing their words again.

        Args:
            texts: indices of the M texts to concatenate, in order, [M].
            lengths: number of consecutive entries of `texts` that form each new text, [S'].
        """
        text_starts = np.searchsorted(self.text_ids, np.arange(self.count + 1))
        sizes = np.diff(text_starts)[texts]
        text_ends = sizes.cumsum()
        indices = np.arange(sizes.sum()) + np.repeat(text_starts[texts] - text_ends + sizes, sizes)
        text_indices = np.repeat(np.repeat(np.arange(len(lengths)), lengths), sizes)
        return replace(self, numbers=self.numbers[indices], text_ids=text_indices, count=len(lengths))


class WordIndex:
    """Scores texts against a question by the cosine similarity of their TF-IDF vectors.

    Terms are words of two or more letters and pairs of adjacent words. The term frequency is the raw count, the idf is
    ln((1 + n) / (1 + df)) + 1. The scores equal those of scikit-learn's `TfidfVectorizer(ngram_range=(1, 2),
    max_df=0.9)`, which is many times slower for a table with one question, and slower again with each further question.
    Terms are integers: word w is w, the pair v w is (v + 1) * words + w.

    Args:
        words: words of S texts. A duplicate text counts each time.
    """

    def __init__(self, words: NumberedWords) -> None:
        self.words, size = words, max(1, words.count)
        neighbours = words.text_ids[1:] == words.text_ids[:-1]
        pairs = (words.numbers[:-1][neighbours] + 1) * len(words.hashes) + words.numbers[1:][neighbours]
        entries = np.append(words.numbers, pairs) * size + np.append(words.text_ids, words.text_ids[1:][neighbours])
        entries, counts = np.unique(entries, return_counts=True)
        terms, self._texts = np.divmod(entries, size)
        first = np.flatnonzero(np.diff(terms, prepend=-1))
        self._terms, self._bounds = terms[first], np.append(first, len(terms))
        frequency = np.diff(self._bounds)
        idf = np.log((1 + words.count) / (1 + frequency)) + 1
        self._idf = np.where(frequency <= MAX_SENTENCE_SHARE * words.count, idf, 0)
        weights = counts * np.repeat(self._idf, frequency)
        norms = np.sqrt(np.bincount(self._texts, weights * weights, minlength=words.count))
        self._weights = weights / np.maximum(norms, np.finfo(float).tiny)[self._texts]

    def scores(self, question: str) -> np.ndarray:
        """Return the cosine similarity of every text to a question, float64 [S]."""
        query = {n: count * self._idf[n] for n, count in self._terms_of(question).items() if self._idf[n]}
        length = math.sqrt(sum(weight * weight for weight in query.values()))
        scores = np.zeros(self.words.count)
        for number, weight in query.items():
            postings = slice(self._bounds[number], self._bounds[number + 1])
            scores[self._texts[postings]] += weight / length * self._weights[postings]
        return scores

    def _terms_of(self, question: str) -> Counter[int]:
        """Count the occurrences of each indexed term in a question, by the term's index."""
        words = self.words.find(question)
        terms = [word for word in words if word >= 0]
        terms += [(v + 1) * len(self.words.hashes) + w for v, w in pairwise(words) if v >= 0 and w >= 0]
        indices = np.searchsorted(self._terms, terms)
        pairs = zip(indices.tolist(), terms, strict=True)
        return Counter(n for n, term in pairs if n < len(self._terms) and self._terms[n] == term)


class SentenceIndex(WordIndex):
    """Index of sentences that finds those most similar to a question by TF-IDF.

    Args:
        sentences: S sentences of a table's passages. A duplicate sentence counts each time.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__(NumberedWords.build(sentences))
        self.sentences = list(sentences)

    def search(self, question: str, limit: int) -> list[tuple[str, float]]:
        """Return the best sentences and their cosine similarities, best first.

        Sentences with a similarity of 0 are omitted. Of equally similar sentences the earlier sentence comes first.

        Args:
            question: question to compare with.
            limit: maximum number of sentences.
        """
        scores = self.scores(question)
        best_indices = np.argsort(-scores, kind="stable")[:limit]
        return [(self.sentences[number], float(scores[number])) for number in best_indices if scores[number] > 0]


class Expander:
    """Selects the sentences of linked passages that are most similar to a question, to append them to table cells.

    A table is not expanded if it has a single sentence, or if all of its terms are too frequent. The reference
    implementation (google-research/tapas) drops such examples.

    Args:
        passages: text of each linked passage, by link.
        limit: maximum number of sentences per question.
        titles: whether to put the title of the linked page before its sentences.
    """

    def __init__(self, passages: Mapping[str, str], limit: int, *, titles: bool) -> None:
        self._by_link = {link: split_sentences(text) for link, text in passages.items()}
        self._index = SentenceIndex([sentence for sentences in self._by_link.values() for sentence in sentences])
        self._limit, self._titles = limit, titles

    def choose(self, question: str) -> dict[str, Parts]:
        """Return, for each link with a selected sentence, the text to append to cells with this link.

        The text is "( s1 s2 )", with the sentences in the order of the passage.
        """
        best_sentences = {sentence for sentence, _ in self._index.search(question, self._limit)}
        by_link = {link: [s for s in sentences if s in best_sentences] for link, sentences in self._by_link.items()}
        return {link: self._parts(link, sentences) for link, sentences in by_link.items() if sentences}

    def _parts(self, link: str, sentences: list[str]) -> Parts:
        title = (link.rsplit("/", 1)[-1].replace("_", " "), ":") if self._titles else ()
        return ("(", *title, *sentences, ")")


def expand_cell(cell: Cell, additions: Mapping[str, Parts]) -> Parts:
    """Return the text of a cell, followed by the text that `additions` contains for each of its links."""
    return (cell.text, *(part for link in cell.links for part in additions.get(link, ())))


def whole_passages(passages: Mapping[str, str]) -> dict[str, Parts]:
    """Return the text to append to cells for each link: the whole linked passage, after a colon."""
    return {link: (":", text) for link, text in passages.items()}
