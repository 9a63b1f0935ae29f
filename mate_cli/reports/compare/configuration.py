"""The runs of one configuration: their settings, the questions that their scores are of, and what they come to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mate_cli.metrics.specs import BASELINE, SPLITS, MetricName
from mate_cli.reports.compare.statistics import Statistic, Summary, is_finite, summarize
from mate_cli.reports.format import plural
from mate_cli.reports.runs.load import LoadedRun, read_flat_config
from mate_cli.runs.identity import (
    ABSENT,
    FOLD,
    REPEATED,
    code_setting,
    differing_keys,
    digest,
    of_stage,
    telling_settings,
    telling_values,
)
from mate_cli.runs.record import NOT_TRAINED

COUNTED = re.compile(r"\d{1,18}:")
QuestionSet = Mapping[str, str]
"""The number of questions of each split and a hash of them, as `{"dev": "40:1a2b"}`."""


def read_question_set(run: LoadedRun) -> QuestionSet:
    """Return the questions that the scores of a run are of, as far as it recorded them."""
    return {key: str(asked) for key, asked in run.part("questions").items() if COUNTED.match(str(asked))}


def count(asked: str) -> int:
    """Return how many questions there are."""
    return int(asked.partition(":")[0])


def join_question_sets(sets: Sequence[QuestionSet]) -> list[QuestionSet]:
    """Return for each set the joint one of all that agree with it on the splits of both, the same object for these."""
    joint: list[dict[str, str]] = []
    places: dict[int, QuestionSet] = {}
    for asked in sorted(sets, key=len, reverse=True):  # those that say most come first
        agreeing = (
            known for known in joint if all(asked.get(s, known.get(s)) == known.get(s, asked.get(s)) for s in SPLITS)
        )
        if (match := next(agreeing, None)) is None:
            joint.append(match := {})
        match |= asked
        places[id(asked)] = match
    return [places[id(asked)] for asked in sets]


def pool_question_sets(sets: Iterable[QuestionSet]) -> QuestionSet:
    """Return the questions of several folds together; those that all of them were asked, such as test, count once."""
    pooled: dict[str, dict[str, int]] = {}
    for questions in sets:
        for key, asked in questions.items():
            pooled.setdefault(key, {})[asked] = count(asked)
    for key, parts in pooled.items():
        if len(parts) > 1:
            pooled[key] = {f"{sum(parts.values())}:{digest(parts)}": 0}
    return {key: next(iter(parts)) for key, parts in pooled.items()}


def name_question_sets(dataset: str, sets: Sequence[QuestionSet]) -> list[str]:
    """Name sets of a data set: by its name alone where all are the same object, else by their numbers too."""
    distinct = {id(questions): questions for questions in sets}
    names: dict[int, str] = {}
    for key, questions in distinct.items():
        name = ", ".join(filter(None, (dataset, count_questions(questions, SPLITS)))) if len(distinct) > 1 else dataset
        same = sum(other.partition(" (")[0] == name for other in names.values())
        names[key] = f"{name} ({same + 1})" if same else name
    return [names[id(questions)] for questions in sets]


def count_asked(run: LoadedRun, metric: str) -> int | None:
    """Return the number of questions behind a metric of a run; None if the run did not record it.

    Records of older versions have no numbers per metric: a metric of all questions has those of its split.
    """
    if run.part("counts"):
        number = run.number(metric, "counts")
        return None if number is None else int(number)
    name = MetricName.parse(metric)
    asked = read_question_set(run).get(name.split) if name.is_share and not name.part else None
    return count(asked) if asked else None


def count_questions(asked: QuestionSet, splits: Iterable[str]) -> str:
    """Write how many questions there are: `40 dev, 38 test questions`; empty where nobody knows."""
    *others, last = [(count(asked[split]), split) for split in splits if split in asked] or [(0, "")]
    told = [f"{number:,} {split}" for number, split in others]
    return ", ".join([*told, plural(last[0], f"{last[1]} question")]) if last[1] else ""


def split_by_settings(
    runs: list[LoadedRun], ignored: tuple[str, ...] = REPEATED
) -> list[tuple[dict[str, str], list[LoadedRun]]]:
    """Split runs whose settings differ; each part comes with the settings that set it apart.

    Finished runs that stand in for a stage are as good as one another where they are repeats themselves.
    """
    every = [settings(run, ignored) for run in runs]
    repeated: dict[object, str] = {}
    for run, config in zip(runs, every, strict=True):
        for key, inner in stand_ins(run).items():
            if key in config:
                config[key] = repeated.setdefault((key, frozenset(telling_values(inner, ignored).items())), config[key])
    differing = differing_keys(every)
    parts: dict[tuple[str, ...], list[LoadedRun]] = {}
    for run, config in zip(runs, every, strict=True):
        parts.setdefault(tuple(config.get(key, ABSENT) for key in differing), []).append(run)
    return [(dict(zip(differing, values, strict=True)), part) for values, part in parts.items()]


def settings(run: LoadedRun, ignored: tuple[str, ...] = REPEATED) -> dict[str, str]:
    """Return a run's configuration and code without the ignored keys; its overrides where config.yaml is missing."""
    config = run.config or dict(telling_settings(run.words("overrides"), ()))
    return telling_values({**config, **dict(telling_settings(code_setting(run.part("code"))))}, ignored)


def stand_ins(run: LoadedRun) -> dict[str, Mapping[str, str]]:
    """Return the configurations of the finished runs that stand in for stages, as far as they can be read."""
    folders = {key: Path(folder) for key, folder in run.config.items() if of_stage(key)[1] == "run"}
    configs = {key: read_flat_config(folder / "config.yaml", []) for key, folder in folders.items()}
    return {key: config for key, config in configs.items() if config}


@dataclass(frozen=True)
class Options:
    """The choices of a comparison.

    Args:
        metric: to show and to rank by, of one on test by the same on dev; None picks that on dev which most have.
        by: record entries or dotted configuration keys to group by; runs that differ elsewhere then share a row, but
            never those of several datasets. Empty: FIELDS, and every configuration key that is not ignored keeps runs
            apart.
        status: keep only runs with one of these statuses and count all; empty keeps all and counts the finished.
        ignore: further configuration keys that do not keep runs apart.
        debug_runs: show runs with `debug=` too.
        statistic: how repeats are summed up, see `Summary`.
        published: show published results on the same datasets.
        against: label, or a part of it, of the configuration that the others are tested against.
        cache: a folder where what takes long to read may be kept; None: nowhere.
        added_sections: functions that build sections of your own or of a paper, see `BuildSection`.
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
    """The runs of one configuration.

    Args:
        fields: what the runs were grouped by, and its value.
        differences: configuration keys that set it apart from its neighbours with equal fields.
        runs: all of its runs, whatever became of them.
        counted: the runs whose metrics count: one per seed.
        label: its name everywhere, see `name_configurations`.
        options: of the comparison.
        questions: what its scores are of.
        block: the data set, with the number of questions where runs were asked different ones; configurations are
            ranked within their block.
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
        """Summarise a final metric over the runs that count; what a pipeline repeats of its stage counts once.

        Of the folds of a cross-validation the mean over all of their questions counts, once for each seed.
        """
        scores = {run: run.metrics[metric] for run in self.counted if metric in run.metrics}
        once = [run for run, value in scores.items() if run.parent is None or scores.get(run.parent) != value]
        values = (mean_over_folds([(run, scores[run]) for run in folds], metric) for folds in join_folds(once))
        questions = self.count_questions(metric) if MetricName.parse(metric).is_share else None
        summary = summarize(values, self.options.statistic, questions=questions)
        chosen = scores.get(self.median_run) if self.median_run and self.options.statistic == "median_dev" else None
        return replace(summary, chosen=chosen) if summary and chosen is not None and is_finite(chosen) else summary

    def count_questions(self, metric: str) -> int | None:
        """Return the number of questions behind a metric, of all folds together; None if it is unknown or differs."""
        split, numbers = MetricName.parse(metric).split, dict[str, set[int | None]]()
        for run in (run for run in self.counted if metric in run.metrics):
            # All folds share the questions of test, so each set of questions counts once.
            numbers.setdefault(read_question_set(run).get(split, ""), set()).add(count_asked(run, metric))
        known = [next(iter(of_set)) for of_set in numbers.values() if len(of_set) == 1]
        counts = [number for number in known if number is not None]
        return sum(counts) if counts and len(counts) == len(numbers) else None

    @property
    def is_untrained(self) -> bool:
        """True if it is another system, whose answers alone are known."""
        return all(run.text("init") == NOT_TRAINED for run in self.runs)

    @cached_property
    def dataset(self) -> str:
        """The dataset its runs used, several joined."""
        return ", ".join(sorted({run.setting("dataset") for run in self.runs} - {""}))

    @cached_property
    def folds(self) -> str:
        """The parts of the data that its scores are of, such as `3 of 5 folds`; empty without a cross-validation."""
        known = set(filter(None, map(fold_of, self.counted)))
        return f"{len(known)} of {self.counted[0].config.get('data.folds')} folds" if known else ""

    @cached_property
    def median_run(self) -> LoadedRun | None:
        """The run with the median score on the development split, of two in the middle the lower; None without any."""
        if self.folds:
            return None
        asked = self.options.metric or ""
        of_dev = asked if asked.startswith("dev/") else ""
        scores = {run: run.metrics.get(of_dev or run.text("monitor")) for run in self.counted}
        known = {run: score for run, score in scores.items() if score is not None and is_finite(score)}
        return sorted(known, key=lambda run: known[run])[(len(known) - 1) // 2] if known else None

    def cost(self, key: str, inside: str | None = None) -> Summary | None:
        """Summarise another number of the records, such as `wall_seconds`, over the runs that count."""
        values = (run.number(key, inside) for run in self.counted)
        return summarize((value for value in values if value is not None), self.options.statistic)

    @cached_property
    def differ_by_seed(self) -> bool:
        """True if the runs that count are repeats, each with a seed of its own; not all that `by` joins are."""
        runs = list(self.counted)
        return len(split_by_settings(runs)) == 1 and len(repeats(runs, True, by_seed=True)) == len(runs)

    @property
    def metric_names(self) -> set[str]:
        """The names of all metrics that count, baselines left out."""
        return {name for run in self.counted for name in run.metrics if not name.startswith(BASELINE)}


def known_metrics(groups: Iterable[Configuration]) -> set[str]:
    """Return the names of all metrics that count in any of some configurations."""
    return {name for group in groups for name in group.metric_names}


def fold_of(run: LoadedRun) -> str:
    """Return which part of a cross-validation a run is scored on; empty without one."""
    return run.config.get(FOLD, "null").replace("null", "")


def join_folds(runs: Sequence[LoadedRun]) -> list[list[LoadedRun]]:
    """Put the folds with the same seed and settings together; any other run is by itself."""
    joined: dict[object, list[LoadedRun]] = {}
    for run in runs:
        key = (run.text("seed"), frozenset(settings(run).items())) if fold_of(run) else run
        joined.setdefault(key, []).append(run)
    return list(joined.values())


def mean_over_folds(scores: Sequence[tuple[LoadedRun, float]], metric: str) -> float:
    """Average the scores of folds, each by the number of its questions."""
    if len(scores) == 1:
        return scores[0][1]
    weights = [count_asked(run, metric) or 1 for run, _ in scores]
    return sum(score * weight for (_, score), weight in zip(scores, weights, strict=True)) / sum(weights)


def repeats(runs: Sequence[LoadedRun], count_all: bool, *, by_seed: bool) -> tuple[LoadedRun, ...]:
    """Keep the runs whose metrics count; of several with one seed, theirs and of stand-ins, the one started last."""
    counted = [run for run in runs if count_all or run.status == "finished"]
    if not by_seed:
        return tuple(counted)
    latest = {
        (run.text("seed") or run.name, fold_of(run), *(inner.get("seed", "") for inner in stand_ins(run).values())): run
        for run in sorted(counted, key=lambda run: run.text("started"))
    }
    return tuple(run for run in counted if run in latest.values())
