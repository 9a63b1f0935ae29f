"""A value as people read it in a cell."""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal


def spreadsheet_text(value: object) -> str:
    """Write a value as a spreadsheet shows it: no `.0` after whole numbers, dates as 2024-03-01, nothing for null."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (float, Decimal)):
        return spreadsheet_number(value)
    if isinstance(value, (datetime.date, datetime.time, datetime.timedelta)):
        return spreadsheet_date(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, ensure_ascii=False, default=spreadsheet_text)
    return str(value)


def spreadsheet_number(value: float | Decimal) -> str:
    """Write a number with at most 15 digits, as many as a spreadsheet keeps."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if not math.isfinite(value):
        return "" if math.isnan(value) else str(value)
    text = repr(float(f"{value:.15g}"))
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e15 else text


def spreadsheet_date(value: datetime.date | datetime.time | datetime.timedelta) -> str:
    """Write a date, a time or a duration; a time of midnight and seconds of zero are left out."""
    if isinstance(value, datetime.timedelta):
        seconds = round(value.total_seconds())
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if isinstance(value, datetime.time):
        return value.strftime("%H:%M:%S" if value.second else "%H:%M")
    if not isinstance(value, datetime.datetime):
        return value.isoformat()
    if value.time() == datetime.time():
        return value.date().isoformat()
    return f"{value.date().isoformat()} {spreadsheet_date(value.time())}"
