"""Scores on parts of the questions: by where the answer stands, and by how large the table is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mate_cli.reports.grouping import Configuration
from mate_cli.reports.html_bars import BarCell, BarTable, bar_cell, bar_table, title_of
from mate_cli.reports.html_elements import Markup, element
from mate_cli.reports.metric_names import PARTS, MetricName
from mate_cli.reports.page_data import score_names
from mate_cli.reports.questions import Subset, scores_by_size, scores_by_source
from mate_cli.reports.report import Report

MOST_ROWS = 12


def subsets_section(report: Report) -> Markup | None:
    """Returns a table of bars per way to split the questions, None when no run says how to."""
    if report.metric is None:
        return None
    groups = report.groups[:MOST_ROWS]
    tables = [table for split in (source_table, size_table) if (table := first_table(report, groups, split))]
    if not tables:
        return None
    hint = f"best {MOST_ROWS} of {len(report.groups)}" if len(report.groups) > MOST_ROWS else None
    note = "± is the spread over seeds; by cells of the table the standard error over n questions."
    heading = element("h2", "Parts of the questions", element("small", hint) if hint else None)
    shown = [bar_table(table) for table in tables]
    return element("section", heading, shown, element("p", note, class_="note"), id="subsets")


def first_table(
    report: Report,
    groups: Sequence[Configuration],
    split: Callable[[Sequence[Configuration], MetricName], BarTable | None],
) -> BarTable | None:
    """Splits the main metric, or the most telling one that can be split."""
    wholes = (metric for metric in map(MetricName.parse, score_names(report)) if not metric.part)
    return next((table for whole in wholes if (table := split(groups, whole)) is not None), None)


def source_table(groups: Sequence[Configuration], whole: MetricName) -> BarTable | None:
    """Splits by where the answer stands: from the runs' own metrics, else from their predictions."""
    names = {part: part_name(groups, whole, part) for part in ("table", "passage")}
    if any(names.values()):
        metrics = [MetricName.parse(name) for name in (*names.values(), whole.full) if name]
        heads = tuple((PARTS.get(metric.part, metric.part), "") for metric in metrics)
        rows = [
            (index, group.label, tuple(bar_cell(group, metric) for metric in metrics))
            for index, group in enumerate(groups)
        ]
        return BarTable(f"{title_of(whole)} by place of the answer", heads, with_any(rows))
    return question_table(groups, whole, scores_by_source, "by place of the answer")


def part_name(groups: Sequence[Configuration], whole: MetricName, part: str) -> str:
    """Returns the metric that covers a part of the questions, empty when no configuration has it."""
    spellings = [f"{whole.split}/{whole.score}/{part}", f"{whole.split}/{part}/{whole.score}"]
    known = {name for group in groups for name in group.metric_names}
    return next((name for name in spellings if name in known), "")


def size_table(groups: Sequence[Configuration], whole: MetricName) -> BarTable | None:
    """Splits by the number of cells of the table."""
    return question_table(groups, whole, scores_by_size, "by cells of the table")


def question_table(
    groups: Sequence[Configuration],
    whole: MetricName,
    split: Callable[[Sequence[Configuration], str], tuple[Subset, ...]],
    title: str,
) -> BarTable | None:
    """Builds a table from scores of single questions, None without any."""
    subsets = split(groups, whole.full)
    if not subsets:
        return None
    rows = [
        (index, group.label, tuple(share_cell(subset, index, whole) for subset in subsets))
        for index, group in enumerate(groups)
    ]
    heads = tuple((subset.name, f"n = {subset.count}") for subset in subsets)
    return BarTable(f"{title_of(whole)} {title}", heads, with_any(rows))


def share_cell(subset: Subset, index: int, metric: MetricName) -> BarCell | None:
    """Returns a configuration's bar in a subset."""
    if (share := subset.shares[index]) is None:
        return None
    scale = 100.0 if metric.is_fraction else 1.0
    error = f" ±{scale * share.error:.1f}" if share.error is not None else ""
    return BarCell(share.mean, f"{scale * share.mean:.1f}", share.error, (), error)


def with_any(
    rows: Sequence[tuple[int, str, tuple[BarCell | None, ...]]],
) -> tuple[tuple[int, str, tuple[BarCell | None, ...]], ...]:
    """Leaves out configurations without a single score."""
    return tuple(row for row in rows if any(row[2]))
