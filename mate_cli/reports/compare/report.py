"""Everything a comparison shows, put together once for the terminal, the page and the files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
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
from mate_cli.runs.lock import SILENT_SECONDS, is_dead
from mate_cli.runs.record import NOT_LEARNT, NOT_TRAINED

MAX_NEAR = 3
"""Metrics that are offered for one that no run has."""


@dataclass(frozen=True)
class Report:
    """A comparison of runs.

    Args:
        folders: where the runs were looked for.
        runs: the selected runs, in order of their folders.
        groups: the configurations, best first.
        tables: the results.
        metric: the metric that is shown and plotted, None when no run has any.
        ranked_by: the metric that orders the configurations, never one of test; None where they stand as found.
        comparisons: what configurations have in common and where they differ, per dataset and task.
        published: what papers report on the datasets compared, empty when nobody wants it.
        notes: what a reader must know to trust the numbers.
        warnings: one line per file that could not be read.
        created: when the comparison was made.
        significance: every configuration against the one asked for.
        options: of the comparison.
    """

    folders: tuple[str, ...]
    runs: tuple[LoadedRun, ...]
    groups: tuple[Configuration, ...]
    tables: tuple[ResultTable, ...]
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
        """The runs that have not finished."""
        return tuple(run for run in self.runs if run.status != "finished")


def build_report(folders: Sequence[str | os.PathLike[str]], now: datetime | None = None, **options: Any) -> Report:
    """Read the runs below the folders and compare them.

    Args:
        folders: folders that hold runs, or are runs, or patterns of such folders.
        now: the time to show, by default the present.
        options: see `Options`.

    Raises:
        RunError: there are no such runs.
        ConfigError: there is no such status, metric, key or configuration to test against.
    """
    asked = Options(**options)
    if wrong := [word for word in asked.status if word not in STATUSES]:
        raise ConfigError(f"no such status: {wrong[0]}", where="status", remedy=f"Choose from {', '.join(STATUSES)}")
    loaded = load_runs(folders)
    runs, hidden = select_runs(loaded.runs, asked)
    known_keys = {*FIELDS, *(key for run in runs for key in (*run.config, *run.record))}
    if unknown := [key for key in asked.by if key not in known_keys]:
        whole = sorted(key for key in known_keys if key.endswith(f".{unknown[0]}"))
        near = whole or get_close_matches(unknown[0], sorted(known_keys), 1)
        raise ConfigError(f"no run has {unknown[0]}", where="by", remedy=f"Did you mean {near[0]}?" if near else None)
    groups = group_runs(runs, asked)
    known = known_metrics(groups)
    chosen = choose_metric(groups, asked.metric, known)
    ranked = sort_by_metric(groups, ranked_by := ranking_metric(chosen, known))
    tables = result_tables(ranked, published=asked.published)
    datasets = sorted({run.setting("dataset") for run in runs}) if asked.published else ()
    papers = tuple(row for name in datasets for row in published_results(name))
    return Report(
        folders=tuple(map(str, loaded.folders)),
        runs=runs,
        groups=tuple(ranked),
        tables=tuple(tables),
        metric=chosen,
        ranked_by=ranked_by,
        comparisons=comparisons(ranked),
        published=papers,
        notes=(*hidden, *notes(groups, asked), *published_notes(tables, papers, asked.statistic)),
        warnings=loaded.warnings,
        created=now or datetime.now(timezone.utc),
        options=asked,
        significance=compare_with(ranked, chosen, asked.against) if asked.against else None,
    )


def select_runs(runs: Sequence[LoadedRun], options: Options) -> tuple[tuple[LoadedRun, ...], list[str]]:
    """Keep the runs that are compared, and say how many are hidden.

    Benchmarks are left out, and so are runs of another status than those asked for, and runs with `debug=` unless
    they are asked for or there are no others.

    Raises:
        RunError: no run is left.
    """
    trained = [run for run in runs if run.text("command") != "benchmark"]  # whose figures are no run's
    if not trained:
        raise RunError("only benchmarks were found, no runs", remedy="Start one with `mate train experiment=<name>`")
    selected = tuple(run for run in trained if not options.status or run.status in options.status)
    if not selected:
        problem = f"none of the {plural(len(trained), 'run')} is {' or '.join(options.status)}"
        raise RunError(problem, remedy="Leave `status` out")
    shown = selected if options.debug_runs else tuple(run for run in selected if not is_debug(run)) or selected
    hidden = len(selected) - len(shown)
    return shown, [f"{plural(hidden, 'run')} with debug= hidden, shown by debug_runs=true"] * (hidden > 0)


def is_debug(run: LoadedRun) -> bool:
    """Return whether a run, or the chain that it is a stage of, was started with `debug=`."""
    chosen = [word.partition("=")[2] for word in run.words("overrides") if word.lstrip("+").startswith("debug=")]
    return bool(chosen and chosen[-1] not in ("null", "none")) or (run.parent is not None and is_debug(run.parent))


def choose_metric(groups: Sequence[Configuration], asked: str | None, known: Collection[str]) -> str | None:
    """Return the metric asked for, or the one most configurations have.

    Raises:
        ConfigError: no finished run has the metric asked for.
    """
    if asked is None:
        return main_metric(group.metric_names for group in groups)
    if asked not in known:
        remedy = near_metrics(asked, known) if known else "Wait until a run has finished"
        raise ConfigError(f"no finished run has the metric {asked}", where="metric", remedy=remedy)
    return asked


def near_metrics(asked: str, known: Collection[str]) -> str:
    """Return what to type for a metric that no run has: the nearest ones, else all but those of subsets."""
    if alike := [name for name in sorted(known) if name.endswith(f"/{asked}")] or get_close_matches(asked, known):
        return f"Did you mean {' or '.join(alike[:MAX_NEAR])}?"
    return f"Choose from {', '.join(sorted(name for name in known if name.count('/') < 2))}"


def state_text(runs: Sequence[LoadedRun]) -> str:
    """Count runs by status: `3 finished`, `2 finished, 1 failed`."""
    counts = {status: sum(run.status == status for run in runs) for status in (*STATUSES, "unknown")}
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)


def reason_text(run: LoadedRun, now: datetime) -> str:
    """Say why a run has no result: its reason, or for how long a running one has been silent."""
    if run.status != "running":
        return run.text("reason") or "no reason recorded"
    silent = now.timestamp() - run.touched
    if silent <= SILENT_SECONDS and is_dead(run.folder, run.record):
        return "its process no longer exists: it was killed"
    if silent > SILENT_SECONDS:
        return f"no output for {duration_text(silent)}: it may have been killed"
    try:
        seconds = (now - datetime.fromisoformat(run.text("started"))).total_seconds()
    except (ValueError, TypeError):  # no time at all, or one without a zone
        return "still running"
    return f"running for {duration_text(max(seconds, 0.0))}"


def notes(groups: Sequence[Configuration], options: Options) -> list[str]:
    """Say what was summed up and how, left out or mixed."""
    lines = []
    if any(len(join_folds(group.counted)) > 1 for group in groups):
        over = "runs" if options.by or options.status else "finished seeds"
        lines.append(f"{CENTERS[options.statistic]} ± {SPREADS[options.statistic]} over n {over}")
    if any(group.folds for group in groups):
        lines.append("the score of a seed is the mean over the questions of all its folds")
    finished = sum(run.status == "finished" or bool(options.status) for group in groups for run in group.runs)
    older = finished - sum(len(group.counted) for group in groups)
    if older:
        lines.append(f"{plural(older, 'older repeat')} of the same configuration and seed left out")
    skipped = [(s, g) for g in groups for name in g.metric_names if (s := g.summary(name)) is None or s.skipped]
    if skipped:
        lines.append(f"values that are NaN or infinite left out of {skipped[0][1].label}")
    for text, labels in collect_facts(groups, NOT_LEARNT).items():
        lines.append(f"{NOT_LEARNT} by {' and by '.join(sorted(labels))}: {text}")
    for text, labels in collect_facts(groups, NOT_TRAINED).items():
        lines.append(f"{UNTRAINED_MARK} {NOT_TRAINED} ({' and '.join(sorted(labels))}): {text}")
    if options.by:
        lines.append("grouped by the keys of by: runs in one row may differ in other settings")
    return lines


def collect_facts(groups: Sequence[Configuration], name: str) -> dict[str, set[str]]:
    """Return what runs say of themselves under a name, and the labels of those that do."""
    labels: dict[str, set[str]] = {}
    for group in groups:
        for text in {clean(fact) for run in group.counted or group.runs if (fact := run.part("facts").get(name))}:
            labels.setdefault(text[:MAX_TEXT], set()).add(group.label)
    return labels


def published_notes(
    tables: Sequence[ResultTable], published: Sequence[PublishedResult], statistic: Statistic
) -> list[str]:
    """Say where published rows were read, that they are no even match, and which are not summed up as runs are."""
    labels = {row.label for table in tables for row in table.published}
    shown = [row for row in published if row.label in labels]
    sources = dict.fromkeys(part for row in shown for part in row.source.split("; "))
    if not sources:
        return []
    differ = "published rows are never marked; they differ in model size, amount of training data and test split"
    lines = [f"{differ}: {'; '.join(sources)}"]
    others = {row.statistic for row in shown if row.errors and (row.statistic == "mean") != (statistic == "mean")}
    for other in sorted(others):
        what = f"published rows with an error have the {CENTERS[other]} ± {SPREADS[other]}"
        lines.append(f"{what}; for yours alike: statistic={other}")
    return lines


def main_metric(per_configuration: Iterable[Iterable[str]]) -> str | None:
    """Pick the metric to show: of dev the one most configurations have, else of another split; then by `preference`."""
    counts = Counter(name for names in per_configuration for name in names if MetricName.parse(name).is_score)
    return min(counts, key=lambda name: (preference(name)[0], -counts[name], *preference(name)), default=None)


def ranking_metric(metric: str | None, known: Collection[str]) -> str | None:
    """Return the metric that orders rows where another is shown: of one on test, the same on dev.

    Args:
        metric: that is shown.
        known: the metrics that any configuration has.

    Returns:
        None where it would be one of the test split.
    """
    if metric is None or MetricName.parse(metric).split != "test":
        return metric
    dev = f"dev{metric.removeprefix('test')}"
    return dev if dev in known else None


def preference(name: str) -> tuple[bool, bool, int, int, str]:
    """Order metrics by how well they sum up a run: dev first, all questions first, then the metric's importance."""
    metric = MetricName.parse(name)
    return (metric.split != "dev", bool(metric.part), -metric.spec.importance, metric.spec.order, name)
