"""Reads what a run logged step by step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mate_cli.files.safe_load import read_lines
from mate_cli.reports.compare.statistics import is_finite
from mate_cli.reports.runs.load import clean, is_number

FINAL = ("final/", "baseline/")
"""Prefixes of metrics that are measured once, at the end."""
CLOCK_POINTS = 48


@dataclass(frozen=True)
class Curve:
    """One logged metric of one run: values (fractions or losses) at optimizer steps, both of the same length."""

    steps: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class RunLog:
    """The log of a run: its metrics, and how many epochs and seconds had passed at some of its steps."""

    curves: dict[str, Curve]
    epochs: Curve
    seconds: Curve


def load_log(folder: Path, *, points: int = 240) -> RunLog:
    """Read metrics.jsonl, each curve thinned to at most `points` points.

    A line that is not a JSON object (the last one of a run that was killed, say) is skipped, and so are final metrics:
    they are a single point, not a curve.
    """
    collected: dict[str, list[tuple[float, float]]] = {}
    for row in logged_rows(folder / "metrics.jsonl"):
        for name, value in row.items():
            if name != "step" and is_number(value) and is_finite(value) and not name.startswith(FINAL):
                collected.setdefault(clean(name), []).append((float(row["step"]), float(value)))
    epochs, seconds = (thin_clock(collected.pop(name, [])) for name in ("epoch", "time"))
    return RunLog({name: thin(sorted(pairs), points) for name, pairs in collected.items()}, epochs, seconds)


def thin_clock(pairs: list[tuple[float, float]]) -> Curve:
    """Pick (step, value) pairs evenly, first and last among them; a clock that runs backwards stands still instead."""
    rising = sorted(pairs)
    for index in range(1, len(rising)):
        rising[index] = (rising[index][0], max(rising[index][1], rising[index - 1][1]))
    points = rising[:: math.ceil(len(rising) / CLOCK_POINTS)] if rising else []
    points += rising[-1:] if points and points[-1] != rising[-1] else []
    return Curve(tuple(step for step, _ in points), tuple(value for _, value in points))


def logged_rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the readable lines of a metrics.jsonl that say which step they belong to; none where it cannot be read."""
    with suppress(OSError, ValueError):
        yield from (row for row in read_lines(file) if is_number(row.get("step")) and is_finite(row["step"]))


def thin(pairs: list[tuple[float, float]], points: int) -> Curve:
    """Average neighbouring (step, value) pairs until at most `points` are left."""
    width = math.ceil(len(pairs) / points)
    bins = [pairs[start : start + width] for start in range(0, len(pairs), width)]
    steps = tuple(sum(step for step, _ in part) / len(part) for part in bins)
    return Curve(steps, tuple(sum(value for _, value in part) / len(part) for part in bins))
