"""Detection of rows that summarize other rows, such as totals and averages, by their names and numbers."""

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
    r"|всего|итог|[合总總総小]?[計计]|합계|총계|소계|σύνολο|المجموع|الإجمالي|סה\"כ|รวม|Σ|ttl|yhteensä|összese[nr]|ogółem"
    r"|kokku|iš viso|kopā|skupaj|tổng(?: cộng)?|कुल|загалом|усього|общо"
)
_GENERAL = r"(?:g[eé]n[eé]ral[e]?|generaal|geral|complessivo|końcowa|of above|\(.*\))"
_TOTAL = re.compile(rf"(?i)\W*(?:grand|sub|overall|net|g\.)?[ -]?(?:{_SUM})(?: {_GENERAL})?\W*")
_LIKE_TOTAL = re.compile(
    rf"(?i)\b(?:{_SUM})\b|(?:total|summ[ae]|gesamt|overall)\w*\Z|\A(?:all|ensemble|world|welt|monde|saldo|balance|\W*)\Z|\balt\Z"
)
"""Names of totals, and names that denote a total only if the row is a sum of other rows."""
_STATISTIC = re.compile(
    r"(?i)(?:column |overall )?(?:average|avg\.?|mean)(?: value)?|durchschnitt|mittelwert|moyenne|promedio|ø"
    r"|highest|lowest|m[eé]dia(?:n[ae]?)?|zentralwert|varian[cz]e?|medelvärde|gennemsnitt|gjennomsnitt|écart[ -]type"
    r"|desviación (?:est[aá]ndar|típica)|s\.d\.|gemiddelde?|średnia|ortalama|keskiarvo|átlag|průměr|среднее|медиана"
    r"|平均[値值]?|평균|st\.? ?dev\.?|(?:std\.?|standard)[ -]?(?:dev|abw|err)\w*\.?|(?:max|min)imum"
    r"|(?P<name>max|min|mod|ran|cou|med|std|(?:n|var|sem|sd|q[123])(?!\w)|(?:25|50|75) ?%)(?:im\w+|us|e|ge|nt|ia)?\.?"
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
    """Find the rows that summarize other rows, such as totals and averages, by their names and numbers.

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
    full_scans = [(prod(sums.values()), sums) for sums, is_complete in scans if is_complete]
    chance, sums = max(full_scans, key=lambda pair: pair[0], default=(0, {}))
    if chance < MIN_DOUBT and any(partial for partial, _ in scans):
        sums = {row: chance for order in orders for row in _find_sums(order, names, columns, MIN_INSIDE)[0]}
    (summaries if chance >= MIN_ALONE else doubtful).update(sums)
    doubtful |= {row for row in rows if row not in summaries and len(rows) > 1 and _TOTAL.fullmatch(names[row])}
    return summaries, doubtful


def _find_sums(
    rows: Sequence[int], names: Sequence[str], columns: Sequence[Numbers], min_chance: float = MIN_ONE
) -> tuple[dict[int, float], bool]:
    """Find the rows whose numbers are the sums of consecutive rows above them, or of all other rows.

    Args:
        rows: indices of the rows with numbers, in the order to search: downward, or upward for totals at the top.
        names: names of all rows.
        columns: numbers of all rows, per column.
        min_chance: minimum number of values that a sum without the name of a total could have instead.

    Returns:
        For each sum, the number of values that the row could have instead, which measures how unlikely a coincidence
        is. And whether the last row is a sum, so that the sums cover all rows.
    """
    sum_rows, count, sums = dict[int, float](), 0, [Decimal(0)] * len(columns)
    groups = [(count, sums)]
    for row in rows:
        cells = [(column, number) for column, numbers in enumerate(columns) if (number := numbers[row]) is not None]
        for first, offsets in (*groups[:-MAX_GROUPS:-1], groups[0]):
            size = count - first
            if size < 1 or not isclose(cells[0][1], sums[0] - offsets[0]):
                continue
            equal = [number for column, number in cells if isclose(number, sums[column] - offsets[column])]
            chance = prod(map(_count_values, equal)) / (1 if size == len(rows) - 1 else size)
            is_whole = len(equal) == len(cells)
            is_like = _LIKE_TOTAL.search(names[row]) and (is_whole or chance >= MIN_DOUBT)
            is_named = _TOTAL.fullmatch(names[row]) or is_like
            is_sure = chance >= min_chance and (is_whole or chance >= MIN_INSIDE)
            if (is_named and is_whole) or (size > 1 and (is_named or is_sure)):
                sum_rows[row] = inf if is_named else chance * (IN_COLUMNS if len(equal) > 1 else is_whole)
                groups.append((count, sums))
                break
        else:
            count, sums = count + 1, [total + (numbers[row] or 0) for total, numbers in zip(sums, columns, strict=True)]
    return sum_rows, bool(rows) and rows[-1] in sum_rows


def _find_statistics(
    rows: Sequence[int], names: Sequence[str], columns: Sequence[Numbers]
) -> tuple[set[int], set[int]]:
    """Find the rows at the end of `rows` that are statistics, such as the mean or maximum, of the rows before them.

    Args:
        rows: indices of the rows with numbers, in the order to search.
        names: names of all rows.
        columns: numbers of all rows, per column.

    Returns:
        Indices of rows that are statistics, and indices of rows that have the name of a statistic but another value.
    """
    result = set[int](), set[int]()
    # None becomes NaN.
    arrays = [numpy.array([column[row] for row in rows], float) for column in columns]
    for length in range(1, min(MAX_STATISTICS, len(rows) - 2) + 1):
        certain, doubtful = set[int](), set[int]()
        for row in rows[-length:]:
            match = _STATISTIC.fullmatch(names[row])
            numbers = [column[row] for column in columns]
            pairs = zip(numbers, arrays, strict=True)
            cells = [(number, values[:-length]) for number, values in pairs if number is not None]
            kinds = _find_kinds(*cells[0])
            is_proven = len(cells) > 1 and kinds & {"med", "std"}.intersection(*starmap(_find_kinds, cells))
            if match and any(kind.startswith((match["name"] or "").lower()) for kind in kinds):
                certain.add(row)
            elif match and not match["name"]:
                doubtful.add(row)
            elif is_proven and prod(starmap(_count_steps, cells)) >= MIN_ALONE:
                certain.add(row)
            elif not _LIKE_TOTAL.search(names[row]):
                break
        else:
            result = max(result, (certain, doubtful), key=lambda rows: (len(rows[0]), len(rows[1])))
    return result


def _find_kinds(number: Decimal, values: numpy.ndarray) -> set[str]:
    """Find which statistics of `values`, such as the mean, a number equals after rounding.

    They are returned as prefixes of names such as "med".
    """
    values = values[~numpy.isnan(values)]
    if len(values) < 2:
        return set()
    spreads = [(kind, values.std(ddof=ddof)) for kind in ("std", "sd") for ddof in (0, 1)]
    kinds = [("max", values.max()), ("min", values.min()), ("ran", numpy.ptp(values)), ("cou", len(values)), *spreads]
    quartiles = numpy.percentile(values, [25, 50, 75])
    kinds += [("mod", statistics.mode(values.tolist())), ("median", quartiles[1]), ("med", values.mean())]
    kinds += [
        ("n", len(values)),
        ("sem", values.std(ddof=1) / len(values) ** 0.5),
        *(("var", spread**2) for _, spread in spreads),
    ]
    kinds += [(name, value) for n, value in enumerate(quartiles, 1) for name in (f"q{n}", f"{25 * n}%", f"{25 * n} %")]
    return {kind for kind, value in kinds if abs(float(number) - value) <= 0.5000001 * _find_step(number)}


def _find_step(number: Decimal) -> float:
    return 10.0 ** min(int(number.as_tuple().exponent), 0)


def _count_steps(number: Decimal, values: numpy.ndarray) -> float:
    """Count the numbers in the range of `values` that have as many decimals as `number`.

    If the count is large, it is unlikely that `number` equals a statistic of the values by coincidence.
    """
    return 1 + float(numpy.nanmax(values) - numpy.nanmin(values)) / _find_step(number)


def _count_values(number: Decimal) -> int:
    """Count the numbers from 0 to `number` that are as round as `number`: 13 for 120.

    120 is one of 0, 10, ..., 120. If the count is small, the number may equal a sum by coincidence.
    """
    return 1 + int("".join(map(str, number.normalize().as_tuple().digits)))
