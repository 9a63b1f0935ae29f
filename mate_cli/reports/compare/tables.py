"""The tables of a comparison as plain values, and figures that papers print, a file per dataset in `published/`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import resources
from itertools import islice
from typing import Any, Literal

from omegaconf import OmegaConf

from mate_cli.metrics.specs import BASELINE, OTHER, SPLITS, USER_KIND, MetricName, MetricTable, metric_specs
from mate_cli.reports.compare.configuration import (
    Configuration,
    count,
    count_questions,
    join_folds,
    known_metrics,
    mean_over_folds,
)
from mate_cli.reports.compare.statistics import Statistic, Summary, is_finite, summarize
from mate_cli.reports.format import center_text
from mate_cli.reports.runs.load import LoadedRun

MAX_COLUMNS, MAX_OUTCOMES = 6, 8
"""Columns of a table, and rows of a baseline that depends on what a run was trained with."""
Mark = Literal["best", "close", ""]


@dataclass(frozen=True)
class ResultRow:
    """A configuration's, a baseline's or a paper's line: one summary per column, None where it has no such metric.

    Args:
        label: its name, the same in every table.
        repeats: how many runs the line sums up, None for what is no configuration.
        cells: the summaries.
    """

    label: str
    repeats: int | None
    cells: tuple[Summary | None, ...]


@dataclass(frozen=True)
class ResultTable:
    """Metrics of one kind on one dataset.

    Args:
        title: what is measured, on what.
        block: of configurations that were asked the same questions.
        questions: how many these are, in words; empty where nobody knows.
        columns: the metrics.
        rows: the configurations, best first.
        baselines: rows that runs recorded beside their own, never the best.
        published: rows of papers, never the best.
    """

    title: str
    block: str
    questions: str
    columns: tuple[MetricName, ...]
    rows: tuple[ResultRow, ...]
    baselines: tuple[ResultRow, ...] = ()
    published: tuple[ResultRow, ...] = ()

    def part_title(self, column: int) -> str:
        """Name the subset of a column with the number of its questions, `In-Table (22)`, if all rows share it."""
        counts = {cell.questions for row in self.rows if (cell := row.cells[column])}
        return sized_title(self.columns[column].part_title, counts.pop() if len(counts) == 1 else None)

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

    def mark(self, column: int, cell: Summary | None) -> Mark:
        """Say whether a cell is the best of its column, or within the error of the best, or neither.

        What is equal to the best in print is best too; what `Summary.is_close` to it is close.
        """
        best, metric = self.best[column], self.columns[column]
        if cell is None or best is None:
            return ""
        if center_text(cell, metric) == center_text(best, metric):
            return "best"
        return "close" if best.is_close(cell) else ""

    @cached_property
    def best(self) -> tuple[Summary | None, ...]:
        """The best of each column; None where nothing differs from it by more than chance explains."""
        return tuple(self._best(column, metric) for column, metric in enumerate(self.columns))

    def _best(self, column: int, metric: MetricName) -> Summary | None:
        rivals = [rival for row in self.rows if (rival := row.cells[column]) is not None]
        if not rivals or not metric.direction:
            return None
        best = max(rivals, key=lambda rival: metric.direction * rival.center)
        text = center_text(best, metric)
        # A share of an unknown number of questions is never told from another one.
        judged = [rival for rival in rivals if rival.questions or not metric.is_share]
        differs = best in judged and any(
            center_text(rival, metric) != text and not best.is_close(rival) for rival in judged
        )
        return best if differs else None


def result_tables(groups: Sequence[Configuration], *, published: bool = True, wide: bool = False) -> list[ResultTable]:
    """Build a table per set of questions and kind of metrics; those of the test split stand apart, after all others.

    Args:
        groups: the configurations, in the order of the rows.
        published: add what papers report on the dataset.
        wide: put all splits beside each other, as papers do, rather than keep tables within a terminal's width.
    """
    tables: list[ResultTable] = []
    blocks: dict[str, list[Configuration]] = {}
    for group in groups:
        blocks.setdefault(group.block, []).append(group)
    for members in blocks.values():
        dataset = members[0].dataset
        papers = published_results(dataset) if published else ()
        for table in sorted({spec.table: 0 for spec in metric_specs().values()} | {OTHER: 0}, key=OTHER.__eq__):
            name = table.title + (f" on {dataset}" if dataset else "")
            parts = layout(members, table, name, wide=wide)
            tables.extend(build(members, columns, title, papers) for title, columns in parts)
    return sorted(tables, key=lambda table: table.is_test)


def sized_title(title: str, questions: int | None) -> str:
    """Append a number of questions to the title of a subset; None is not shown."""
    return title if questions is None else f"{title} ({questions:,})"


def unit_of(columns: Iterable[MetricName]) -> str:
    """Return the unit of some metrics; empty where none is a share."""
    shares = [column.is_share for column in columns]
    return "in percent" if all(shares) else "shares in percent" if any(shares) else ""


def units(tables: Sequence[ResultTable]) -> str:
    """Say what the scores of tables are in: `Scores in percent`; empty where no number is a share."""
    unit = unit_of(column for table in tables for column in table.columns)
    return f"Scores {unit}" if unit == "in percent" else unit.capitalize()


def sort_by_metric(groups: Sequence[Configuration], metric: str | None) -> list[Configuration]:
    """Sort configurations by a metric, best first, those without it last in their old order; block by block.

    The data set of most runs comes first, and of its blocks that of most runs, then that of most questions.
    """
    of_dataset = Counter(group.dataset for group in groups for _ in group.runs)
    of_block = Counter(group.block for group in groups for _ in group.runs)
    datasets = list(dict.fromkeys(group.dataset for group in groups))
    sign = 1.0 if metric and MetricName.parse(metric).direction < 0 else -1.0

    def place(group: Configuration) -> tuple[object, ...]:
        summary = group.summary(metric) if metric else None
        asked = sum(map(count, group.questions.values()))
        dataset = (-of_dataset[group.dataset], datasets.index(group.dataset))
        block = (-of_block[group.block], -asked, group.block)
        return *dataset, *block, summary is None, sign * summary.center if summary else 0.0

    return sorted(groups, key=place)


def layout(
    groups: Sequence[Configuration], table: MetricTable, name: str, *, wide: bool
) -> Iterator[tuple[str, list[MetricName]]]:
    """Yield title and columns of each table of some metrics: one per split where parts of questions make it wide."""
    metrics = sorted(
        (m for m in map(MetricName.parse, known_metrics(groups)) if m.spec.table == table), key=MetricName.rank
    )
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
    kind = metric.kind if layout in ("subsets", "accuracies") or metric.kind == USER_KIND else ""
    by_split = layout == "splits" or metric.split == "test" or (kind and metric.is_crowded)
    split = metric.split if not wide and by_split else ""
    return ", ".join(filter(None, (split, kind)))


def build(
    groups: Sequence[Configuration],
    columns: list[MetricName],
    title: str,
    papers: Sequence[PublishedResult],
) -> ResultTable:
    """Fill one table with the configurations that have any of its metrics, recorded baselines and papers' figures."""
    cells = {group: tuple(group.summary(column.full) for column in columns) for group in groups}
    members = drop_copies({group: row for group, row in cells.items() if any(row)})
    rows = [ResultRow(group.label, max(cell.count for cell in cells[group] if cell), cells[group]) for group in members]
    splits = list(dict.fromkeys(column.split for column in columns))
    asked = count_questions(groups[0].questions, splits)
    if f"· {splits[0]}" in title:
        asked = asked.replace(f" {splits[0]} ", " ")
    asked = " in ".join(filter(None, (asked, groups[0].folds)))
    figures = [(paper.label, tuple(paper_cell(paper, column.full) for column in columns)) for paper in papers]
    published = [ResultRow(label, None, cells) for label, cells in figures if any(cells)]
    baselines = baseline_rows(groups, columns)
    return ResultTable(title, groups[0].block, asked, tuple(columns), tuple(rows), tuple(baselines), tuple(published))


def drop_copies(cells: dict[Configuration, tuple[Summary | None, ...]]) -> list[Configuration]:
    """Leave a stage out where the pipeline it ran in repeats its figures: they are one result, not two."""
    owners: dict[LoadedRun | None, Configuration] = {run: group for group in cells for run in group.runs}
    wholes = {group: [owners.get(run.parent) for run in group.runs] for group in cells}
    return [part for part in cells if not all(whole and cells[whole] == cells[part] for whole in wholes[part])]


def paper_cell(paper: PublishedResult, metric: str) -> Summary | None:
    """Return a published figure with its own error, None where there is none."""
    if metric not in paper.metrics or (summary := summarize([paper.metrics[metric]])) is None:
        return None
    return replace(summary, half_range=paper.errors.get(metric))


def baseline_rows(groups: Iterable[Configuration], columns: Sequence[MetricName]) -> list[ResultRow]:
    """Build a row per baseline that any run recorded, such as `baseline/tfidf/dev/hits@1`.

    One that depends on what a run was trained with has a row per outcome, eight at most, named after a configuration.
    """
    recorded: dict[str, dict[tuple[float | None, ...], str]] = {}
    for group in groups:
        for folds in join_folds(group.counted):
            every = {name for run in folds for name in run.metrics if name.startswith(BASELINE)}
            for name in sorted({name.removeprefix(BASELINE).partition("/")[0] for name in every}):
                means = []
                for metric in (f"{BASELINE}{name}/{column.full}" for column in columns):
                    mean = mean_over_folds([(run, run.metrics.get(metric, math.nan)) for run in folds], metric)
                    means.append(round(mean, 6) if is_finite(mean) else None)
                if any(mean is not None for mean in means):
                    recorded.setdefault(name, {}).setdefault(tuple(means), group.label)
    rows = []
    for name, outcomes in recorded.items():
        for values, label in islice(outcomes.items(), MAX_OUTCOMES):
            title = f"{name.replace('_', ' ')} baseline" + (f", {label}" if len(outcomes) > 1 else "")
            cells = tuple(None if value is None else summarize([value]) for value in values)
            rows.append(ResultRow(title, None, cells))
    return rows


@dataclass(frozen=True)
class PublishedResult:
    """One row of a paper's table.

    Args:
        label: its name there.
        model: the name that `model=` gives the same network or system.
        metrics: its figures as fractions, under the full names that runs use, such as `dev/em/table`.
        source: where the figures were read.
        errors: what is printed behind ± of some of them, likewise.
        best: of the runs behind some of them, likewise.
        statistic: whether a figure is the median of several runs or their mean, and its error goes with it.
        examples_per_second: of training, on the machine of the paper; None where it is not printed.
    """

    label: str
    model: str
    metrics: Mapping[str, float]
    source: str
    errors: Mapping[str, float] = field(default_factory=dict)
    best: Mapping[str, float] = field(default_factory=dict)
    statistic: Statistic = "median"
    examples_per_second: float | None = None


@cache
def published_results(dataset: str) -> tuple[PublishedResult, ...]:
    """Return the figures published for a dataset, best first as the file lists them; none for an unknown one."""
    files = resources.files("mate_cli.reports").joinpath("published").iterdir()
    file = next((file for file in files if file.name == f"{dataset}.yaml"), None)
    content: Any = OmegaConf.to_container(OmegaConf.create(file.read_text(encoding="utf-8"))) if file else {"rows": ()}
    return tuple(published_row(row, content["sources"], content.get("statistic", "median")) for row in content["rows"])


def published_row(row: Mapping[str, Any], sources: Mapping[str, str], statistic: Statistic) -> PublishedResult:
    """Return one entry of a file with what a second source adds to it: its percent as fractions, its sources joined."""
    parts = [row, *([row["also"]] if "also" in row else [])]
    source = "; ".join(sources[part["source"]] for part in parts)
    figures: dict[str, dict[str, float]] = {
        key: {name: value / MetricName.parse(name).scale for part in parts for name, value in part.get(key, {}).items()}
        for key in ("metrics", "errors", "best")
    }
    speed = row.get("examples_per_second")
    return PublishedResult(
        row["label"], row["model"], source=source, statistic=statistic, examples_per_second=speed, **figures
    )
