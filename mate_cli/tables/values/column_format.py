"""Formats of the numbers and dates of columns, by the evidence of all its cells and of the other columns.

One cell never decides, and no text is rewritten: a format only says which number a text is.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mate_cli.tables.formats.cell_text import NumberText, count_noun, list_names
from mate_cli.tables.read_options import AS_FOUND, ReadOptions, read_decimal
from mate_cli.tables.values.cell_number import (
    CODE,
    COMMA,
    COMMA_OR_GROUP,
    FRACTION,
    LONE_FRACTION,
    MAX_LENGTH,
    MINUS,
    PLAIN,
    POINT,
    POINT_OR_GROUP,
    Amount,
    parse_amount,
    read_date,
    simplify,
)
from mate_cli.tables.values.column_evidence import (
    MARKED,
    MAX_MISFIT_SHARE,
    ColumnEvidence,
    collect_evidence,
)

NOT_NUMBERS = re.compile(
    r"(?:\w+ )?(?:(?:tele)?phone|telefon|tel|fax|mobile|zip|post ?code|postal|plz|isbn|issn|iban|version)s?\.?"
    r"(?: (?:numbers?|no\.?|nr\.?|codes?))?"
    r"|ip (?:address(?:es)?|no\.?)|postleitzahl|code postal|c[oó]digo postal|cep|postn(?:umme)?r\.?|pin ?code",
    re.IGNORECASE,
)
"""Headers of columns whose digits are names, not numbers."""
MIXED = "decimal points and commas are mixed. Write decimal=, or decimal=."
SILENT = "their points may part decimals or thousands. Write decimal=. or locale=de."
"""Why a column has no numbers."""
DATE_NAME = re.compile(
    r"(?:^|[\W_])(?:date|datum|fecha|data|day|tag|month|monat|period|timestamp|created|updated|ymd|yyyymm(?:dd)?)(?:$|[\W_])",
    re.IGNORECASE,
)
"""Headers of columns whose digits may be dates."""


@dataclass(frozen=True, slots=True)
class ColumnFormat:
    """Format of the numbers and dates of a column.

    Args:
        decimal: the decimal mark; "" where no text in the column is a number.
        are_names: digits are names or dates here, and no numbers even where the file has numbers.
        accepts: doubts that other cells resolve: `MINUS` where (12) is -12, `CODE` where RM1 is an amount as RM1.50 is,
            `LONE_FRACTION` where 1/2 is a half, and a word behind numbers that is a unit here, besides the known ones.
        day_first: 01/02/2024 is in February; None where nothing says.
    """

    decimal: str = "."
    accepts: frozenset[str] = frozenset()
    are_names: bool = False
    day_first: bool | None = None

    def read_number(self, text: str) -> float | None:
        """Read a cell as a number, percent as written (12.5 for 12.5%); None where it is none."""
        if type(text) is NumberText:
            return None if self.are_names else text.number
        if text.isascii() and text.isdecimal() and len(text) <= MAX_LENGTH:
            return float(text) if self.decimal else None
        amount = self._read(text)
        value = amount.values.get(self.decimal, math.nan) if amount else math.nan
        return value if math.isfinite(value) else None

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
        """Return the parts of a cell, where the column allows for all of them."""
        amount = parse_amount(simplify(text)) if self.decimal else None
        return amount if amount and amount.doubts <= self.accepts else None


def find_formats(
    names: Sequence[str],
    columns: Sequence[ColumnEvidence],
    options: ReadOptions = AS_FOUND,
    usual: str | None = None,
) -> tuple[tuple[ColumnFormat, ...], list[str]]:
    """Decide how each column of a table writes numbers and dates; `usual` is the decimal mark where no cell tells.

    Returns:
        The formats, and notes for people: where decimal commas were found, and where nothing can be decided.

    Raises:
        ConfigError: a locale or a mark that was typed is unknown.
    """
    stated = read_decimal(options)
    for column in columns:
        column.sum_up()
    proven = [stated or column.find_decimal() for column in columns]
    votes = {mark for mark, column in zip(proven, columns, strict=True) if mark and column.can_vote(mark)}
    if not votes and any(column.counts[COMMA_OR_GROUP] and column.is_dense for column in columns):
        votes = {"."}  # 1,204 is over a thousand, so 1.204 is not
    usual = votes.pop() if len(votes) == 1 else "" if votes else usual
    if usual == "." and stated is None:  # 987 beside 1.234 says less than 1.5 in other columns
        proven = [
            mark if mark != "," or column.counts[COMMA] else None for mark, column in zip(proven, columns, strict=True)
        ]
    days = sum((column.counts for column in columns), Counter[str]())
    formats, commas, refused, notes = [], list[str](), dict[str, list[str]](), list[str]()
    for name, column, mark in zip(names, columns, proven, strict=True):
        decimal, is_marked = _choose_decimal(column, mark, usual), any(column.counts[kind] for kind in MARKED)
        if decimal == "" and is_marked:
            refused.setdefault(MIXED if mark == "" or usual == "" else SILENT, []).append(repr(name))
        column_format = _format_of(name, column, decimal, days)
        if column_format.decimal == "," and is_marked and stated is None:
            commas.append(repr(name))
        other = COMMA if column_format.decimal == "." else POINT if column_format.decimal else ""
        if column.counts[other] and column.is_dense:
            count = count_noun(column.counts[other], "cell")
            notes.append(f"Unlike the rest of {name!r}, {count} such as {column.examples[other]!r} is read as text.")
        formats.append(column_format)
    notes[:0] = [f"No numbers in {list_names(headers)}: {why}" for why, headers in refused.items()]
    notes[:0] = [f"Decimal commas: {list_names(commas)} (otherwise write decimal=.)."] if commas else []
    return tuple(formats), notes


def format_of(texts: Iterable[str]) -> ColumnFormat:
    """Decide how one column alone writes numbers and dates."""
    return find_formats([""], [collect_evidence(texts)], usual=".")[0][0]


def _choose_decimal(column: ColumnEvidence, proven: str | None, usual: str | None) -> str:
    """Return the decimal mark of a column, where its own cells prove one, else that of the others; "" for none.

    Where no column proves one, 1,204 is over a thousand, and nobody knows of 1.204.
    """
    if proven is not None:
        return proven
    if column.counts["money"] and usual != ",":
        return ""  # cents have two digits
    if usual is None and column.counts[COMMA_OR_GROUP]:
        return "."
    return usual or ("" if column.counts[POINT_OR_GROUP] or column.counts[COMMA_OR_GROUP] else ".")


def _format_of(name: str, column: ColumnEvidence, decimal: str, table_counts: Counter[str]) -> ColumnFormat:
    counts = column.counts
    are_names = (
        NOT_NUMBERS.fullmatch(name.strip()) is not None
        or (column.is_named_by_digits and not column.stored)
        or column.are_dates(is_named=DATE_NAME.search(name) is not None)
    )
    only_years = counts["year_in_parentheses"] == counts[MINUS]
    bare = sum(counts[kind] for kind in (*MARKED, PLAIN)) - counts[MINUS] - counts["year_from"]
    telling = (days for days in (counts, table_counts) if bool(days["day_first"]) != bool(days["month_first"]))
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
        next((days["day_first"] > 0 for days in telling), None),
    )
