"""Reads what a run logged step by step."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mate_cli.reports.load import clean, is_number
from mate_cli.reports.statistics import is_finite

NOT_METRICS = frozenset({"step", "epoch", "time"})


@dataclass(frozen=True)
class Curve:
    """One logged metric of one run: values (fractions or losses) at optimizer steps, both of the same length."""

    steps: tuple[float, ...]
    values: tuple[float, ...]


def load_curves(folder: Path, *, points: int = 240) -> dict[str, Curve]:
    """Reads metrics.jsonl into one curve per metric, each thinned to at most `points` points.

    A line that is not a JSON object (the last one of a run that was killed, say) is skipped.
    """
    collected: dict[str, list[tuple[float, float]]] = {}
    for row in logged_rows(folder / "metrics.jsonl"):
        for name, value in row.items():
            if name not in NOT_METRICS and is_number(value) and is_finite(value):
                collected.setdefault(clean(name), []).append((float(row["step"]), float(value)))
    return {name: thin(sorted(pairs), points) for name, pairs in collected.items()}


def logged_rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yields the readable lines of a metrics.jsonl that say which step they belong to."""
    if not file.is_file():
        return
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict) and is_number(row.get("step")) and is_finite(row["step"]):
                yield row


def thin(pairs: list[tuple[float, float]], points: int) -> Curve:
    """Averages neighbouring (step, value) pairs until at most `points` are left."""
    width = math.ceil(len(pairs) / points)
    bins = [pairs[start : start + width] for start in range(0, len(pairs), width)]
    steps = tuple(sum(step for step, _ in part) / len(part) for part in bins)
    return Curve(steps, tuple(sum(value for _, value in part) / len(part) for part in bins))
