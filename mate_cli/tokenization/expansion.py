"""Append what linked passages say to the text of a cell: chosen sentences, or whole passages.

Source: google-research/tapas, `utils/tf_example_utils.py` and `utils/text_index.py`; a regular expression takes
the place of the Punkt sentence splitter.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from mate_cli.tables.table import Cell
from mate_cli.tokenization.pieces import Parts

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
    max_df=0.9)`, from an inverted index that is built once per table.

    Args:
        sentences: all sentences of a table's passages; repeated ones count each time.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        self.sentences = list(sentences)
        self._postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, sentence in enumerate(self.sentences):
            for term, frequency in Counter(_terms(sentence)).items():
                self._postings[term].append((number, frequency))
        most = MAX_SENTENCE_SHARE * len(self.sentences)
        self._idf = {
            term: math.log((1 + len(self.sentences)) / (1 + len(postings))) + 1
            for term, postings in self._postings.items()
            if len(postings) <= most
        }
        self._norms = self._sentence_norms()

    def search(self, question: str, limit: int) -> list[tuple[str, float]]:
        """The best sentences with a cosine above 0, best first; the earlier one wins a tie."""
        query = {term: n * self._idf[term] for term, n in Counter(_terms(question)).items() if term in self._idf}
        length = math.sqrt(sum(weight * weight for weight in query.values()))
        scores: dict[int, float] = defaultdict(float)
        for term, weight in sorted(query.items()):
            for number, frequency in self._postings[term]:
                scores[number] += weight / length * (frequency * self._idf[term] / self._norms[number])
        best = heapq.nsmallest(limit, scores, key=lambda number: (-scores[number], number))
        return [(self.sentences[number], scores[number]) for number in best]

    def _sentence_norms(self) -> list[float]:
        squares = [0.0] * len(self.sentences)
        for term, idf in self._idf.items():
            for number, frequency in self._postings[term]:
                squares[number] += (frequency * idf) ** 2
        return [math.sqrt(square) for square in squares]


def _terms(text: str) -> list[str]:
    words = _WORD.findall(text.lower())
    return words + [f"{first} {second}" for first, second in pairwise(words)]


class Expander:
    """Chooses sentences of a table's passages for a question and appends them to the cells that link there.

    A table with one sentence only, or whose terms are all too common, is not expanded; the reference drops
    such examples.

    Args:
        passages: text by link.
        limit: how many sentences to choose in the whole table.
        titles: put the link's title before its sentences.
    """

    def __init__(self, passages: Mapping[str, str], limit: int, *, titles: bool) -> None:
        self._by_link = {link: split_sentences(text) for link, text in passages.items()}
        self._index = SentenceIndex([sentence for found in self._by_link.values() for sentence in found])
        self._limit, self._titles = limit, titles

    def chosen(self, question: str) -> dict[str, Parts]:
        """What to append for each link that has a chosen sentence: "( s1 s2 )" in the order of the passage."""
        best = {sentence for sentence, _ in self._index.search(question, self._limit)}
        found = {link: [s for s in sentences if s in best] for link, sentences in self._by_link.items()}
        return {link: self._parts(link, sentences) for link, sentences in found.items() if sentences}

    def _parts(self, link: str, sentences: list[str]) -> Parts:
        title = (link.rsplit("/", 1)[-1].replace("_", " "), ":") if self._titles else ()
        return ("(", *title, *sentences, ")")


def expanded(cell: Cell, additions: Mapping[str, Parts]) -> Parts:
    """A cell's text, followed by what is added for each of its links."""
    return (cell.text, *(part for link in cell.links for part in additions.get(link, ())))


def whole_passages(passages: Mapping[str, str]) -> dict[str, Parts]:
    """What the reader appends for each link: ": passage"."""
    return {link: (":", text) for link, text in passages.items()}
