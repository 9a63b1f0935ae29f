"""Configurations: runs that differ only by seed, with settings and summarized scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mate_cli.metrics.specs import SPLITS, MetricName, Score
from mate_cli.reports.compare.statistics import Statistic, Summary, is_finite, summarize
from mate_cli.reports.format import plural
from mate_cli.reports.runs.load import LoadedRun, QuestionSet, count, read_flat_config
from mate_cli.runs.identity import (
    ABSENT,
    FOLD,
    SEED_REPEAT_KEYS,
    code_setting,
    differing_keys,
    digest,
    filter_values,
    iter_settings,
    split_stage_prefix,
)
from mate_cli.runs.record import NOT_TRAINED


def join_question_sets(sets: Sequence[QuestionSet]) -> list[QuestionSet]:
    """Merge the sets of scored questions of several runs if they are equal on common splits.

    A set maps each split to the number and hash of its questions.

    Returns:
        The merged set of each input, in the order of the inputs. Inputs with the same merged set get the same object,
            so callers may compare by identity.
    """
    joint: list[dict[str, str]] = []
    joint_of: dict[int, QuestionSet] = {}
    # Sets with the most splits come first.
    for questions in sorted(sets, key=len, reverse=True):
        agreeing = (
            joint_set
            for joint_set in joint
            if all(questions.get(s, joint_set.get(s)) == joint_set.get(s, questions.get(s)) for s in SPLITS)
        )
        if (match := next(agreeing, None)) is None:
            joint.append(match := {})
        match |= questions
        joint_of[id(questions)] = match
    return [joint_of[id(questions)] for questions in sets]


def pool_question_sets(sets: Iterable[QuestionSet]) -> QuestionSet:
    """Join the question sets of all folds of a cross-validation to one question set.

    Question sets that all folds share, such as test, count once.
    """
    pooled: dict[str, dict[str, int]] = {}
    for questions in sets:
        for key, entry in questions.items():
            pooled.setdefault(key, {})[entry] = count(entry)
    for key, parts in pooled.items():
        if len(parts) > 1:
            pooled[key] = {f"{sum(parts.values())}:{digest(parts)}": 0}
    return {key: next(iter(parts)) for key, parts in pooled.items()}


def name_question_sets(dataset: str, sets: Sequence[QuestionSet]) -> list[str]:
    """Return a title for each question set: the dataset, and its size if the sets differ.

    The size is the number of questions per split.

    Sets that are the same object get the same name.
    """
    distinct = {id(questions): questions for questions in sets}
    names: dict[int, str] = {}
    for key, questions in distinct.items():
        name = ", ".join(filter(None, (dataset, count_questions(questions, SPLITS)))) if len(distinct) > 1 else dataset
        duplicates = sum(existing_name.partition(" (")[0] == name for existing_name in names.values())
        names[key] = f"{name} ({duplicates + 1})" if duplicates else name
    return [names[id(questions)] for questions in sets]


def count_questions(asked: QuestionSet, splits: Iterable[str]) -> str:
    """Format the numbers of scored questions, as in `40 dev, 38 test questions`.

    The result is empty if the numbers are unknown.
    """
    *previous, final = [(count(asked[split]), split) for split in splits if split in asked] or [(0, "")]
    texts = [f"{number:,} {split}" for number, split in previous]
    return ", ".join([*texts, plural(final[0], f"{final[1]} question")]) if final[1] else ""


def split_by_settings(
    runs: list[LoadedRun], ignored: tuple[str, ...] = SEED_REPEAT_KEYS
) -> list[tuple[dict[str, str], list[LoadedRun]]]:
    """Group runs whose settings are equal, except for ignored settings such as the seed.

    Stages replaced by finished runs count as equal if those finished runs differ only in ignored settings.

    Args:
        runs: runs to split.
        ignored: configuration keys whose values may differ within a group.

    Returns:
        Pairs of the settings that distinguish a group from other groups, and the runs of the group.
    """
    configs = [settings(run, ignored) for run in runs]
    repeated: dict[object, str] = {}
    for run, config in zip(runs, configs, strict=True):
        for key, stage_config in load_reused_configs(run).items():
            if key in config:
                identity = key, frozenset(filter_values(stage_config, ignored).items())
                config[key] = repeated.setdefault(identity, config[key])
    differing = differing_keys(configs)
    parts: dict[tuple[str, ...], list[LoadedRun]] = {}
    for run, config in zip(runs, configs, strict=True):
        parts.setdefault(tuple(config.get(key, ABSENT) for key in differing), []).append(run)
    return [(dict(zip(differing, values, strict=True)), part) for values, part in parts.items()]


def settings(run: LoadedRun, ignored: tuple[str, ...] = SEED_REPEAT_KEYS) -> dict[str, str]:
    """Return {dotted key: value} of a run's configuration, together with hashes of its code.

    Ignored keys are omitted. If the run has no config.yaml, the settings are its overrides.
    """
    config = run.config or dict(iter_settings(run.texts("overrides"), ()))
    return filter_values({**config, **dict(iter_settings(code_setting(run.part("code"))))}, ignored)


def load_reused_configs(run: LoadedRun) -> dict[str, Mapping[str, str]]:
    """Read the configurations of finished runs that were reused as stages of a pipeline run.

    Returns:
        The flat configuration of each readable run, by the key that contains the path of the run.
    """
    folders = {key: Path(folder) for key, folder in run.config.items() if split_stage_prefix(key)[1] == "run"}
    configs = {key: read_flat_config(folder / "config.yaml", []) for key, folder in folders.items()}
    return {key: config for key, config in configs.items() if config}


@dataclass(frozen=True)
class Options:
    """The options of `mate compare`.

    Args:
        metric: metric to show and to rank by. A test metric ranks by its dev counterpart. None selects the dev metric
            that most configurations have.
        by: record entries or dotted configuration keys to group runs by. Runs that differ in other settings then share
            a row, except runs of several datasets. Empty groups by `FIELDS` and every configuration key that is not
            ignored.
        status: keep only runs with one of these statuses, and count all of them. Empty keeps all runs and counts the
            finished runs.
        ignore: additional configuration keys that do not distinguish configurations.
        debug_runs: whether to show runs with `debug=`, too.
        statistic: summary statistic of repeated runs, see `Summary`.
        published: whether to show published results on the same datasets.
        against: label, or part of the label, of the reference configuration for significance tests.
        cache: folder for caching slow reads. None disables the cache.
        added_sections: functions that build user-defined sections or sections of papers, see `BuildSection`.
    """

    metric: str | None = None
    by: Sequence[str] = ()
    status: Sequence[str] = ()
    ignore: Sequence[str] = ()
    debug_runs: bool = False
    statistic: Statistic = "median"
    published: bool = True
    against: str | None = None
    cache: Path | None = None
    added_sections: Sequence[Callable[..., Any]] = ()


FIELDS = ("dataset", "model", "attention", "init", "task", "command")


@dataclass(frozen=True, eq=False)
class Configuration:
    """Runs with equal settings except the seed, which result tables summarize in one row.

    A configuration is a row of the result tables.

    Args:
        fields: keys that the runs were grouped by, with their values.
        differences: settings that distinguish the configuration from other configurations with equal `fields`.
        runs: all runs of the configuration, of any status.
        counted: runs whose metrics count: one per seed.
        label: display name, see `name_configurations`.
        options: options of the comparison.
        questions: questions on which the runs were scored.
        block: dataset, with the number of questions if runs on the dataset were scored on different questions.
            Configurations are ranked only against configurations of the same block.
    """

    fields: Mapping[str, str]
    runs: tuple[LoadedRun, ...]
    counted: tuple[LoadedRun, ...]
    differences: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    options: Options = field(default_factory=Options)
    questions: QuestionSet = field(default_factory=dict)
    block: str = ""

    def summary(self, metric: str) -> Summary | None:
        """Summarize the final values of a metric over the runs of the configuration.

        Return None if no run has the metric. If a stage and its pipeline recorded the same score, the score counts
        once. The folds of a cross-validation count as one value per seed: the mean over the questions of all folds.
        """
        scores = {run: run.metrics[metric] for run in self.counted if metric in run.metrics}
        unique_runs = [run for run, value in scores.items() if run.parent is None or scores.get(run.parent) != value]
        values = (mean_over_folds([scores[run] for run in folds]) for folds in join_folds(unique_runs))
        questions = self._count_questions(self.names[metric]) if scores and self.names[metric].spec.is_share else None
        summary = summarize(values, self.options.statistic, questions=questions)
        if summary and self.options.statistic == "median_dev":
            chosen = next((value for run, value in scores.items() if run is self.median_run), math.nan)
            return replace(summary, chosen=chosen) if is_finite(chosen) else summary
        return summary

    def _count_questions(self, metric: MetricName) -> int | None:
        """Return the number of questions over which a metric of this configuration is averaged.

        All cross-validation folds together are counted.

        Return None if the number is unknown, or differs between runs on the same questions.
        """
        numbers: dict[str, set[int | None]] = {}
        for run in (run for run in self.counted if metric.full in run.metrics):
            # All folds share the questions of test, so each question set is counted only once.
            numbers.setdefault(run.questions.get(metric.split, ""), set()).add(run.metrics[metric.full].questions)
        unambiguous = [next(iter(of_set)) for of_set in numbers.values() if len(of_set) == 1]
        counts = [number for number in unambiguous if number is not None]
        return sum(counts) if counts and len(counts) == len(numbers) else None

    @property
    def is_untrained(self) -> bool:
        """True for an external system that mate did not train and of which only answers are known."""
        return all(run.text("init") == NOT_TRAINED for run in self.runs)

    @cached_property
    def dataset(self) -> str:
        """Name of the dataset, or names joined by commas if the runs have several."""
        return ", ".join(sorted({run.setting("dataset") for run in self.runs} - {""}))

    @cached_property
    def folds(self) -> str:
        """Number of cross-validation folds that were scored, such as `3 of 5 folds`.

        The value is empty without a cross-validation.
        """
        folds = set(filter(None, map(fold_of, self.counted)))
        return f"{len(folds)} of {self.counted[0].config.get('data.folds')} folds" if folds else ""

    @cached_property
    def median_run(self) -> LoadedRun | None:
        """The run of the configuration that has the median dev score.

        For an even number of runs, the lower of the two middle runs. The value is None with a cross-validation, or if
        no run has a finite dev score.
        """
        if self.folds:
            return None
        requested = self.options.metric or ""
        dev_metric = requested if requested.startswith("dev/") else ""
        scores = {run: run.metrics.get(dev_metric or run.text("monitor"), math.nan) for run in self.counted}
        sorted_runs = sorted((run for run in scores if is_finite(scores[run])), key=scores.__getitem__)
        return sorted_runs[(len(sorted_runs) - 1) // 2] if sorted_runs else None

    def cost(self, key: str, inside: str | None = None) -> Summary | None:
        """Summarize a recorded cost, such as `wall_seconds`, over the runs of the configuration.

        Args:
            key: name of the entry in the record.
            inside: mapping in the record that contains the entry, None for the record itself.
        """
        values = (run.number(key, inside) for run in self.counted)
        return summarize((value for value in values if value is not None), self.options.statistic)

    @cached_property
    def differ_by_seed(self) -> bool:
        """True if the runs of the configuration have equal settings and distinct seeds.

        The value is False if the option `by` has joined runs that differ in other settings.
        """
        runs = list(self.counted)
        return len(split_by_settings(runs)) == 1 and len(repeats(runs, True, by_seed=True)) == len(runs)

    @cached_property
    def names(self) -> Mapping[str, MetricName]:
        """Parsed names of the metrics that the runs recorded, except metrics of baselines."""
        return {full: name for run in self.counted for full, name in run.names.items() if not name.baseline}


def known_metrics(groups: Iterable[Configuration]) -> dict[str, MetricName]:
    """Return the parsed names of all metrics that configurations have, by logged name."""
    return {full: name for group in groups for full, name in group.names.items()}


def fold_of(run: LoadedRun) -> str:
    """Return the cross-validation fold on which a run was scored, such as "2", else "".

    The result is empty without a cross-validation.
    """
    return run.config.get(FOLD, "null").replace("null", "")


def join_folds(runs: Sequence[LoadedRun]) -> list[list[LoadedRun]]:
    """Group the runs (folds) of each cross-validation, which have the same seed and settings.

    A run without a fold is a separate group.
    """
    folds_by_key: dict[object, list[LoadedRun]] = {}
    for run in runs:
        key = (run.text("seed"), frozenset(settings(run).items())) if fold_of(run) else run
        folds_by_key.setdefault(key, []).append(run)
    return list(folds_by_key.values())


def mean_over_folds(scores: Sequence[Score]) -> float:
    """Average the scores of all cross-validation folds, weighted by their question counts."""
    if len(scores) == 1:
        return float(scores[0])
    weights = [score.questions or 1 for score in scores]
    return sum(score * weight for score, weight in zip(scores, weights, strict=True)) / sum(weights)


def repeats(runs: Sequence[LoadedRun], count_all: bool, *, by_seed: bool) -> tuple[LoadedRun, ...]:
    """Select the runs of a configuration that enter its summarized scores.

    With `by_seed`, only the latest run of each seed counts. Two runs have the same seed if their `seed` settings, their
    folds, and the seeds of finished runs that replace their stages are equal.

    Args:
        runs: runs of one configuration.
        count_all: whether runs of any status count, not only finished runs.
        by_seed: whether to select one run per seed.
    """
    eligible = [run for run in runs if count_all or run.status == "finished"]
    if not by_seed:
        return tuple(eligible)
    latest = {
        (
            run.text("seed") or run.name,
            fold_of(run),
            *(stage_config.get("seed", "") for stage_config in load_reused_configs(run).values()),
        ): run
        for run in sorted(eligible, key=lambda run: run.text("started"))
    }
    return tuple(run for run in eligible if run in latest.values())
