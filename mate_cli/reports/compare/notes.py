"""What a reader must know to trust the numbers of a comparison."""

from __future__ import annotations

from collections.abc import Sequence

from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.published import Published
from mate_cli.reports.compare.statistics import CENTERS, SPREADS, Statistic
from mate_cli.reports.compare.tables import ResultTable
from mate_cli.reports.format import plural


def notes(groups: Sequence[Configuration], statistic: Statistic, *, mixed: bool, count_all: bool) -> list[str]:
    """Says what was summed up and how, left out or mixed."""
    lines = []
    if any(len(group.counted) > 1 for group in groups):
        over = "runs" if mixed or count_all else "finished seeds"
        lines.append(f"{CENTERS[statistic]} ± {SPREADS[statistic]} over n {over}")
    finished = sum(run.status == "finished" or count_all for group in groups for run in group.runs)
    older = finished - sum(len(group.counted) for group in groups)
    if older:
        lines.append(f"{plural(older, 'older repeat')} of the same configuration and seed left out")
    skipped = [(s, g) for g in groups for name in g.metric_names if (s := g.summary(name)) is None or s.skipped]
    if skipped:
        lines.append(f"values that are NaN or infinite left out of {skipped[0][1].label}")
    if mixed:
        lines.append("grouped as asked: runs in one row may differ in other settings")
    return lines


def published_notes(tables: Sequence[ResultTable], published: Sequence[Published]) -> list[str]:
    """Says where published rows were read, and that they are no even match."""
    seen = {row.label for table in tables for row in table.published}
    sources = dict.fromkeys(part for row in published if row.label in seen for part in row.source.split("; "))
    if not sources:
        return []
    return [
        "published rows, never marked, come from other sizes of models, other amounts of training data and whole "
        "official splits: " + "; ".join(sources)
    ]
