"""Statistics of how the numbers of a column are written, from which `column_format` infers its number format."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from mate_cli.tables.formats.cell_text import NumberText
from mate_cli.tables.values.cell_number import (
    CODE,
    COMMA,
    COMMA_OR_GROUP,
    DOUBTS,
    FRACTION,
    LIST,
    LONE_FRACTION,
    MAX_LENGTH,
    NUMERIC_DATE,
    PLAIN,
    POINT,
    POINT_OR_GROUP,
    YEAR,
    is_currency,
    parse_amount,
    simplify,
)

MIN_NUMERIC_SHARE = 0.5
"""Minimum share of numbers in a column for readings that may be wrong, such as decimal commas."""
MAX_MISFIT_SHARE = 0.2
"""Maximum share of cells that contradict the other cells of a column. Up to this share, these cells are not numbers.
Above it, no cell of the column is a number."""
MAX_FORMS = 4096
"""Maximum number of distinct forms of cells, such as $1,111.11, that are counted before they are classified."""
MARKED = (POINT, COMMA, POINT_OR_GROUP, COMMA_OR_GROUP)
_FORM = bytes.maketrans(b"23456789", b"11111111")
_DIGIT = re.compile(r"\d")
_DATE_FORM = re.compile(rb"\(?\d{4,14}(?:\)|\s?[^\w\s,.%]+)?|\d\d?\D{1,3}\d\d?\D{1,3}\d\d.*|\d{4}\.\d\d")
_match_date_form = lru_cache(maxsize=MAX_FORMS)(_DATE_FORM.fullmatch)
"""Match of the forms of dates and years, which excludes most cells from a slower check."""
_DASH, _ABOVE_12 = r"[-\u2010-\u2014\u2212]", r"(?:1[3-9]|[2-9]\d)"
_MARK = rf"(?:[./]|{_DASH})"
MISSING_VALUE = re.compile(
    rf"(?i)[$€£¥\s]*(?:{_DASH}{{1,2}}|\.{{1,3}}|[?x]|n/?a|n\.a\.|nan|none|null|nil|k\.\s?a\.|tb[ad]|\\n|#n/a|<na>)[€£\s]*"
)
"""Cells that mark a missing value, such as n/a or $ -."""
_DATE_OR_YEAR = re.compile(
    rf"(?=[(\d])(?:(?P<year>{YEAR}|2100)|(?P<year_in_parentheses>\({YEAR}\))|(?P<year_from>{YEAR}\s?{_DASH})"
    rf"|(?P<day_first>{_ABOVE_12}{_MARK}\d\d?{_MARK}\d\d.*)|(?P<month_first>\d\d?{_MARK}{_ABOVE_12}{_MARK}\d\d.*)"
    r"|(?P<date>(?:19|20)\d\d\.(?:0[1-9]|1[0-2])|(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d[0-5]\d(?:[0-5]\d)?)?)"
    r"|(?P<like_date>(?:19|20)\d\d(?:0[1-9]|1[0-2])|1\d{9}|1\d{12}|[2-6]\d{4}))"
)
"""Cells whose digits may be a year or a date such as 20240131. `like_date` is a month, a Unix timestamp or a
spreadsheet day if the column name denotes dates."""


@dataclass
class ColumnEvidence:
    """Statistics of how the numbers of one column are written, updated cell by cell.

    Attributes:
        counts: number of cells by notation and by other traits.
        units: number of cells by word that may be a unit.
        widths: number of bare integers by number of digits.
        stored_numbers: number of cells whose number the file stores, except bare digits, which may be codes or dates.
        cells: number of other cells, except empty cells and marks of missing values.
    """

    counts: Counter[str] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)
    widths: Counter[int] = field(default_factory=Counter)
    stored_numbers: int = 0
    cells: int = 0
    _forms: Counter[bytes] = field(default_factory=Counter, repr=False)

    def add(self, text: str) -> None:
        """Add one cell to the statistics. Cells of the same form, such as 1.50 and 2.75, are classified only once."""
        if type(text) is NumberText and not text.isdecimal():
            self.stored_numbers += 1
        elif len(text) <= MAX_LENGTH and not text.isalpha() and _DIGIT.search(text):
            form = text.encode("utf-8", "surrogatepass").translate(_FORM)
            if len(self._forms) >= MAX_FORMS:
                self.sum_up()
            self._forms[form] += 1
            if _match_date_form(form) and (digits := _DATE_OR_YEAR.fullmatch(text)):
                self.counts[digits.lastgroup or ""] += 1
        elif text and not MISSING_VALUE.fullmatch(text):
            self.cells += 1

    def sum_up(self) -> None:
        """Classify the notations of all cells passed to `add`, and update the counts."""
        for form, count in self._forms.items():
            traits, units = _classify(form)
            self.cells += count
            self.counts.update(dict.fromkeys(traits, count))
            self.units.update(dict.fromkeys(units, count))
            if form.isdigit():
                self.widths[len(form)] += count
        self._forms.clear()

    @property
    def numbers(self) -> int:
        """Number of cells in the column that are numbers, in any notation."""
        counts = self.counts
        fractions = counts[FRACTION] + counts[LONE_FRACTION] * (counts[FRACTION] > 0)
        numbers = self.stored_numbers + fractions + sum(counts[kind] for kind in (*MARKED, PLAIN))
        return numbers - (0 if self.unit else self.units.total()) - (0 if counts["unit"] else counts[CODE])

    @property
    def is_dense(self) -> bool:
        """True if at least half of the cells are numbers."""
        return self.numbers > 0 and self.numbers >= MIN_NUMERIC_SHARE * self.cells

    @property
    def unit(self) -> str:
        """Unknown unit that follows most of the numbers with an unknown unit, or "" without a majority."""
        unit, count = max(self.units.items(), key=lambda pair: pair[1], default=("", 0))
        return unit if 2 * count > self.units.total() else ""

    @property
    def is_named_by_digits(self) -> bool:
        """True if the digits in the column are not numbers but names, such as postal codes.

        Names have one width with leading zeros, as postal codes, or many are times, lists or addresses.
        """
        slips, widths = MAX_MISFIT_SHARE * self.numbers, self.widths
        are_lists = self.counts[LIST] > slips + MAX_MISFIT_SHARE * self.counts[LIST]
        is_padded = self.counts["padded"] > 0 and len(widths) == 1 and max(widths) > 2
        are_codes = is_padded and widths.total() >= MIN_NUMERIC_SHARE * self.numbers
        return are_lists or are_codes or self.counts["clock"] > slips

    def are_dates(self, *, is_named: bool) -> bool:
        """Return whether all numbers of the column are dates.

        Args:
            is_named: whether the column name denotes dates. Required for ambiguous digits and for a single date.
        """
        dates = self.counts["date"] + (self.counts["like_date"] if is_named else 0)
        return dates == self.numbers and dates > (0 if is_named else 1)

    @property
    def has_short_integers(self) -> bool:
        """True if the column has integers of up to three digits, such as 987, and none of more digits.

        This proves that points separate thousands in cells such as 1.234.
        """
        are_many = self.counts["short"] > MAX_MISFIT_SHARE * self.counts[POINT_OR_GROUP]
        return self.is_dense and are_many and not self.counts["long"]

    def find_decimal(self) -> str | None:
        """Return the decimal mark that unambiguous cells prove, such as "," if a cell is 1,5.

        Return "" if the cells contradict each other, None if all cells are ambiguous.
        """
        counts, slips = self.counts, MAX_MISFIT_SHARE * self.numbers
        point, comma, point_groups, groups = (counts[kind] for kind in MARKED)
        if min(point, comma) > slips:
            return ""
        if point == comma:
            return None
        mark, proofs, unclear = (".", point, point_groups) if point > comma else (",", comma, groups)
        # A few 1,5 among many 1.204 prove nothing.
        is_slip = counts["single"] == comma <= MAX_MISFIT_SHARE * (comma + point_groups)
        if mark == "," and (is_slip or not self.is_dense):
            return None
        # A few 13,5000 among many 1,204 prove nothing either.
        return mark if 2 * proofs > unclear or counts["small"] >= max(slips, 1) else None

    def can_vote(self, mark: str) -> bool:
        """Return whether enough cells prove a decimal mark to apply it to columns without a proof."""
        count = self.counts[POINT if mark == "." else COMMA]
        return self.is_dense and (count > 1 or count >= MAX_MISFIT_SHARE * self.cells)


@lru_cache(maxsize=1 << 14)
def _classify(form: bytes) -> tuple[tuple[str, ...], frozenset[str]]:
    """Classify how a cell is written, such as its number notation, and find its unknown unit.

    Args:
        form: text of a cell in UTF-8, with every digit except 0 replaced by 1.

    Returns:
        The notation and other traits of the cell, as keys of `ColumnEvidence.counts`, and the word after its number if
        that is not a known unit.
    """
    text = simplify(form.decode("utf-8", "surrogatepass"))
    amount = None if NUMERIC_DATE.fullmatch(text) else parse_amount(text)
    if amount is None or amount.kind == LIST:
        return (LIST,) if amount else (), frozenset()
    traits = {
        **dict.fromkeys([amount.kind, *amount.doubts & DOUBTS], True),
        "unit": amount.unit != "" and CODE not in amount.doubts,
        "money": amount.kind == POINT_OR_GROUP and any(map(is_currency, amount.unit.split())),
        "short": amount.kind == PLAIN and len(amount.digits) <= 3 and amount.digits[0] != "0",
        "long": amount.kind == PLAIN and len(amount.digits) > 3,
        "padded": form.isdigit() and form[:1] == b"0",
        "clock": re.fullmatch(rb"0\d\.\d\d(?:\d\d)?", form) is not None,  # 08.30, 01.04 and 01.2024 match.
        "single": amount.kind == COMMA and "." not in amount.digits,
        "small": amount.kind in (POINT, COMMA) and amount.digits[0] == "0",
    }
    return tuple(trait for trait, holds in traits.items() if holds), amount.doubts - DOUBTS


def collect_evidence(texts: Iterable[str]) -> ColumnEvidence:
    """Collect statistics of how the numbers in the cells of a column are written."""
    evidence = ColumnEvidence()
    for text in texts:
        evidence.add(text)
    return evidence
