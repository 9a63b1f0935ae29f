"""Distances of a question from sentences of pages (TF-IDF, longest common substring) and from texts of cells.

Source: wenhuchen/HybridQA, `preprocessing.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

import numpy as np

_NO_CHARACTER = -1


class TfidfDistance:
    """Cosine distance of TF-IDF weights of pairs and triples of words, fitted on the sentences of one table.

    The numbers are those of scikit-learn's `TfidfVectorizer`. Accents are stripped, stop words are left out before
    pairs are made.
    """

    def __init__(self, sentences: Sequence[str], stop_words: Sequence[str]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._vectorizer = TfidfVectorizer(strip_accents="unicode", ngram_range=(2, 3), stop_words=list(stop_words))
        try:
            self._weights = self._vectorizer.fit_transform(sentences)
        except ValueError:  # no sentence holds two words that count
            self._weights = None

    def to(self, question: str) -> np.ndarray:
        """Measure how far each sentence is from a question, [S]; empty where no sentence holds a pair of words."""
        if self._weights is None:
            return np.zeros(0)
        from sklearn.metrics.pairwise import cosine_distances

        return np.asarray(cosine_distances(self._vectorizer.transform([question]), self._weights)[0])


class OverlapDistance:
    """The share of a question that is outside its longest common substring with a sentence, case apart."""

    def __init__(self, sentences: Sequence[str]) -> None:
        texts = [sentence.lower() for sentence in sentences]
        self._starts = np.cumsum([0, *(len(text) + 1 for text in texts)])[:-1]
        codes = [code for text in texts for code in (*map(ord, text), _NO_CHARACTER)]
        self._codes = np.array(codes, dtype=np.int32)

    def to(self, question: str) -> np.ndarray:
        """Return the distance of each sentence to a question, [S]."""
        if not len(self._starts) or not question:
            return np.ones(len(self._starts))
        asked = question.lower()
        places = {character: self._codes == ord(character) for character in set(asked)}
        run, longest = (np.zeros(len(self._codes) + 1, dtype=np.int16) for _ in range(2))
        for character in asked:  # run[n + 1] is how many characters end alike here and at place n of the sentences
            run[1:] = (run[:-1] + 1) * places[character]
            np.maximum(longest, run, out=longest)
        return 1 - np.maximum.reduceat(longest[1:], self._starts) / len(question)


MIN_RATIO = 90
"""A cell matches when its ratio is greater."""


def partial_ratio(first: str, second: str, floor: int = 0) -> int:
    """Score how well the shorter text fits somewhere into the longer one, 0 to 100: `partial_ratio` of fuzzywuzzy.

    In pure Python that at times misses the best alignment. What it misses decides which nodes there are, so it is
    computed as it is there.
    Alignments are tried where `SequenceMatcher` finds a common block; each is scored by the share of characters in
    common blocks.
    What is not greater than `floor` may come out as 0, which is much faster.
    """
    shorter, longer = sorted((first, second), key=len)
    letters, length = Counter(shorter), len(shorter)
    common = _common(letters, longer)  # no more characters can match, in however short a part
    if not common or 200 * common <= floor * (length + common):
        return 0
    blocks = SequenceMatcher(None, shorter, longer).get_matching_blocks()
    starts = dict.fromkeys(max(0, place - shorter_place) for shorter_place, place, _ in blocks)
    parts = [longer[start : start + length] for start in starts]
    parts = [part for part in parts if 200 * _common(letters, part) > floor * (length + len(part))]
    return round(100 * max((SequenceMatcher(None, shorter, part).ratio() for part in parts), default=0))


def _common(letters: Counter[str], text: str) -> int:
    return (letters & Counter(text)).total()


def matching_texts(texts: Iterable[str], question: str) -> dict[str, float]:
    """Return the texts that match a question as whole words, each with its ratio as a share, case apart."""
    asked = f" {question.lower()} "
    ratios = {text: partial_ratio(f" {text.lower()} ", asked, MIN_RATIO) for text in dict.fromkeys(texts)}
    return {text: ratio / 100 for text, ratio in ratios.items() if ratio > MIN_RATIO}
