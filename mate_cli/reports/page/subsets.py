"""Scores on parts of the questions: by where the answer stands, and by how large the table is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from mate_cli.metrics.parts import IN_PASSAGE, IN_TABLE
from mate_cli.metrics.specs.names import MetricName
from mate_cli.metrics.specs.spec import subset_specs
from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.questions import Share, Subset, scores_by_size, scores_by_source
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.tables import dataset_of
from mate_cli.reports.html_elements import Markup, element
from mate_cli.reports.page.bars import BarCell, BarLine, BarTable, bar_cell, bar_table
from mate_cli.reports.page.page_data import datasets_of, score_names

MOST_ROWS = 12
Members = Sequence[tuple[int, Configuration]]
"""Configurations of one data set, each with its place among all, which is that of its colour."""
Way = Callable[[Members, MetricName], BarTable | None]


def subsets_section(report: Report) -> Markup | None:
    """Returns a table of bars per way to split the questions, None when no run says how to."""
    if report.metric is None:
        return None
    groups = report.groups[:MOST_ROWS]
    names = datasets_of(report)
    families = {name: [place for place in enumerate(groups) if dataset_of(place[1]) == name] for name in names}
    tables = [
        replace(table, title=f"{table.title}, {name}" if len(names) > 1 else table.title)
        for name, members in families.items()
        for split in ways()
        if (table := first_table(report, members, split))
    ]
    if not tables:
        return None
    hint = f"best {MOST_ROWS} of {len(report.groups)}" if len(report.groups) > MOST_ROWS else None
    note = "± is the spread over seeds; by cells of the table the standard error over n questions."
    spread = any(cell.detail for table in tables for *_, cells in table.rows for cell in cells if cell)
    heading = element("h2", "Parts of the questions", element("small", hint) if hint else None)
    shown = [bar_table(table) for table in tables]
    return element("section", heading, shown, element("p", note, class_="note") if spread else None, id="subsets")


def first_table(report: Report, groups: Members, split: Way) -> BarTable | None:
    """Splits the main metric, or the most telling one that can be split."""
    wholes = (metric for metric in map(MetricName.parse, score_names(report)) if not metric.part)
    return next((table for whole in wholes if (table := split(groups, whole)) is not None), None)


def source_table(groups: Members, whole: MetricName) -> BarTable | None:
    """Splits by where the answer stands: from the runs' own metrics, else from their predictions."""
    kind = IN_TABLE.kind
    names = [part_name(groups, whole, part) for part in (IN_TABLE.name, IN_PASSAGE.name)]
    return recorded_table(groups, whole, kind, names) or question_table(groups, whole, scores_by_source, kind)


def kind_table(groups: Members, whole: MetricName, kind: str) -> BarTable | None:
    """Splits by what the runs' own metrics are parts of, such as `by place in the conversation`."""
    known = {MetricName.parse(name) for _, group in groups for name in group.metric_names}
    parts = [one for one in known if (one.split, one.score, one.kind) == (whole.split, whole.score, kind)]
    return recorded_table(groups, whole, kind, [one.full for one in sorted(parts, key=MetricName.rank)])


def recorded_table(groups: Members, whole: MetricName, kind: str, names: Sequence[str]) -> BarTable | None:
    """Builds a table of metrics for parts of the questions, with all of them last; None without any."""
    metrics = [MetricName.parse(name) for name in (*names, whole.full) if name]
    if len(metrics) < 2:
        return None
    heads = tuple((metric.part_title, "") for metric in metrics)
    rows = [(index, group.label, tuple(bar_cell(group, metric) for metric in metrics)) for index, group in groups]
    return BarTable(f"{whole.title_with_unit} {kind}", heads, with_any(rows))


def part_name(groups: Members, whole: MetricName, part: str) -> str:
    """Returns the metric that covers a part of the questions, empty when no configuration has it."""
    spellings = [f"{whole.split}/{whole.score}/{part}", f"{whole.split}/{part}/{whole.score}"]
    known = {name for _, group in groups for name in group.metric_names}
    return next((name for name in spellings if name in known), "")


def size_table(groups: Members, whole: MetricName) -> BarTable | None:
    """Splits by the number of cells of the table."""
    return question_table(groups, whole, scores_by_size, "by cells of the table")


def question_table(
    groups: Members,
    whole: MetricName,
    split: Callable[[Sequence[Configuration], str], tuple[Subset, ...]],
    title: str,
) -> BarTable | None:
    """Builds a table from scores of single questions, None without any."""
    subsets = split([group for _, group in groups], whole.full)
    if not subsets:
        return None
    rows = [
        (index, group.label, tuple(share_cell(subset.shares[place], whole) for subset in subsets))
        for place, (index, group) in enumerate(groups)
    ]
    heads = tuple((subset.name, f"n = {subset.count}") for subset in subsets)
    return BarTable(f"{whole.title_with_unit} {title}", heads, with_any(rows))


def share_cell(share: Share | None, metric: MetricName) -> BarCell | None:
    """Returns a configuration's bar in a subset."""
    if share is None:
        return None
    error = f" ±{metric.spec.spread_text(share.error)}" if share.error is not None else ""
    return BarCell(share.mean, metric.spec.text(share.mean), share.error, (), error)


def with_any(rows: Sequence[BarLine]) -> tuple[BarLine, ...]:
    """Leaves out configurations without a single score."""
    return tuple(row for row in rows if any(row[2]))


def ways() -> Iterator[Way]:
    """Yields how questions are split, one table each."""
    yield source_table
    for kind in dict.fromkeys(spec.kind for spec in subset_specs().values()):
        if kind != IN_TABLE.kind:
            yield partial(kind_table, kind=kind)
    yield size_table
