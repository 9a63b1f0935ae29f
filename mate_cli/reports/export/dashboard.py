"""A comparison of runs in W&B: a run with its tables, a saved view, and a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mate_cli.errors import ConfigError
from mate_cli.metrics.specs import MetricName
from mate_cli.reports.all_sections import report_sections
from mate_cli.reports.compare.names import UNTRAINED_MARK
from mate_cli.reports.compare.questions import disagreements
from mate_cli.reports.compare.report import Report
from mate_cli.reports.export.data_files import report_markdown
from mate_cli.reports.format import plural
from mate_cli.reports.page import find_best, list_datasets, render_page
from mate_cli.reports.sections.cost_and_sweep import find_varied
from mate_cli.reports.view import Row, View
from mate_cli.runs.record import NOT_TRAINED
from mate_cli.runs.wandb_runs import open_wandb

if TYPE_CHECKING:
    from wandb_workspaces.reports.v2 import Report as WandbReport
    from wandb_workspaces.workspaces import Workspace

JOB_TYPE = "comparison"
MAX_QUESTIONS, MAX_ASKED = 50, 8


class Sheet(NamedTuple):
    """Table to log to W&B: its name, its column names, and rows of JSON-serializable values.

    Its name is `section/title`, where `section` is the section of the dashboard that shows the table.
    """

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def send_report(report: Report, options: Mapping[str, Any], folder: Path) -> Path:
    """Log a comparison as a W&B run of type `comparison`, and return the folder of that run.

    Bars, curves and the list of runs are not logged, because W&B draws them from the compared runs.

    Args:
        report: comparison to log.
        options: options of `logger.wandb`.
        folder: folder in which W&B creates its `wandb` folder.
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
    """Return the group, name, tags and config of the W&B run that shows a comparison."""
    datasets = list_datasets(report)
    return {
        "group": options["group"] or JOB_TYPE,
        "job_type": JOB_TYPE,
        "name": f"{plural(len(report.groups), 'configuration')} on {' and '.join(datasets) or 'no dataset'}",
        "tags": datasets,
        "config": {
            "folders": list(report.folders),
            "metric": report.metric,
            "statistic": report.options.statistic,
            "configurations": [group.label for group in report.groups],
            "runs": [run.name for run in report.runs],
        },
    }


def best(report: Report) -> dict[str, Any]:
    """Return the best configuration and its score, for the summary of a W&B run.

    The result is empty if no configuration has the ranking metric.
    """
    best_group, summary = find_best(report)
    return {"best": best_group.label, f"best/{report.ranked_by}": summary.center} if summary else {}


def sheets(report: Report) -> Iterator[Sheet]:
    """Yield the W&B tables of a comparison: all its tables, and questions with disagreements."""
    for section in report_sections(report):
        yield from (view_sheet(view, section.name) for view in section.tables)
    if (sheet := questions_sheet(report)).rows:
        yield sheet


def view_sheet(view: View, section: str) -> Sheet:
    """Convert a report table to a W&B table, whose cells are plain numbers or texts.

    Spreads and interval ends become separate columns.

    Args:
        view: table to convert.
        section: name of its section.
    """
    columns, rows = [view.head.lower(), "kind"], [[row.label, row_kind(row)] for row in view.rows]
    for column, cells in zip(view.columns, zip(*(row.cells for row in view.rows), strict=True), strict=True):
        title = column.title.replace("\n", " ")
        parts: dict[str, list[Any]] = {}
        if any(cell.ends for cell in cells):
            for end, name in enumerate(("low", "high")):
                parts[f"{title}, {name}"] = [rounded_figure(cell.ends and cell.ends[end]) for cell in cells]
        else:
            parts[title] = [rounded_figure(cell.value) if column.is_number else cell.text for cell in cells]
            if any(cell.spread for cell in cells):
                parts[f"± {title}"] = [rounded_figure(cell.spread_value) for cell in cells]
        columns += parts
        rows = [[*row, *values] for row, values in zip(rows, zip(*parts.values(), strict=True), strict=True)]
    return Sheet(f"{section}/{view.heading}", columns, rows)


def row_kind(row: Row) -> str:
    """Return the type of a table row, such as `published`, or `ours` for trained runs."""
    return row.kind or (NOT_TRAINED if row.label.endswith(UNTRAINED_MARK) else "ours")


def rounded_figure(value: float | None) -> float | None:
    """Round a number to four decimals, the precision that tables in W&B show."""
    return None if value is None else round(value, 4)


def questions_sheet(report: Report) -> Sheet:
    """Build the W&B table of questions on which the best configurations have different scores.

    It contains their answers.
    """
    groups = report.groups[:MAX_ASKED]
    metric = report.names.get(report.metric or "")
    cases = disagreements(groups, metric.full, MAX_QUESTIONS) if metric and metric.spec.is_share else ()
    rows = []
    for case in cases:
        answers = {answer.label: f"{100 * answer.score:.0f}: {answer.texts[0][0]}" for answer in case.answers}
        question = case.question
        question_cells = [question.text or question.question_id, " | ".join(question.answers), question.source]
        rows.append([*question_cells, *(answers.get(group.label, "") for group in groups)])
    return Sheet("questions/disagreements", ["question", "answer", "source", *(group.label for group in groups)], rows)


STEP_AXIS, TIME_AXIS = "trainer/global_step", "trainer/time"
COSTS = ("examples_per_second", "peak_memory_mb", "parameters")
COLUMNS = ("config:names.value.model", "config:seed.value", "summary:cost/wall_seconds")
"""Columns of the list of runs in W&B, in addition to scores.

W&B stores configuration values below `value`.
"""
USUAL = ("optimizer.lr", "scheduler.warmup")
"""Settings in the sweep panel if the compared runs vary no setting."""


def save_workspace(report: Report, options: Mapping[str, Any]) -> list[str]:
    """Save the comparison in W&B as a workspace view and a report, and return their URLs.

    Args:
        report: comparison to show.
        options: options of `logger.wandb`.

    Returns:
        The URLs of the view and the report.

    Raises:
        ConfigError: W&B rejects the view or the report.
    """
    import wandb

    try:
        entity = options["entity"] or wandb.Api().default_entity
        views: list[Any] = [build(report, entity, options) for build in (build_workspace, build_report_page)]
        return [str(view.save().url) for view in views]
    # W&B raises many types of errors.
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise ConfigError(f"cannot be saved: {reason}", where="workspace", remedy="Type: wandb login") from error


def build_workspace(report: Report, entity: str, options: Mapping[str, Any]) -> Workspace:
    """Build a W&B workspace view of the compared runs, grouped by configuration.

    Its panels show learning curves, results, sweeps and predictions.

    Args:
        report: comparison to show.
        entity: W&B entity.
        options: options of `logger.wandb`.
    """
    import wandb_workspaces.reports.v2 as wr
    import wandb_workspaces.workspaces as ws

    metrics = [metric.full for metric in shown_metrics(report)]
    runs = ws.RunsetSettings(
        filters=run_filters(report),
        groupby=[ws.Config("names.model"), ws.Metric("Group")],
        pinned_columns=["run:displayName", "run:state", *COLUMNS, *(f"summary:{name}" for name in metrics)],
    )
    tables = [wr.WeavePanelSummaryTable(table_name=f"predictions/{split}") for split in splits(report)]
    sections = {"Learning": learning_panels(report), **result_panels(report), "Predictions side by side": tables}
    return ws.Workspace(
        entity=entity,
        project=options["project"],
        name=f"Comparison on {' and '.join(list_datasets(report))}",
        sections=[ws.Section(name=name, panels=panels, is_open=True) for name, panels in sections.items() if panels],
        settings=ws.WorkspaceSettings(x_axis=STEP_AXIS),
        runset_settings=runs,
    )


def learning_panels(report: Report) -> list[Any]:
    """Build W&B plots of the score and the training loss, by step and by time."""
    import wandb_workspaces.reports.v2 as wr

    grouped: dict[str, Any] = {"groupby": "Group", "groupby_aggfunc": "mean", "groupby_rangefunc": "minmax"}
    smooth = {"smoothing_factor": 0.6, "smoothing_type": "exponential", "log_y": True}
    scores = [report.ranked_by] if report.ranked_by else []
    curves: list[tuple[str, dict[str, Any]]] = [*((name, {}) for name in scores), ("train/loss", smooth)]
    return [wr.LinePlot(x=x, y=[name], **grouped, **more) for x in (STEP_AXIS, TIME_AXIS) for name, more in curves]


def result_panels(report: Report) -> dict[str, list[Any]]:
    """Build the W&B plots of scores, costs and sweeps, as {section: plots}."""
    import wandb_workspaces.reports.v2 as wr

    bars: dict[str, Any] = {"groupby": "Group", "groupby_aggfunc": "mean", "groupby_rangefunc": "stddev"}
    ranking = report.ranked_by
    parts = sorted(name for name in report.names if ranking and name.startswith(f"{ranking}/"))
    results = [wr.BarPlot(metrics=[metric.full], **bars) for metric in shown_metrics(report)]
    if parts:
        results.append(wr.BarPlot(title=f"{ranking}, by part", metrics=parts, **bars))
    if not ranking:
        return {"Results": results}
    score = wr.SummaryMetric(ranking)
    costs = [wr.ScatterPlot(x=wr.SummaryMetric(f"cost/{cost}"), y=score, log_x=True) for cost in COSTS]
    settings = find_varied(report) or USUAL
    columns = [wr.ParallelCoordinatesPlotColumn(metric=wr.Config(key)) for key in settings]
    lines = wr.ParallelCoordinatesPlot(columns=[*columns, wr.ParallelCoordinatesPlotColumn(metric=score)])
    return {"Results": [*results, *costs], "Search": [lines, wr.ParameterImportancePlot(with_respect_to=ranking)]}


def build_report_page(report: Report, entity: str, options: Mapping[str, Any]) -> WandbReport:
    """Build a W&B report of a comparison: tables as text, learning curves, and the HTML page.

    Args:
        report: comparison to show.
        entity: W&B entity.
        options: options of `logger.wandb`.
    """
    import wandb_workspaces.reports.v2 as wr
    from wandb_workspaces import expr

    project = {"entity": entity, "project": options["project"]}
    runs = wr.Runset(**project, name="Runs", filters=run_filters(report), groupby=["config.names.model", "group"])
    comparison_runs = wr.Runset(**project, name="Comparisons", filters=expr.And(expr.Metric("JobType") == JOB_TYPE))
    return wr.Report(
        **project,
        title=labels(report, options)["name"][:128],
        description="Written by mate compare",
        width="fluid",
        blocks=[
            wr.MarkdownBlock(report_markdown(report)),
            wr.PanelGrid(runsets=[runs], panels=learning_panels(report)),
            wr.PanelGrid(runsets=[comparison_runs], panels=[wr.MediaBrowser(media_keys=["page/comparison"])]),
        ],
    )


def run_filters(report: Report) -> Any:  # noqa: ANN401 - a filter of the library
    """Build the W&B filter that selects the runs on the compared datasets.

    Runs that contain comparisons are excluded.
    """
    from wandb_workspaces import expr

    return expr.And(expr.Metric("JobType") != JOB_TYPE, expr.Tags().isin(list_datasets(report)))


def shown_metrics(report: Report) -> Sequence[MetricName]:
    """Return the metrics over all questions of a split, with dev metrics first."""
    return sorted((name for name in report.names.values() if name.is_score and not name.part), key=MetricName.rank)


def splits(report: Report) -> list[str]:
    """Return the splits, such as dev, on which any run has a metric over all questions."""
    return list(dict.fromkeys(metric.split for metric in shown_metrics(report)))
