"""Number formats shared by terminal tables and HTML pages."""

from __future__ import annotations

from itertools import pairwise

NOTHING = "–"  # noqa: RUF001


def count_text(value: float) -> str:
    """Format a large count with a unit: 950, 22.7K, 110.1M, 1.3B."""
    units = ((size, f"{value / size:.1f}{unit}") for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "K")))
    return next((text for size, text in units if abs(value) >= size), f"{value:.0f}")


def flops_text(value: float) -> str:
    """Format a number of floating point operations with a unit: 3.2 G, 1.4 T."""
    units = ((size, f"{value / size:.3g} {unit}") for size, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")))
    return next((text for size, text in units if value >= size), f"{value:.0f}")


def rate_text(value: float) -> str:
    """Format a number of examples per second: 3.2, 182."""
    return f"{value:.1f}" if abs(value) < 100 else f"{value:,.0f}"


def duration_text(seconds: float | None) -> str:
    """Format seconds with the two largest units: 42 s, 12 min 5 s, 3 h 20 min, 2 d 4 h.

    None is formatted as a dash.
    """
    if seconds is None:
        return NOTHING
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    total = max(0, round(seconds))
    if total >= 3600:
        total = round(total / 60) * 60
    for (unit, size), (smaller, part) in pairwise(units):
        if total >= size:
            remainder = total % size // part
            return f"{total // size} {unit} {remainder} {smaller}" if remainder else f"{total // size} {unit}"
    return f"{total} s"


def plural(count: int, noun: str) -> str:
    """Format a count with its noun, which is singular for 1: `1 run`, `3,466 runs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
