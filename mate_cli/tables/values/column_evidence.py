"""Counts of what the cells of one column are: the evidence by which its format is decided."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from mate_cli.tables.formats.cell_text import NumberText
from mate_cli.tables.values.cell_number import (
    NUMERIC_DATE,
    TEXT,
    Amount,
    find_decimal_marks,
    is_currency,
    parse_amount,
    simplify,
)
from mate_cli.tables.values.number_words import KNOWN_UNITS

MIN_NUMERIC_SHARE = 0.5
"""Readings that may be wrong, such as decimal commas, need at least this share of numbers in a column."""
MAX_MISFIT_SHARE = 0.2
"""Up to this share of cells that fit no other are slips, which are no numbers; with more, nothing in the column is."""
MAX_LENGTH = 60
"""Characters of the longest cell that is looked at."""
MAX_FORMS = 4096
"""Forms of cells, such as $1,111.11, that are counted at once."""
_MISSING = "- -- . .. ... ? x n/a na n.a. nan none null k.a. tba tbd \\n #n/a <na> nil"
MISSING = frozenset([*_MISSING.split(), "k. a."])
"""Simplified cells in lower case that say that there is no value."""
MAX_MISSING = max(map(len, MISSING))
POINT, COMMA, POINT_OR_GROUP, COMMA_OR_GROUP = "1.5", "1,5", "1.234", "1,234"
PLAIN, FRACTION, LONE_FRACTION, DATE, LIST = "1 234", "1½", "1/2", "1/2/2024", "1.2.3"
"""Kinds of cells, besides texts."""
MARKED = (POINT, COMMA, POINT_OR_GROUP, COMMA_OR_GROUP)
_FORM = bytes.maketrans(b"23456789", b"11111111")
_DIGITS = str.maketrans("23456789", "11111111")
_DIGIT = re.compile(r"\d")
_YEAR = r"(?:1[5-9]|20)\d\d"
COMPACT_DATE = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d[0-5]\d(?:[0-5]\d)?)?")
"""A date or moment such as 20240131, written as a number."""
DATE_LIKE = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])|1\d{9}|1\d{12}")
"""What is a month or a moment of a computer below a name that says so."""
SERIAL_DIGITS, DATE_DIGITS = 5, 6
"""Digits of a day of spreadsheets, and of the shortest date."""
DOUBTFUL_YEAR = re.compile(rf"\({_YEAR}\)|{_YEAR} ?-")
"""A year in parentheses, or from which on something is."""


def find_doubtful_unit(amount: Amount) -> str | None:
    """Return the unit of an amount, where it counts only if most cells of a column have it; "" where it never does.

    None for no unit, known ones, money, and words after a magnitude. A letter as in 1F may also be part of a name.
    """
    unit = amount.unit
    is_letter = amount.attached and len(unit) == 1 and unit.isupper()
    if not unit or amount.power or is_currency(unit) or (unit in KNOWN_UNITS and not is_letter):
        return None
    is_name = amount.digits.isdecimal() and any(word[0].isupper() for word in unit.split()[1:])  # 12 Main St
    return "" if is_name or (amount.attached and (unit not in KNOWN_UNITS or unit in "KB")) else unit


@dataclass(slots=True)
class _CellForm:
    """Cells that differ in their digits alone, and how many there were."""

    kind: str
    amount: Amount | None
    example: str
    count: int = 0
    depends_on_digits: bool = field(init=False)

    def __post_init__(self) -> None:
        amount = self.amount
        self.depends_on_digits = self.kind == DATE or (amount is not None and (amount.parentheses or amount.negative))


@dataclass
class ColumnEvidence:
    """Counts of what the cells of one column are, taken cell by cell.

    Attributes:
        stored: cells whose number the file itself has.
    """

    stored: int = 0
    others: int = 0
    integers: int = 0
    years: int = 0
    compact_dates: int = 0
    like_dates: int = 0
    codes: int = 0
    surely_units: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    units: Counter[str] = field(default_factory=Counter)
    widths: Counter[tuple[int, bool]] = field(default_factory=Counter)
    short: int = 0
    money: int = 0
    single: int = 0
    small: int = 0
    doubtful: int = 0
    doubtful_years: int = 0
    days_above_12: Counter[bool] = field(default_factory=Counter)
    _forms: dict[bytes, _CellForm] = field(default_factory=dict, repr=False)

    def add(self, text: str) -> None:
        """Count one cell."""
        width = len(text)
        if text.isdecimal() and text.isascii():
            self.widths[width, text[0] == "0"] += 1
            if width == 4 and "1500" <= text <= "2100":
                self.years += 1
            elif width >= DATE_DIGITS:
                self.compact_dates += COMPACT_DATE.fullmatch(text) is not None
                self.like_dates += DATE_LIKE.fullmatch(text) is not None
            elif width == SERIAL_DIGITS:
                self.like_dates += "20000" <= text < "70000"
        elif type(text) is NumberText:
            self.stored += 1
        elif width <= MAX_LENGTH and not text.isalpha() and _DIGIT.search(text):
            form = text.encode("utf-8", "surrogatepass").translate(_FORM)
            counted = self._forms.get(form) or self._start_form(form, text)
            counted.count += 1
            if counted.depends_on_digits:
                self._add_digits(text, counted)
        elif width > MAX_MISSING or (text and simplify(text).casefold() not in MISSING):
            self.others += 1

    def _start_form(self, form: bytes, text: str) -> _CellForm:
        """Begin to count the cells that differ in digits alone; of texts there may be any number of forms."""
        if len(self._forms) >= MAX_FORMS:
            self.sum_up()
        counted = self._forms[form] = _CellForm(*_classify(form.decode("utf-8", "surrogatepass")), text)
        return counted

    def _add_digits(self, text: str, counted: _CellForm) -> None:
        """Count what only the digits tell: days beyond 12, and years."""
        if counted.kind == DATE and (date := NUMERIC_DATE.match(simplify(text))):
            for is_first, part in ((True, "first"), (False, "second")):
                self.days_above_12[is_first] += int(date[part]) > 12
        elif counted.amount is not None:
            is_year = DOUBTFUL_YEAR.fullmatch(simplify(text)) is not None
            self.doubtful += counted.amount.parentheses or is_year
            self.doubtful_years += is_year

    def sum_up(self) -> None:
        """Add what was counted by form to what is known of the column."""
        self.integers = self.widths.total()
        self.others += sum(form.count for form in self._forms.values())
        for form in self._forms.values():
            if form.kind:
                self.kinds[form.kind] += form.count
                self.examples.setdefault(form.kind, form.example)
            if form.amount is not None:
                unit = find_doubtful_unit(form.amount)
                if unit is not None:
                    self.units[unit] += form.count
                self.codes += form.count if form.amount.is_code else 0
                if form.kind == POINT_OR_GROUP and any(map(is_currency, form.amount.unit.split())):
                    self.money += form.count
                self.surely_units += form.count if form.amount.unit and not form.amount.is_code else 0
                self.short += form.count if form.kind == PLAIN and len(form.amount.digits) <= 3 else 0
                if form.kind == COMMA:
                    self.single += form.count if "." not in form.amount.digits else 0
                    self.small += form.count if form.amount.digits[0] == "0" else 0
        self._forms.clear()

    @property
    def numbers(self) -> int:
        """Cells that are numbers in some way of writing."""
        fractions = self.kinds[FRACTION] + self.kinds[LONE_FRACTION] * (self.kinds[FRACTION] > 0)
        numbers = self.integers + self.stored + self.kinds[PLAIN] + fractions + sum(self.kinds[kind] for kind in MARKED)
        return numbers - (0 if self.unit else self.units.total()) - (0 if self.surely_units else self.codes)

    @property
    def is_dense(self) -> bool:
        """At least half of the cells are numbers."""
        return self.numbers > 0 and self.numbers >= MIN_NUMERIC_SHARE * (self.others + self.integers)

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

    def are_dates(self, *, is_named: bool) -> bool:
        """Tell whether all numbers are dates; fewer digits, or one cell alone, need a name that says so."""
        dates = self.compact_dates + (self.like_dates if is_named else 0)
        return dates == self.numbers and dates > (0 if is_named else 1)

    def find_decimal(self) -> str | None:
        """Find the decimal mark that the cells prove; "" where they contradict each other, None without proof."""
        point, comma, groups = self.kinds[POINT], self.kinds[COMMA], self.kinds[COMMA_OR_GROUP]
        slips = MAX_MISFIT_SHARE * self.numbers
        if point and comma:
            return "" if min(point, comma) > slips else "." if point > comma else "," if comma > point else None
        if point:
            return "." if 2 * point > self.kinds[POINT_OR_GROUP] else None
        if not comma and not groups and self.kinds[POINT_OR_GROUP] and self.is_dense:
            is_short = self.short == self.kinds[PLAIN] and all(w <= 3 and not is_padded for w, is_padded in self.widths)
            whole = self.integers + self.short  # 987 beside 1.234
            return "," if is_short and whole > MAX_MISFIT_SHARE * self.kinds[POINT_OR_GROUP] else None
        if not comma or not self.is_dense:
            return None
        if self.single == comma <= MAX_MISFIT_SHARE * (comma + self.kinds[POINT_OR_GROUP]):  # 1,5 among many 1.204
            return None
        if 2 * comma <= groups:  # 13,5000 among 17,189 and 6,902 is a slip, but 0,250 is not
            return "" if self.small > slips else None
        return "," if comma >= groups else ""

    def can_vote(self, mark: str) -> bool:
        """Tell whether enough cells prove a decimal mark to tell how columns write numbers that prove none."""
        count = self.kinds[POINT if mark == "." else COMMA]
        return self.is_dense and (count > 1 or count >= MAX_MISFIT_SHARE * (self.others + self.integers))


@lru_cache(maxsize=1 << 14)
def _classify(form: str) -> tuple[str, Amount | None]:
    """Tell what a cell is evidence of, all of whose digits but 0 are written as 1; "" for a text."""
    if TEXT.match(form):
        return "", None
    form = simplify(form).translate(_DIGITS)
    if NUMERIC_DATE.fullmatch(form):
        return DATE, None
    amount = parse_amount(form)
    if amount is None:
        return "", None
    if amount.is_fraction or amount.is_lone_fraction:
        return (FRACTION if amount.is_fraction else LONE_FRACTION), amount
    marks = find_decimal_marks(amount.digits)
    if len(marks) < 2:
        return {".": POINT, ",": COMMA, "": LIST}[marks], amount if marks else None
    return (COMMA_OR_GROUP if "," in amount.digits else POINT_OR_GROUP if "." in amount.digits else PLAIN), amount


def collect_evidence(texts: Iterable[str]) -> ColumnEvidence:
    """Count what the cells of a column are."""
    evidence = ColumnEvidence()
    for text in texts:
        evidence.add(text)
    return evidence
