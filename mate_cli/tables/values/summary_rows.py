"""Rows of a table that summarize other rows, such as totals, subtotals and medians: by their numbers, then by name."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from itertools import takewhile
from math import prod

_TOTALS = """
total totals totale totaux totaal totalt sum summe summa suma gesamt insgesamt somme subtotal razem ogółem celkem součet
spolu ukupno skupaj toplam yhteensä összesen végösszeg kokku kopā viso sumă jumlah cộng sammanlagt itogo итого всего
итог разом 合計 总计 總計 総計 合计 小计 小計 計 합계 총계 총합계 소계 σύνολο άθροισμα المجموع الإجمالي סה"כ รวม Σ
"""
_ANY_TOTAL = "|".join(_TOTALS.split())
_TOTAL = re.compile(rf"(?:grand|sub|overall|net)?[ -]?(?:{_ANY_TOTAL})", re.IGNORECASE)
_LIKE_TOTAL = re.compile(
    rf"\b(?:{_ANY_TOTAL})\b|(?:total|totaal|summ[ae]|gesamt|overall|combined)\w*\Z|\A(?:all|world|ensemble|zusammen)\Z"
    r"|\btot\.?\Z|\balt\Z|\A\*+\Z|\A\Z",
    re.IGNORECASE,
)
"""Names of totals, and what may be such a name if the row is a total."""
_STATISTIC = re.compile(
    r"averages?|avg\.?|mean|durchschnitt|mittelwert|moyenne|promedio|media|gemiddelde|genomsnitt|średnia|mediane?|median|ø"
    r"|varian[cz]e?|(?:std\.?|standard)[ -]?(?:dev\.?|deviation|abweichung)|stdev|highest|lowest"
    r"|(?P<name>max(?:imum)?\.?|min(?:imum)?\.?|mode|modus|range|count|anzahl|std)",
    re.IGNORECASE,
)
"""Names of statistics; the last ones may name something else."""
MIN_TOTAL, MIN_SUBTOTAL, MIN_ALONE = 15, 1000, 10_000
"""Possible values above which a sum that is not named is not one by chance: at the end, before it, in one column."""
MAX_GROUPS = 20
"""Groups of rows right above a row, of which it may be the sum."""
Numbers = Sequence[Decimal | None]


def find_summary_rows(names: Sequence[str], columns: Sequence[Numbers]) -> tuple[set[int], set[int]]:
    """Find the rows that summarize other rows.

    Args:
        names: of N rows.
        columns: N numbers of each column of numbers, None where there is none; first those that are to be added.

    Returns:
        Rows that are totals or statistics of the rest, and rows that seem to be, but do not agree with the rest.
    """
    numbers = {row: number for row, number in enumerate(columns[0]) if number is not None}
    edges = {row for order in (list(numbers), [*numbers][::-1]) for row in takewhile(partial(_is_named, names), order)}
    statistic_rows = {row for row in edges if _STATISTIC.fullmatch(names[row])}
    rows = [row for row in numbers if row not in statistic_rows]
    totals = _find_totals(rows, names, columns) or _find_totals(rows[::-1], names, columns)
    total = sum(numbers[row] for row in rows if row not in totals)
    for row in rows:
        rest = total - numbers[row]
        if row not in totals and len(rows) > 1 and _LIKE_TOTAL.search(names[row]) and _is_close(numbers[row], rest):
            totals.add(row)
            total = rest
    doubtful = {row for row in rows if len(rows) > 1 and row not in totals and _TOTAL.fullmatch(names[row])}
    if len(totals) > 1 and totals.isdisjoint((rows[0], rows[-1])):
        doubtful |= totals
    values = [numbers[row] for row in rows if row not in totals]
    for row in statistic_rows:
        if len(values) > 1 and _is_statistic(numbers[row], values):
            totals.add(row)
        elif (match := _STATISTIC.fullmatch(names[row])) and not match["name"]:
            doubtful.add(row)
    return totals, doubtful


def _is_named(names: Sequence[str], row: int) -> bool:
    return any((_STATISTIC.fullmatch(names[row]), _TOTAL.fullmatch(names[row]), _LIKE_TOTAL.search(names[row])))


def _find_totals(rows: Sequence[int], names: Sequence[str], columns: Sequence[Numbers]) -> set[int]:
    """Find the rows that are the sum of the rows before them, or of the last groups of these."""
    totals, count, sums = set[int](), 0, [Decimal(0)] * len(columns)
    groups = [(count, sums)]
    for row in rows:
        cells = [(place, number) for place, column in enumerate(columns) if (number := column[row]) is not None]
        is_named = _LIKE_TOTAL.search(names[row]) is not None
        for first, before in (*groups[:-MAX_GROUPS:-1], groups[0]):
            fits = [_is_close(number, sums[place] - before[place]) for place, number in cells]
            least = MIN_SUBTOTAL if first or row != rows[-1] else MIN_TOTAL
            is_sure = all(fits) and prod(_count_values(number) for _, number in cells) >= least
            is_alone = is_named or is_sure or _count_values(cells[0][1]) >= MIN_ALONE
            if count - first > (not is_named) and fits[0] and is_alone:
                totals.add(row)
                groups.append((count, sums))
                break
        else:
            count, sums = count + 1, [total + (column[row] or 0) for total, column in zip(sums, columns, strict=True)]
    return totals


def _is_close(number: Decimal, total: Decimal) -> bool:
    return abs(number - total) <= abs(number) / 10**9


def _count_values(number: Decimal) -> int:
    """Count the numbers up to this one that are as round: sums of rounder numbers occur by chance."""
    return 1 + int("".join(map(str, number.normalize().as_tuple().digits)))


def _is_statistic(number: Decimal, values: Sequence[Decimal]) -> bool:
    """Tell whether a number is a statistic of some values, as far as its decimals go."""
    known = [min(values), max(values), max(values) - min(values), len(values), statistics.mode(values)]
    known += [f(values) for f in (statistics.mean, statistics.median, statistics.stdev, statistics.pstdev)]
    known += [statistics.variance(values), statistics.pvariance(values)]
    step = Decimal(1).scaleb(min(int(number.normalize().as_tuple().exponent), 0))
    return any(abs(number - Decimal(value)) <= step * Decimal("0.5000001") for value in known)
