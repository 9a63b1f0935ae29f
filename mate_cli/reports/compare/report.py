"""Content of a comparison of runs, computed once for terminal, HTML page and files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from difflib import get_close_matches
from typing import Any

from mate_cli.errors import ConfigError, RunError
from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.configuration import FIELDS, Configuration, Options, join_folds, known_metrics
from mate_cli.reports.compare.grouping import group_runs
from mate_cli.reports.compare.names import UNTRAINED_MARK, Comparison, comparisons
from mate_cli.reports.compare.significance import Significance, compare_with
from mate_cli.reports.compare.statistics import CENTERS, SPREADS, Statistic
from mate_cli.reports.compare.tables import (
    PublishedResult,
    ResultTable,
    published_results,
    result_tables,
    sort_by_metric,
)
from mate_cli.reports.format import duration_text, plural
from mate_cli.reports.runs.load import MAX_TEXT, STATUSES, LoadedRun, clean, load_runs
from mate_cli.runs.lock import is_dead
from mate_cli.runs.record import NOT_LEARNT, NOT_TRAINED

MAX_NEAR = 3
"""Maximum number of metrics suggested for an unknown metric name."""
SILENT_SECONDS = 1800
"""Seconds without a write after which a running run is reported as possibly terminated."""


@dataclass(frozen=True)
class Report:
    """Result of `mate compare`: configurations of runs, result tables and significance tests.

    Args:
        folders: folders that were searched for runs.
        runs: selected runs, in order of their folders.
        groups: configurations, best first.
        tables: result tables.
        names: names and declarations of all metrics that any configuration has, by full name.
        metric: metric that is shown and plotted, None if no run has a metric.
        ranked_by: metric that orders the configurations, never a metric of the test split. None means order of
            appearance.
        comparisons: common and differing settings of the configurations, per dataset and task.
        published: results of papers on the compared datasets, empty if `published=false`.
        notes: remarks on how to read the numbers, such as excluded runs.
        warnings: one line per file that could not be read.
        created: time of the comparison.
        options: options of the comparison.
        significance: tests of every configuration against `options.against`, None if that is not set.
    """

    folders: tuple[str, ...]
    runs: tuple[LoadedRun, ...]
    groups: tuple[Configuration, ...]
    tables: tuple[ResultTable, ...]
    names: Mapping[str, MetricName]
    metric: str | None
    ranked_by: str | None
    comparisons: tuple[Comparison, ...]
    published: tuple[PublishedResult, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    created: datetime
    options: Options
    significance: Significance | None

    @property
    def unfinished(self) -> tuple[LoadedRun, ...]:
        """Compared runs whose status is not "finished", such as failed runs."""
        return tuple(run for run in self.runs if run.status != "finished")


def build_report(folders: Sequence[str | os.PathLike[str]], now: datetime | None = None, **options: Any) -> Report:
    """Read the runs in or below some folders, and compare their configurations.

    Args:
        folders: run folders, folders that contain runs, or glob patterns of such folders.
        now: time of the comparison, None for the current time.
        options: fields of `Options`.

    Raises:
        RunError: no run is found or selected.
        ConfigError: a status, metric, key or the configuration `against` does not exist.
    """
    requested = Options(**options)
    if unknown_statuses := [status for status in requested.status if status not in STATUSES]:
        hint = f"Choose from {', '.join(STATUSES)}"
        raise ConfigError(f"no such status: {unknown_statuses[0]}", where="status", remedy=hint)
    loaded_runs = load_runs(folders)
    runs, hidden = select_runs(loaded_runs.runs, requested)
    known_keys = {*FIELDS, *(key for run in runs for key in (*run.config, *run.record))}
    if unknown := [key for key in requested.by if key not in known_keys]:
        full_keys = sorted(key for key in known_keys if key.endswith(f".{unknown[0]}"))
        suggestions = full_keys or get_close_matches(unknown[0], sorted(known_keys), 1)
        suggestion = f"Did you mean {suggestions[0]}?" if suggestions else None
        raise ConfigError(f"no run has {unknown[0]}", where="by", remedy=suggestion)
    groups = group_runs(runs, requested)
    metric = choose_metric(groups, requested.metric, names := known_metrics(groups))
    ranked_groups = sort_by_metric(groups, ranked_by := ranking_metric(metric, names))
    tables = result_tables(ranked_groups, published=requested.published)
    datasets = sorted({run.setting("dataset") for run in runs}) if requested.published else ()
    papers = tuple(row for name in datasets for row in published_results(name))
    return Report(
        folders=tuple(map(str, loaded_runs.folders)),
        runs=runs,
        groups=tuple(ranked_groups),
        tables=tuple(tables),
        names=names,
        metric=metric,
        ranked_by=ranked_by,
        comparisons=comparisons(ranked_groups),
        published=papers,
        notes=(*hidden, *notes(groups, requested), *published_notes(tables, papers, requested.statistic)),
        warnings=loaded_runs.warnings,
        created=now or datetime.now(timezone.utc),
        options=requested,
        significance=compare_with(ranked_groups, metric, requested.against) if requested.against else None,
    )


def select_runs(runs: Sequence[LoadedRun], options: Options) -> tuple[tuple[LoadedRun, ...], list[str]]:
    """Select the runs to compare by status, without benchmarks and debug runs.

    Benchmarks and runs whose status is not in `options.status` are excluded. Runs with `debug=` are excluded, too,
    unless `options.debug_runs` is set or all runs are debug runs.

    Returns:
        The selected runs, and a list with at most one note on the number of hidden debug runs.

    Raises:
        RunError: no run is left.
    """
    # Measurements of a benchmark are not results of a run.
    training_runs = [run for run in runs if run.text("command") != "benchmark"]
    if not training_runs:
        raise RunError("only benchmarks were found, no runs", remedy="Start one with `mate train experiment=<name>`")
    runs_with_status = tuple(run for run in training_runs if not options.status or run.status in options.status)
    if not runs_with_status:
        problem = f"none of the {plural(len(training_runs), 'run')} is {' or '.join(options.status)}"
        raise RunError(problem, remedy="Leave `status` out")
    other_runs = tuple(run for run in runs_with_status if options.debug_runs or not is_debug(run))
    shown_runs = other_runs or runs_with_status
    hidden = len(runs_with_status) - len(shown_runs)
    return shown_runs, [f"{plural(hidden, 'run')} with debug= hidden, shown by debug_runs=true"] * (hidden > 0)


def is_debug(run: LoadedRun) -> bool:
    """Return whether a run, or the pipeline run whose stage it is, was started with `debug=`."""
    overrides = dict(override.lstrip("+").partition("=")[::2] for override in run.texts("overrides"))
    is_parent_debug = run.parent is not None and is_debug(run.parent)
    return is_parent_debug or overrides.get("debug", "null") not in ("null", "none")


def choose_metric(groups: Sequence[Configuration], asked: str | None, known: Collection[str]) -> str | None:
    """Return the requested metric, or by default the metric that most configurations have.

    Args:
        groups: configurations of the comparison.
        asked: requested metric, None for the default.
        known: names of all metrics of finished runs.

    Returns:
        The full name of the metric, None if no run has a metric.

    Raises:
        ConfigError: no finished run has the requested metric.
    """
    if asked is None:
        return main_metric(group.names.values() for group in groups)
    if asked not in known:
        hint = near_metrics(asked, known) if known else "Wait until a run has finished"
        raise ConfigError(f"no finished run has the metric {asked}", where="metric", remedy=hint)
    return asked


def near_metrics(asked: str, known: Collection[str]) -> str:
    """Return a hint for an unknown metric name: similar names, or else the available metrics."""
    if similar_names := [name for name in sorted(known) if name.endswith(f"/{asked}")] or get_close_matches(
        asked, known
    ):
        return f"Did you mean {' or '.join(similar_names[:MAX_NEAR])}?"
    return f"Choose from {', '.join(sorted(name for name in known if name.count('/') < 2))}"


def state_text(runs: Sequence[LoadedRun]) -> str:
    """Format the number of runs with each status, as in `2 finished, 1 failed`."""
    counts = {status: sum(run.status == status for run in runs) for status in (*STATUSES, "unknown")}
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)


def reason_text(run: LoadedRun, now: datetime) -> str:
    """Describe why a run has no result: the recorded reason, or the time of its last output.

    Args:
        run: run that has not finished.
        now: time of the comparison.
    """
    if run.status != "running":
        return run.text("reason") or "no reason recorded"
    if is_dead(run.folder, run.record):
        return "its process no longer exists: it was killed"
    if (silent_seconds := now.timestamp() - run.touched) > SILENT_SECONDS:
        return f"no output for {duration_text(silent_seconds)}: it may have been killed"
    try:
        seconds = (now - datetime.fromisoformat(run.text("started"))).total_seconds()
    # The start time is missing or has no time zone.
    except (ValueError, TypeError):
        return "still running"
    return f"running for {duration_text(max(seconds, 0.0))}"


def notes(groups: Sequence[Configuration], options: Options) -> list[str]:
    """Return notes on how scores were summarized, and on excluded runs and values."""
    lines = []
    if any(len(join_folds(group.counted)) > 1 for group in groups):
        unit = "runs" if options.by or options.status else "finished seeds"
        lines.append(f"{CENTERS[options.statistic]} ± {SPREADS[options.statistic]} over n {unit}")
    if any(group.folds for group in groups):
        lines.append("the score of a seed is the mean over the questions of all its folds")
    finished = sum(run.status == "finished" or bool(options.status) for group in groups for run in group.runs)
    older_count = finished - sum(len(group.counted) for group in groups)
    if older_count:
        lines.append(f"{plural(older_count, 'older repeat')} of the same configuration and seed left out")
    skipped = [(s, g) for g in groups for name in g.names if (s := g.summary(name)) is None or s.skipped]
    if skipped:
        lines.append(f"NaN and infinite values are excluded from {skipped[0][1].label}")
    for text, labels in collect_facts(groups, NOT_LEARNT).items():
        lines.append(f"{NOT_LEARNT} by {' and by '.join(sorted(labels))}: {text}")
    for text, labels in collect_facts(groups, NOT_TRAINED).items():
        lines.append(f"{UNTRAINED_MARK} {NOT_TRAINED} ({' and '.join(sorted(labels))}): {text}")
    if options.by:
        lines.append("grouped by the keys of by: runs in one row may differ in other settings")
    return lines


def collect_facts(groups: Sequence[Configuration], name: str) -> dict[str, set[str]]:
    """Collect a fact that runs recorded, such as the device: {text: configuration labels}."""
    labels_by_text: dict[str, set[str]] = {}
    for group in groups:
        for text in {clean(fact) for run in group.counted or group.runs if (fact := run.part("facts").get(name))}:
            labels_by_text.setdefault(text[:MAX_TEXT], set()).add(group.label)
    return labels_by_text


def published_notes(
    tables: Sequence[ResultTable], published: Sequence[PublishedResult], statistic: Statistic
) -> list[str]:
    """Return notes on the sources of published results, and how they differ from mate's runs.

    If published errors use another statistic than the runs, a note names the statistic.

    Args:
        tables: result tables, whose `published` rows are described.
        published: all published results on the compared datasets.
        statistic: statistic of the runs.
    """
    labels = {row.label for table in tables for row in table.published}
    shown_rows = [row for row in published if row.label in labels]
    sources = dict.fromkeys(part for row in shown_rows for part in row.source.split("; "))
    if not sources:
        return []
    caveat = "published rows are never marked, because they differ in model size, training data and test split"
    lines = [f"{caveat}: {'; '.join(sources)}"]
    other_statistics = {
        row.statistic for row in shown_rows if row.errors and (row.statistic == "mean") != (statistic == "mean")
    }
    for other_statistic in sorted(other_statistics):
        error_text = f"published rows with an error have the {CENTERS[other_statistic]} ± {SPREADS[other_statistic]}"
        lines.append(f"{error_text}; for yours alike: statistic={other_statistic}")
    return lines


def main_metric(per_configuration: Iterable[Iterable[MetricName]]) -> str | None:
    """Select the metric that a comparison shows by default.

    Dev metrics are preferred to metrics of other splits, then metrics that most configurations have, then the order of
    `preference`. Return None if there is no metric.
    """
    counts = Counter(metric for names in per_configuration for metric in names if metric.is_score)
    metrics = sorted(counts, key=lambda metric: (preference(metric)[0], -counts[metric], *preference(metric)))
    return metrics[0].full if metrics else None


def ranking_metric(metric: str | None, known: Collection[str]) -> str | None:
    """Return the metric that ranks configurations, which is never a test metric.

    A test metric is replaced by its dev counterpart.

    Args:
        metric: metric that is shown.
        known: names of the metrics of all configurations.

    Returns:
        The full name of the metric. None if `metric` is None, or is of the test split and has no dev counterpart.
    """
    if metric is None or not metric.startswith("test/"):
        return metric
    dev = f"dev{metric.removeprefix('test')}"
    return dev if dev in known else None


def preference(metric: MetricName) -> tuple[bool, bool, int, int, str]:
    """Return a sort key for metrics: dev first, subsets of questions last, by importance."""
    return (metric.split != "dev", bool(metric.part), -metric.spec.importance, metric.spec.order, metric.full)
