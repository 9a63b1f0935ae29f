"""The tables of a comparison as plain values; terminal.py and html.py only decide how they look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from mate_cli.reports.format import center_text
from mate_cli.reports.grouping import Configuration
from mate_cli.reports.metric_names import BASELINE, MetricName
from mate_cli.reports.statistics import Summary, summarize

TITLES = {
    "hits": "Cell selection",
    "answers": "Question answering",
    "reading": "Reading in the right cell",
    "other": "Other metrics",
}
MOST_COLUMNS = 6
ROUNDING = 1e-12
Mark = Literal["best", "close", ""]


@dataclass(frozen=True)
class Row:
    """A configuration's (or a baseline's) line: one summary per column, None where it has no such metric.

    `repeats` is how many runs the line averages over, None for a baseline.
    """

    label: str
    repeats: int | None
    cells: tuple[Summary | None, ...]


@dataclass(frozen=True)
class ResultTable:
    """Metrics of one family on one dataset; baselines are rows apart, never the best."""

    title: str
    columns: tuple[MetricName, ...]
    rows: tuple[Row, ...]
    baselines: tuple[Row, ...] = ()

    @property
    def one_split(self) -> bool:
        """Whether the title says the split, so that headings need only say the part of the questions."""
        return len({column.split for column in self.columns}) == 1 and any(column.part for column in self.columns)

    def is_best(self, column: int, cell: Summary | None) -> bool:
        """Says whether a cell is the best of its column, see `mark`."""
        return self.mark(column, cell) == "best"

    def mark(self, column: int, cell: Summary | None) -> Mark:
        """Says whether a cell is the best of its column, or within the error of the best, or neither.

        Only where at least two configurations compete. What is equal to the best in print is best too; within its
        error is what lies no further from the best than the best's own spread.
        """
        metric = self.columns[column]
        rivals = [rival for row in self.rows if (rival := row.cells[column]) is not None]
        if cell is None or len(rivals) < 2 or not metric.direction:
            return ""
        best = max(rivals, key=lambda rival: metric.direction * rival.center)
        if center_text(cell, metric) == center_text(best, metric):
            return "best"
        return "close" if abs(best.center - cell.center) <= (best.spread or 0.0) + ROUNDING else ""


def result_tables(groups: Sequence[Configuration], main: str | None) -> list[ResultTable]:
    """Builds a table per dataset and family of metrics, rows sorted by the main metric, best first."""
    tables = []
    datasets = list(dict.fromkeys(dataset_of(group) for group in groups))
    for dataset in datasets:
        members = by_metric([group for group in groups if dataset_of(group) == dataset], main)
        for family in TITLES:
            name = TITLES[family] + (f" on {dataset}" if dataset else "")
            tables.extend(family_tables(members, family, name))
    return tables


def dataset_of(group: Configuration) -> str:
    """Returns the dataset its runs used, several joined."""
    return ", ".join(sorted({run.setting("dataset") for run in group.runs} - {""}))


def by_metric(groups: Sequence[Configuration], metric: str | None) -> list[Configuration]:
    """Sorts configurations by a metric, best first, those without it last in their old order."""
    if metric is None:
        return list(groups)
    sign = 1.0 if MetricName.parse(metric).direction < 0 else -1.0

    def place(group: Configuration) -> tuple[bool, float]:
        summary = group.summary(metric)
        return (summary is None, sign * summary.center if summary else 0.0)

    return sorted(groups, key=place)


def family_tables(groups: list[Configuration], family: str, title: str) -> list[ResultTable]:
    """Builds the tables of one family: one for all splits, or one per split where parts make them wide."""
    names = {name for group in groups for name in group.metric_names}
    metrics = sorted((m for m in map(MetricName.parse, names) if m.family == family), key=MetricName.rank)
    if family == "other":
        metrics = [metric for metric in metrics if metric.split == "test"] or metrics
    halves: dict[str, list[MetricName]] = {}
    for metric in metrics:
        by_split = family in ("answers", "reading")
        overall = not metric.part or by_split
        split = metric.split if by_split else ("" if overall else f"{metric.split}, by place of the answer")
        halves.setdefault(split, []).append(metric)
    return [
        build(groups, columns[start : start + MOST_COLUMNS], f"{title} · {half}" if half else title)
        for half, columns in sorted(halves.items(), key=lambda item: item[0] != "")
        for start in range(0, len(columns), MOST_COLUMNS)
    ]


def build(groups: list[Configuration], columns: list[MetricName], title: str) -> ResultTable:
    """Fills one table with the configurations that have any of its metrics, and the recorded baselines."""
    rows = [result_row(group, columns) for group in groups]
    return ResultTable(
        title,
        tuple(columns),
        tuple(row for row in rows if any(row.cells)),
        tuple(baseline_rows(groups, columns)),
    )


def result_row(group: Configuration, columns: Sequence[MetricName]) -> Row:
    """Summarises one configuration, repeats being the most runs behind any of its numbers."""
    cells = tuple(group.summary(column.full) for column in columns)
    return Row(group.label, max((cell.count for cell in cells if cell), default=0), cells)


def baseline_rows(groups: Iterable[Configuration], columns: Sequence[MetricName]) -> list[Row]:
    """Builds a row per baseline that any run recorded, such as `baseline/tfidf/dev/hits@1`."""
    recorded: dict[str, dict[str, list[float]]] = {}
    for run in (run for group in groups for run in group.counted):
        for name, value in run.metrics.items():
            if name.startswith(BASELINE):
                baseline, _, metric = name.removeprefix(BASELINE).partition("/")
                recorded.setdefault(baseline, {}).setdefault(metric, []).append(value)
    rows = [
        Row(f"{name} baseline", None, tuple(summarize(sorted(set(values.get(column.full, [])))) for column in columns))
        for name, values in recorded.items()
    ]
    return [row for row in rows if any(row.cells)]
