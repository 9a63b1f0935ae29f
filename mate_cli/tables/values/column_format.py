"""How the numbers and dates of a column are written, by the evidence of all its cells and of the other columns.

One cell never decides, and no text is rewritten: a format only says which number a text is.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from mate_cli.errors import ConfigError
from mate_cli.tables.formats.grid import listed, numbered
from mate_cli.tables.read_options import AS_FOUND, ReadOptions
from mate_cli.tables.values.cell_date import NUMERIC_DATE, read_date
from mate_cli.tables.values.cell_number import (
    TEXT,
    Amount,
    find_decimal_marks,
    is_currency,
    parse_amount,
    read_digits,
    simplify,
)
from mate_cli.tables.values.number_words import (
    COMMA_LANGUAGES,
    COMMA_LOCALES,
    KNOWN_UNITS,
    POINT_LOCALES,
)

MIN_NUMERIC_SHARE = 0.5
"""Readings that may be wrong, such as decimal commas, need at least this share of numbers in a column."""
MAX_MISFIT_SHARE = 0.2
"""Up to this share of cells that fit no other are slips, which are no numbers; with more, nothing in the column is."""
MAX_LENGTH = 60
"""Characters of the longest cell that is looked at."""
_MISSING = "- -- . .. ... ? x n/a na n.a. nan none null k.a. tba tbd"
MISSING = frozenset([*_MISSING.split(), "k. a."])
"""Simplified cells in lower case that say that there is no value."""
NOT_NUMBERS = re.compile(
    r"(?:(?:tele)?phone|telefon|tel|fax|mobile|zip|post ?code|postal|plz|isbn|issn|iban|version)s?\.?"
    r"(?: (?:numbers?|no\.?|nr\.?|codes?))?"
    r"|ip (?:address(?:es)?|no\.?)|postleitzahl|code postal|c[oó]digo postal|cep|postn(?:umme)?r\.?|pin ?code",
    re.IGNORECASE,
)
"""Headers of columns whose digits are names, not numbers."""

POINT, COMMA, POINT_OR_GROUP, COMMA_OR_GROUP = "1.5", "1,5", "1.234", "1,234"
PLAIN, FRACTION, LONE_FRACTION, DATE, LIST = "1 234", "1½", "1/2", "1/2/2024", "1.2.3"
"""Kinds of cells, besides texts."""
_MARKED = (POINT, COMMA, POINT_OR_GROUP, COMMA_OR_GROUP)
_SHAPE = str.maketrans("23456789", "11111111")
_DIGIT = re.compile(r"\d")
_YEAR = r"(?:1[5-9]|20)\d\d"
_DOUBTFUL_YEAR = re.compile(rf"\({_YEAR}\)|{_YEAR} ?-")
"""A year in parentheses, or from which on something is."""


@dataclass(frozen=True, slots=True)
class ColumnFormat:
    """How a column writes numbers and dates.

    Args:
        decimal: the decimal mark; "" where nothing in the column is a number.
        thousands: the only mark between groups of digits; None for any that fits.
        minus_in_parentheses: (12) is -12, and 2009- is -2009.
        unit: a word behind numbers that is a unit here, besides the known ones.
        fractions: 1/2 is a half.
        day_first: 01/02/2024 is in February; None where nothing says.
    """

    decimal: str = "."
    thousands: str | None = None
    minus_in_parentheses: bool = False
    unit: str = ""
    fractions: bool = False
    day_first: bool | None = None

    def read_number(self, text: str) -> float | None:
        """Read a cell as a number, percent as written (12.5 for 12.5%); None where it is none."""
        if text.isascii() and text.isdecimal() and len(text) <= MAX_LENGTH:
            return float(text) if self.decimal else None
        amount = self._read(text)
        if amount is None:
            return None
        is_fraction = amount.is_fraction or amount.is_lone_fraction
        digits = amount.digits if is_fraction else read_digits(amount.digits, self.decimal, self.thousands)
        value = math.nan if digits is None else float(f"{digits}e{amount.power}")
        sign = -1 if amount.negative or amount.parentheses else 1
        return sign * value if math.isfinite(value) else None

    def read_unit(self, text: str) -> str:
        """Read the currency, percent sign or unit of a cell that is a number; "" for none."""
        amount = self._read(text)
        return amount.unit if amount else ""

    def read_sortable(self, text: str) -> float:
        """Read a cell as a number that compares with others of its column, dates by their time; NaN for texts."""
        number = self.read_number(text)
        if number is None:
            number = read_date(simplify(text), self.day_first)
        return math.nan if number is None else number

    def _read(self, text: str) -> Amount | None:
        """The parts of a cell, where the column allows for all of them."""
        text = simplify(text)
        amount = parse_amount(text) if self.decimal else None
        if amount is None:
            return None
        unit = find_doubtful_unit(amount)
        is_number = (
            (unit is None or (unit != "" and unit == self.unit))
            and (self.fractions or not amount.is_lone_fraction)
            and (self.minus_in_parentheses or _is_surely_minus(amount, text))
        )
        return amount if is_number else None


def find_doubtful_unit(amount: Amount) -> str | None:
    """The unit of an amount, where it counts only if most cells of a column have it; "" where it never does.

    None for no unit, known ones, money, and words after a magnitude. A letter as in 1F may also be part of a name.
    """
    unit = amount.unit
    is_letter = amount.attached and len(unit) == 1 and unit.isupper()
    if not unit or amount.power or is_currency(unit) or (unit in KNOWN_UNITS and not is_letter):
        return None
    is_name = amount.digits.isdecimal() and any(word[0].isupper() for word in unit.split()[1:])  # 12 Main St
    return "" if is_name or (amount.attached and (unit not in KNOWN_UNITS or unit in "KB")) else unit


def _is_surely_minus(amount: Amount, text: str) -> bool:
    """There is no parenthesis around an integer, which may be a note, nor is it a year with a minus behind it."""
    if not amount.parentheses:
        return not (amount.negative and _DOUBTFUL_YEAR.fullmatch(text))
    return amount.negative or not amount.digits.isdecimal() or amount.unit == "%" or is_currency(amount.unit)


@dataclass
class ColumnEvidence:
    """Counts of what the cells of one column are, taken cell by cell.

    Args:
        is_typed: the file itself says that these are numbers; they are written with a point.
    """

    is_typed: bool = False
    filled: int = 0
    integers: int = 0
    years: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    units: Counter[str] = field(default_factory=Counter)
    widths: Counter[tuple[int, bool]] = field(default_factory=Counter)
    single: int = 0
    small: int = 0
    doubtful: int = 0
    doubtful_years: int = 0
    days_above_12: Counter[bool] = field(default_factory=Counter)

    def add(self, text: str) -> None:
        """Count one cell."""
        if text.isascii() and text.isdecimal():
            width = len(text)
            self.filled += 1
            self.integers += 1
            self.widths[width, text[0] == "0"] += 1
            self.years += width == 4 and "1500" <= text <= "2100"
        elif len(text) <= MAX_LENGTH and _DIGIT.search(text):
            self.filled += 1
            self._add_digits(text)
        elif text:
            self.filled += simplify(text).casefold() not in MISSING

    def _add_digits(self, text: str) -> None:
        kind, amount = _classify(text.translate(_SHAPE))
        if not kind:
            return
        self.kinds[kind] += 1
        self.examples.setdefault(kind, text)
        if kind == DATE and (date := NUMERIC_DATE.match(simplify(text))):
            for is_first, part in ((True, "first"), (False, "second")):
                self.days_above_12[is_first] += int(date[part]) > 12
        if amount is not None:
            unit = find_doubtful_unit(amount)
            if unit is not None:
                self.units[unit] += 1
            self.single += kind == COMMA and "." not in amount.digits
            self.small += kind == COMMA and amount.digits[0] == "0"
            if amount.parentheses or amount.negative:
                is_year = _DOUBTFUL_YEAR.fullmatch(simplify(text)) is not None
                self.doubtful += amount.parentheses or is_year
                self.doubtful_years += is_year

    @property
    def numbers(self) -> int:
        """Cells that are numbers in some way of writing."""
        fractions = self.kinds[FRACTION] + self.kinds[LONE_FRACTION] * (self.kinds[FRACTION] > 0)
        numbers = self.integers + self.kinds[PLAIN] + fractions + sum(self.kinds[kind] for kind in _MARKED)
        return numbers - (0 if self.unit else self.units.total())

    @property
    def is_dense(self) -> bool:
        """At least half of the cells are numbers."""
        return self.numbers > 0 and self.numbers >= MIN_NUMERIC_SHARE * self.filled

    @property
    def unit(self) -> str:
        """The word behind most of the numbers that have a word of no known unit; "" where they differ."""
        unit, count = max(self.units.items(), key=lambda pair: pair[1], default=("", 0))
        return unit if 2 * count > self.units.total() else ""

    @property
    def is_named_by_digits(self) -> bool:
        """Digits are names: of one width with leading zeros, as postal codes, or often lists, versions, addresses."""
        widths = {width for width, _ in self.widths}
        is_padded = any(is_padded for _, is_padded in self.widths) and len(widths) == 1 and max(widths) > 2
        if is_padded and self.integers >= MIN_NUMERIC_SHARE * self.numbers:
            return True
        return self.kinds[LIST] > MAX_MISFIT_SHARE * (self.kinds[LIST] + self.numbers)

    def find_decimal(self) -> str | None:
        """The decimal mark that the cells prove; "" where they contradict each other, None where nothing proves one."""
        point, comma, groups = self.kinds[POINT], self.kinds[COMMA], self.kinds[COMMA_OR_GROUP]
        slips = MAX_MISFIT_SHARE * self.numbers
        if point and comma:
            return "" if min(point, comma) > slips else "." if point > comma else "," if comma > point else None
        if point:
            return "." if 2 * point > self.kinds[POINT_OR_GROUP] else None
        if not comma or not self.is_dense:
            return None
        if self.single == comma <= MAX_MISFIT_SHARE * (comma + self.kinds[POINT_OR_GROUP]):  # 1,5 among many 1.204
            return None
        if 2 * comma <= groups:  # 13,5000 among 17,189 and 6,902 is a slip, but 0,250 is not
            return "" if self.small > slips else None
        return "," if comma >= groups else ""

    def can_vote(self, mark: str) -> bool:
        """Whether enough cells prove a decimal mark to tell how columns write numbers that prove none."""
        count = self.kinds[POINT if mark == "." else COMMA]
        return self.is_dense and (self.is_typed or count > 1 or count >= MAX_MISFIT_SHARE * self.filled)


@lru_cache(maxsize=1 << 14)
def _classify(shape: str) -> tuple[str, Amount | None]:
    """Tell what a cell is evidence of, all of whose digits but 0 are written as 1; "" for a text."""
    if TEXT.match(shape):
        return "", None
    shape = simplify(shape).translate(_SHAPE)
    if NUMERIC_DATE.fullmatch(shape):
        return DATE, None
    amount = parse_amount(shape)
    if amount is None:
        return "", None
    if amount.is_fraction or amount.is_lone_fraction:
        return (FRACTION if amount.is_fraction else LONE_FRACTION), amount
    marks = find_decimal_marks(amount.digits)
    if len(marks) < 2:
        return {".": POINT, ",": COMMA, "": LIST}[marks], amount if marks else None
    return (COMMA_OR_GROUP if "," in amount.digits else POINT_OR_GROUP if "." in amount.digits else PLAIN), amount


def collect_evidence(texts: Iterable[str], *, is_typed: bool = False) -> ColumnEvidence:
    """Count what the cells of a column are."""
    evidence = ColumnEvidence(is_typed)
    for text in texts:
        evidence.add(text)
    return evidence


def find_formats(
    names: Sequence[str], columns: Sequence[ColumnEvidence], options: ReadOptions = AS_FOUND
) -> tuple[tuple[ColumnFormat, ...], list[str]]:
    """Decide how each column of a table writes numbers and dates.

    Returns:
        The formats, and notes for people: where decimal commas were found, and where nothing can be decided.

    Raises:
        ConfigError: a locale or a mark that was typed is unknown.
    """
    stated = read_decimal(options)
    proven = ["." if column.is_typed else stated or column.find_decimal() for column in columns]
    votes = {mark for mark, column in zip(proven, columns, strict=True) if mark and column.can_vote(mark)}
    usual = votes.pop() if len(votes) == 1 else "" if votes else "."
    formats, split = [], list[str]()
    for name, column, mark in zip(names, columns, proven, strict=True):
        decimal = _choose_decimal(column, mark, usual)
        if decimal == "" and any(column.kinds[kind] for kind in _MARKED):
            split.append(name)
        if NOT_NUMBERS.fullmatch(name.strip()) or (column.is_named_by_digits and not column.is_typed):
            decimal = ""
        formats.append(_format_of(column, decimal, None if column.is_typed else options.thousands))
    days = sum((column.days_above_12 for column in columns), Counter[bool]())
    formats = [one if one.day_first is not None else replace(one, day_first=_is_day_first(days)) for one in formats]
    return tuple(formats), _write_notes(names, columns, formats, split, is_stated=stated is not None)


def format_of(texts: Iterable[str]) -> ColumnFormat:
    """Decide how one column alone writes numbers and dates."""
    return find_formats([""], [collect_evidence(texts)])[0][0]


def read_decimal(options: ReadOptions) -> str | None:
    """The decimal mark that was typed, by itself, by the mark between thousands or by a locale.

    Raises:
        ConfigError: there is no such mark or locale.
    """
    if options.decimal not in (None, ".", ","):
        raise ConfigError(f"{options.decimal!r} is no decimal mark", where="decimal", remedy='Write decimal="," or "."')
    if options.thousands is not None and (
        options.thousands not in tuple(".,' ") or options.thousands == options.decimal
    ):
        remedy = 'Write thousands=",", ".", "\'" or " ", and another decimal mark'
        raise ConfigError(f"{options.thousands!r} is no mark between thousands", where="thousands", remedy=remedy)
    if options.decimal is not None:
        return options.decimal
    if options.thousands in (".", ","):
        return "," if options.thousands == "." else "."
    if options.locale is None:
        return None
    language, _, region = options.locale.replace("-", "_").partition("_")
    name = f"{language.lower()}_{region.upper()}" if region else language.lower()
    if not re.fullmatch(r"[a-z]{2,3}(_[A-Z0-9]{2,8})?", name):
        raise ConfigError(f"{options.locale!r} is no locale", where="locale", remedy="Write one such as de or en_IN")
    return "," if (language.lower() in COMMA_LANGUAGES and name not in POINT_LOCALES) or name in COMMA_LOCALES else "."


def _choose_decimal(column: ColumnEvidence, proven: str | None, usual: str) -> str:
    """The decimal mark of a column, where its own cells prove one, else that of the others; "" for none."""
    if proven is not None:
        return proven
    return usual if column.kinds[POINT_OR_GROUP] or column.kinds[COMMA_OR_GROUP] else usual or "."


def _format_of(column: ColumnEvidence, decimal: str, thousands: str | None) -> ColumnFormat:
    bare = column.integers + sum(column.kinds[kind] for kind in (*_MARKED, PLAIN)) - column.doubtful
    only_years = column.doubtful_years == column.doubtful and (2 * column.years > bare or not bare)
    return ColumnFormat(
        decimal=decimal,
        thousands=thousands,
        minus_in_parentheses=column.is_dense and not only_years,
        unit=column.unit if column.is_dense else "",
        fractions=column.kinds[FRACTION] > MAX_MISFIT_SHARE * column.kinds[LONE_FRACTION],
        day_first=_is_day_first(column.days_above_12),
    )


def _is_day_first(above_12: Counter[bool]) -> bool | None:
    first, second = above_12[True], above_12[False]
    return None if bool(first) == bool(second) else first > 0


def _write_notes(
    names: Sequence[str],
    columns: Sequence[ColumnEvidence],
    formats: Sequence[ColumnFormat],
    split: Sequence[str],
    *,
    is_stated: bool,
) -> list[str]:
    notes = []
    commas = [
        repr(name)
        for name, column, one in zip(names, columns, formats, strict=True)
        if one.decimal == "," and any(column.kinds[kind] for kind in _MARKED)
    ]
    if commas and not is_stated:
        notes.append(f"Decimal commas: {listed(commas)} (otherwise write decimal=.).")
    if split:
        quoted = listed(map(repr, split))
        notes.append(f"No numbers in {quoted}: decimal points and commas are mixed. Write decimal=, or decimal=.")
    for name, column, one in zip(names, columns, formats, strict=True):
        other = {".": COMMA, ",": POINT}.get(one.decimal, "")
        if column.kinds[other] and column.is_dense and not column.is_typed:
            count = numbered(column.kinds[other], "cell")
            notes.append(f"Unlike the rest of {name!r}, {count} such as {column.examples[other]!r} is read as text.")
    return notes
