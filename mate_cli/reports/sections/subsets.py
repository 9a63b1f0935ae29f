"""Scores by place of the answer, length of the input, and whatever else runs record parts of the questions by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mate_cli.metrics.specs.names import MetricName
from mate_cli.metrics.specs.spec import subset_specs
from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.report import Report
from mate_cli.reports.page.page_data import blocks_of, score_names
from mate_cli.reports.sections.results import result_cell
from mate_cli.reports.view import Column, ReportSection, Row, View

MAX_ROWS = 12
Members = Sequence[tuple[int, Configuration]]
"""Configurations of one block, each with its place among all."""


def report_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return a table per way to split the questions, None when no run says how to."""
    if report.metric is None:
        return None
    groups = report.groups[:MAX_ROWS]
    names = blocks_of(report)
    kinds = dict.fromkeys(spec.kind for spec in subset_specs().values())
    families = {name: [place for place in enumerate(groups) if place[1].block == name] for name in names}
    views = [
        replace(view, title=f"{view.title}, {name}" if len(names) > 1 else view.title)
        for name, members in families.items()
        for kind in kinds
        if (view := first_table(report, members, kind))
    ]
    if not views:
        return None
    hint = f"best {MAX_ROWS} of {len(report.groups)}" if len(report.groups) > MAX_ROWS else ""
    spread = any(cell.spread for view in views for row in view.rows for cell in row.cells)
    notes = ("± is the spread over seeds",) * spread
    return ReportSection("subsets", "Scores on parts of the questions", "Parts", tuple(views), notes, hint)


def first_table(report: Report, groups: Members, kind: str) -> View | None:
    """Split the main metric by a kind of parts, or the most telling one that can be split."""
    wholes = (metric for metric in map(MetricName.parse, score_names(report)) if not metric.part)
    return next((table for whole in wholes if (table := kind_table(groups, whole, kind)) is not None), None)


def kind_table(groups: Members, whole: MetricName, kind: str) -> View | None:
    """Split by what the runs' own metrics are parts of, such as `by place of the answer`; all questions come last."""
    known = {MetricName.parse(name) for _, group in groups for name in group.metric_names}
    parts = [part for part in known if (part.split, part.score, part.kind) == (whole.split, whole.score, kind)]
    if not parts:
        return None
    metrics = [*sorted(parts, key=MetricName.rank), whole]
    columns = tuple(Column(metric.part_title) for metric in metrics)
    rows = [
        Row(group.label, tuple(result_cell(metric, group.summary(metric.full), "") for metric in metrics), place=place)
        for place, group in groups
    ]
    scored = tuple(row for row in rows if any(cell.value is not None for cell in row.cells))
    return View(f"{whole.title_with_unit} {kind}", columns, scored, bars=True, is_repeated=True)
