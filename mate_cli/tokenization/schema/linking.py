"""Which words of a question name which tables and columns of a schema.

Source: Xu et al. 2021 (DT-Fixup), `rat_schema_linker.py` of the released code, which goes back to IRNet. Words are
compared by their stems (Porter) where the code compares lemmas of WordNet; what it links through ConceptNet and
synonyms of WordNet is left out. Values are linked as by Wang et al. 2020 (RAT-SQL): a word of the question is a whole
word of a text that a column holds.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from mate_cli.tokenization.fitting.exact_match_pruning import stem

NO_LINK, PARTIAL, EXACT = range(3)
"""How a word and a name go together."""

_WORD = re.compile(r"\d+(?:[.,:]\d+)*|\w+(?:[-']\w+)*|[^\w\s]")
_NUMBER = re.compile(r"-?\d+(?:[.,:]\d+)*")
_YEAR = re.compile(r"(1[6-9]|2[01])\d\d")
_WORDS = """
a an of be 's is me it as in on do to ok or at for the and how are out all with have that this what
"""
_SAY_NOTHING = frozenset(_WORDS.split())
"""Part of a name is none of it where it is one of these words."""
_SHORTEST = 2
"""Letters of a part of a name."""


def question_words(question: str) -> list[str]:
    """The words, numbers and signs of a question."""
    return _WORD.findall(question)


class NameLinker:
    """Finds names in questions.

    Args:
        names: in words; one without letters and digits, such as "*", is never found.
    """

    def __init__(self, names: Iterable[str]) -> None:
        stems = [tuple(_stem(word) for word in question_words(name) if word.strip("*_")) for name in names]
        self._names = [" ".join(parts) for parts in stems]
        self._lengths = [len(parts) for parts in stems]
        self._exact: dict[str, list[int]] = defaultdict(list)
        for place, name in enumerate(self._names):
            if name:
                self._exact[name].append(place)

    def links(self, words: Sequence[str]) -> np.ndarray:
        """How each word goes with each name: `NO_LINK`, `PARTIAL` or `EXACT`, uint8 [words, names].

        Where several words are a name, no word of them but the last is looked at by itself. A part of a name is a run
        of words whose text stands in it, and of a word and a name the link that is found first counts.
        """
        stems = [_in_question(word) for word in words]
        found = np.zeros((len(stems), len(self._names)), np.uint8)
        start = 0
        while start < len(stems):
            start = self._link_from(start, stems, found)
        return found

    def _link_from(self, start: int, stems: Sequence[str], found: np.ndarray) -> int:
        """Link the words that begin at a place; return the place to go on from."""
        furthest = start + 1
        for end in range(len(stems), start, -1):
            for name in self._exact.get(" ".join(stems[start:end]), ()):
                _mark(found[start:end, name], EXACT)
                furthest = max(furthest, end)
        if furthest > start + 1:
            return furthest
        for name, (text, length) in enumerate(zip(self._names, self._lengths, strict=True)):
            for end in range(min(start + length, len(stems)), start, -1):
                part = " ".join(stems[start:end])
                if len(part) >= _SHORTEST and part in text and part not in _SAY_NOTHING:
                    _mark(found[start:end, name], PARTIAL)
        return furthest


class ValueLinker:
    """Finds words of questions among the values of columns.

    Args:
        values: the texts that each column holds.
    """

    def __init__(self, values: Sequence[Iterable[str]]) -> None:
        self._count = len(values)
        self._columns: dict[str, list[int]] = defaultdict(list)
        for column, texts in enumerate(values):
            for word in {word.lower() for text in texts for word in question_words(text)}:
                if len(word) >= _SHORTEST and word not in _SAY_NOTHING:
                    self._columns[word].append(column)

    def links(self, words: Sequence[str]) -> np.ndarray:
        """Which column holds which word, Bool [words, columns]."""
        found = np.zeros((len(words), self._count), bool)
        for place, word in enumerate(words):
            found[place, self._columns.get(word.lower(), [])] = True
        return found


def _mark(links: np.ndarray, kind: int) -> None:
    links[links == NO_LINK] = kind


def _in_question(word: str) -> str:
    """The stem of a word; of numbers, "year" or "number", which names of columns may have in them."""
    if _YEAR.fullmatch(word):
        return "year"
    return "number" if _NUMBER.fullmatch(word) else _stem(word)


def _stem(word: str) -> str:
    return word.lower() if word.lower() in _SAY_NOTHING else stem(word.lower())
