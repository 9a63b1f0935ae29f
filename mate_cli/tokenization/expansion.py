"""Append what linked passages say to the text of a cell: chosen sentences, or whole passages.

Source: google-research/tapas, `utils/tf_example_utils.py` and `utils/text_index.py`; a regular expression takes
the place of the Punkt sentence splitter.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from mate_cli.tables.table import Cell
from mate_cli.tokenization.pieces.pieces import Parts

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"(?u)\b\w\w+\b")
MAX_SENTENCE_SHARE = 0.9
"""Words and pairs of words in more than this share of the sentences tell nothing apart."""


def split_sentences(text: str) -> list[str]:
    """Split a passage after ., ! or ? and white space."""
    return [sentence for part in _SENTENCE_END.split(text) if (sentence := part.strip())]


class SentenceIndex:
    """Finds the sentences nearest to a question, by the cosine of their TF-IDF weights.

    Terms are words of two or more letters and pairs of them; term frequency is raw, idf is
    ln((1 + n) / (1 + df)) + 1. The numbers are those of scikit-learn's `TfidfVectorizer(ngram_range=(1, 2),
    max_df=0.9)`, which takes eight times as long for a table of 18 sentences with one question (3.2 ms, not 0.4), and
    eighteen times for each further question. Terms are integers: word w is w, the pair v w is (v + 1) * words + w.

    Args:
        sentences: S sentences of a table's passages; repeated ones count each time.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        self.sentences = list(sentences)
        self._words: dict[str, int] = {}
        words, places = self._read_words()
        pairs = places[1:] == places[:-1]
        terms = np.concatenate([words, (words[:-1][pairs] + 1) * len(self._words) + words[1:][pairs]])
        entries = terms * len(self.sentences) + np.concatenate([places, places[1:][pairs]])
        entries, counts = np.unique(entries, return_counts=True)
        terms, self._places = np.divmod(entries, max(1, len(self.sentences)))
        self._terms, first, frequency = np.unique(terms, return_index=True, return_counts=True)
        self._bounds = np.append(first, len(terms))
        idf = np.log((1 + len(self.sentences)) / (1 + frequency)) + 1
        self._idf = np.where(frequency <= MAX_SENTENCE_SHARE * len(self.sentences), idf, 0)
        weights = counts * np.repeat(self._idf, frequency)
        norms = np.sqrt(np.bincount(self._places, weights * weights, minlength=len(self.sentences)))
        self._weights = weights / np.maximum(norms, np.finfo(float).tiny)[self._places]

    def search(self, question: str, limit: int) -> list[tuple[str, float]]:
        """Return the best sentences with a cosine above 0, best first; the earlier one wins a tie."""
        scores = self.scores(question)
        best = np.argsort(-scores, kind="stable")[:limit]
        return [(self.sentences[number], float(scores[number])) for number in best if scores[number] > 0]

    def scores(self, question: str) -> np.ndarray:
        """Return the cosine of every sentence to a question, [S]."""
        query = {n: count * self._idf[n] for n, count in self._terms_of(question).items() if self._idf[n]}
        length = math.sqrt(sum(weight * weight for weight in query.values()))
        scores = np.zeros(len(self.sentences))
        for number, weight in query.items():
            postings = slice(self._bounds[number], self._bounds[number + 1])
            scores[self._places[postings]] += weight / length * self._weights[postings]
        return scores

    def _read_words(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the words of all sentences as numbers, and the sentence of each."""
        found = [_WORD.findall(sentence.lower()) for sentence in self.sentences]
        lengths = [len(words) for words in found]
        known = self._words
        numbers = [known.setdefault(word, len(known)) for words in found for word in words]
        return np.array(numbers, dtype=np.int64), np.repeat(np.arange(len(found)), lengths)

    def _terms_of(self, question: str) -> Counter[int]:
        """Count each known term, by its place in the index, in a question."""
        words = [self._words.get(word, -1) for word in _WORD.findall(question.lower())]
        terms = [word for word in words if word >= 0]
        terms += [(v + 1) * len(self._words) + w for v, w in pairwise(words) if v >= 0 and w >= 0]
        places = np.searchsorted(self._terms, terms)
        found = (
            n for n, term in zip(places.tolist(), terms, strict=True) if n < len(self._terms) and self._terms[n] == term
        )
        return Counter(found)


class Expander:
    """Chooses sentences of a table's passages for a question and appends them to the cells that link there.

    A table with one sentence only, or whose terms are all too common, is not expanded; the reference drops
    such examples.
    """

    def __init__(self, passages: Mapping[str, str], limit: int, *, titles: bool) -> None:
        self._by_link = {link: split_sentences(text) for link, text in passages.items()}
        self._index = SentenceIndex([sentence for found in self._by_link.values() for sentence in found])
        self._limit, self._titles = limit, titles

    def chosen(self, question: str) -> dict[str, Parts]:
        """Return the text to append for each link with a chosen sentence: "( s1 s2 )" in the order of the passage."""
        best = {sentence for sentence, _ in self._index.search(question, self._limit)}
        found = {link: [s for s in sentences if s in best] for link, sentences in self._by_link.items()}
        return {link: self._parts(link, sentences) for link, sentences in found.items() if sentences}

    def _parts(self, link: str, sentences: list[str]) -> Parts:
        title = (link.rsplit("/", 1)[-1].replace("_", " "), ":") if self._titles else ()
        return ("(", *title, *sentences, ")")


def expand_cell(cell: Cell, additions: Mapping[str, Parts]) -> Parts:
    """Return a cell's text, followed by what is added for each of its links."""
    return (cell.text, *(part for link in cell.links for part in additions.get(link, ())))


def whole_passages(passages: Mapping[str, str]) -> dict[str, Parts]:
    """Return the text that the reader appends for each link: ": passage"."""
    return {link: (":", text) for link, text in passages.items()}
