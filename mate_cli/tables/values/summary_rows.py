"""Detection of rows that summarize other rows, such as totals, by numbers and names."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from decimal import Decimal
from itertools import starmap
from math import inf, isclose, prod

import numpy

_SUM = (
    r"tot(?:al[es]?|als|aux|aal|alt)?|summ?[ae]?|(?:ins)?gesamt|somme|razem|celkem|součet|ukupno|toplam|jumlah|itogo|итого"
    r"|всего|итог|[合总總総小]?[計计]|합계|총계|소계|σύνολο|المجموع|الإجمالي|סה\"כ|รวม|Σ"
)
_TOTAL = re.compile(rf"(?i)(?:grand|sub|overall|net)?[ -]?(?:{_SUM})\.?")
_LIKE_TOTAL = re.compile(rf"(?i)\b(?:{_SUM})\b|(?:total|summ[ae]|gesamt|overall)\w*\Z|\A(?:all|ensemble|\**)\Z|\balt\Z")
"""Names of totals, and names that denote a total only if the row is a sum of other rows."""
_STATISTIC = re.compile(
    r"(?i)average|avg\.?|mean|durchschnitt|mittelwert|moyenne|promedio|mediane?|ø|varian[cz]e?|highest|lowest|stdev"
    r"|(?:max|min)imum|(?:std\.?|standard)[ -]?(?:dev|abw)\w*\.?"
    r"|(?P<name>max|min|mod|ran|cou|med|std|(?:n|sd)(?!\w))(?:im\w+|us|e|ge|nt|ia)?\.?"
)
"""Names of statistics. Names in the group `name` may also denote something else."""
MIN_ONE, MIN_DOUBT, MIN_ALONE, MIN_INSIDE, IN_COLUMNS = 3, 30, 10_000, 1_000_000, 50
"""Minimum number of values that a row could have instead of a sum. The larger the number, the less likely is a
coincidence. `MIN_ONE` applies to one of several sums, `MIN_DOUBT` to all sums together. From `MIN_ALONE` on, sums that
end a table are certain. `MIN_INSIDE` applies to a sum anywhere. `IN_COLUMNS` is the factor if several columns agree."""
MAX_GROUPS, MAX_STATISTICS = 20, 12
"""Maximum number of row groups directly above a row that the row may sum up, and maximum number of rows with statistics
above or below a table."""
Numbers = Sequence[Decimal | None]


def find_summary_rows(names: Sequence[str], columns: Sequence[Numbers]) -> tuple[set[int], set[int]]:
    """Find the rows that summarize other rows.

    Args:
        names: names of the N rows.
        columns: N numbers per column, None for cells without a number. The first column is the column to add up.

    Returns:
        Indices of the rows that summarize other rows, and indices of rows that may do so, but whose numbers do not all
        agree.
    """
    rows = [row for row, number in enumerate(columns[0]) if number is not None]
    summaries, doubtful = map(set.union, *(_find_statistics(order, names, columns) for order in (rows, rows[::-1])))
    rows = [row for row in rows if row not in summaries | doubtful]
    orders = (rows, rows[::-1])
    scans = [_find_sums(order, names, columns) for order in orders]
    complete = [(prod(sums.values()), sums) for sums, is_complete in scans if is_complete]
    chance, sums = max(complete, key=lambda pair: pair[0], default=(0, {}))
    if chance < MIN_DOUBT and any(found for found, _ in scans):
        sums = {row: chance for order in orders for row in _find_sums(order, names, columns, MIN_INSIDE)[0]}
    (summaries if chance >= MIN_ALONE else doubtful).update(sums)
    doubtful |= {row for row in rows if row not in summaries and len(rows) > 1 and _TOTAL.fullmatch(names[row])}
    return summaries, doubtful


def _find_sums(
    rows: Sequence[int], names: Sequence[str], columns: Sequence[Numbers], least: float = MIN_ONE
) -> tuple[dict[int, float], bool]:
    """Find the rows that are sums of row groups above them, or of all other rows.

    Returns:
        For each sum, the number of values that the row could have instead, which measures how unlikely a coincidence
        is. And whether the last row is a sum, so that the sums cover all rows.
    """
    found, count, sums = dict[int, float](), 0, [Decimal(0)] * len(columns)
    groups = [(count, sums)]
    for row in rows:
        cells = [(place, number) for place, numbers in enumerate(columns) if (number := numbers[row]) is not None]
        for first, before in (*groups[:-MAX_GROUPS:-1], groups[0]):
            size = count - first
            if size < 1 or not isclose(cells[0][1], sums[0] - before[0]):
                continue
            fits = [number for place, number in cells if isclose(number, sums[place] - before[place])]
            chance = prod(map(_count_values, fits)) / (1 if size == len(rows) - 1 else size)
            is_whole = len(fits) == len(cells)
            is_like = _LIKE_TOTAL.search(names[row]) and (is_whole or chance >= MIN_DOUBT)
            is_named = _TOTAL.fullmatch(names[row]) or is_like
            is_sure = chance >= least and (is_whole or chance >= MIN_INSIDE)
            if (is_named and is_whole) or (size > 1 and (is_named or is_sure)):
                found[row] = inf if is_named else chance * (IN_COLUMNS if len(fits) > 1 else is_whole)
                groups.append((count, sums))
                break
        else:
            count, sums = count + 1, [total + (numbers[row] or 0) for total, numbers in zip(sums, columns, strict=True)]
    return found, bool(rows) and rows[-1] in found


def _find_statistics(
    rows: Sequence[int], names: Sequence[str], columns: Sequence[Numbers]
) -> tuple[set[int], set[int]]:
    """Find the last rows that are statistics of other rows, or only have such a name."""
    best = set[int](), set[int]()
    # None becomes NaN.
    arrays = [numpy.array([column[row] for row in rows], float) for column in columns]
    for length in range(1, min(MAX_STATISTICS, len(rows) - 2) + 1):
        sure, doubtful = set[int](), set[int]()
        for row in rows[-length:]:
            match = _STATISTIC.fullmatch(names[row])
            numbers = [column[row] for column in columns]
            pairs = zip(numbers, arrays, strict=True)
            cells = [(number, values[:-length]) for number, values in pairs if number is not None]
            kinds = _find_kinds(*cells[0])
            is_proven = len(cells) > 1 and kinds & {"med", "std"}.intersection(*starmap(_find_kinds, cells))
            if match and any(kind.startswith((match["name"] or "").lower()) for kind in kinds):
                sure.add(row)
            elif match and not match["name"]:
                doubtful.add(row)
            elif is_proven and prod(starmap(_count_steps, cells)) >= MIN_ALONE:
                sure.add(row)
            elif not _LIKE_TOTAL.search(names[row]):
                break
        else:
            best = max(best, (sure, doubtful), key=lambda rows: (len(rows[0]), len(rows[1])))
    return best


def _find_kinds(number: Decimal, values: numpy.ndarray) -> set[str]:
    """Find the statistics of `values` that equal a number after rounding, by name prefix."""
    values = values[~numpy.isnan(values)]
    if len(values) < 2:
        return set()
    spreads = [(kind, values.std(ddof=ddof)) for kind in ("std", "sd") for ddof in (0, 1)]
    kinds = [("max", values.max()), ("min", values.min()), ("ran", numpy.ptp(values)), ("cou", len(values)), *spreads]
    kinds += [("mod", statistics.mode(values.tolist())), ("median", numpy.median(values)), ("med", values.mean())]
    kinds += [("n", len(values)), *(("var", spread**2) for _, spread in spreads)]
    return {kind for kind, value in kinds if abs(float(number) - value) <= 0.5000001 * _find_step(number)}


def _find_step(number: Decimal) -> float:
    return 10.0 ** min(int(number.as_tuple().exponent), 0)


def _count_steps(number: Decimal, values: numpy.ndarray) -> float:
    """Count the possible means of values: numbers in their range with equal decimals."""
    return 1 + float(numpy.nanmax(values) - numpy.nanmin(values)) / _find_step(number)


def _count_values(number: Decimal) -> int:
    """Count the numbers up to `number` that are equally round.

    Sums of round numbers often coincide.
    """
    return 1 + int("".join(map(str, number.normalize().as_tuple().digits)))
