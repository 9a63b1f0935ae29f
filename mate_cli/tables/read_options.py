"""Settings of reading a table file that a person can type; None leaves each to the evidence of the file."""

from __future__ import annotations

from dataclasses import dataclass, field

from mate_cli.tables.limits import Limits


@dataclass(frozen=True)
class ReadOptions:
    """Settings for one table file.

    Args:
        sheet: name of a workbook's sheet, or its number from 1.
        encoding: of text files, such as "cp1252".
        header: number of the header line, from 1; 0 for a table without one.
        delimiter: between the columns of delimited text.
        quote: quotation mark of delimited text; "" for none.
        locale: how numbers are written, such as "de" or "en_IN".
        decimal: decimal mark, "." or ",".
        thousands: mark between groups of digits, such as "," or " ".
        limits: the largest table that is read.
    """

    sheet: str | None = None
    encoding: str | None = None
    header: int | None = None
    delimiter: str | None = None
    quote: str | None = None
    locale: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    limits: Limits = field(default_factory=Limits)


AS_FOUND = ReadOptions()
"""Everything is left to the evidence of the file."""
