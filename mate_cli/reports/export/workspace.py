"""A saved view of a W&B project that compares runs, and a report on a comparison, by W&B's own library for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mate_cli.errors import ConfigError
from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.report import Report
from mate_cli.reports.export.dashboard import JOB_TYPE, labels
from mate_cli.reports.export.markdown import report_markdown
from mate_cli.reports.page.sweep import find_varied

if TYPE_CHECKING:
    from wandb_workspaces.reports.v2 import Report as WandbReport
    from wandb_workspaces.workspaces import Workspace

STEP, SECONDS = "trainer/global_step", "trainer/time"
COSTS = ("examples_per_second", "peak_memory_mb", "parameters")
COLUMNS = ("config:names.value.model", "config:seed.value", "summary:cost/wall_seconds")
"""Columns of the list of runs beside the scores; W&B keeps values of the configuration below `value`."""
USUAL = ("optimizer.lr", "scheduler.warmup")
"""Settings of a search, where the runs that are compared vary none."""


def save_workspace(report: Report, options: Mapping[str, Any]) -> list[str]:
    """Save the view and the report in the project of `logger.wandb`; return their addresses.

    Raises:
        ConfigError: W&B refuses them.
    """
    import wandb

    try:
        entity = options["entity"] or wandb.Api().default_entity
        views: list[Any] = [build(report, entity, options) for build in (build_workspace, build_report_page)]
        return [str(view.save().url) for view in views]
    except Exception as error:  # whatever W&B raises
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise ConfigError(f"cannot be saved: {reason}", where="workspace", remedy="Type: wandb login") from error


def build_workspace(report: Report, entity: str, options: Mapping[str, Any]) -> Workspace:
    """Build the view: runs without comparisons, grouped, with their learning, results, search and predictions."""
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
        name=f"Comparison on {' and '.join(datasets(report))}",
        sections=[ws.Section(name=name, panels=panels, is_open=True) for name, panels in sections.items() if panels],
        settings=ws.WorkspaceSettings(x_axis=STEP),
        runset_settings=runs,
    )


def learning_panels(report: Report) -> list[Any]:
    """Return curves of the score and of the loss, by step and by seconds; bands are the ends of seeds."""
    import wandb_workspaces.reports.v2 as wr

    grouped: dict[str, Any] = {"groupby": "Group", "groupby_aggfunc": "mean", "groupby_rangefunc": "minmax"}
    smooth = {"smoothing_factor": 0.6, "smoothing_type": "exponential", "log_y": True}
    followed = [report.ranked_by] if report.ranked_by else []
    curves: list[tuple[str, dict[str, Any]]] = [*((name, {}) for name in followed), ("train/loss", smooth)]
    return [wr.LinePlot(x=x, y=[name], **grouped, **more) for x in (STEP, SECONDS) for name, more in curves]


def result_panels(report: Report) -> dict[str, list[Any]]:
    """Return bars of scores, and of scores of parts; scores against costs; and what a search tells of settings."""
    import wandb_workspaces.reports.v2 as wr

    bars: dict[str, Any] = {"groupby": "Group", "groupby_aggfunc": "mean", "groupby_rangefunc": "stddev"}
    ranked = report.ranked_by
    parts = sorted(name for name in known_metrics(report) if ranked and name.startswith(f"{ranked}/"))
    results = [wr.BarPlot(metrics=[metric.full], **bars) for metric in shown_metrics(report)]
    if parts:
        results.append(wr.BarPlot(title=f"{ranked}, by part", metrics=parts, **bars))
    if not ranked:
        return {"Results": results}
    score = wr.SummaryMetric(ranked)
    costs = [wr.ScatterPlot(x=wr.SummaryMetric(f"cost/{cost}"), y=score, log_x=True) for cost in COSTS]
    settings = find_varied(report) or USUAL
    columns = [wr.ParallelCoordinatesPlotColumn(metric=wr.Config(key)) for key in settings]
    lines = wr.ParallelCoordinatesPlot(columns=[*columns, wr.ParallelCoordinatesPlotColumn(metric=score)])
    return {"Results": [*results, *costs], "Search": [lines, wr.ParameterImportancePlot(with_respect_to=ranked)]}


def build_report_page(report: Report, entity: str, options: Mapping[str, Any]) -> WandbReport:
    """Build the report: the tables of now, with the curves and the page of comparisons as they will be."""
    import wandb_workspaces.reports.v2 as wr
    from wandb_workspaces import expr

    place = {"entity": entity, "project": options["project"]}
    runs = wr.Runset(**place, name="Runs", filters=run_filters(report), groupby=["config.names.model", "group"])
    compared = wr.Runset(**place, name="Comparisons", filters=expr.And(expr.Metric("JobType") == JOB_TYPE))
    return wr.Report(
        **place,
        title=labels(report, options)["name"][:128],
        description="Written by mate compare",
        width="fluid",
        blocks=[
            wr.MarkdownBlock(report_markdown(report)),
            wr.PanelGrid(runsets=[runs], panels=learning_panels(report)),
            wr.PanelGrid(runsets=[compared], panels=[wr.MediaBrowser(media_keys=["page/comparison"])]),
        ],
    )


def run_filters(report: Report) -> Any:  # noqa: ANN401 - a filter of the library
    """Return the filter that leaves the runs on the datasets, and no comparison."""
    from wandb_workspaces import expr

    return expr.And(expr.Metric("JobType") != JOB_TYPE, expr.Tags().isin(datasets(report)))


def datasets(report: Report) -> list[str]:
    """Return the datasets, which are tags of their runs."""
    return sorted({run.setting("dataset") for run in report.runs} - {""})


def known_metrics(report: Report) -> set[str]:
    """Return the names of all metrics."""
    return {name for group in report.groups for name in group.metric_names}


def shown_metrics(report: Report) -> Sequence[MetricName]:
    """Return the scores of all questions that sum a run up, those of dev first."""
    metrics = (MetricName.parse(name) for name in known_metrics(report))
    return sorted((metric for metric in metrics if metric.is_score and not metric.part), key=MetricName.rank)


def splits(report: Report) -> list[str]:
    """Return the splits of these scores."""
    return list(dict.fromkeys(metric.split for metric in shown_metrics(report)))
