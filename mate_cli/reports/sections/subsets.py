"""Scores by place of the answer and size of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from mate_cli.metrics.specs import MetricName, subset_specs
from mate_cli.metrics.subsets import IN_PASSAGE, IN_TABLE
from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.questions import Share, Subset, scores_by_size, scores_by_source
from mate_cli.reports.compare.report import Report
from mate_cli.reports.page.page_data import blocks_of, score_names
from mate_cli.reports.sections.results import result_cell
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell

MAX_ROWS = 12
Members = Sequence[tuple[int, Configuration]]
"""Configurations of one block, each with its place among all."""
Way = Callable[[Members, MetricName], View | None]


def report_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return a table per way to split the questions, None when no run says how to."""
    if report.metric is None:
        return None
    groups = report.groups[:MAX_ROWS]
    names = blocks_of(report)
    families = {name: [place for place in enumerate(groups) if place[1].block == name] for name in names}
    views = [
        replace(view, title=f"{view.title}, {name}" if len(names) > 1 else view.title)
        for name, members in families.items()
        for split in list_splits()
        if (view := first_table(report, members, split))
    ]
    if not views:
        return None
    hint = f"best {MAX_ROWS} of {len(report.groups)}" if len(report.groups) > MAX_ROWS else ""
    spread = any(cell.spread for view in views for row in view.rows for cell in row.cells)
    notes = ("± is the spread over seeds; by cells of the table the standard error over n questions",) * spread
    return ReportSection("subsets", "Scores on parts of the questions", "Parts", tuple(views), notes, hint)


def first_table(report: Report, groups: Members, split: Way) -> View | None:
    """Split the main metric, or the most telling one that can be split."""
    wholes = (metric for metric in map(MetricName.parse, score_names(report)) if not metric.part)
    return next((table for whole in wholes if (table := split(groups, whole)) is not None), None)


def source_table(groups: Members, whole: MetricName) -> View | None:
    """Split by where the answer stands: from the runs' own metrics, else from their predictions."""
    kind = IN_TABLE.kind
    names = [part_name(groups, whole, part) for part in (IN_TABLE.name, IN_PASSAGE.name)]
    return metric_table(groups, whole, kind, names) or question_score_table(groups, whole, scores_by_source, kind)


def kind_table(groups: Members, whole: MetricName, kind: str) -> View | None:
    """Split by what the runs' own metrics are parts of, such as `by place in the conversation`."""
    known = {MetricName.parse(name) for _, group in groups for name in group.metric_names}
    parts = [part for part in known if (part.split, part.score, part.kind) == (whole.split, whole.score, kind)]
    return metric_table(groups, whole, kind, [part.full for part in sorted(parts, key=MetricName.rank)])


def metric_table(groups: Members, whole: MetricName, kind: str, names: Sequence[str]) -> View | None:
    """Build a table of metrics for parts of the questions, with all of them last; None without any."""
    metrics = [MetricName.parse(name) for name in (*names, whole.full) if name]
    if len(metrics) < 2:
        return None
    columns = tuple(Column(metric.part_title) for metric in metrics)
    rows = [
        Row(group.label, tuple(result_cell(metric, group.summary(metric.full), "") for metric in metrics), place=place)
        for place, group in groups
    ]
    return View(f"{whole.title_with_unit} {kind}", columns, drop_empty_rows(rows), bars=True, is_repeated=True)


def part_name(groups: Members, whole: MetricName, part: str) -> str:
    """Return the metric that covers a part of the questions, empty when no configuration has it."""
    spellings = [f"{whole.split}/{whole.score}/{part}", f"{whole.split}/{part}/{whole.score}"]
    known = {name for _, group in groups for name in group.metric_names}
    return next((name for name in spellings if name in known), "")


def size_table(groups: Members, whole: MetricName) -> View | None:
    """Split by the number of cells of the table."""
    return question_score_table(groups, whole, scores_by_size, "by cells of the table")


def question_score_table(
    groups: Members,
    whole: MetricName,
    split: Callable[[Sequence[Configuration], str], tuple[Subset, ...]],
    title: str,
) -> View | None:
    """Build a table from scores of single questions, None without any."""
    subsets = split([group for _, group in groups], whole.full)
    if not subsets:
        return None
    rows = [
        Row(group.label, tuple(share_cell(subset.shares[number], whole) for subset in subsets), place=place)
        for number, (place, group) in enumerate(groups)
    ]
    heads = (f"{subset.name}\nn = {subset.count}" for subset in subsets)
    columns = tuple(Column(head, stacked=head) for head in heads)
    return View(f"{whole.title_with_unit} {title}", columns, drop_empty_rows(rows), bars=True)


def share_cell(share: Share | None, metric: MetricName) -> ViewCell:
    """Return a configuration's share of a subset, and its error."""
    if share is None:
        return ViewCell()
    error = None if share.error is None else metric.scale * share.error
    spread = "" if share.error is None else metric.spec.spread_text(share.error)
    return ViewCell(metric.spec.text(share.mean), metric.scale * share.mean, spread, error)


def drop_empty_rows(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Leave out configurations without a single score."""
    return tuple(row for row in rows if any(cell.value is not None for cell in row.cells))


def list_splits() -> Iterator[Way]:
    """Yield how questions are split, one table each."""
    yield source_table
    for kind in dict.fromkeys(spec.kind for spec in subset_specs().values()):
        if kind != IN_TABLE.kind:
            yield partial(kind_table, kind=kind)
    yield size_table
