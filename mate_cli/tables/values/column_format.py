"""Number and date formats of columns (decimal mark, order of day and month), inferred from all cells of a table.

A single cell never determines the format. No text is changed: a format only determines which number a text denotes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from mate_cli.tables.formats.cell_text import NumberText, list_names
from mate_cli.tables.read_options import AS_FOUND, ReadOptions, read_decimal
from mate_cli.tables.values.cell_number import (
    CODE,
    COMMA_OR_GROUP,
    FRACTION,
    LONE_FRACTION,
    MAX_LENGTH,
    MINUS,
    PLAIN,
    POINT_OR_GROUP,
    Amount,
    parse_amount,
    read_date,
    simplify,
)
from mate_cli.tables.values.column_evidence import MARKED, MAX_MISFIT_SHARE, ColumnEvidence, collect_evidence

NOT_NUMBERS = re.compile(
    r"(?i)(?:\w+ )?(?:(?:tele)?phone|telefon|tel|fax|mobile|zip|post ?code|postal|plz|isbn|issn|iban|version)s?\.?"
    r"(?: (?:numbers?|no\.?|nr\.?|codes?))?|ip address(?:es)?|postleitzahl|c[oó]d\w+ postal|cep|pin ?code"
    r"|postn(?:umme)?r\.?"
)
"""Headers of columns whose digits are names, not numbers."""
DATE_NAME = re.compile(
    r"(?i)(?:^|[\W_])(?:date|datum|fecha|data|day|tag|month|monat|period|timestamp|created|updated|yyyymm)(?:$|[\W_])"
)
"""Headers of columns whose digits may be dates."""
_INTEGER = re.compile(r"-?\d+")
UNCLEAR = "their marks may part decimals or thousands. Write decimal=, or decimal=. or locale=de."
"""End of the note to the user on columns whose cells are not read as numbers, because their marks are ambiguous."""


@dataclass(frozen=True, slots=True)
class ColumnFormat:
    """Format of the numbers and dates of a column.

    Args:
        decimal: decimal mark. "" if no text in the column is a number.
        accepts: doubts of `Amount` that other cells resolve: `MINUS` if (12) is -12, `CODE` if RM1 is an amount like
            RM1.50, `LONE_FRACTION` if 1/2 is a half, and a word that is a unit in this column, in addition to
            `KNOWN_UNITS`.
        are_names: whether digits are names or dates. They are not numbers then, even if the file stores numbers.
        day_first: whether 01/02/2024 is in February. None if unknown.
    """

    decimal: str = "."
    accepts: frozenset[str] = frozenset()
    are_names: bool = False
    day_first: bool | None = None

    def read_number(self, text: str) -> float | None:
        """Parse a cell as a number, 12.5 for 12.5%. Return None if the cell is not a number."""
        if type(text) is NumberText:
            return None if self.are_names else text.number
        number = self.read_exact(text)
        return float(number) if number is not None else None

    def read_exact(self, text: str) -> Decimal | None:
        """Parse a cell as an exact decimal number. Return None if the cell is not a number."""
        if type(text) is NumberText:
            # The text of a large integer has more digits than its float.
            is_shown = _INTEGER.fullmatch(text) and float(text) == text.number
            return None if self.are_names else Decimal(text if is_shown else repr(text.number))
        if text.isascii() and text.isdecimal() and len(text) <= MAX_LENGTH:
            return Decimal(text) if self.decimal else None
        amount = self._read(text)
        value = amount.values.get(self.decimal) if amount else None
        return value if value is not None and math.isfinite(value) else None

    def read_unit(self, text: str) -> str:
        """Return the currency, percent sign or unit of the number in a cell, such as "km". "" for none."""
        amount = self._read(text)
        return amount.unit if amount else ""

    def read_sortable(self, text: str) -> float:
        """Convert a cell with a number or date to a number by which the column can be sorted. NaN for texts."""
        number = self.read_number(text)
        return read_date(simplify(text), self.day_first) if number is None else number

    def _read(self, text: str) -> Amount | None:
        """Parse a cell as an `Amount`. Return None unless the column accepts the cell as a number.

        See `accepts`.
        """
        amount = parse_amount(simplify(text)) if self.decimal else None
        return amount if amount and amount.doubts <= self.accepts else None


def find_formats(
    names: Sequence[str], columns: Sequence[ColumnEvidence], options: ReadOptions = AS_FOUND, default: str | None = None
) -> tuple[tuple[ColumnFormat, ...], list[str]]:
    """Infer the number and date format of each column of a table.

    Args:
        names: column names.
        columns: evidence of each column.
        options: options of reading. Their `decimal` and `locale` override the evidence.
        default: decimal mark if no cell of the table proves one. None if unknown.

    Returns:
        The formats, and notes for the user on columns with decimal commas and on columns with ambiguous numbers.

    Raises:
        ConfigError: `decimal` or `locale` is invalid.
    """
    option = read_decimal(options)
    for column in columns:
        column.sum_up()
    proven = [option or column.find_decimal() for column in columns]
    votes = {mark for mark, column in zip(proven, columns, strict=True) if mark and column.can_vote(mark)}
    if not votes and any(column.counts[COMMA_OR_GROUP] and column.is_dense for column in columns):
        votes = {"."}  # If 1,204 has a thousands separator, 1.204 has a decimal point.
    default = votes.pop() if len(votes) == 1 else "" if votes else default
    decimals = [_choose_decimal(column, mark, default) for column, mark in zip(columns, proven, strict=True)]
    formats = tuple(map(_format_of, names, columns, decimals))
    rows = zip(names, columns, decimals, formats, strict=True)
    marked = [row for row in rows if any(row[1].counts[kind] for kind in MARKED)]
    ambiguous = [repr(name) for name, _, decimal, _ in marked if decimal == ""]
    commas = [repr(name) for name, *_, form in marked if form.decimal == "," and option is None]
    notes = [f"Decimal commas: {list_names(commas)} (otherwise write decimal=.)."] if commas else []
    return formats, notes + ([f"No numbers in {list_names(ambiguous)}: {UNCLEAR}"] if ambiguous else [])


def format_of(texts: Iterable[str]) -> ColumnFormat:
    """Infer the number and date format of a single column. The default decimal mark is "."."""
    return find_formats([""], [collect_evidence(texts)], default=".")[0][0]


def _choose_decimal(column: ColumnEvidence, proven: str | None, default: str | None) -> str:
    """Choose the decimal mark of a column. Return "" if its numbers are ambiguous.

    If no column of the table proves a mark, 1,204 has a thousands separator, and 1.204 is ambiguous.

    Args:
        column: statistics of the column.
        proven: decimal mark that the cells of the column prove, or None.
        default: decimal mark of the other columns, "" if they differ, None if unknown.
    """
    counts = column.counts
    if proven is not None:
        return proven
    if default is None and counts[POINT_OR_GROUP] and not counts[COMMA_OR_GROUP] and column.has_short_integers:
        return ","
    # $1.204 is ambiguous, because cents have two digits.
    if counts["money"] and default != ",":
        return ""
    is_unclear = counts[POINT_OR_GROUP] or (default == "" and counts[COMMA_OR_GROUP])
    return default or ("" if is_unclear else ".")


def _format_of(name: str, column: ColumnEvidence, decimal: str) -> ColumnFormat:
    counts = column.counts
    are_names = (
        NOT_NUMBERS.fullmatch(name.strip()) is not None
        or (column.is_named_by_digits and not column.stored_numbers)
        or column.are_dates(is_named=DATE_NAME.search(name) is not None)
    )
    only_years = counts["year_in_parentheses"] == counts[MINUS]
    bare = sum(counts[kind] for kind in (*MARKED, PLAIN)) - counts[MINUS] - counts["year_from"]
    accepts = {
        MINUS: column.is_dense and not (only_years and (2 * counts["year"] > bare or not bare)),
        CODE: counts["unit"] > 0,
        LONE_FRACTION: counts[FRACTION] > MAX_MISFIT_SHARE * counts[LONE_FRACTION],
        column.unit: column.is_dense and column.unit != "",
    }
    return ColumnFormat(
        "" if are_names else decimal,
        frozenset(doubt for doubt, holds in accepts.items() if holds),
        are_names,
        None if bool(counts["day_first"]) == bool(counts["month_first"]) else counts["day_first"] > 0,
    )
