"""Puts the runs that differ by their seed alone together: a configuration is a row, its seeds are repeats."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePath

from mate_cli.metrics.specs import BASELINE, MetricName
from mate_cli.reports.compare.question_sets import (
    QuestionSet,
    join_question_sets,
    name_question_sets,
    pool_question_sets,
    read_question_set,
)
from mate_cli.reports.compare.run_settings import settings, split_by_settings, stand_ins
from mate_cli.reports.compare.statistics import Statistic, Summary, is_finite, summarize
from mate_cli.reports.runs.load import LoadedRun
from mate_cli.runs.identity import (
    ABSENT,
    FOLD,
    REPEATED,
    differing_keys,
    telling_settings,
)
from mate_cli.runs.record import NOT_TRAINED

FIELDS = ("dataset", "model", "attention", "init", "task", "command")
NAMED = {*FIELDS, "data", "experiment"}
"""Choices that the fields of a configuration name, or its experiment's stages."""
SHOWN_DIFFERENCES = 2
"""Settings in a name; more where it takes more to tell configurations apart."""
TITLES = {"etc": "TableETC"}
"""Names of networks that papers call otherwise than the command line."""
UNTRAINED_MARK = "‡"
"""Stands behind the name of a system that was not trained here."""
BETWEEN = " · "
"""Stands between the parts of a name."""
CHECKPOINT, TARGET = ".checkpoint", "._target_"
RUN = ".run"
"""Ends the configuration keys of finished runs that stand in for stages."""


@dataclass(frozen=True, eq=False)
class Configuration:
    """The runs of one configuration.

    Args:
        fields: what the runs were grouped by, and its value.
        differences: configuration keys that set it apart from its neighbours with equal fields.
        runs: all of its runs, whatever became of them.
        counted: the runs whose metrics count: one per seed.
        label: a short name, unlike any other configuration's in the same comparison.
        statistic: how repeats are summed up.
        ranked_by: the metric asked for, None for the one that each run monitors.
        questions: what its scores are of.
        block: the data set, with the number of questions where runs were asked different ones; configurations are
            ranked within their block.
    """

    fields: Mapping[str, str]
    runs: tuple[LoadedRun, ...]
    counted: tuple[LoadedRun, ...]
    differences: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    statistic: Statistic = "median"
    ranked_by: str | None = None
    questions: QuestionSet = field(default_factory=dict)
    block: str = ""

    def summary(self, metric: str) -> Summary | None:
        """Summarise a final metric over the runs that count; what a pipeline repeats of its stage counts once.

        Of the folds of a cross-validation the mean over all of their questions counts, once for each seed.
        """
        scores = {run: run.metrics[metric] for run in self.counted if metric in run.metrics}
        once = [run for run, value in scores.items() if run.parent is None or scores.get(run.parent) != value]
        values = (mean_over_folds([(run, scores[run]) for run in folds], metric) for folds in join_folds(once))
        summary = summarize(values, self.statistic, questions=self.count_questions(metric))
        chosen = scores.get(self.median_run) if self.median_run and self.statistic == "median_dev" else None
        return replace(summary, chosen=chosen) if summary and chosen is not None and is_finite(chosen) else summary

    def count_questions(self, metric: str) -> int | None:
        """Return how many questions a share is of, for a part of unknown size those of its split; None if unknown."""
        name = MetricName.parse(metric)
        asked = self.questions.get(f"{name.split}/{name.part}") or self.questions.get(name.split)
        return asked.total if asked and name.is_share else None

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
        asked = self.ranked_by if (self.ranked_by or "").startswith("dev/") else None
        scores = {run: run.metrics.get(asked or run.text("monitor")) for run in self.counted}
        known = sorted(
            (score, place) for place, score in enumerate(scores.values()) if score is not None and is_finite(score)
        )
        return self.counted[known[(len(known) - 1) // 2][1]] if known else None

    def cost(self, key: str, inside: str | None = None) -> Summary | None:
        """Summarise another number of the records, such as `wall_seconds`, over the runs that count."""
        values = (run.number(key, inside) for run in self.counted)
        return summarize((value for value in values if value is not None), self.statistic)

    @cached_property
    def differ_by_seed(self) -> bool:
        """True if the runs that count are repeats, each with a seed of its own; not all that `by` joins are."""
        runs = list(self.counted)
        return len(split_by_settings(runs)) == 1 and len(repeats(runs, True, by_seed=True)) == len(runs)

    @property
    def metric_names(self) -> set[str]:
        """The names of all metrics that count, baselines left out."""
        return {name for run in self.counted for name in run.metrics if not name.startswith(BASELINE)}


def group_runs(
    runs: Iterable[LoadedRun],
    *,
    by: Sequence[str] = (),
    ignore: Sequence[str] = (),
    count_all: bool = False,
    statistic: Statistic = "median",
    ranked_by: str | None = None,
) -> list[Configuration]:
    """Group runs into configurations, in order of appearance.

    Args:
        runs: the runs to group.
        by: record entries or dotted configuration keys to group by; runs that differ elsewhere then share a row, but
            never those of several datasets. Empty: FIELDS, and every configuration key that is not ignored keeps runs
            apart.
        ignore: further configuration keys that do not keep runs apart.
        count_all: count unfinished runs too.
        statistic: how repeats are summed up.
        ranked_by: the metric asked for, which chooses a run where the statistic is "median_dev".
    """
    runs = list(runs)
    keys = tuple(by) or FIELDS
    if "dataset" not in keys and len({run.setting("dataset") for run in runs}) > 1:
        keys = (*keys, "dataset")
    families: dict[tuple[str, ...], list[LoadedRun]] = {}
    for run in runs:
        identity = tuple(run.setting(key) for key in keys)
        families.setdefault(identity, []).append(run)
    groups: list[Configuration] = []
    for identity, members in families.items():
        fields = dict(zip(keys, identity, strict=True))
        parts = [({}, members)] if by else split_by_settings(members, (*REPEATED, *ignore))
        groups.extend(
            Configuration(
                fields,
                tuple(same),
                repeats(same, count_all, by_seed=not by),
                apart,
                statistic=statistic,
                ranked_by=ranked_by,
            )
            for apart, part in parts
            for same in split_by_questions(part)
        )
    return with_labels(with_blocks(drop_unfinished_differences(groups)), keys, every_field=bool(by))


def split_by_questions(runs: Sequence[LoadedRun]) -> list[list[LoadedRun]]:
    """Split runs that were asked different questions, the folds of a cross-validation each by itself.

    What has no scores yet stays with the first.
    """
    parts: dict[int, list[LoadedRun]] = {}
    for fold in dict.fromkeys(map(fold_of, runs)):
        same = [run for run in runs if fold_of(run) == fold]
        sets = join_question_sets([read_question_set(run) if run.part("metrics") else {} for run in same])
        places = list(dict.fromkeys(map(id, sets)))
        for run, joint in zip(same, sets, strict=True):
            parts.setdefault(places.index(id(joint)), []).append(run)
    return list(parts.values())


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
    name = MetricName.parse(metric)
    asked = [read_question_set(run) for run, _ in scores]
    counts = [questions.get(f"{name.split}/{name.part}") or questions.get(name.split) for questions in asked]
    weights = [count.total if count else 1 for count in counts]
    return sum(score * weight for (_, score), weight in zip(scores, weights, strict=True)) / sum(weights)


def with_blocks(groups: Sequence[Configuration]) -> list[Configuration]:
    """Say of each configuration what its scores are of, and name the block that it is ranked in."""
    datasets: dict[str, list[int]] = {}
    for place, group in enumerate(groups):
        datasets.setdefault(group.dataset, []).append(place)
    blocks: dict[int, Configuration] = {}
    for dataset, places in datasets.items():
        scored = [[run for run in groups[place].runs if run.part("metrics")] for place in places]
        known = [join_question_sets([read_question_set(run) for run in runs]) for runs in scored]
        sets = join_question_sets([pool_question_sets(folds) for folds in known])
        for place, joint, block in zip(places, sets, name_question_sets(dataset, sets), strict=True):
            blocks[place] = replace(groups[place], questions=joint, block=block)
    return [blocks[place] for place in range(len(groups))]


def drop_unfinished_differences(groups: Sequence[Configuration]) -> list[Configuration]:
    """Keep of what sets finished configurations apart that in which they differ from finished ones."""
    families: dict[tuple[str, ...], list[Configuration]] = {}
    for group in groups:
        if group.counted:
            families.setdefault(tuple(group.fields.values()), []).append(group)
    differing = {fields: differing_keys([group.differences for group in family]) for fields, family in families.items()}
    return [
        replace(group, differences={key: group.differences[key] for key in differing[tuple(group.fields.values())]})
        if group.counted
        else group
        for group in groups
    ]


def repeats(runs: Sequence[LoadedRun], count_all: bool, *, by_seed: bool) -> tuple[LoadedRun, ...]:
    """Keep the runs whose metrics count; of several with one seed, theirs and of stand-ins, the one started last."""
    counted = [run for run in runs if count_all or run.status == "finished"]
    if not by_seed:
        return tuple(counted)
    latest: dict[tuple[str, ...], LoadedRun] = {}
    for run in sorted(counted, key=lambda run: run.text("started")):
        inner = [config.get("seed", "") for config in stand_ins(run).values()]
        latest[(run.text("seed") or run.name, fold_of(run), *inner)] = run
    return tuple(run for run in counted if run in latest.values())


def short_labels(groups: Sequence[Configuration]) -> list[str]:
    """Name configurations as if there were no others: for a table of a few, where shorter names do."""
    keys = tuple(groups[0].fields) if groups else ()
    return [group.label for group in with_labels(list(groups), keys, every_field=keys != FIELDS)]


def with_labels(groups: list[Configuration], keys: Sequence[str], *, every_field: bool) -> list[Configuration]:
    """Name each configuration by its fields that tell it apart, its differences, and a number if need be.

    Runs that failed, or have not finished, rename none that have: configurations without a result are named after them.
    """
    finished = [group for group in groups if group.counted] or groups
    names = dict(zip(map(id, groups), find_distinct_names(groups, keys, every_field=every_field), strict=True))
    names |= dict(zip(map(id, finished), find_distinct_names(finished, keys, every_field=every_field), strict=True))
    counts: dict[str, int] = {}
    labels: dict[int, str] = {}
    for group in sorted(groups, key=lambda group: not group.counted):
        label = names[id(group)]
        counts[label] = counts.get(label, 0) + 1
        label = label if counts[label] == 1 else f"{label} ({counts[label]})"
        labels[id(group)] = f"{label} {UNTRAINED_MARK}" if group.is_untrained else label
    return [replace(group, label=labels[id(group)]) for group in groups]


def find_distinct_names(groups: Sequence[Configuration], keys: Sequence[str], *, every_field: bool) -> list[str]:
    """Name configurations by as few fields and settings as tell them apart, if these do.

    The settings are those that their users chose; where names would be the same, all in which they differ.
    """
    varying = [key for key in keys if len({group.fields[key] for group in groups}) > 1]
    shown = (varying or keys[:1]) if every_field else drop_implied_fields(groups, varying)
    names: list[str] = []
    for differences in (chosen_settings(groups), [group.differences for group in groups]):
        texts = [short_differences(difference) for difference in differences]
        telling = telling_names([[group.fields[key] for key in shown] for group in groups], texts)
        names = [name_of(group, shown, words, telling) for group, words in zip(groups, texts, strict=True)]
        if len(set(names)) == len(names):
            break
    return names


def telling_names(fields: Sequence[Sequence[str]], texts: Sequence[Sequence[str]]) -> set[str]:
    """Return the names of as few settings as tell configurations apart that equal fields do not."""
    telling: set[str] = set()
    parts = {(*values, *differences) for values, differences in zip(fields, texts, strict=True)}
    known = {tuple(values) for values in fields}
    for name in dict.fromkeys(setting_name(text) for differences in texts for text in differences):
        if len(known) == len(parts):
            break
        tried = telling | {name}
        more = {
            (*values, *(text for text in differences if setting_name(text) in tried))
            for values, differences in zip(fields, texts, strict=True)
        }
        if len(more) > len(known):
            telling, known = tried, more
    return telling


def setting_name(text: str) -> str:
    """Return the name in a setting as it is written."""
    return text.partition("=")[0]


def chosen_settings(groups: Sequence[Configuration]) -> list[dict[str, str]]:
    """Return what was chosen for all runs of each configuration and not for every configuration."""
    chosen = [shared_pairs([telling_settings(run.words("settings")) for run in group.runs]) for group in groups]
    common = shared_pairs(chosen)
    return [{key: value for key, value in pairs if (key, value) not in common and key not in NAMED} for pairs in chosen]


def shared_pairs(several: Sequence[Iterable[tuple[str, str]]]) -> dict[tuple[str, str], None]:
    """Return the pairs that all have, in their order in the first; none where there are none to compare."""
    first, *others = [dict.fromkeys(pairs) for pairs in several] or [{}]
    return dict.fromkeys(pair for pair in first if all(pair in other for other in others))


def name_of(group: Configuration, shown: Sequence[str], texts: Sequence[str], telling: Collection[str]) -> str:
    """Name a configuration by some of its fields, each value said once, the settings that tell, and few others."""
    told = [key for key in shown if key != "task" or not group.is_untrained]
    names = dict.fromkeys(TITLES.get(v := group.fields[key]) or v.replace("_", " ") or f"no {key}" for key in told)
    others = [text for text in texts if setting_name(text) not in telling]
    room = max(0, SHOWN_DIFFERENCES - len(texts) + len(others))
    return BETWEEN.join([*names, *(text for text in texts if text not in others[room:])])


def drop_implied_fields(groups: Sequence[Configuration], varying: Sequence[str]) -> list[str]:
    """Drop the fields that follow from the others (an attention that goes with its model); the model always stays."""
    shown = ["model", *(key for key in varying if key != "model")]
    for key in ("command", "attention", "dataset", "init", "task"):
        rest = [field for field in shown if field != key]
        if key in shown and count_distinct(groups, rest) == count_distinct(groups, shown):
            shown = rest
    return shown


def count_distinct(groups: Sequence[Configuration], keys: Sequence[str]) -> int:
    """Count the different values that the configurations have in some fields."""
    return len({tuple(group.fields[key] for key in keys) for group in groups})


def short_differences(differences: Mapping[str, str]) -> list[str]:
    """Write settings as `lr=0.0001`, the last part of the key only.

    What a recipe set in several places is said once, and what a configuration lacks is not. Last come first weights,
    which go by sizes that are said; of them a checkpoint tells the rest. Of runs the folder's name is said.
    """
    known = {key: value for key, value in differences.items() if value != ABSENT}
    told = [key.rpartition(".")[0] for key in known if key.startswith("init.") and key.endswith(CHECKPOINT)]
    known = {k: v for k, v in known.items() if k.endswith(CHECKPOINT) or k.rpartition(".")[0] not in told}
    ordered = sorted(known.items(), key=lambda item: (item[0].endswith(RUN), item[0][:5] == "init.", TARGET in item[0]))
    return list(dict.fromkeys(setting_text(key, value) for key, value in ordered))


def setting_text(key: str, value: str) -> str:
    """Write a setting: of a run, or of weights in one, the folder's name; of a class its own."""
    path = PurePath(value)
    if key.endswith(CHECKPOINT) and path.parent.name == "checkpoints":
        value = path.parent.parent.name
    elif key.endswith(RUN):
        value = path.name
    elif key.endswith(TARGET):
        value = value.rpartition(".")[2]
    return f"{key.removesuffix(RUN).removesuffix(TARGET).rpartition('.')[2]}={value}"
