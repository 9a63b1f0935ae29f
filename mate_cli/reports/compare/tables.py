"""The tables of a comparison as plain values; the terminal, the page and the files only decide how they look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mate_cli.metrics.specs.names import BASELINE, SPLITS, MetricName
from mate_cli.metrics.specs.spec import OTHER, MetricTable, metric_specs
from mate_cli.reports.compare.grouping import Configuration, short_labels
from mate_cli.reports.compare.published import PublishedResult, published_results
from mate_cli.reports.compare.statistics import Summary, summarize
from mate_cli.reports.format import center_text

MAX_COLUMNS = 6
ROUNDING = 1e-12
Mark = Literal["best", "close", ""]


@dataclass(frozen=True)
class ResultRow:
    """A configuration's, a baseline's or a paper's line: one summary per column, None where it has no such metric.

    Args:
        label: its name, the same in every table.
        repeats: how many runs the line sums up, None for what is no configuration.
        cells: the summaries.
        short: a shorter name, unlike the other configurations' in this table only.
    """

    label: str
    repeats: int | None
    cells: tuple[Summary | None, ...]
    short: str = ""


@dataclass(frozen=True)
class ResultTable:
    """Metrics of one kind on one dataset.

    Args:
        title: what is measured, on what.
        dataset: on what.
        columns: the metrics.
        rows: the configurations, best first.
        baselines: rows that runs recorded beside their own, never the best.
        published: rows of papers, never the best.
    """

    title: str
    dataset: str
    columns: tuple[MetricName, ...]
    rows: tuple[ResultRow, ...]
    baselines: tuple[ResultRow, ...] = ()
    published: tuple[ResultRow, ...] = ()

    @property
    def is_test(self) -> bool:
        """True if all of its metrics are of the test split, by which nothing may be chosen."""
        return {column.split for column in self.columns} == {"test"}

    @property
    def one_split(self) -> bool:
        """True if the title says the split, so that headings need only say the part of the questions."""
        return len({column.split for column in self.columns}) == 1 and any(column.part for column in self.columns)

    @property
    def one_part(self) -> bool:
        """True if the title says the part of the questions, so that headings need only say the split."""
        first = self.columns[0]
        return {column.part for column in self.columns} == {first.part} and first.is_alone

    @property
    def one_score(self) -> bool:
        """True if the title says the score as well, so that headings need only say the part of the questions."""
        specs = {column.spec for column in self.columns}
        return self.one_split and not self.one_part and [spec.table.layout for spec in specs] == ["accuracies"]

    @property
    def unit(self) -> str:
        """The unit of the numbers: `in percent`, or `shares in percent` beside others; empty where none is a share."""
        shares = [column.is_share for column in self.columns]
        return "in percent" if all(shares) else "shares in percent" if any(shares) else ""

    @property
    def marks(self) -> frozenset[Mark]:
        """The marks that occur."""
        return frozenset(self.mark(column, cell) for row in self.rows for column, cell in enumerate(row.cells))

    def mark(self, column: int, cell: Summary | None) -> Mark:
        """Say whether a cell is the best of its column, or within the error of the best, or neither.

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


def result_tables(groups: Sequence[Configuration], *, published: bool = True, wide: bool = False) -> list[ResultTable]:
    """Build a table per dataset and kind of metrics; those of the test split stand apart, after all others.

    Args:
        groups: the configurations, in the order of the rows.
        published: add what papers report on the dataset.
        wide: put all splits beside each other, as papers do, rather than keep tables within a terminal's width.
    """
    tables: list[ResultTable] = []
    datasets = list(dict.fromkeys(group.dataset for group in groups))
    for dataset in datasets:
        members = [group for group in groups if group.dataset == dataset]
        papers = published_results(dataset) if published else ()
        for table in metric_tables():
            name = table.title + (f" on {dataset}" if dataset else "")
            parts = layout(members, table, name, wide=wide)
            tables.extend(build(members, columns, title, dataset, papers) for title, columns in parts)
    return sorted(tables, key=lambda table: table.is_test)


def units(tables: Sequence[ResultTable]) -> str:
    """Say what the scores of tables are in: `Scores in percent`; empty where no number is a share."""
    found = {table.unit for table in tables}
    if found <= {"in percent"}:
        return "Scores in percent"
    return "" if found == {""} else "Shares in percent"


def metric_tables() -> list[MetricTable]:
    """List the tables that metrics stand in, in the order of their first metrics; the other metrics come last."""
    tables = dict.fromkeys(spec.table for spec in metric_specs().values())
    return [*(table for table in tables if table != OTHER), OTHER]


def sort_by_metric(groups: Sequence[Configuration], metric: str | None) -> list[Configuration]:
    """Sort configurations by a metric, best first, those without it last in their old order."""
    if metric is None:
        return list(groups)
    sign = 1.0 if MetricName.parse(metric).direction < 0 else -1.0

    def place(group: Configuration) -> tuple[bool, float]:
        summary = group.summary(metric)
        return (summary is None, sign * summary.center if summary else 0.0)

    return sorted(groups, key=place)


def layout(
    groups: Sequence[Configuration], table: MetricTable, name: str, *, wide: bool
) -> Iterator[tuple[str, list[MetricName]]]:
    """Yield title and columns of each table of some metrics: one per split where parts of questions make it wide."""
    names = {name for group in groups for name in group.metric_names}
    metrics = sorted((m for m in map(MetricName.parse, names) if m.spec.table == table), key=MetricName.rank)
    if table.layout == "accuracies" and not wide:
        tested = {(metric.score, metric.part) for metric in metrics if metric.split == "test"}
        metrics = [m for m in metrics if m.split == "test" or not m.is_crowded or (m.score, m.part) not in tested]
    parts: dict[str, list[MetricName]] = {}
    for metric in metrics:
        parts.setdefault(part_title(metric, wide=wide), []).append(metric)
    most = 2 * MAX_COLUMNS if wide else MAX_COLUMNS
    for part, columns in sorted(parts.items(), key=lambda item: item[0] not in ("", *SPLITS)):
        title = f"{name} · {part}" if part else name
        for number, start in enumerate(range(0, len(columns), most), 1):
            yield (f"{title} ({number})" if number > 1 else title), columns[start : start + most]


def part_title(metric: MetricName, *, wide: bool) -> str:
    """Say which table of its kind a metric belongs to, empty for the first."""
    layout = metric.spec.table.layout
    kind = metric.kind if layout in ("subsets", "accuracies") else ""
    by_split = layout == "splits" or metric.split == "test" or (kind and metric.is_crowded)
    split = metric.split if not wide and by_split else ""
    return ", ".join(filter(None, (split, kind)))


def build(
    groups: Sequence[Configuration],
    columns: list[MetricName],
    title: str,
    dataset: str,
    papers: Sequence[PublishedResult],
) -> ResultTable:
    """Fill one table with the configurations that have any of its metrics, recorded baselines and papers' figures."""
    cells = {group: tuple(group.summary(column.full) for column in columns) for group in groups}
    members = drop_copies({group: row for group, row in cells.items() if any(row)})
    rows = [
        ResultRow(group.label, max(cell.count for cell in cells[group] if cell), cells[group], short)
        for group, short in zip(members, short_labels(members), strict=True)
    ]
    baselines, published = baseline_rows(groups, columns), paper_rows(papers, columns)
    return ResultTable(title, dataset, tuple(columns), tuple(rows), tuple(baselines), tuple(published))


def drop_copies(cells: dict[Configuration, tuple[Summary | None, ...]]) -> list[Configuration]:
    """Leave a stage out where the pipeline it ran in repeats its figures: they are one result, not two."""
    owners = {run: group for group in cells for run in group.runs}

    def is_copy(group: Configuration) -> bool:
        pipelines = {owners.get(run.parent) if run.parent else None for run in group.runs}
        return all(pipeline is not None and cells[pipeline] == cells[group] for pipeline in pipelines)

    return [group for group in cells if not is_copy(group)]


def paper_rows(papers: Iterable[PublishedResult], columns: Sequence[MetricName]) -> Iterator[ResultRow]:
    """Yield a row per published result that has a figure for any of the columns."""
    for paper in papers:
        cells = tuple(paper_cell(paper, column.full) for column in columns)
        if any(cells):
            yield ResultRow(paper.label, None, cells)


def paper_cell(paper: PublishedResult, metric: str) -> Summary | None:
    """Return a published figure with its own error, None where there is none."""
    if metric not in paper.metrics or (summary := summarize([paper.metrics[metric]])) is None:
        return None
    return replace(summary, half_range=paper.errors.get(metric))


def baseline_rows(groups: Iterable[Configuration], columns: Sequence[MetricName]) -> list[ResultRow]:
    """Build a row per baseline that any run recorded, such as `baseline/tfidf/dev/hits@1`."""
    recorded: dict[str, dict[str, list[float]]] = {}
    for run in (run for group in groups for run in group.counted):
        for name, value in run.metrics.items():
            if name.startswith(BASELINE):
                baseline, _, metric = name.removeprefix(BASELINE).partition("/")
                recorded.setdefault(baseline, {}).setdefault(metric, []).append(value)
    rows = [
        ResultRow(
            f"{name.replace('_', ' ')} baseline",
            None,
            tuple(summarize(sorted(set(values.get(column.full, [])))) for column in columns),
        )
        for name, values in recorded.items()
    ]
    return [row for row in rows if any(row.cells)]
