"""Reads the text of a synthetic statement and works out by itself whether a table entails it.

Shares nothing with what makes statements but the reading of a number: it knows the grammar, tries every way to read
the text, walks through the rows, and adds with fractions.
"""

import re
from collections import Counter
from fractions import Fraction
from math import sqrt

from mate_cli.tables.numbers import convert_to_float

COMPARATORS = ("is", "is greater than", "is less than")
SUMMED = {
    "": "",
    "the lowest ": "lowest",
    "the greatest ": "greatest",
    "the first ": "first",
    "the last ": "last",
    "the total ": "total",
    "the range of ": "range",
    "the average ": "average",
}


class StatementReader:
    def __init__(self, table):
        self.names = [cell.text for cell in table.header]
        self.rows = [[cell.text for cell in row] for row in table.rows]
        counts = Counter(self.names)
        self.columns = [c for c, name in enumerate(self.names) if counts[name] == 1]

    def verdicts(self, text):
        """The labels that the readings of a text have; more than one when the text is ambiguous."""
        found = {self.find_repeat(*reading) for reading in self.readings(text)}
        return {int(verdict) for verdict in found if verdict is not None}

    def readings(self, text):
        """(left, comparator, right); a side is (how summed, column, conditions) or a constant's text."""
        for left, rest in self.expressions(text):
            for comparator in COMPARATORS:
                if rest.startswith(f" {comparator} "):
                    said = rest[len(comparator) + 2 :]
                    rights = [right for right, rest_ in self.expressions(said) if not rest_]
                    yield from ((left, comparator, right) for right in rights if right[1] == left[1])
                    if self.may_be_constant(said, left):
                        yield left, comparator, said
        for comparator in COMPARATORS:
            for match in re.finditer(f"(?= {comparator} )", text):
                said = text[: match.start()]
                for right, rest in self.expressions(text[match.start() + len(comparator) + 2 :]):
                    if not rest and self.may_be_constant(said, right):
                        yield said, comparator, right

    def expressions(self, text):
        """Expressions that a text begins with, and what follows."""
        heads = [(f"{words}{self.names[c]}", how, c) for c in self.columns for words, how in SUMMED.items()]
        for head, how, column in [*heads, ("the count", "count", -1)]:
            if text.startswith(head):
                rest = text[len(head) :]
                yield (how, column, ()), rest
                if rest.startswith(" when "):
                    for conditions, rest_ in self.conditions(rest[6:]):
                        yield (how, column, conditions), rest_

    def conditions(self, text):
        for column in self.columns:
            for comparator in COMPARATORS:
                for value in {row[column] for row in self.rows}:
                    said = f"{self.names[column]} {comparator} {value}"
                    if text.startswith(said):
                        rest = text[len(said) :]
                        yield ((column, comparator, value),), rest
                        if rest.startswith(" and "):
                            for more, rest_ in self.conditions(rest[5:]):
                                yield ((column, comparator, value), *more), rest_

    def may_be_constant(self, text, other):
        if re.fullmatch(r"-?\d+(\.\d\d)?", text):
            return True
        return other[1] >= 0 and is_list(text, {row[other[1]] for row in self.rows})

    def find_repeat(self, left, comparator, right):
        """None when a side stands for nothing."""
        values = [self.values(side) for side in (left, right)]
        if None in values:
            return None
        if comparator == "is":
            left, right = (side if isinstance(side, str) else ", ".join(sorted(side)) for side in values)
            return left == right
        sides = [[number(text) for text in (v.split(", ") if isinstance(v, str) else v)] for v in values]
        if any(None in side for side in sides):
            return None
        pairs = [(a, b) for a in sides[0] for b in sides[1]]
        return all(a < b if comparator == "is less than" else a > b for a, b in pairs)

    def values(self, side):
        if isinstance(side, str):
            return side
        how, column, conditions = side
        rows = self.rows
        for condition in conditions:
            kept = [self.meets(row, *condition) for row in rows]
            if None in kept:
                return None
            rows = [row for row, keep in zip(rows, kept, strict=True) if keep]
        if not rows:
            return None
        return {str(len(rows))} if how == "count" else self.summed(how, [row[column] for row in rows], column)

    def meets(self, row, column, comparator, value):
        if comparator == "is":
            return row[column] == value
        mine, asked = number(row[column]), number(value)
        if mine is None or asked is None:
            return None
        return mine < asked if comparator == "is less than" else mine > asked

    def summed(self, how, texts, column):
        if not how:
            return set(texts)
        if len(texts) < 2:
            return None
        if how in ("first", "last"):
            return {texts[0] if how == "first" else texts[-1]}
        if any(number(row[column]) is None for row in self.rows):
            return None
        numbers = [number(text) for text in texts]
        if how in ("lowest", "greatest"):
            best = min(numbers) if how == "lowest" else max(numbers)
            return {texts[numbers.index(best)]}
        if how == "range":
            return {written(max(numbers) - min(numbers))}
        return {written(sum(numbers) / (len(numbers) if how == "average" else 1))}


def is_list(text, items):
    """Whether a text is some of the items, parted by commas."""
    return any(
        text == item or (text.startswith(f"{item}, ") and is_list(text[len(item) + 2 :], items)) for item in items
    )


def number(text):
    try:
        value = convert_to_float(text)
    except ValueError:
        return None
    return Fraction(value) if abs(value) < 2**53 else None


def written(value):
    value = round(value, 9)
    return str(int(value)) if value.denominator == 1 else f"{float(value):.2f}"


def within_chance(hits, draws, share):
    """Whether a count is what a share lets expect: a right program fails in one of 100,000 cases."""
    return abs(hits - draws * share) <= 4.4 * sqrt(draws * share * (1 - share))
