"""Counterfactual statements: sentences about a table, true as they stand and false with one mention replaced.

A mention is a thing that table and text both refer to: an entity, a number or a date. The reference knows entities by
the annotations of Wikipedia's hyperlinks. Here a cell without number or date is an entity: the one that it links to, or
its own text. A text mentions it where the cell's text, or the title of the page that it links to, stands in it as whole
tokens, letter for letter.

Source: Eisenschlos et al. 2020, "Understanding tables with intermediate pre-training", section 3.1;
google-research/tapas, `utils/contrastive_statements.py` and `utils/number_utils.py`.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np

from mate_cli.tables.numbers import Value, parse_text
from mate_cli.tables.table import Cell, Table
from mate_cli.tables.text import normalize_for_match, split_sentences

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


ENTITY, CARDINAL, ORDINAL, DATE = "entity", "cardinal", "ordinal", "date"
MIN_LENGTH = 3
"""Shorter texts refer to nothing, but for plain numbers."""

_ORDINAL_ENDS = ("st", "nd", "rd", "th")
_WORD_BEFORE, _NAME_AFTER = re.compile(r"(?:^|(.)\s)(\S+)\s$"), re.compile(r"\s[^\W_a-z]")
_OPENING, _CLOSING = frozenset("\"'([$£€“\u2018"), frozenset("\"'\u2019”)]%;:?!")


class Key(NamedTuple):
    """Thing that is referred to: its kind, and its name within that kind."""

    kind: str
    identifier: str | Value


@dataclass(slots=True)
class TableReference:
    """The ways in which a table's cells write one thing, other names of it, and where the cells are."""

    texts: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    cells: dict[tuple[int, int], None] = field(default_factory=dict)


class TableReferences:
    """The things that a table refers to in one column only, and the rows and columns in which it does."""

    def __init__(self, table: Table) -> None:
        references: dict[Key, TableReference] = defaultdict(TableReference)
        for row, column, cell in table.cells():
            for key in _cell_keys(cell):
                references[key].texts.add(cell.text)
                references[key].cells[row, column] = None
                references[key].names.update(map(_page_title, cell.links if key.kind == ENTITY else ()))
        self.by_key = {key: ref for key, ref in references.items() if len({column for _, column in ref.cells}) == 1}
        self.by_row: dict[int, set[Key]] = defaultdict(set)
        self.by_column: dict[int, set[Key]] = defaultdict(set)
        for key, reference in self.by_key.items():
            for row, column in reference.cells:
                self.by_row[row].add(key)
                self.by_column[column].add(key)

    def find_mentions(self, text: str) -> dict[Key, set[str]]:
        """Find the mentions of the table in a text; numbers and dates first, in the order of the text."""
        mentions: dict[Key, set[str]] = defaultdict(set)
        for key, mention in _numbers(text):
            if key in self.by_key:
                mentions[key].add(mention)
        for key, mention in self._entities(text):
            mentions[key].add(mention)
        return mentions

    def _entities(self, text: str) -> Iterator[tuple[Key, str]]:
        """Return mentions of entities that are not part of a longer mention."""
        spans: dict[tuple[int, int], list[Key]] = defaultdict(list)
        for key, reference in self.by_key.items():
            if key.kind == ENTITY:
                for name in reference.texts | reference.names:
                    for span in find_places((name,), text, names=True):
                        spans[span].append(key)
        end = 0
        for span in sorted(spans, key=lambda span: (span[0], -span[1])):
            if span[1] > end:
                end = span[1]
                yield from ((key, text[slice(*span)]) for key in spans[span])


def find_places(texts: Iterable[str], text: str, *, names: bool) -> list[tuple[int, int]]:
    """Find some texts in a text as whole tokens, the longest one winning: (begin, end) of characters.

    With `names`, what begins with a capital and is part of a longer name is left out, as "Perth" is in "Perth Glory".
    """
    places = sorted((begin, -end) for phrase in texts for begin, end in _occurrences(phrase, text))
    spans: list[tuple[int, int]] = []
    for begin, end in places:
        if not spans or begin >= spans[-1][1]:
            spans.append((begin, -end))
    return [span for span in spans if not (names and text[span[0]].isupper() and _is_part_of_name(text, *span))]


def _occurrences(needle: str, text: str) -> Iterator[tuple[int, int]]:
    """Find where a needle stands and neither a letter nor a digit, hyphen or decimal goes on."""
    begin = text.find(needle) if needle else -1
    while begin >= 0:
        end = begin + len(needle)
        if (not begin or text[begin - 1].isspace() or text[begin - 1] in _OPENING) and _ends_token(text, end):
            yield begin, end
        begin = text.find(needle, begin + 1)


def _ends_token(text: str, end: int) -> bool:
    after = text[end : end + 2]
    if after[:1] in (".", ","):
        after = after[1:]
    return not after or after[0].isspace() or after[0] in _CLOSING


def _is_part_of_name(text: str, begin: int, end: int) -> bool:
    """Tell if a capital or a digit follows, or a word with a capital goes before that does not begin a sentence."""
    if (after := _NAME_AFTER.match(text, end)) and not after.group()[-1].islower():
        return True
    before = _WORD_BEFORE.search(text, max(0, begin - 40), begin)
    return before is not None and before[2][0].isupper() and before[1] is not None and before[1] not in ".!?"


def _cell_keys(cell: Cell) -> Iterable[Key]:
    """Return a cell refers to its number or date when it is nothing else, even to both ("2012"), else to an entity."""
    text = normalize_for_match(cell.text)
    whole = [value for span in parse_text(text) if (span.begin, span.end) == (0, len(text)) for value in span.values]
    if whole:
        return [_numeric_key(text, value) for value in whole if _refers(cell.text, value)]
    if len(cell.text) < MIN_LENGTH or not any(map(str.isalpha, cell.text)):
        return []
    return [Key(ENTITY, cell.links[0] if len(cell.links) == 1 else cell.text)]


@lru_cache(maxsize=1 << 12)
def _numbers(text: str) -> tuple[tuple[Key, str], ...]:
    """Return numbers and dates of a text without superfluous white space, and how they are said."""
    lowered = text.lower()
    if len(lowered) != len(text):  # some capitals have two characters in lower case; places must not move
        lowered = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    return tuple(
        (_numeric_key(mention.lower(), value), mention)
        for span in parse_text(lowered)
        for mention in (text[span.begin : span.end].strip().rstrip("."),)  # the full stop belongs to the sentence
        for value in span.values
        if _refers(mention, value)
    )


def _refers(text: str, value: Value) -> bool:
    """Tell whether a text refers to anything: not "one", a pronoun, nor what is short and no plain number."""
    if isinstance(value, float):
        return not math.isclose(value, 1, abs_tol=1e-5) and (len(text) >= MIN_LENGTH or _is_float(text))
    return len(text) >= MIN_LENGTH


def _numeric_key(text: str, value: Value) -> Key:
    if not isinstance(value, float):
        return Key(DATE, value)
    return Key(ORDINAL if text.endswith(_ORDINAL_ENDS) else CARDINAL, value)


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _page_title(link: str) -> str:
    """Return the title of a page without what tells it from pages of the same title: "/wiki/Red_(band)" is "Red"."""
    return link.rsplit("/", 1)[-1].replace("_", " ").split(" (")[0]
