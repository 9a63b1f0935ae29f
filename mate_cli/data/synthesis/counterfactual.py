"""Counterfactual statements: sentences about a table, true as they stand and false with one mention replaced.

Source: Eisenschlos et al. 2020, "Understanding tables with intermediate pre-training", section 3.1;
google-research/tapas, `utils/contrastive_statements.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np

from mate_cli.data.synthesis.references import ENTITY, Key, TableReferences, find_places
from mate_cli.tables.text import split_sentences

Texts = frozenset[str]
Item = TypeVar("Item")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_ABBREVIATION = re.compile(
    r"\b(?:[A-Za-z]|Mr|Mrs|Ms|Dr|St|Mt|Ft|Jr|Sr|vs|No|Inc|Ltd|Co|Corp|Gen|Col|Capt|Lt|Sgt|Prof)\.$"
)


@dataclass(frozen=True)
class Rewriting:
    """Settings of rewriting sentences.

    Args:
        min_context: so many different words and marks of a sentence must stay.
        unsupported_share: how many of the sentences are kept that mention nothing else of the focus's row.
        clear: leave out replacements that stand in some row with what supports the focus: with them the sentence
            may be true as well. The reference keeps them.
        most: so many pairs of a table, taken by chance; None makes all, as the reference does.
    """

    min_context: int = 4
    unsupported_share: float = 0.0
    clear: bool = True
    most: int | None = 1


@dataclass(frozen=True, slots=True)
class ReplaceableMention:
    """A mention that may be replaced.

    Args:
        focus: how the text and the table say it.
        positives: how the table says it.
        negatives: how the table says other things of its kind and column that the text does not mention.
        support: how the text says other things of its row.
        is_name: of an entity, not of a number or date.
    """

    focus: Texts
    positives: Texts
    negatives: Texts
    support: Texts
    is_name: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence with its focus as the table says it, and with another one in every place where it stood."""

    positive: str
    negative: str
    focus: str
    replacement: str


def counterfactual_pairs(
    references: TableReferences, texts: Iterable[str], rng: np.random.Generator, rewriting: Rewriting = Rewriting()
) -> Iterator[Pair]:
    """Rewrite the sentences of texts about a table, once for each mention and row; no negative comes twice.

    Line breaks part the paragraphs of texts.
    """
    negatives: set[str] = set()
    for pair in _pairs(references, texts, rng, rewriting):
        if pair.negative not in negatives:
            negatives.add(pair.negative)
            yield pair
        if len(negatives) == rewriting.most:
            return


def _pairs(
    references: TableReferences, texts: Iterable[str], rng: np.random.Generator, rewriting: Rewriting
) -> Iterator[Pair]:
    for text in _ordered(texts, rng, rewriting):
        sentences = _sentences(text)
        for candidate in _ordered(
            replaceable_mentions(references, " ".join(sentences), rewriting.clear), rng, rewriting
        ):
            if candidate.support or rewriting.unsupported_share:
                for sentence in sentences:
                    pair = _rewritten(candidate, sentence, rng, rewriting)
                    if pair is not None:
                        yield pair


def _ordered(items: Iterable[Item], rng: np.random.Generator, rewriting: Rewriting) -> list[Item]:
    """Return items in their order where all are used, else in a random one."""
    ordered = list(items)
    if rewriting.most is not None:
        rng.shuffle(ordered)
    return ordered


def replaceable_mentions(references: TableReferences, text: str, clear: bool = True) -> Iterator[ReplaceableMention]:
    """Yield the mentions of a text that may be replaced, once for each row of the table that has them.

    The text has no superfluous white space. See `Rewriting` of what is clear.
    """
    mentions = references.find_mentions(text)
    for key in mentions:
        for row, column in references.by_key[key].cells:
            support = (references.by_row[row] & mentions.keys()) - {key}
            others = {other for other in references.by_column[column] - mentions.keys() if other.kind == key.kind}
            if clear:
                others = {other for other in others if not _shares_row(references, other, support)}
            positives = frozenset(references.by_key[key].texts)
            candidate = ReplaceableMention(
                positives | mentions[key],
                positives,
                frozenset(text for other in others for text in references.by_key[other].texts),
                frozenset(text for other in support for text in mentions[other]),
                key.kind == ENTITY,
            )
            if candidate.negatives and not _is_ambiguous(candidate):
                yield candidate


def _shares_row(references: TableReferences, key: Key, others: Collection[Key]) -> bool:
    return any(not references.by_row[row].isdisjoint(others) for row, _ in references.by_key[key].cells)


def _is_ambiguous(candidate: ReplaceableMention) -> bool:
    focus, negatives, support = candidate.focus, candidate.negatives, candidate.support
    return bool(focus & negatives or focus & support or negatives & support)


def _rewritten(
    candidate: ReplaceableMention, sentence: str, rng: np.random.Generator, rewriting: Rewriting
) -> Pair | None:
    """Return the pair of a sentence; None where it has no focus or too little besides."""
    focus = find_places(candidate.focus, sentence, names=candidate.is_name)
    if not focus:
        return None
    replacement, positive = _drawn(candidate.negatives, rng), _drawn(candidate.positives, rng)
    negative = _spliced(sentence, focus, replacement)
    if len(_tokens(negative) & _tokens(sentence)) < rewriting.min_context:
        return None
    if not find_places(candidate.support, negative, names=False) and rng.random() >= rewriting.unsupported_share:
        return None
    return Pair(_spliced(sentence, focus, positive), negative, positive, replacement)


def _spliced(sentence: str, spans: Sequence[tuple[int, int]], replacement: str) -> str:
    ends = [0, *(end for _, end in spans)]
    begins = [*(begin for begin, _ in spans), len(sentence)]
    return replacement.join(sentence[end:begin] for end, begin in zip(ends, begins, strict=True))


def _drawn(texts: Texts, rng: np.random.Generator) -> str:
    return sorted(texts)[int(rng.random() * len(texts))]


def _tokens(text: str) -> set[str]:
    return set(_TOKEN.findall(text))


@lru_cache(maxsize=1 << 10)
def _sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a text without superfluous white space; an abbreviation or initial does not end one."""
    sentences: list[str] = []
    for line in text.split("\n"):
        open_ended = False
        for sentence in split_sentences(" ".join(line.split())):
            if open_ended:
                sentence = f"{sentences.pop()} {sentence}"
            sentences.append(sentence)
            open_ended = _ABBREVIATION.search(sentence) is not None
    return tuple(sentences)
