"""Columns as questions name them: a noun for the header, and the kind of the cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from urllib.parse import unquote

from mate_cli.data.synthesis.predicates import LITTLE, Words, predicates, read_wording
from mate_cli.tables.numbers import Value
from mate_cli.tables.numeric_columns import column_values
from mate_cli.tables.table import Table
from mate_cli.tables.text import is_empty, normalize_for_candidates

YEAR, DATE, NUMBER, PERSON, PLACE, TEXT = KINDS = ("year", "date", "number", "person", "place", "text")
MAX_WORDS, MAX_LETTERS, MAX_HEADER_WORDS = 8, 70, 4
"""Longer cells and headers are not put into questions."""
COMMON = 0.8
"""A column is of a kind when so many of its cells are."""
PASSAGES_OF_PEOPLE = 0.6
MAX_LINKS = 4

PLURAL_ENDS = re.compile(r"(?<![sui])s$")
_BRACKETS = re.compile(r"[(\[{][^()\[\]{}]*[)\]}]")
_MARKS = re.compile(r"[\"*†‡§^:.?!“”]|/s\b|'s?(?=\s|$)")
_HYPHEN = re.compile(r"(?<=\w)\s*-\s*(?=\w)")
_YEAR = re.compile(r"1[0-9]{3}|20[0-9]{2}")
_BEGINS_WITH_YEAR = re.compile(r"(?:1[0-9]{3}|20[0-9]{2})\b.{0,8}")
_NUMBER = re.compile(r"[$£€]?\s?[+-]?\d[\d,]*(?:\.\d+)?(?:\s?(?:%|[a-z]{1,3}²?|million|billion))?")
_MONTH = re.compile(r"\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\b")
PERSON_PASSAGE = re.compile(r"\( ?(?:[^()]*; )?born |\b(?:He|She)\b")
_IS_A = re.compile(r" (?:is|was) (?:a|an|the|one of the) (.{3,80})")


_WORDS = read_wording("question_columns")
_OF_KIND = {
    (f"{metal}", is_count): f"{metal} medals" if is_count else f"{metal} medal winner"
    for metal in ("gold", "silver", "bronze")
    for is_count in (True, False)
}


@dataclass(frozen=True, slots=True)
class QuestionColumn:
    """A column that questions can speak of.

    Args:
        index: its place, from 0.
        noun: what it is called.
        kind: one of `KINDS`.
        sayable: the rows whose cell fits into a question or is an answer.
        plural: whether the noun is.
        participle: what happened at the cells' dates, such as "opened"; else empty.
        values: numbers or dates by row, where every cell has one that can be compared.
        thing: what its cells are, by the passages that they link to, such as "park"; else empty.
    """

    index: int
    noun: str
    kind: str
    sayable: frozenset[int]
    plural: bool = False
    participle: str = ""
    values: Mapping[int, Value] = field(default_factory=dict)
    thing: str = ""

    @property
    def row_noun(self) -> str:
        """Noun for a row, when this is the column that names the rows."""
        if self.noun not in _WORDS["generic"]:
            return self.noun.removesuffix(" name")
        return "person" if self.kind == PERSON else self.thing or ("one" if self.noun == "name" else self.noun)


def read_columns(table: Table) -> tuple[QuestionColumn, ...]:
    """Return the columns of a table that can be spoken of: with a name of their own, and mostly with short cells."""
    found = [column for index in range(len(table.header)) if (column := _column(table, index))]
    names = Counter(column.noun for column in found)
    return tuple(column for column in found if names[column.noun] == 1)


def subject_column(table: Table, columns: Iterable[QuestionColumn]) -> QuestionColumn | None:
    """Find the column that names the rows: mostly different cells, linked ones rather than others, first ones first."""
    rows = len(table.rows)

    def score(column: QuestionColumn) -> float:
        cells = [row[column.index] for row in table.rows]
        different, linked = len({cell.text for cell in cells}), sum(bool(cell.links) for cell in cells)
        generic = 0.5 * (column.noun in _WORDS["generic"])
        place = 0.15 * column.index + 0.5 * (column.kind == PLACE and column.index > 0)
        lettered = sum(sum(map(str.isalpha, cell.text)) > 2 for cell in cells)
        able = different > rows / 2 and lettered > rows / 2
        return different / rows + linked / rows + generic - place if able else -1.0

    able = [column for column in columns if column.kind in (PERSON, PLACE, TEXT) and not column.plural]
    best = max(able, key=score, default=None)
    return best if best is not None and score(best) > -1 else None


def header_noun(header: str) -> str:
    """Turn a header into a noun without units, marks, brackets and short forms; "" when no question can use it."""
    text = _HYPHEN.sub("-", _MARKS.sub(" ", _BRACKETS.sub(" ", header))).replace(" / ", "/").replace("/", " or ")
    if text.count(",") == 1 and text.strip(" ,").count(","):
        text = text.replace(",", " and ")
    shouted = header.isupper()
    words = [_WORDS["in_full"].get(word.lower(), _lowered(word, shouted)) for word in text.replace(",", " ").split()]
    noun = _WORDS["in_full"].get(" ".join(words).lower(), " ".join(words))
    letters = sum(char.isalpha() for char in noun)
    if not 0 < len(words) <= MAX_HEADER_WORDS or letters < 3 or _WORDS["unusable"] & {words[0], words[-1]}:
        return ""
    return noun if not _WORDS["connections"] & {noun.split()[0], noun.split()[-1]} else ""


def is_sayable(text: str) -> bool:
    """Tell whether a cell's text is short and says something."""
    words = text.split()
    if not 0 < len(words) <= MAX_WORDS or len(text) > MAX_LETTERS or is_empty(text):
        return False
    return text.lower() not in _WORDS["says_nothing"] and not any(mark in text for mark in "|{}<>^")


def find_thing(passages: Sequence[str]) -> str:
    """Find the noun that passages call their subjects ("is a national park in" is a "park"), where many agree."""
    heads = Counter(head for passage in passages if (head := _head(passage)))
    head, count = next(iter(heads.most_common(1)), ("", 0))
    return head if 2 * count >= max(4, len(passages)) else ""


def _head(passage: str) -> str:
    match = _IS_A.search(passage[:400])
    head = ""
    for word in match.group(1).split() if match else ():
        if word in _WORDS["phrase_ends"] or (head and word.endswith("ed")):
            break
        head = word
    return head if head.isalpha() and head.islower() and head not in _WORDS["no_types"] and len(head) > 2 else ""


def _column(table: Table, index: int) -> QuestionColumn | None:
    noun = header_noun(table.header[index].text)
    texts = [row[index].text for row in table.rows]
    sayable = frozenset(row for row, text in enumerate(texts) if is_sayable(text))
    if not noun or len(sayable) < max(2, len(texts) / 2):
        return None
    linked = [_passages(table, row, index) for row in sorted(sayable)]
    kind = _kind([texts[row] for row in sayable], noun, [said for said in linked if said])
    noun = _OF_KIND.get((noun, kind == NUMBER), noun)
    participle = noun.split()[-1] if kind in (YEAR, DATE) and noun.split()[-1] in _WORDS["participles"] else ""
    if participle == noun:
        noun = f"{'year' if kind == YEAR else 'date'} {noun}"
    elif not participle and _is_no_noun(noun):
        return None
    values = _comparable(texts, sayable) if kind in (YEAR, DATE, NUMBER) else {}
    head = re.split(r" (?:of|at|in|for|by|per) ", noun)[0]
    return QuestionColumn(
        index, noun, kind, sayable, _is_plural(head), participle, values, find_thing(list(chain(*linked)))
    )


def _passages(table: Table, row: int, index: int) -> list[str]:
    """Return the passages of a cell; none of one with many links, which is no name."""
    links = table.rows[row][index].links
    return [table.passages[link] for link in links if link in table.passages] if len(links) <= MAX_LINKS else []


def _is_no_noun(header: str) -> bool:
    words = header.split()
    is_verb = words[0] in _WORDS["verbs"] or words[-1] in _WORDS["participles"]
    return is_verb or header.endswith("ed") or header in _WORDS["no_nouns"]


def _comparable(texts: Sequence[str], sayable: frozenset[int]) -> Mapping[int, Value]:
    values = column_values(texts)
    return values if len(values) >= 3 and sayable <= values.keys() else {}


def _kind(texts: Sequence[str], noun: str, linked: Sequence[Sequence[str]]) -> str:
    words = set(noun.split())
    year = _BEGINS_WITH_YEAR if words & {"year", "season", "edition"} else _YEAR
    for kind, matches in ((YEAR, year.fullmatch), (DATE, _is_date), (NUMBER, _NUMBER.fullmatch)):
        if sum(matches(text) is not None for text in texts) >= COMMON * len(texts) and noun not in _WORDS["no_numbers"]:
            return kind
    if len(linked) >= 2 and noun.split()[-1] not in _WORDS["no_people"]:
        people = sum(any(map(PERSON_PASSAGE.search, passages)) for passages in linked)
        if people >= PASSAGES_OF_PEOPLE * len(linked):
            return PERSON
    elif words & _WORDS["person_words"]:
        return PERSON
    return PLACE if words & _WORDS["place_words"] else TEXT


def _is_date(text: str) -> re.Match[str] | None:
    return _MONTH.search(text) if re.search(r"\d", text) and len(text.split()) <= MAX_WORDS else None


def _is_plural(noun: str) -> bool:
    return (PLURAL_ENDS.search(noun) is not None or noun == "runners-up") and not noun.endswith(("series", "species"))


def _lowered(word: str, shouted: bool) -> str:
    """Keep capitals in short words of capitals only, such as LGA, if not all of the header is shouted."""
    return word if word.isupper() and 1 < len(word) <= (3 if shouted else 5) else word.lower()


ALIKE = 0.8
"""A row is meant, too, when its texts have more than this share of a clue's telling words."""


class QuestionTable:
    """View of a table for the makers of clues and questions.

    Attributes:
        columns: those that questions can speak of.
        subject: the one that names the rows, if any does.
        row_noun: what to call a row.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.columns = read_columns(table)
        self.subject = subject_column(table, self.columns)
        self.row_noun = self.subject.row_noun if self.subject else "entry"
        self._keys = [[f" {normalize_for_candidates(cell.text)} " for cell in row] for row in table.rows]
        self._predicates: dict[str, list[Words]] = {}

    def text(self, row: int, column: QuestionColumn) -> str:
        """Return the text of a cell."""
        return " ".join(self.table.rows[row][column.index].text.split())

    def rows_with(self, text: str, column: QuestionColumn | None = None) -> frozenset[int]:
        """Return the rows in which a cell, of one column or of any, holds a text as whole words."""
        key = f" {normalize_for_candidates(text)} "
        return frozenset(
            row
            for row, cells in enumerate(self._keys)
            if any(key in cell for cell in ([cells[column.index]] if column else cells))
        )

    def rows_like(self, words: Iterable[str]) -> frozenset[int]:
        """Return the rows whose cells and passages have most of some words."""
        wanted = {part for word in words for part in normalize_for_candidates(word).split()}
        most = ALIKE * len(wanted)
        return frozenset(row for row, there in enumerate(self._row_words) if len(wanted & there) > most)

    def link(self, row: int, column: QuestionColumn) -> str | None:
        """Return the only passage of a cell; None when there is none or when there are several."""
        links = [link for link in self.table.rows[row][column.index].links if link in self.table.passages]
        return links[0] if len(links) == 1 else None

    def predicates(self, row: int, column: QuestionColumn) -> list[Words]:
        """List what the passage of a cell says of it."""
        link = self.link(row, column)
        if link is None or row not in column.sayable or column.kind in (YEAR, DATE, NUMBER):
            return []  # a linked year or number is no name of what its page is about
        if link not in self._predicates:
            passage = self.table.passages[link]
            fits = column.kind != PERSON or PERSON_PASSAGE.search(passage)  # else the link leads somewhere else
            self._predicates[link] = predicates(passage, self.names(row, column)) if fits else []
        return self._predicates[link]

    def names(self, row: int, column: QuestionColumn) -> frozenset[str]:
        """Return lower-cased words by which a linked cell is called: of the page's title and of the cell."""
        title = unquote(self.link(row, column) or "").rsplit("/", 1)[-1].split("_(")[0].replace("_", " ")
        return frozenset(f"{title} {self.text(row, column)}".lower().replace(",", " ").split()) - LITTLE - {"-"}

    def who(self, column: QuestionColumn) -> str:
        """Return the relative pronoun for a column's cells."""
        return "who" if column.kind == PERSON else "that"

    @cached_property
    def _row_words(self) -> list[frozenset[str]]:
        said = {link: normalize_for_candidates(text).split() for link, text in self.table.passages.items()}
        return [
            frozenset(word for key in keys for word in key.split()).union(
                *(said[link] for cell in row for link in cell.links if link in said)
            )
            for keys, row in zip(self._keys, self.table.rows, strict=True)
        ]
