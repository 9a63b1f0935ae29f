"""Counterfactual statements: sentences about a table with one mention replaced.

The original sentence is true, and the rewritten sentence is false.

A mention is an entity, a number or a date that both the table and the text refer to. The reference implementation
identifies entities by the hyperlinks of Wikipedia. Here a cell without number or date is an entity: the page that it
links to, or the cell text. A text mentions an entity if it contains the cell text, or the title of the linked page, as
whole tokens with the same letters.

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
    """Settings to generate false sentences by replacing a name or number of a true sentence.

    The replaced text is called a mention.

    Args:
        min_context: minimum number of distinct words and punctuation marks that a rewritten sentence shares with the
            original.
        unsupported_share: share of sentences to use among those that mention no other cell in the row of the focus.
        clear: whether to exclude replacements that occur in a row with a cell that supports the focus, because the
            sentence may then be true too. The reference implementation includes them.
        max_pairs: maximum number of pairs of a table, randomly selected. None makes all pairs, as in the reference
            implementation.
    """

    min_context: int = 4
    unsupported_share: float = 0.0
    clear: bool = True
    max_pairs: int | None = 1


@dataclass(frozen=True, slots=True)
class ReplaceableMention:
    """A mention of a table cell in a text, and the texts that can replace the mention.

    Args:
        focus: spellings of the mention in the text and in the table.
        positives: spellings of the mention in the table.
        negatives: spellings in the table of replacements: items of the same type and column that are not in the text.
        support: spellings in the text of other items of the row.
        is_name: whether the mention is an entity, not a number or date.
    """

    focus: Texts
    positives: Texts
    negatives: Texts
    support: Texts
    is_name: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """A true and a false sentence that differ in one mention of a table cell.

    Args:
        positive: sentence with the focus as spelled in the table.
        negative: sentence with every occurrence of the focus replaced.
        focus: spelling of the focus in `positive`.
        replacement: text that replaces the focus in `negative`.
    """

    positive: str
    negative: str
    focus: str
    replacement: str


def counterfactual_pairs(
    references: TableReferences, texts: Iterable[str], rng: np.random.Generator, rewriting: Rewriting = Rewriting()
) -> Iterator[Pair]:
    """Yield pairs of a true and a false sentence about a table. False sentences are distinct.

    A sentence is rewritten once for each mention and row.

    Args:
        references: items that the table refers to.
        texts: texts about the table. Line breaks separate paragraphs.
        rng: source of randomness.
        rewriting: settings.
    """
    negatives: set[str] = set()
    for pair in _pairs(references, texts, rng, rewriting):
        if pair.negative not in negatives:
            negatives.add(pair.negative)
            yield pair
        if len(negatives) == rewriting.max_pairs:
            return


def _pairs(
    references: TableReferences, texts: Iterable[str], rng: np.random.Generator, rewriting: Rewriting
) -> Iterator[Pair]:
    for text in _shuffle(texts, rng, rewriting):
        sentences = _sentences(text)
        mentions = replaceable_mentions(references, " ".join(sentences), rewriting.clear)
        for candidate in _shuffle(mentions, rng, rewriting):
            if candidate.support or rewriting.unsupported_share:
                for sentence in sentences:
                    pair = _rewrite(candidate, sentence, rng, rewriting)
                    if pair is not None:
                        yield pair


def _shuffle(items: Iterable[Item], rng: np.random.Generator, rewriting: Rewriting) -> list[Item]:
    """Shuffle items, or keep their order if all sentence pairs are made (`max_pairs` is None)."""
    item_list = list(items)
    if rewriting.max_pairs is not None:
        rng.shuffle(item_list)
    return item_list


def replaceable_mentions(references: TableReferences, text: str, clear: bool = True) -> Iterator[ReplaceableMention]:
    """Yield the mentions in a text that another item of the table can replace.

    A mention occurs once for each table row with the mentioned item.

    Args:
        references: items that the table refers to.
        text: text with normalized white space.
        clear: see `Rewriting`.
    """
    mentions = references.find_mentions(text)
    for key in mentions:
        for row, column in references.by_key[key].cells:
            support = (references.by_row[row] & mentions.keys()) - {key}
            alternatives = {item for item in references.by_column[column] - mentions.keys() if item.kind == key.kind}
            if clear:
                alternatives = {item for item in alternatives if not _shares_row(references, item, support)}
            positives = frozenset(references.by_key[key].texts)
            candidate = ReplaceableMention(
                positives | mentions[key],
                positives,
                frozenset(text for item in alternatives for text in references.by_key[item].texts),
                frozenset(text for item in support for text in mentions[item]),
                key.kind == ENTITY,
            )
            if candidate.negatives and not _is_ambiguous(candidate):
                yield candidate


def _shares_row(references: TableReferences, key: Key, keys: Collection[Key]) -> bool:
    return any(not references.by_row[row].isdisjoint(keys) for row, _ in references.by_key[key].cells)


def _is_ambiguous(candidate: ReplaceableMention) -> bool:
    focus, negatives, support = candidate.focus, candidate.negatives, candidate.support
    return bool(focus & negatives or focus & support or negatives & support)


def _rewrite(
    candidate: ReplaceableMention, sentence: str, rng: np.random.Generator, rewriting: Rewriting
) -> Pair | None:
    """Make a true and a false sentence, by replacing the focus mention of a sentence.

    The true sentence names the item of the focus, the false sentence another item of the same column.

    Return None if the sentence does not contain the mention, or too few other words (`rewriting.min_context`).
    """
    focus = find_places(candidate.focus, sentence, names=candidate.is_name)
    if not focus:
        return None
    replacement, positive = _choose(candidate.negatives, rng), _choose(candidate.positives, rng)
    negative = _spliced(sentence, focus, replacement)
    if len(_tokens(negative) & _tokens(sentence)) < rewriting.min_context:
        return None
    if not find_places(candidate.support, negative, names=False) and rng.random() >= rewriting.unsupported_share:
        return None
    return Pair(_spliced(sentence, focus, positive), negative, positive, replacement)


def _spliced(sentence: str, spans: Sequence[tuple[int, int]], replacement: str) -> str:
    span_ends = [0, *(end for _, end in spans)]
    span_starts = [*(start for start, _ in spans), len(sentence)]
    return replacement.join(sentence[end:start] for end, start in zip(span_ends, span_starts, strict=True))


def _choose(texts: Texts, rng: np.random.Generator) -> str:
    return sorted(texts)[int(rng.random() * len(texts))]


def _tokens(text: str) -> set[str]:
    return set(_TOKEN.findall(text))


@lru_cache(maxsize=1 << 10)
def _sentences(text: str) -> tuple[str, ...]:
    """Split a text into sentences, but not after abbreviations and initials.

    White space is collapsed.
    """
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
"""Minimum number of characters of a text that can mention an item of the table. Numbers may be shorter."""

_ORDINAL_ENDS = ("st", "nd", "rd", "th")
_WORD_BEFORE, _NAME_AFTER = re.compile(r"(?:^|(.)\s)(\S+)\s$"), re.compile(r"\s[^\W_a-z]")
_OPENING, _CLOSING = frozenset("\"'([$£€“\u2018"), frozenset("\"'\u2019”)]%;:?!")


class Key(NamedTuple):
    """Identifier of an entity, number or date, shared by all mentions in tables and texts."""

    kind: str
    identifier: str | Value


@dataclass(slots=True)
class TableReference:
    """A distinct entity, number or date of a table: its spellings and the cells with it.

    Args:
        texts: texts of its cells.
        names: other names of the item.
        cells: (row, column) of its cells, as keys of a dictionary that preserves their order.
    """

    texts: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    cells: dict[tuple[int, int], None] = field(default_factory=dict)


class TableReferences:
    """Index of the entities, numbers and dates in a table, to find mentions of them in texts.

    Items that occur in several columns are omitted.
    """

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
        """Find the table items that a text mentions: {item: spellings in the text}.

        Numbers and dates are first, then entities, both in the order of the text.
        """
        mentions: dict[Key, set[str]] = defaultdict(set)
        for key, mention in _numbers(text):
            if key in self.by_key:
                mentions[key].add(mention)
        for key, mention in self._entities(text):
            mentions[key].add(mention)
        return mentions

    def _entities(self, text: str) -> Iterator[tuple[Key, str]]:
        """Yield (entity, spelling) for each table entity in a text, longest mentions only."""
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
    """Find phrases in a text as whole tokens, and return the (start, end) of each occurrence.

    Longer phrases take precedence.

    Args:
        texts: phrases to find.
        text: text to search.
        names: whether to exclude capitalized occurrences within a longer name, such as "Perth" in "Perth Glory".
    """
    occurrences = sorted((start, -end) for phrase in texts for start, end in _occurrences(phrase, text))
    spans: list[tuple[int, int]] = []
    for start, end in occurrences:
        if not spans or start >= spans[-1][1]:
            spans.append((start, -end))
    return [span for span in spans if not (names and text[span[0]].isupper() and _is_part_of_name(text, *span))]


def _occurrences(needle: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each occurrence of a phrase that is not within a longer word."""
    start = text.find(needle) if needle else -1
    while start >= 0:
        end = start + len(needle)
        if (not start or text[start - 1].isspace() or text[start - 1] in _OPENING) and _ends_token(text, end):
            yield start, end
        start = text.find(needle, start + 1)


def _ends_token(text: str, end: int) -> bool:
    next_characters = text[end : end + 2]
    if next_characters[:1] in (".", ","):
        next_characters = next_characters[1:]
    return not next_characters or next_characters[0].isspace() or next_characters[0] in _CLOSING


def _is_part_of_name(text: str, start: int, end: int) -> bool:
    """Return whether a span of a text is probably part of a longer name, as in "Perth Glory".

    This is the case if a capital or digit follows, or if a capitalized word precedes that does not start a sentence.
    """
    if (following_match := _NAME_AFTER.match(text, end)) and not following_match.group()[-1].islower():
        return True
    preceding = _WORD_BEFORE.search(text, max(0, start - 40), start)
    return bool(preceding and preceding[2][0].isupper() and preceding[1] and preceding[1] not in ".!?")


def _cell_keys(cell: Cell) -> Iterable[Key]:
    """Return the keys of the number, date or entity in a cell. "2012" is number and date.

    A cell with other text is an entity. If the text is too short, the cell has no item.
    """
    text = normalize_for_match(cell.text)
    numbers = [value for span in parse_text(text) if (span.start, span.end) == (0, len(text)) for value in span.values]
    if numbers:
        return [_numeric_key(text, value) for value in numbers if _refers(cell.text, value)]
    if len(cell.text) < MIN_LENGTH or not any(map(str.isalpha, cell.text)):
        return []
    return [Key(ENTITY, cell.links[0] if len(cell.links) == 1 else cell.text)]


@lru_cache(maxsize=1 << 12)
def _numbers(text: str) -> tuple[tuple[Key, str], ...]:
    """Return the numbers and dates in a text, as pairs of their key and their spelling.

    White space of the text must be single spaces.
    """
    lowered = text.lower()
    # Some capitals have two characters in lower case. They stay unchanged, which preserves the offsets.
    if len(lowered) != len(text):
        lowered = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    return tuple(
        (_numeric_key(mention.lower(), value), mention)
        for span in parse_text(lowered)
        # A full stop is part of the sentence, not of the number.
        for mention in (text[span.start : span.end].strip().rstrip("."),)
        for value in span.values
        if _refers(mention, value)
    )


def _refers(text: str, value: Value) -> bool:
    """Return whether a text is distinctive enough to mention a number or date of the table.

    "one", which is often a pronoun, is no mention. Short texts are mentions only if they are numbers.
    """
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
    """Return the title of a linked page without disambiguation: "Red" for "/wiki/Red_(band)"."""
    return link.rsplit("/", 1)[-1].replace("_", " ").split(" (")[0]
