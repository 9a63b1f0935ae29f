"""Clues that single out a row: another cell of it, how its number compares, or what a passage of it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mate_cli.data.synthesis.predicates import (
    Words,
    article,
    content,
    keywords,
    pick,
    read_wording,
    shorten,
    shuffle,
    vary,
)
from mate_cli.data.synthesis.question_columns import DATE, NUMBER, PERSON, PLACE, YEAR, QuestionColumn, QuestionTable
from mate_cli.tables.numbers import Date
from mate_cli.tables.numeric_columns import sort_key

COMPARED_SHARE, KEYWORDS_SHARE, PART_OF_NAME_SHARE = 0.35, 0.12, 0.15


LOOSE_SHARE = 0.6
"""How often a clue does not name its column, where it fits no other row that way."""


class Clue(NamedTuple):
    """Words that go behind the noun for a row, and the rows that they fit.

    Args:
        text: such as "whose capacity is 500"; the name itself where `named`.
        form: the text without what is the table's own, to count by.
    """

    text: str
    rows: frozenset[int]
    columns: frozenset[int]
    form: str
    named: bool = False


_WORDS = read_wording("question_clues")
_NO_EXTREMES = _WORDS["ranks"] | _WORDS["no_extremes"]


def cell_clue(asked: QuestionTable, row: int, column: QuestionColumn, rng: np.random.Generator) -> Clue | None:
    """Single out a row by one cell of it: by its text, or by how it compares; None when the cell cannot be said."""
    if row not in column.sayable:
        return None
    if column.values and rng.random() < COMPARED_SHARE:
        found = draw_comparison(asked, row, column, rng)
        if found is not None:
            return found
    return _value_clue(asked, row, column, rng)


def end_rows(column: QuestionColumn) -> tuple[int, ...]:
    """Find the rows with the smallest and the largest number or date of a column; none if incomparable."""
    key = sort_key(column.values.values())
    if key is None:
        return ()
    ordered = sorted(column.values, key=lambda row: key(column.values[row]))
    return ordered[0], ordered[-1]


def draw_comparison(
    asked: QuestionTable,
    row: int,
    column: QuestionColumn,
    rng: np.random.Generator,
    among: frozenset[int] | None = None,
) -> Clue | None:
    """Single out a row whose number or date is the first or last, or the second one, of the column.

    It is compared with the rows `among` alone, where there are such.
    """
    others = [other for other in column.values if other != row and (among is None or other in among)]
    key = sort_key(column.values.values())
    if row not in column.values or key is None or len(others) < (1 if among else 2):
        return None
    own: Any
    rest: list[Any]
    own, rest = key(column.values[row]), sorted(key(column.values[other]) for other in others)
    rows, columns = frozenset((row,)), frozenset((column.index,))
    found: list[tuple[str, str]] = []
    if own > rest[-1]:
        found = [*_extreme(column, rng, high=True), *_beyond(column, rest[-1], own, high=True)]
    elif own < rest[0]:
        found = [*_extreme(column, rng, high=False), *_beyond(column, rest[0], own, high=False)]
    elif among is None and own > rest[-2] and own != rest[-1]:
        found = [(text.replace(" the ", " the second ", 1), form) for text, form in _extreme(column, rng, high=True)]
    if not found:
        return None
    text, form = pick(rng, found)
    return Clue(text, rows, columns, form)


def passage_clue(asked: QuestionTable, row: int, column: QuestionColumn, rng: np.random.Generator) -> Clue | None:
    """Single out a row by what the passage of one of its cells says, without the cell's own words; None if nothing."""
    said = asked.predicates(row, column)
    if not said:
        return None
    clause = pick(rng, said)
    chosen: Words = keywords(clause, rng) if rng.random() < KEYWORDS_SHARE else ()
    form = "keywords" if chosen else "predicate"
    chosen = chosen or shorten(clause, rng)
    if not chosen:
        return None
    telling = content(chosen[chosen.index("with") + 1 :] if form == "keywords" else chosen[1:])
    telling = [word for word in telling if word != "words"]
    text = " ".join(vary(chosen, rng) if form == "predicate" else chosen)
    relative = asked.who(column) if column is asked.subject else f"whose {column.noun}"
    if column.plural and column is not asked.subject:
        return None
    begins = "whose" if relative.startswith("whose") else "who"
    return Clue(f"{relative} {text}", asked.rows_like(telling), frozenset((column.index,)), f"{begins} {form}")


def join_clues(clues: Sequence[Clue], row_noun: str) -> str:
    """Return the mention of a row by one clue or two."""
    named = [clue.text for clue in clues if clue.named]
    short = [clue.text for clue in clues if not clue.named and not _is_clause(clue.text)]
    clauses = [clue.text for clue in clues if not clue.named and _is_clause(clue.text)]
    parts = [named[0] if named else f"the {row_noun}", *short, " and ".join(clauses)]
    return " ".join(part for part in parts if part)


def _is_clause(text: str) -> bool:
    return text.startswith(("whose ", "who ", "that "))


def _value_clue(asked: QuestionTable, row: int, column: QuestionColumn, rng: np.random.Generator) -> Clue:
    value = asked.text(row, column)
    rows, columns = asked.rows_with(value, column), frozenset((column.index,))
    if column is asked.subject:
        form = pick(rng, ("{v}", "{v}", "called {v}", "named {v}", "with the name {v}"))
        return Clue(form.format(v=value), rows, columns, form, named=form == "{v}")
    if column.kind == PERSON and rng.random() < PART_OF_NAME_SHARE and len(value.split()) == 2:
        value = value.split()[-1]
        rows = asked.rows_with(value, column)
    if column.kind == DATE and rng.random() < COMPARED_SHARE and _year(column, row):
        year = _year(column, row)
        rows = frozenset(other for other in range(len(asked.table.rows)) if str(year) in asked.text(other, column))
        value = str(year)
    loose, exact = _value_forms(column, value)
    clear = bool(loose) and asked.rows_with(value) == rows and rng.random() < LOOSE_SHARE
    form, noun = pick(rng, loose if clear else exact), column.noun
    text = form.format(v=value, n=noun, a=article(noun), be="are" if column.plural else "is", p=column.participle)
    return Clue(text, rows, columns, form)


def _year(column: QuestionColumn, row: int) -> int | None:
    value = column.values.get(row)
    return value.year if isinstance(value, Date) and value.month else None


def _value_forms(column: QuestionColumn, value: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return forms that do not say which column is meant, and forms that do."""
    last = column.noun.split()[-1]
    exact: tuple[str, ...] = ("whose {n} {be} {v}", "whose {n} {be} {v}", "with the {n} {v}", "with {v} as the {n}")
    if column.kind == YEAR and column.participle:
        return (), ("{p} in {v}", "that was {p} in {v}")
    if column.kind == DATE and column.participle:
        preposition = "in" if value.isdecimal() else "on"
        return (), (f"{{p}} {preposition} {{v}}", f"that was {{p}} {preposition} {{v}}")
    if column.kind == YEAR and last not in _WORDS["times"]:
        return (), exact
    if column.kind == YEAR:
        return ("in {v}", "of {v}", "from {v}", "listed in {v}"), exact
    if column.kind == DATE:
        return (("in {v}", "from {v}") if value.isdecimal() else ("on {v}", "of {v}", "dated {v}")), exact
    if column.kind == NUMBER:
        return (), _number_forms(column, last)
    if last in _WORDS["from"]:
        return ("from {v}", "of {v}"), exact
    if column.kind != PLACE:
        return (("by {v}",) if last in _WORDS["by"] else ()), exact
    if last in _WORDS["at"]:
        return ("at {v}",), exact
    return (("in {v}", "located in {v}") if last in _WORDS["in"] else ()), exact


def _number_forms(column: QuestionColumn, last: str) -> tuple[str, ...]:
    if column.plural:
        return ("with {v} {n}", "that has {v} {n}", "whose number of {n} is {v}", "with exactly {v} {n}")
    if last in _WORDS["ranks"]:
        return ("whose {n} is {v}", "with the {n} {v}", "at {n} {v}")
    if last == "number":
        return ("with the {n} {v}", "whose {n} is {v}", "with {n} {v}")
    return ("whose {n} is {v}", "with {a} {n} of {v}", "that has {a} {n} of {v}")


def _extreme(column: QuestionColumn, rng: np.random.Generator, *, high: bool) -> list[tuple[str, str]]:
    last = column.noun.split()[-1]
    if column.kind in (YEAR, DATE):
        if column.participle:
            word = pick(rng, ("last", "most recently") if high else ("first", "earliest"))
            return [(f"{column.participle} {word}", f"{{p}} {word}")]
        words: Sequence[str] = ("latest", "most recent", "last") if high else ("earliest", "first")
    elif last in _WORDS["ranks"] and not column.plural:
        words = ("worst", "lowest") if high else ("best", "top")
    elif last in _NO_EXTREMES:
        return []
    elif column.plural:
        words = ("most", "highest number of") if high else ("fewest", "lowest number of")
    else:
        words = _WORDS["extremes"].get(last, _WORDS["extremes"][""])[0 if high else 1]
    word = pick(rng, words)
    begins = pick(rng, ("with", "from", "of")) if last in _WORDS["times"] else "with"
    return [(f"{begins} the {word} {column.noun}", f"{begins} the {word} {{n}}")]


def _beyond(
    column: QuestionColumn, nearest: float | tuple[int | None, ...], own: float | tuple[int | None, ...], *, high: bool
) -> list[tuple[str, str]]:
    """Compare with a number or a year between the cell's and the nearest other one."""
    if isinstance(own, tuple) or isinstance(nearest, tuple):
        bound, other = (value[0] if isinstance(value, tuple) and len(value) else None for value in (own, nearest))
        if bound is None or other is None or abs(bound - other) < 2 or bound < 1000 or column.participle == "died":
            return []
        word = "after" if high else "before"
        year = (bound + other) // 2 if high else -(-(bound + other) // 2)
        plain = column.participle or column.noun in _WORDS["times"]
        begins = column.participle if plain else f"whose {column.noun} is"
        return [(f"{begins} {word} {year}".strip(), f"{word} {{year}}")]
    if column.kind != NUMBER or column.noun.split()[-1] in _NO_EXTREMES:
        return []
    middle = _between(min(own, nearest), max(own, nearest))
    if middle is None:
        return []
    word = "more" if high else "less" if not column.plural else "fewer"
    if column.plural:
        return [(f"with {word} than {middle} {column.noun}", f"with {word} than {{x}} {{n}}")]
    noun = f"{article(column.noun)} {column.noun}"
    return [(f"with {noun} of {word} than {middle}", f"with {{n}} of {word} than {{x}}")]


def _between(low: float, high: float) -> str | None:
    """Return the roundest whole number that is above one and below another."""
    for power in range(9, -1, -1):
        step = 10**power
        number = int((low + high) / 2 // step * step)
        for candidate in (number, number + step):
            if low < candidate < high:
                return f"{candidate:,}" if candidate >= 10_000 else str(candidate)
    return None


def second_clue(
    asked: QuestionTable, row: int, first: Clue, columns: Sequence[QuestionColumn], rng: np.random.Generator
) -> Clue | None:
    """Return a cell's clue that leaves only this row of those that the first clue fits; None when no column has one."""
    for column in shuffle(rng, columns):
        if column.index in first.columns or row not in column.sayable:
            continue
        found: Clue | None = None
        if not first.named and column.values and rng.random() < 0.6:
            found = draw_comparison(asked, row, column, rng, first.rows)
        if found is None:
            found = _value_clue(asked, row, column, rng)
        if not found.named and found.rows & first.rows == {row}:
            return found
    return None
