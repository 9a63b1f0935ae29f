"""Everything a comparison shows, put together once for the terminal, the page and the files."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from difflib import get_close_matches
from pathlib import Path

from mate_cli.errors import ConfigError, RunError
from mate_cli.reports.compare.config_difference import Comparison, comparisons
from mate_cli.reports.compare.grouping import Configuration, group_runs
from mate_cli.reports.compare.main_metric import main_metric, ranking_metric
from mate_cli.reports.compare.notes import notes, published_notes
from mate_cli.reports.compare.published import Published, published_for
from mate_cli.reports.compare.significance import Significance, compare_with
from mate_cli.reports.compare.statistics import STATISTICS, Statistic
from mate_cli.reports.compare.tables import ResultTable, by_metric, result_tables
from mate_cli.reports.format import duration_text, plural
from mate_cli.reports.runs.load import STATUSES, LoadedRun, load_runs
from mate_cli.runs.liveness import SILENT_SECONDS, is_dead

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
        statistic: how repeats are summed up; `SPREADS` says what stands behind ±.
        comparisons: what configurations have in common and where they differ, per dataset and task.
        published: what papers report on the datasets compared, empty when nobody wants it.
        notes: what a reader must know to trust the numbers.
        warnings: one line per file that could not be read.
        created: when the comparison was made.
        significance: every configuration against the one asked for.
        cache: a folder where what takes long to read is kept, None: nowhere.
    """

    folders: tuple[str, ...]
    runs: tuple[LoadedRun, ...]
    groups: tuple[Configuration, ...]
    tables: tuple[ResultTable, ...]
    metric: str | None
    ranked_by: str | None
    statistic: Statistic
    comparisons: tuple[Comparison, ...]
    published: tuple[Published, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    created: datetime
    significance: Significance | None = None
    cache: Path | None = None

    @property
    def unfinished(self) -> tuple[LoadedRun, ...]:
        """The runs that have not finished."""
        return tuple(run for run in self.runs if run.status != "finished")


def build_report(
    folders: Sequence[str | os.PathLike[str]],
    *,
    metric: str | None = None,
    by: Sequence[str] = (),
    status: Sequence[str] = (),
    ignore: Sequence[str] = (),
    statistic: Statistic = "median",
    published: bool = True,
    against: str | None = None,
    cache: Path | None = None,
    now: datetime | None = None,
) -> Report:
    """Reads the runs below the folders and compares them.

    Args:
        folders: folders that hold runs, or are runs, or patterns of such folders.
        metric: the metric to show and to rank by, of one on test by the same on dev; None picks the one on dev that
            most configurations have.
        by: what to group by, see `group_runs`.
        status: keep only the runs with one of these statuses, and count all of them; empty keeps every run
            and counts the finished ones.
        ignore: further configuration keys that do not keep runs apart.
        statistic: how repeats are summed up, see `Summary`.
        published: show what papers report on the same datasets.
        against: label, or a part of it, of the configuration that the others are tested against.
        cache: a folder where what takes long to read may be kept.
        now: the time to show, by default the present.

    Raises:
        RunError: there are no such runs.
        ConfigError: there is no such status, statistic, metric or configuration to test against.
    """
    check_statuses(status)
    check_statistic(statistic)
    loaded = load_runs(folders)
    runs = selected(loaded.runs, status)
    groups = group_runs(runs, by=by, ignore=ignore, count_all=bool(status), statistic=statistic, ranked_by=metric)
    chosen = choose_metric(groups, metric)
    known = {name for group in groups for name in group.metric_names}
    ranked = by_metric(groups, ranked_by := ranking_metric(chosen, known))
    tables = result_tables(ranked, published=published)
    papers = published_on(runs) if published else ()
    return Report(
        folders=tuple(map(str, loaded.folders)),
        runs=runs,
        groups=tuple(ranked),
        tables=tuple(tables),
        metric=chosen,
        ranked_by=ranked_by,
        statistic=statistic,
        comparisons=comparisons(ranked),
        published=papers,
        notes=(
            *notes(groups, statistic, mixed=bool(by), count_all=bool(status)),
            *published_notes(tables, papers),
        ),
        warnings=loaded.warnings,
        created=now or datetime.now(timezone.utc),
        significance=compare_with(ranked, chosen, against) if against else None,
        cache=cache,
    )


def selected(runs: Sequence[LoadedRun], status: Sequence[str]) -> tuple[LoadedRun, ...]:
    """Keeps the runs that are compared: no benchmarks, and only those with one of the statuses where any is given.

    Raises:
        RunError: none is left.
    """
    trained = [run for run in runs if run.text("command") != "benchmark"]  # whose figures are no run's
    if not trained:
        raise RunError("there are benchmarks, but no runs", remedy="Start one with `mate train experiment=<name>`")
    kept = tuple(run for run in trained if not status or run.status in status)
    if not kept:
        problem = f"none of the {plural(len(trained), 'run')} is {' or '.join(status)}"
        raise RunError(problem, remedy="Leave `status` out")
    return kept


def check_statuses(status: Sequence[str]) -> None:
    """Refuses a status that does not exist."""
    for one in status:
        if one not in STATUSES:
            raise ConfigError(f"no such status: {one}", where="status", remedy=f"Choose from {', '.join(STATUSES)}")


def check_statistic(statistic: str) -> None:
    """Refuses a statistic that does not exist."""
    if statistic not in STATISTICS:
        raise ConfigError(
            f"no such statistic: {statistic}", where="statistic", remedy=f"Choose from {', '.join(STATISTICS)}"
        )


def choose_metric(groups: Sequence[Configuration], asked: str | None) -> str | None:
    """Returns the metric asked for, or the one most configurations have.

    Raises:
        ConfigError: no finished run has the metric asked for.
    """
    known = {name for group in groups for name in group.metric_names}
    if asked is None:
        return main_metric(group.metric_names for group in groups)
    if asked not in known:
        remedy = near_metrics(asked, known) if known else "Wait until a run has finished"
        raise ConfigError(f"no finished run has the metric {asked}", where="metric", remedy=remedy)
    return asked


def near_metrics(asked: str, known: Collection[str]) -> str:
    """Return what to type for a metric that no run has: the nearest ones, else all but those of subsets."""
    alike = [name for name in sorted(known) if name.endswith(f"/{asked}")] or get_close_matches(asked, known)
    if alike:
        return f"Did you mean {' or '.join(alike[:MAX_NEAR])}?"
    return f"Choose from {', '.join(sorted(name for name in known if name.count('/') < 2))}"


def published_on(runs: Sequence[LoadedRun]) -> tuple[Published, ...]:
    """Returns what papers report on the datasets of the runs."""
    return tuple(row for name in sorted({run.setting("dataset") for run in runs}) for row in published_for(name))


def state_text(runs: Sequence[LoadedRun]) -> str:
    """Counts runs by status: `3 finished`, `2 finished, 1 failed`."""
    counts = {status: sum(run.status == status for run in runs) for status in (*STATUSES, "unknown")}
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)


def reason_text(run: LoadedRun, now: datetime) -> str:
    """Says why a run has no result: its reason, or for how long a running one has been silent."""
    if run.status != "running":
        return run.text("reason") or "no reason recorded"
    silent = now.timestamp() - run.touched
    if run.text("process") and silent <= SILENT_SECONDS and is_dead(run.folder, run.record):
        return "its process has gone: it was killed"
    if silent > SILENT_SECONDS:
        return f"nothing written for {duration_text(silent)}: it may have been killed"
    return f"running for {duration_text(running)}" if (running := age(run, now)) is not None else "still running"


def age(run: LoadedRun, now: datetime) -> float | None:
    """Returns the seconds since a run started, None when its record does not say."""
    try:
        seconds = (now - datetime.fromisoformat(run.text("started"))).total_seconds()
    except (ValueError, TypeError):  # no time at all, or one without a zone
        return None
    return max(seconds, 0.0)
