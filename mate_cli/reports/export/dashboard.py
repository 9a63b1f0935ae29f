"""A comparison as one W&B run of its own, so that a project's dashboard shows it beside the runs that it compares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.all_sections import report_sections
from mate_cli.reports.compare.disagreements import disagreements
from mate_cli.reports.compare.grouping import UNTRAINED_MARK
from mate_cli.reports.compare.report import Report
from mate_cli.reports.format import plural
from mate_cli.reports.page.page import render_page
from mate_cli.reports.view import Row, View
from mate_cli.runs.metric_rows import open_wandb
from mate_cli.runs.record import NOT_TRAINED

JOB_TYPE = "comparison"
MAX_QUESTIONS, MAX_ASKED = 50, 8


class Sheet(NamedTuple):
    """A table of plain values; its name says where in the dashboard it goes: `section/title`."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def send_report(report: Report, options: Mapping[str, Any], folder: Path) -> Path:
    """Write a comparison to W&B and return the folder of its run.

    Bars, curves and the list of runs are W&B's own: it has the runs.

    Args:
        report: the comparison.
        options: those of `logger.wandb`.
        folder: where W&B keeps its files, in a folder of its own.
    """
    import wandb

    tables = {sheet.name: wandb.Table(columns=list(sheet.columns), data=sheet.rows) for sheet in sheets(report)}
    page = wandb.Html(render_page(report, folder), inject=False, data_is_not_path=True)
    content = {**tables, "page/comparison": page}
    with open_wandb(options, dir=str(folder), **labels(report, options)) as run:
        run.log(content)
        run.summary.update(best(report))
        return Path(run.dir).parent


def labels(report: Report, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the group, name, tags and configuration by which the comparison is found in W&B."""
    datasets = {run.setting("dataset") for run in report.runs} - {""}
    return {
        "group": options["group"] or JOB_TYPE,
        "job_type": JOB_TYPE,
        "name": f"{plural(len(report.groups), 'configuration')} on {' and '.join(sorted(datasets)) or 'no dataset'}",
        "tags": sorted(datasets),
        "config": {
            "folders": list(report.folders),
            "metric": report.metric,
            "statistic": report.statistic,
            "configurations": [group.label for group in report.groups],
            "runs": [run.name for run in report.runs],
        },
    }


def best(report: Report) -> dict[str, Any]:
    """Return who is first, and with how much, for the list of runs."""
    ranked = ((group, summary) for group in report.groups if (summary := group.summary(report.ranked_by or "")))
    best, summary = next(ranked, (report.groups[0], None))
    return {"best": best.label, f"best/{report.ranked_by}": summary.center} if summary else {}


def sheets(report: Report) -> Iterator[Sheet]:
    """Yield the tables: those of every section, and questions on which configurations disagree."""
    for section in report_sections(report):
        yield from (view_sheet(view, section.name) for view in section.tables)
    if (asked := questions_sheet(report)).rows:
        yield asked


def view_sheet(view: View, section: str) -> Sheet:
    """Return a table of plain numbers: a spread, and the ends of an interval, in columns of their own."""
    columns, values = [view.head.lower(), "kind"], [[row.label, row_kind(row)] for row in view.rows]
    for column, cells in zip(view.columns, zip(*(row.cells for row in view.rows), strict=True), strict=True):
        title = column.title.replace("\n", " ")
        columns.append(title)
        parts: list[list[Any]] = [[rounded_figure(cell.value) if column.is_number else cell.text for cell in cells]]
        if any(cell.spread for cell in cells):
            columns.append(f"± {title}")
            parts.append([rounded_figure(cell.spread_value) for cell in cells])
        if any(cell.ends for cell in cells):
            columns[-1:] = [f"{title}, low", f"{title}, high"]
            parts = [[rounded_figure(cell.ends and cell.ends[end]) for cell in cells] for end in (0, 1)]
        for part in parts:
            for row, value in zip(values, part, strict=True):
                row.append(value)
    return Sheet(f"{section}/{view.heading}", columns, values)


def row_kind(row: Row) -> str:
    """Say what a row is: ours, a system that was not trained here, or another kind."""
    return row.kind or (NOT_TRAINED if row.label.endswith(UNTRAINED_MARK) else "ours")


def rounded_figure(value: float | None) -> float | None:
    """Round a number to what can be told apart."""
    return None if value is None else round(value, 4)


def questions_sheet(report: Report) -> Sheet:
    """Return the questions on which the best configurations disagree, a column with what each of them said."""
    groups = report.groups[:MAX_ASKED]
    metric = MetricName.parse(report.metric or "")
    cases = disagreements(groups, metric.full, MAX_QUESTIONS) if metric.is_share else ()
    rows = []
    for case in cases:
        answers = {answer.label: f"{100 * answer.score:.0f}: {answer.texts[0][0]}" for answer in case.answers}
        question = case.question
        known = [question.text or question.question_id, " | ".join(question.answers), question.source]
        rows.append([*known, *(answers.get(group.label, "") for group in groups)])
    return Sheet("questions/disagreements", ["question", "answer", "source", *(group.label for group in groups)], rows)
