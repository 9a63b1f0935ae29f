"""A comparison as one W&B run of its own, so that a project's dashboard shows it beside the runs that it compares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.costs import recorded_costs
from mate_cli.reports.compare.disagreements import disagreements
from mate_cli.reports.compare.grouping import FIELDS
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.statistics import Summary
from mate_cli.reports.format import plural
from mate_cli.reports.page.page import render_page
from mate_cli.reports.plots.figures import MOST_BARS, MOST_CURVES, curve_frames
from mate_cli.reports.plots.learning_curves import CurveFrame
from mate_cli.reports.view import View, report_sections
from mate_cli.runs.names import configuration_name
from mate_cli.runs.tracking import open_wandb

JOB_TYPE = "comparison"
MOST_QUESTIONS, MOST_ASKED = 50, 8


class Sheet(NamedTuple):
    """A table of plain values; its name says where in the dashboard it goes: `section/title`."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def send_report(report: Report, options: Mapping[str, Any], folder: Path) -> Path:
    """Writes a comparison to W&B and returns the folder of its run.

    Args:
        report: the comparison.
        options: those of `logger.wandb`.
        folder: where W&B keeps its files, in a folder of its own.
    """
    import wandb

    tables = {sheet.name: wandb.Table(columns=list(sheet.columns), data=sheet.rows) for sheet in sheets(report)}
    page = wandb.Html(render_page(report, folder), inject=False, data_is_not_path=True)
    content = {**tables, **dict(charts(report)), "page/comparison": page}
    with open_wandb(options, dir=str(folder), **labels(report, options)) as run:
        run.log(content)
        run.summary.update(best(report))
        return Path(run.dir).parent


def labels(report: Report, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the group, name, tags and configuration by which the comparison is found in W&B."""
    datasets, models = ({run.setting(key) for run in report.runs} - {""} for key in ("dataset", "model"))
    return {
        "group": options["group"] or JOB_TYPE,
        "job_type": JOB_TYPE,
        "name": f"{plural(len(report.groups), 'configuration')} on {' and '.join(sorted(datasets)) or 'no dataset'}",
        "tags": sorted(datasets | models),
        "config": {
            "folders": list(report.folders),
            "metric": report.metric,
            "statistic": report.statistic,
            "configurations": [group.label for group in report.groups],
            "runs": [run.name for run in report.runs],
        },
    }


def best(report: Report) -> dict[str, Any]:
    """Returns who is first, and with how much, for the list of runs."""
    summary = report.groups[0].summary(report.metric) if report.metric else None
    return {"best": report.groups[0].label, f"best/{report.metric}": summary.center} if summary else {}


def sheets(report: Report) -> Iterator[Sheet]:
    """Yields the tables: those of every section, runs, and questions on which configurations disagree."""
    for _, section in report_sections(report):
        yield from (view_sheet(view, section.name) for view in section.tables)
    yield runs_sheet(report)
    if (asked := questions_sheet(report)).rows:
        yield asked


def view_sheet(view: View, section: str) -> Sheet:
    """Returns a table of plain numbers: a spread, and the ends of an interval, in columns of their own."""
    columns, values = [view.head.lower(), "kind"], [[row.label, row.kind or "ours"] for row in view.rows]
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
    return Sheet(f"{section}/{view.title}", columns, values)


def rounded_figure(value: float | None) -> float | None:
    """Rounds a number to what can be told apart."""
    return None if value is None else round(value, 4)


def figure_text(value: float | None, metric: MetricName) -> float | None:
    """Returns a value as it is shown: a share in percent."""
    return rounded_figure(None if value is None else metric.scale * value)


def runs_sheet(report: Report) -> Sheet:
    """Returns every run with the group and name that it has in W&B, by which it is found there."""
    metrics = sorted({name for run in report.runs for name in run.metrics if name == report.metric})
    configurations = {id(run): group.label for group in report.groups for run in group.runs}
    rows = []
    for run in report.runs:
        settings = run.record.get("settings")
        overrides = run.record.get("overrides") if settings is None else settings
        words = [str(word) for word in overrides] if isinstance(overrides, list) else []
        group = configuration_name(run.text("experiment"), words)
        seed = run.text("seed")
        place = [configurations.get(id(run), ""), group, f"{group} · seed {seed}", seed, run.status]
        values = [figure_text(run.metrics.get(name), MetricName.parse(name)) for name in metrics]
        rows.append([*place, *values, run.number("wall_seconds"), *(run.setting(key) for key in FIELDS), run.name])
    titles = [MetricName.parse(name).title for name in metrics]
    columns = ["configuration", "group", "name", "seed", "status", *titles, "seconds", *FIELDS, "folder"]
    return Sheet("runs/all", columns, rows)


def questions_sheet(report: Report) -> Sheet:
    """Returns questions on which the best configurations disagree, a column with what each of them said."""
    groups = report.groups[:MOST_ASKED]
    metric = MetricName.parse(report.metric or "")
    found = disagreements(groups, metric.full, MOST_QUESTIONS) if metric.is_share else ()
    rows = []
    for one in found:
        said = {answer.label: f"{100 * answer.score:.0f}: {answer.texts[0][0]}" for answer in one.answers}
        question = one.question
        known = [question.text or question.question_id, " | ".join(question.answers), question.source]
        rows.append([*known, *(said.get(group.label, "") for group in groups)])
    return Sheet("questions/disagreements", ["question", "answer", "source", *(group.label for group in groups)], rows)


def charts(report: Report) -> Iterator[tuple[str, Any]]:
    """Yields W&B's own charts: bars of the main metric, it against each cost, and learning curves."""
    if report.metric:
        yield from score_charts(report, MetricName.parse(report.metric))
    for frame in curve_frames(report):
        yield f"curves/{frame.metric.title}", curve_chart(frame)


def score_charts(report: Report, metric: MetricName) -> Iterator[tuple[str, Any]]:
    """Yields a bar per configuration, and a chart of points for every cost."""
    import wandb

    scored = [(group, found) for group in report.groups[:MOST_BARS] if (found := group.summary(metric.full))]
    table = wandb.Table(columns=["configuration", metric.title], data=[[g.label, value(s, metric)] for g, s in scored])
    yield f"scores/{metric.title}", wandb.plot.bar(table, "configuration", metric.title, title=metric.title)
    for cost in recorded_costs([group for group, _ in scored]):
        points = [[g.label, spent.center, value(s, metric)] for g, s in scored if (spent := cost.of(g))]
        table = wandb.Table(columns=["configuration", cost.name, metric.title], data=points)
        title = f"{metric.title} against {cost.name}"
        yield f"cost/{cost.name.replace('/', ' per ')}", wandb.plot.scatter(table, cost.name, metric.title, title=title)


def value(summary: Summary, metric: MetricName) -> float | None:
    """Returns the number that stands for a summary, as it is shown."""
    return figure_text(summary.center, metric)


def curve_chart(frame: CurveFrame) -> Any:  # noqa: ANN401 - a chart of W&B
    """Returns the curves of one metric, a line per run."""
    import wandb

    lines = [
        (label if len(curves) == 1 else f"{label} ({number})", curve)
        for label, curves in list(zip(frame.labels, frame.lines, strict=True))[:MOST_CURVES]
        for number, curve in enumerate(curves, start=1)
    ]
    return wandb.plot.line_series(
        xs=[list(curve.steps) for _, curve in lines],
        ys=[[figure_text(point, frame.metric) for point in curve.values] for _, curve in lines],
        keys=[name for name, _ in lines],
        title=frame.metric.title,
        xname="step",
    )
