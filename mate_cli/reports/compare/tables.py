"""Result tables of a comparison as data, and published results.

The package folder `published/` contains one file of published results per dataset.
"""

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

from mate_cli.metrics.specs import BASELINE, OTHER, SPLITS, USER_KIND, MetricName, MetricTable, Score, metric_specs
from mate_cli.reports.compare.configuration import (
    Configuration,
    count_questions,
    join_folds,
    known_metrics,
    mean_over_folds,
)
from mate_cli.reports.compare.statistics import Statistic, Summary, is_finite, summarize
from mate_cli.reports.runs.load import LoadedRun, count

MAX_COLUMNS, MAX_OUTCOMES = 6, 8
"""Maximum number of columns of a table, and maximum number of rows of one baseline."""
UNKNOWN = Score(math.nan, None)
Mark = Literal["best", "close", ""]


@dataclass(frozen=True)
class ResultRow:
    """A row of a result table: the scores of a configuration, baseline or paper.

    Args:
        label: display name, the same in every table.
        repeats: number of runs that the row summarizes, None for rows that are not configurations.
        cells: summary of each column's metric, None if the row has no such metric.
        configuration: the summarized configuration, None for baselines and published results.
    """

    label: str
    repeats: int | None
    cells: tuple[Summary | None, ...]
    configuration: Configuration | None = None


@dataclass(frozen=True)
class ResultTable:
    """Scores of configurations on one dataset: a column per metric, a row per configuration.

    Args:
        title: name of the metrics and the dataset.
        block: block of configurations that were scored on the same questions.
        questions: number of questions as text, empty if unknown.
        columns: metrics.
        rows: configurations, best first.
        baselines: baselines that runs recorded alongside their metrics. They are never marked as best.
        published: results of papers. They are never marked as best.
    """

    title: str
    block: str
    questions: str
    columns: tuple[MetricName, ...]
    rows: tuple[ResultRow, ...]
    baselines: tuple[ResultRow, ...] = ()
    published: tuple[ResultRow, ...] = ()

    def part_title(self, column: int) -> str:
        """Return the title of a column's question subset with its size, as in `In-Table (22)`.

        Args:
            column: index of the column.
        """
        counts = {cell.questions for row in self.rows if (cell := row.cells[column])}
        return sized_title(self.columns[column].part_title, counts.pop() if len(counts) == 1 else None)

    @property
    def is_test(self) -> bool:
        """True if all metrics are on the test split, which must not be used for model selection."""
        return {column.split for column in self.columns} == {"test"}

    @property
    def one_split(self) -> bool:
        """True if all columns are of one split, which the table title names.

        Column headings then name the question subset.
        """
        return len({column.split for column in self.columns}) == 1 and any(column.part for column in self.columns)

    @property
    def one_part(self) -> bool:
        """True if all columns are of one question subset, which the table title names.

        Column headings then name the split.
        """
        first = self.columns[0]
        return {column.part for column in self.columns} == {first.part} and first.is_alone

    @property
    def one_score(self) -> bool:
        """True if all columns are of one split and one metric, which the table title names.

        Column headings then name the question subset.
        """
        specs = {column.spec for column in self.columns}
        return self.one_split and not self.one_part and [spec.table.layout for spec in specs] == ["accuracies"]

    def mark(self, column: int, cell: Summary | None) -> Mark:
        """Return how to mark a score in its column: "best", "close" to the best, or "".

        Cells that print the same text as the best cell are best, too. Cells are close according to `Summary.is_close`.

        Args:
            column: index of the column.
            cell: summary of the metric, None if missing.
        """
        best_cell, metric = self.best[column], self.columns[column]
        if cell is None or best_cell is None:
            return ""
        if metric.spec.text(cell.center) == metric.spec.text(best_cell.center):
            return "best"
        return "close" if best_cell.is_close(cell) else ""

    @cached_property
    def best(self) -> tuple[Summary | None, ...]:
        """Best score of each column. None if all scores of the column are about equal.

        Scores are about equal if no score is worse by more than sampling noise.
        """
        return tuple(self._best(column, metric) for column, metric in enumerate(self.columns))

    def _best(self, column: int, metric: MetricName) -> Summary | None:
        rivals = [rival for row in self.rows if (rival := row.cells[column]) is not None]
        if not rivals or not metric.spec.direction:
            return None
        best_cell = max(rivals, key=lambda rival: metric.spec.direction * rival.center)
        text = metric.spec.text(best_cell.center)
        # The sampling noise of a share is unknown without its number of questions, so it is never considered different.
        judged = [rival for rival in rivals if rival.questions or not metric.spec.is_share]
        differs = best_cell in judged and any(
            metric.spec.text(rival.center) != text and not best_cell.is_close(rival) for rival in judged
        )
        return best_cell if differs else None


def result_tables(groups: Sequence[Configuration], *, published: bool = True, wide: bool = False) -> list[ResultTable]:
    """Build the result tables of a comparison of runs: one table per type of metric.

    Tables of the test split are last.

    Args:
        groups: configurations, in the order of the rows.
        published: whether to add published results on the dataset.
        wide: whether all splits are columns of one table, as in papers. Otherwise tables fit the width of a terminal.
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
    """Append the number of questions, if known, to the title of a question subset."""
    return title if questions is None else f"{title} ({questions:,})"


def unit_of(columns: Iterable[MetricName]) -> str:
    """Return the unit of the scores of metrics: "in percent" for fractions, else "".

    "shares in percent" if only some metrics are shares.
    """
    shares = [column.spec.is_share for column in columns]
    return "in percent" if all(shares) else "shares in percent" if any(shares) else ""


def units(tables: Sequence[ResultTable]) -> str:
    """Describe the unit of the scores in tables, as in `Scores in percent`.

    The result is empty if no score is a share.
    """
    unit = unit_of(column for table in tables for column in table.columns)
    return f"Scores {unit}" if unit == "in percent" else unit.capitalize()


def sort_by_metric(groups: Sequence[Configuration], metric: str | None) -> list[Configuration]:
    """Sort configurations by dataset, then by scored questions, then by a metric, best first.

    Configurations without the metric come last. Datasets with most runs come first. Within a dataset, blocks with most
    runs come first, then blocks with most questions.

    Args:
        groups: configurations to sort.
        metric: full name of the metric, None for the order of appearance.
    """
    of_dataset = Counter(group.dataset for group in groups for _ in group.runs)
    of_block = Counter(group.block for group in groups for _ in group.runs)
    datasets = list(dict.fromkeys(group.dataset for group in groups))
    sign = 1.0 if metric and known_metrics(groups)[metric].spec.direction < 0 else -1.0

    def sort_key(group: Configuration) -> tuple[object, ...]:
        summary = group.summary(metric) if metric else None
        question_count = sum(map(count, group.questions.values()))
        dataset = (-of_dataset[group.dataset], datasets.index(group.dataset))
        block = (-of_block[group.block], -question_count, group.block)
        return *dataset, *block, summary is None, sign * summary.center if summary else 0.0

    return sorted(groups, key=sort_key)


def layout(
    groups: Sequence[Configuration], table: MetricTable, name: str, *, wide: bool
) -> Iterator[tuple[str, list[MetricName]]]:
    """Yield (title, metrics) of the tables that show the metrics of one `MetricTable`.

    Metrics of a type are split into several tables if question subsets make the table too wide.

    Args:
        groups: configurations whose metrics are shown.
        table: type of metrics.
        name: title without subset and split.
        wide: see `result_tables`.
    """
    names = known_metrics(groups).values()
    metrics = sorted((metric for metric in names if metric.spec.table == table), key=MetricName.rank)
    if table.layout == "accuracies" and not wide:
        tested = {(metric.score, metric.part) for metric in metrics if metric.split == "test"}
        metrics = [m for m in metrics if m.split == "test" or not m.is_crowded or (m.score, m.part) not in tested]
    parts: dict[str, list[MetricName]] = {}
    for metric in metrics:
        parts.setdefault(part_title(metric, wide=wide), []).append(metric)
    max_columns = 2 * MAX_COLUMNS if wide else MAX_COLUMNS
    for part, columns in sorted(parts.items(), key=lambda item: item[0] not in ("", *SPLITS)):
        title = f"{name} · {part}" if part else name
        for number, start in enumerate(range(0, len(columns), max_columns), 1):
            yield (f"{title} ({number})" if number > 1 else title), columns[start : start + max_columns]


def part_title(metric: MetricName, *, wide: bool) -> str:
    """Return the part of a table title that names the split or the type of question subsets.

    The result is empty for the first table of each type of metrics.
    """
    layout = metric.spec.table.layout
    kind = metric.kind if layout in ("subsets", "accuracies") or metric.kind == USER_KIND else ""
    by_split = layout == "splits" or metric.split == "test" or (kind and metric.is_crowded)
    split = metric.split if not wide and by_split else ""
    return ", ".join(filter(None, (split, kind)))


def build(
    groups: Sequence[Configuration], columns: list[MetricName], title: str, papers: Sequence[PublishedResult]
) -> ResultTable:
    """Build a result table with a row per configuration, baseline and published result.

    Rows without any of the metrics are omitted.

    Args:
        groups: configurations of one block.
        columns: metrics of the table.
        title: title of the table.
        papers: published results on the dataset.
    """
    cells = {group: tuple(group.summary(column.full) for column in columns) for group in groups}
    members = drop_copies({group: row for group, row in cells.items() if any(row)})
    rows = [
        ResultRow(group.label, max(cell.count for cell in cells[group] if cell), cells[group], group)
        for group in members
    ]
    splits = list(dict.fromkeys(column.split for column in columns))
    question_text = count_questions(groups[0].questions, splits)
    if f"· {splits[0]}" in title:
        question_text = question_text.replace(f" {splits[0]} ", " ")
    question_text = " in ".join(filter(None, (question_text, groups[0].folds)))
    paper_rows = [(paper.label, tuple(paper_cell(paper, column.full) for column in columns)) for paper in papers]
    published = [ResultRow(label, None, cells) for label, cells in paper_rows if any(cells)]
    baselines = baseline_rows(groups, columns)
    return ResultTable(
        title, groups[0].block, question_text, tuple(columns), tuple(rows), tuple(baselines), tuple(published)
    )


def drop_copies(cells: dict[Configuration, tuple[Summary | None, ...]]) -> list[Configuration]:
    """Drop the rows of pipeline stages that only repeat the scores of their pipeline."""
    owners: dict[LoadedRun | None, Configuration] = {run: group for group in cells for run in group.runs}
    pipelines = {group: [owners.get(run.parent) for run in group.runs] for group in cells}
    return [
        part for part in cells if not all(pipeline and cells[pipeline] == cells[part] for pipeline in pipelines[part])
    ]


def paper_cell(paper: PublishedResult, metric: str) -> Summary | None:
    """Return the score and error that a paper reports for a metric, or None."""
    if metric not in paper.metrics or (summary := summarize([paper.metrics[metric]])) is None:
        return None
    return replace(summary, half_range=paper.errors.get(metric))


def baseline_rows(groups: Iterable[Configuration], columns: Sequence[MetricName]) -> list[ResultRow]:
    """Build the table rows of baselines, such as `tfidf`, from the scores that runs recorded."""
    values_by_baseline: dict[str, dict[tuple[float | None, ...], str]] = {}
    for group in groups:
        for folds in join_folds(group.counted):
            for name in sorted({name.baseline for run in folds for name in run.names.values() if name.baseline}):
                means = []
                for metric in (f"{BASELINE}{name}/{column.full}" for column in columns):
                    mean = mean_over_folds([run.metrics.get(metric, UNKNOWN) for run in folds])
                    means.append(round(mean, 6) if is_finite(mean) else None)
                if any(mean is not None for mean in means):
                    values_by_baseline.setdefault(name, {}).setdefault(tuple(means), group.label)
    rows = []
    for name, outcomes in values_by_baseline.items():
        for values, label in islice(outcomes.items(), MAX_OUTCOMES):
            title = f"{name.replace('_', ' ')} baseline" + (f", {label}" if len(outcomes) > 1 else "")
            cells = tuple(None if value is None else summarize([value]) for value in values)
            rows.append(ResultRow(title, None, cells))
    return rows


@dataclass(frozen=True)
class PublishedResult:
    """A row of a table in a paper: the published scores of a network or system.

    Args:
        label: name in the paper.
        model: `model=` option of the same network or system.
        metrics: scores as fractions, under the full names that runs use, such as `dev/em/table`.
        source: publication of the scores.
        errors: errors printed after ± in the paper, as fractions under full metric names.
        best: scores of the best of several runs, as fractions under full metric names.
        statistic: whether a score is the median or the mean of several runs, which determines the meaning of its error.
        examples_per_second: training speed on the machine of the paper, None if not reported.
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
    """Load the results that papers report on a dataset, best first.

    The result is empty if `published/` has no file for the dataset.
    """
    files = resources.files("mate_cli.reports").joinpath("published").iterdir()
    file = next((file for file in files if file.name == f"{dataset}.yaml"), None)
    content: Any = OmegaConf.to_container(OmegaConf.create(file.read_text(encoding="utf-8"))) if file else {"rows": ()}
    return tuple(published_row(row, content["sources"], content.get("statistic", "median")) for row in content["rows"])


def published_row(row: Mapping[str, Any], sources: Mapping[str, str], statistic: Statistic) -> PublishedResult:
    """Convert an entry of a file of published results, whose percentages become fractions.

    If the entry has `also`, scores and source of a second paper are merged in.

    Args:
        row: entry of the file, with scores in percent.
        sources: full source of each short name.
        statistic: statistic of all rows of the file.
    """
    parts = [row, *([row["also"]] if "also" in row else [])]
    source = "; ".join(sources[part["source"]] for part in parts)
    figures: dict[str, dict[str, float]] = {
        key: {
            name: value / MetricName.parse(name).spec.scale
            for part in parts
            for name, value in part.get(key, {}).items()
        }
        for key in ("metrics", "errors", "best")
    }
    speed = row.get("examples_per_second")
    return PublishedResult(
        row["label"], row["model"], source=source, statistic=statistic, examples_per_second=speed, **figures
    )
