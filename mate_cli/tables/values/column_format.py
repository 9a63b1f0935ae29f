"""Formats of the numbers and dates of columns, by the evidence of all its cells and of the other columns.

One cell never decides, and no text is rewritten: a format only says which number a text is.
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
from mate_cli.tables.values.column_evidence import (
    MARKED,
    MAX_MISFIT_SHARE,
    ColumnEvidence,
    collect_evidence,
)

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
_WHOLE = re.compile(r"-?\d+")
UNCLEAR = "their marks may part decimals or thousands. Write decimal=, or decimal=. or locale=de."
"""Why a column has no numbers."""


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
        number = self.read_exact(text)
        return float(number) if number is not None else None

    def read_exact(self, text: str) -> Decimal | None:
        """Read a cell as a number with all its digits; None if it is no number."""
        if type(text) is NumberText:
            is_shown = _WHOLE.fullmatch(text) and float(text) == text.number  # large ones have more digits
            return None if self.are_names else Decimal(text if is_shown else repr(text.number))
        if text.isascii() and text.isdecimal() and len(text) <= MAX_LENGTH:
            return Decimal(text) if self.decimal else None
        amount = self._read(text)
        value = amount.values.get(self.decimal) if amount else None
        return value if value is not None and math.isfinite(value) else None

    def read_unit(self, text: str) -> str:
        """Read the currency, percent sign or unit of a cell that is a number; "" for none."""
        amount = self._read(text)
        return amount.unit if amount else ""

    def read_sortable(self, text: str) -> float:
        """Read a cell as a number that compares with others of its column, dates by their time; NaN for texts."""
        number = self.read_number(text)
        return read_date(simplify(text), self.day_first) if number is None else number

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
    decimals = [_choose_decimal(column, mark, usual) for column, mark in zip(columns, proven, strict=True)]
    formats = tuple(map(_format_of, names, columns, decimals))
    rows = zip(names, columns, decimals, formats, strict=True)
    marked = [row for row in rows if any(row[1].counts[kind] for kind in MARKED)]
    refused = [repr(name) for name, _, decimal, _ in marked if decimal == ""]
    commas = [repr(name) for name, *_, one in marked if one.decimal == "," and stated is None]
    notes = [f"Decimal commas: {list_names(commas)} (otherwise write decimal=.)."] if commas else []
    return formats, notes + ([f"No numbers in {list_names(refused)}: {UNCLEAR}"] if refused else [])


def format_of(texts: Iterable[str]) -> ColumnFormat:
    """Decide how one column alone writes numbers and dates."""
    return find_formats([""], [collect_evidence(texts)], usual=".")[0][0]


def _choose_decimal(column: ColumnEvidence, proven: str | None, usual: str | None) -> str:
    """Return the decimal mark of a column, where its own cells prove one, else that of the others; "" for none.

    Where no column proves one, 1,204 is over a thousand, and nobody knows of 1.204.
    """
    counts = column.counts
    if proven is not None:
        return proven
    if usual is None and counts[POINT_OR_GROUP] and not counts[COMMA_OR_GROUP] and column.has_short:
        return ","
    if counts["money"] and usual != ",":
        return ""  # cents have two digits
    is_unclear = counts[POINT_OR_GROUP] or (usual == "" and counts[COMMA_OR_GROUP])
    return usual or ("" if is_unclear else ".")


def _format_of(name: str, column: ColumnEvidence, decimal: str) -> ColumnFormat:
    counts = column.counts
    are_names = (
        NOT_NUMBERS.fullmatch(name.strip()) is not None
        or (column.is_named_by_digits and not column.stored)
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
