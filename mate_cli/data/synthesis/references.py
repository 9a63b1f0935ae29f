"""Things that a table and a text about it both refer to: entities, numbers and dates.

The reference knows entities by the annotations of Wikipedia's hyperlinks. Here a cell without number or date is an
entity: the one that it links to, or its own text. A text mentions it where the cell's text, or the title of the page
that it links to, stands in it as whole tokens, letter for letter.

Source: google-research/tapas, `utils/contrastive_statements.py` and `utils/number_utils.py`.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from mate_cli.tables.numbers import Value, parse_text
from mate_cli.tables.table import Cell, Table
from mate_cli.tables.text import normalize_for_match

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
