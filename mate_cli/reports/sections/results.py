"""Report sections of scores: result tables, question subsets, and bars."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mate_cli.metrics.specs import USER_KIND, MetricName, subset_specs
from mate_cli.reports.compare.configuration import Configuration, known_metrics
from mate_cli.reports.compare.questions import question_scores
from mate_cli.reports.compare.report import Report, preference
from mate_cli.reports.compare.significance import effective_size, index_tables
from mate_cli.reports.compare.statistics import Summary, is_finite, wilson_interval
from mate_cli.reports.compare.tables import (
    PublishedResult,
    ResultRow,
    ResultTable,
    published_results,
    result_tables,
    sized_title,
    unit_of,
    units,
)
from mate_cli.reports.format import plural
from mate_cli.reports.plots.style import GRID, INK, color_of, literal_text, new_figure
from mate_cli.reports.view import Column, Kind, Mark, ReportSection, Row, View, ViewCell, sentences

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNDERLINED = "underlined: not clearly worse than the best, within ± or sampling noise"


def results_section(report: Report, *, wide: bool) -> ReportSection:
    """Return the scores of each configuration, by dataset and metric.

    Args:
        report: comparison of runs.
        wide: whether all splits are columns of one table, as in papers.
    """
    tables = report.tables
    if wide:
        tables = tuple(result_tables(report.groups, published=bool(report.published), wide=True))
    views = tuple(result_view(table, wide=wide) for table in tables)
    return ReportSection("results", "Results", "Results", views, content=lambda: {"note": reading_notes(report)})


def reading_notes(report: Report) -> str:
    """Return the text below the result tables, which explains units, marks and notes."""
    explanations = (units(report.tables), "bold: best of each column, if another value is clearly worse", UNDERLINED)
    lines = (
        [sentences(["; ".join(filter(None, explanations))])] if report.tables else ["No run has recorded a metric yet."]
    )
    return " ".join([*lines, sentences(report.notes)]).strip()


def result_view(table: ResultTable, *, wide: bool = False) -> View:
    """Convert a result table to a `View`, the table of a report.

    Baselines and published results are below the configurations, and are not marked.

    Args:
        table: table to convert.
        wide: whether all splits are columns of the table.
    """
    rows_by_kind: tuple[tuple[Kind, tuple[ResultRow, ...]], ...] = (
        ("", table.rows),
        ("baseline", table.baselines),
        ("published", table.published),
    )
    rows = [
        Row(row.label, (*row_cells(row, table, kind), ViewCell(str(row.repeats or ""), row.repeats)), kind)
        for kind, members in rows_by_kind
        for row in members
    ]
    columns = [column_of(index, table, wide=wide) for index in range(len(table.columns))]
    # The table of all questions already has the counts.
    count = Column("n", minor=all(column.part for column in table.columns))
    return View(
        table.title,
        (*columns, count),
        tuple(rows),
        unit=unit_of(table.columns),
        notes=tuple(noise_notes(table)),
        detail=table.questions,
    )


def noise_notes(table: ResultTable) -> Iterator[str]:
    """Yield notes on the 95 % confidence interval of one score per split, as an example.

    The interval is Wilson's, with the effective number of questions if the runs have predictions, because questions
    about one table are not independent. No note is yielded if no score is a share.
    """
    intervals: dict[str, list[str]] = {}
    for split in dict.fromkeys(column.split for column in table.columns):
        indices = [index for index, column in enumerate(table.columns) if column.split == split and not column.part]
        cells = ((row.configuration, row.cells[index], index) for index in indices for row in table.rows)
        group, cell, index = next((entry for entry in cells if entry[1] and entry[1].interval), (None, None, 0))
        if group and cell and cell.interval:
            metric, ends, method = table.columns[index], cell.interval, "by the number of questions (Wilson's binomial)"
            subject = plural(cell.questions or 0, f"{split} question")
            scores = question_scores(group, metric.full)
            tables = index_tables(scores)
            if len(scores) == cell.questions and tables.any():  # About two tables or more.
                ends = wilson_interval(cell.center, effective_size([*scores.values()], tables))
                method = "by the number of questions and tables (Wilson's binomial)"
                subject += f" about {plural(tables.max() + 1, 'table')}"
            score, low, high = map(metric.spec.text, (cell.center, *ends))
            intervals.setdefault(method, []).append(f"{low} to {high} for {score} on {subject}")
    yield from (f"95 % interval {method}: {'; '.join(texts)}" for method, texts in intervals.items())


def column_of(place: int, table: ResultTable, *, wide: bool) -> Column:
    """Build the column of a metric, with a heading that does not repeat the table title.

    Args:
        place: index of the column.
        table: table of the column.
        wide: whether all splits are columns of the table.
    """
    has_subsets, metric = any(column.part for column in table.columns), table.columns[place]
    title = table.part_title(place) if metric.part else metric.part_title
    part = title if has_subsets and (wide or not table.one_part) else ""
    short_title, groups = metric.spec.title, (metric.split.capitalize(), *([part] if wide and has_subsets else []))
    if table.one_score and not wide:
        short_title, groups = title, ()
    elif not wide:
        heading = part if part and table.one_split else f"{metric.split.capitalize()} {part if metric.part else ''}"
        groups = (heading.strip(),)
    return Column(metric.title, groups, short_title, less_is_better=metric.spec.direction < 0)


def row_cells(row: ResultRow, table: ResultTable, kind: Kind) -> list[ViewCell]:
    """Build the table cells of a result row, one per metric.

    Args:
        row: summaries of the row.
        table: table of the row.
        kind: type of the row. Only configurations ("") are marked.
    """
    return [
        result_cell(metric, cell, "" if kind else table.mark(index, cell))
        for index, (metric, cell) in enumerate(zip(table.columns, row.cells, strict=True))
    ]


def result_cell(metric: MetricName, cell: Summary | None, mark: Mark) -> ViewCell:
    """Build the table cell of a score with its spread and mark. Exact values show on hover.

    Args:
        metric: metric of the score.
        cell: summary of the score, None if missing.
        mark: emphasis of the cell.
    """
    if cell is None:
        return ViewCell()
    centers = f"median {cell.median:.5g}, mean {cell.mean:.5g}"
    hover = f"{centers}, lowest {cell.low:.5g}, highest {cell.high:.5g}, n = {cell.count}"
    return replace(score_cell(metric, cell), mark=mark, hover=hover)


def score_cell(metric: MetricName, summary: Summary) -> ViewCell:
    """Build the table cell of a summarized score, such as `62.8 ±0.4`."""
    spec, spread = metric.spec, summary.spread
    cell = ViewCell.of(summary.center, spec.text, spec.scale)
    return cell if spread is None else replace(cell, spread=spec.spread_text(spread), spread_value=spec.scale * spread)


MAX_ROWS = 12
Members = Sequence[tuple[int, Configuration]]
"""Configurations of one block, each with its index among all configurations."""


def parts_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return scores on subsets of the questions.

    Subsets are defined by, for example, the position of the answer or the length of the input. The result is None if no
    run has subset metrics.

    Args:
        report: comparison of runs.
        wide: not used.
    """
    if report.metric is None:
        return None
    groups = report.groups[:MAX_ROWS]
    names = blocks_of(report)
    kinds = dict.fromkeys([*(spec.kind for spec in subset_specs().values()), USER_KIND])
    families = {name: [member for member in enumerate(groups) if member[1].block == name] for name in names}
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
    """Build the table of scores by question subset, for the first metric with such scores.

    The main metric is tried first. Return None if no metric has values.

    Args:
        report: comparison of runs.
        groups: configurations with their indices.
        kind: type of subsets, such as `by place of the answer`.
    """
    tables = (kind_table(groups, metric, kind) for metric in list_scores(report) if not metric.part)
    return next(filter(None, tables), None)


def kind_table(groups: Members, whole: MetricName, kind: str) -> View | None:
    """Build the table of a metric on all questions and on question subsets of one category.

    Return None if no run has the metric for such subsets.

    Args:
        groups: configurations with their indices.
        whole: metric of all questions.
        kind: type of subsets, such as `by place of the answer`.
    """
    names = known_metrics(group for _, group in groups).values()
    parts = [name for name in names if (name.split, name.score, name.kind) == (whole.split, whole.score, kind)]
    if not parts:
        return None
    metrics = [*sorted(parts, key=MetricName.rank), whole]
    summaries = [[group.summary(metric.full) for metric in metrics] for _, group in groups]
    counts = [{cell.questions for cell in column if cell} for column in zip(*summaries, strict=True)]
    sizes = [column.pop() if len(column) == 1 else None for column in counts]
    titles = (sized_title(metric.part_title, size) for metric, size in zip(metrics, sizes, strict=True))
    columns = tuple(map(Column, titles))
    rows = [
        Row(group.label, tuple(result_cell(*pair, "") for pair in zip(metrics, cells, strict=True)), place=index)
        for (index, group), cells in zip(groups, summaries, strict=True)
    ]
    scored_rows = tuple(row for row in rows if any(cell.value is not None for cell in row.cells))
    return View(f"{whole.title_with_unit} {kind}", columns, scored_rows, bars=True, is_repeated=True)


MAX_LINES, MAX_SCORES, MAX_BARS = 3, 12, 30


def blocks_of(report: Report) -> dict[str, str]:
    """Return {block: dataset} of all blocks, which contain configurations to compare."""
    return {group.block: group.dataset for group in report.groups}


def group_data(report: Report, place: int) -> dict[str, Any]:
    """Return the label, index and block number of a configuration, for page scripts.

    Args:
        report: comparison of runs.
        place: index of the configuration.
    """
    group = report.groups[place]
    return {"label": group.label, "index": place, "block": list(blocks_of(report)).index(group.block)}


def references(report: Report, metric: MetricName, dataset: str) -> list[PublishedResult]:
    """Select the published results of a metric to compare with: the best of each model.

    If papers report none of the compared models, the best result is selected.

    Args:
        report: comparison of runs.
        metric: metric of the results.
        dataset: name of the dataset.
    """
    rows = published_results(dataset) if report.published else ()
    direction = metric.spec.direction or 1
    ranked_rows = sorted(
        (row for row in rows if metric.full in row.metrics), key=lambda row: -direction * row.metrics[metric.full]
    )
    models = {run.setting("model") for run in report.runs}
    # Keep the best result of a model, not its ablations.
    best_of_model = {row.model: row for row in reversed(ranked_rows) if row.model in models}
    return [row for row in ranked_rows if best_of_model.get(row.model) is row][:MAX_LINES] or ranked_rows[:1]


def metric_data(report: Report, metric: MetricName) -> dict[str, Any]:
    """Return the name, format and published results of a metric as data for page scripts.

    The published results are a list per block.
    """
    lines = [
        [[row.label, round_value(row.metrics[metric.full], metric)] for row in references(report, metric, dataset)]
        for dataset in blocks_of(report).values()
    ]
    display = {"title": metric.title, "percent": metric.spec.is_share, "direction": metric.spec.direction}
    return {"name": metric.full, **display, "lines": lines}


def round_value(value: float, metric: MetricName) -> float:
    """Round the value of a metric to 0.01 percentage points, or to four significant digits."""
    return round(value, 4) if metric.spec.is_share else float(f"{value:.4g}")


def list_scores(report: Report) -> list[MetricName]:
    """Return the metrics that a user can select on a page, the main metric first."""
    names = [name for name in report.names.values() if name.is_score or name.full == report.metric]
    names.sort(key=lambda name: (name.full != report.metric, bool(name.part), *preference(name)))
    return names[:MAX_SCORES]


def scores_section(report: Report, *, wide: bool) -> ReportSection:
    """Return scores as bars of a selectable metric.

    The bars and the menu of metrics need no script.

    Args:
        report: comparison of runs.
        wide: not used.
    """
    hint = f"best {MAX_BARS} of {len(report.groups)}" if len(report.groups) > MAX_BARS else ""

    def content() -> Mapping[str, Any] | None:
        scores = list_scores(report)
        blocks = [(metric.full, list(bar_views(report, metric))) for metric in scores]
        rows = [row for _, views in blocks for view in views for row in view.rows]
        notes = ["whiskers: the spread over seeds", "dots: single runs"] * any(
            row.cells[0].spread_value for row in rows
        )
        notes += ["outlined bars and dashed lines: published results"] * any(row.kind for row in rows)
        menu = [(metric.full, metric.title) for metric in scores]
        return {"blocks": blocks, "menu": menu, "note": sentences(notes)} if scores else None

    return ReportSection("chart", "Scores", "Scores", hint=hint, template="scores", content=content)


def bar_views(report: Report, metric: MetricName) -> Iterator[View]:
    """Yield a bar chart of a metric for each block of comparable configurations, best first.

    Bars of a test metric keep the order of the report, so that test scores determine no order.
    """
    bars = score_bars(report, metric)
    blocks = blocks_of(report)
    for block, dataset in blocks.items():
        rows = [row for row in bars if report.groups[row.place].block == block]
        if rows and metric.split != "test":
            rows.sort(key=lambda row: -(metric.spec.direction or 1) * (row.cells[0].value or 0.0))
        for line in references(report, metric, dataset) if rows else ():
            value = line.metrics[metric.full]
            cell = ViewCell.of(value, metric.spec.text, metric.spec.scale)
            rows.append(Row(line.label, (replace(cell, hover=line.source),), "published"))
        if rows:
            title = metric.title_with_unit + (f" on {block}" if len(blocks) > 1 else "")
            yield View(title, (Column(metric.title),), tuple(rows))


def score_bars(report: Report, metric: MetricName) -> list[Row]:
    """Build a bar of each configuration's score of a metric, with dots for single runs."""
    rows = []
    for index, group in enumerate(report.groups[:MAX_BARS]):
        if (summary := group.summary(metric.full)) is not None:
            values = filter(is_finite, (run.metrics.get(metric.full, math.nan) for run in group.counted))
            dots = tuple(metric.spec.scale * value for value in values) if summary.count > 1 else ()
            rows.append(Row(group.label, (replace(result_cell(metric, summary, ""), dots=dots),), place=index))
    return rows


def metric_bars(metric: MetricName, rows: Sequence[Row]) -> Figure:
    """Draw the values of a metric as horizontal bars, the first row on top.

    The axis includes zero, so lengths are comparable.
    """
    figure, axes = new_figure(9.4, 0.75 + 0.36 * max(len(rows), 2))
    for index, row in enumerate(rows):
        draw_bar(axes, index, row)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [literal_text(ellipsize_middle(row.label)) for row in rows])
    bar_ends = [end for row in rows for end in (row.cells[0].value or 0.0, *row.cells[0].dots)]
    axes.set_xlim(min(0.0, *bar_ends), (max(bar_ends) * 1.14) or 1.0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(literal_text(metric.title_with_unit), color=INK)
    return figure


def draw_bar(axes: Axes, index: int, row: Row) -> None:
    """Draw one bar with its error bar, its number, and the scores of runs as dots.

    Args:
        axes: axes of the bars.
        index: position of the bar.
        row: row with a single cell.
    """
    (cell,) = row.cells
    center, spread = cell.value or 0.0, cell.spread_value or 0.0
    patch = axes.barh(index, center, height=0.62, color=color_of(row.place), alpha=0.85)[0]
    patch.set_gid(f"bar-g{index}")
    if spread:
        axes.errorbar(center, index, xerr=spread, color=INK, linewidth=1.1, capsize=3.5)
    if cell.dots:
        axes.scatter(cell.dots, [index] * len(cell.dots), s=6, color=INK, alpha=0.5, zorder=3)
    end = (max(center + spread, *cell.dots, 0.0), index)
    number = axes.annotate(cell.text, end, xytext=(6, 0), textcoords="offset points", va="center", color=INK)
    number.set(fontsize=9, fontweight="bold")
    axes.axvline(0, color=GRID, linewidth=1)


def ellipsize_middle(label: str, longest: int = 46) -> str:
    """Replace the middle of a long label by an ellipsis, because its end may be distinctive.

    Args:
        label: label of a configuration.
        longest: maximum number of characters.
    """
    start = longest // 3
    return label if len(label) <= longest else f"{label[:start]}…{label[start + 1 - longest :]}"
