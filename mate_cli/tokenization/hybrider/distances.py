"""How far a question is from each sentence of a table's pages: by TF-IDF, and by the longest common substring.

Source: wenhuchen/HybridQA, `preprocessing.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

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
        """The distance of each sentence to a question, [S]; none at all where no sentence holds a pair of words."""
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
        """The distance of each sentence to a question, [S]."""
        if not len(self._starts) or not question:
            return np.ones(len(self._starts))
        asked = question.lower()
        places = {character: self._codes == ord(character) for character in set(asked)}
        run, longest = (np.zeros(len(self._codes) + 1, dtype=np.int16) for _ in range(2))
        for character in asked:  # run[n + 1] is how many characters end alike here and at place n of the sentences
            run[1:] = (run[:-1] + 1) * places[character]
            np.maximum(longest, run, out=longest)
        return 1 - np.maximum.reduceat(longest[1:], self._starts) / len(question)
