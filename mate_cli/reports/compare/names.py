"""Names of configurations, the settings that they share, and those in which they differ."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import PurePath

from mate_cli.reports.compare.configuration import Configuration, settings
from mate_cli.reports.runs.load import LoadedRun
from mate_cli.runs.identity import ABSENT, configuration_name, differing_keys, of_stage

TELLING = (
    *("init", "trainer.max_epochs", "trainer.max_steps", "trainer.batch_size", "optimizer.lr"),
    *("encoding.max_tokens", "attention", "device"),
)
"""What a reader asks first; the rest of the configuration is on the page and in config.yaml."""
OF_PIPELINES = ("init", "device")  # a pipeline trains nothing itself, its stages are runs of their own
NAMED_KEYS = {"data.name", "system.compared_by", "model._target_", "attention._target_"} | {
    *("task._target_", "data._target_", "system._target_")
}
MAX_LABELS = 3


@dataclass(frozen=True)
class Difference:
    """A setting that is not the same in all configurations.

    Args:
        key: its dotted key.
        values: each value, and the names of the configurations that have it.
    """

    key: str
    values: Mapping[str, tuple[str, ...]]

    @property
    def text(self) -> str:
        """The values in one line: `5e-05: mate and sat; 1e-05: tapas`."""
        return "; ".join(f"{value}: {list_labels(names)}" for value, names in self.values.items())


@dataclass(frozen=True)
class Comparison:
    """The configurations of one dataset and task, held against each other.

    Args:
        title: the dataset and the task.
        common: what all of their runs share, in words.
        differences: the settings in which they differ, the most telling first.
        labels: the names of the configurations.
    """

    title: str
    common: tuple[str, ...]
    differences: tuple[Difference, ...]
    labels: tuple[str, ...]


def comparisons(groups: Sequence[Configuration]) -> tuple[Comparison, ...]:
    """Hold the configurations of each dataset and task against each other, in order of appearance."""
    families: dict[str, list[Configuration]] = {}
    for group in groups:
        families.setdefault(family_title(group), []).append(group)
    return tuple(
        Comparison(title, common(same), differences(same), tuple(group.label for group in same))
        for title, same in families.items()
    )


def family_title(group: Configuration) -> str:
    """Name the dataset and the task of a configuration, several of a kind joined."""
    parts = [", ".join(sorted({run.setting(key) for run in group.runs} - {""})) for key in ("dataset", "task")]
    return " · ".join(part.replace("_", " ") for part in parts if part)


def common(groups: Sequence[Configuration]) -> tuple[str, ...]:
    """Say which telling settings are the same in all runs."""
    runs = [run for group in groups for run in group.runs]
    keys = OF_PIPELINES if any("system._target_" in run.config for run in runs) else TELLING
    size = shared_value(str(run.part("data").get("train", "")) for run in runs)
    facts = [f"{int(size):,} training examples"] if size.isdecimal() else []
    values = {key: shared_value(run.setting(key) for run in runs) for key in keys}
    return (*facts, *(setting_text(key, re.sub(r"^(\d+)\.0$", r"\1", value)) for key, value in values.items() if value))


def shared_value(values: Iterable[str]) -> str:
    """Return the value that all have, empty when they differ or have none."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 and not distinct & {"", "null"} else ""


def differences(groups: Sequence[Configuration]) -> tuple[Difference, ...]:
    """List the settings in which configurations differ, those that are asked for first in front.

    What their names say already (model, attention, init, task) is left out, and so are options that a class has and
    another class in its place has not, and those of stages that only some of them have.
    """
    group_values = [values_of(group) for group in groups]
    entries = []
    for key in differing_keys(group_values):
        values: dict[str, list[str]] = {}
        for group, settled in zip(groups, group_values, strict=True):
            if has_stage(key, settled) and (key in settled or not is_replaced(key, settled, group_values)):
                values.setdefault(class_name(key, settled.get(key, ABSENT)), []).append(group.label)
        name = of_stage(key)[1]
        is_named = name in NAMED_KEYS or name.startswith("init.")  # or it only proposes values for others
        if len(values) > 1 and not is_named:
            entries.append(Difference(key.removesuffix(TARGET), {v: tuple(names) for v, names in values.items()}))
    return tuple(sorted(entries, key=lambda entry: [*TELLING, entry.key].index(entry.key)))


def values_of(group: Configuration) -> dict[str, str]:
    """Return the settings of a configuration, several values of mixed runs joined."""
    every = [settings(run) for run in group.runs]
    keys = dict.fromkeys(key for values in every for key in values)
    return {key: ", ".join(dict.fromkeys(values[key] for values in every if key in values)) for key in keys}


def class_name(key: str, value: str) -> str:
    """Return a value; of a class the name alone."""
    return value.rpartition(".")[2] if key.endswith(TARGET) else value


def has_stage(key: str, settled: Mapping[str, str]) -> bool:
    """Say whether a configuration has the stage that a setting is of; yes for all other settings."""
    stage, name = of_stage(key)
    return not stage or (key in settled if name == "run" else any(other.startswith(stage) for other in settled))


def is_replaced(key: str, settled: Mapping[str, str], others: Iterable[Mapping[str, str]]) -> bool:
    """Say whether a setting is missing because another class stands in its place; a class never is."""
    stage, name = of_stage(key)
    target = f"{stage}{name.partition('.')[0]}{TARGET}"
    return not key.endswith(TARGET) and any(key in v and v.get(target) != settled.get(target) for v in others)


def list_labels(labels: Sequence[str]) -> str:
    """Write `mate, sat and tapas`, or the first few and how many more there are."""
    if len(labels) > MAX_LABELS + 1:
        return f"{', '.join(labels[:MAX_LABELS])} and {len(labels) - MAX_LABELS} more"
    return " and ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))


SHOWN_DIFFERENCES = 2
"""Settings that are added to a name that is taken."""


UNTRAINED_MARK = "‡"
"""Stands behind the name of a system that was not trained here."""


BETWEEN = " · "
"""Stands between the parts of a name."""


CHECKPOINT, TARGET = ".checkpoint", "._target_"


RUN = ".run"
"""Ends the configuration keys of finished runs that stand in for stages."""


def name_configurations(groups: Sequence[Configuration]) -> list[Configuration]:
    """Name each configuration by its own runs, as W&B does; no other configuration changes its name.

    A name that is taken is followed by the settings in which the later configuration differs from the first one.
    Runs without a result take no name from runs that have one.
    """
    owners: dict[str, Configuration] = {}
    labels: dict[int, str] = {}
    for group in sorted(groups, key=lambda group: (not group.counted, first_run(group).text("started"))):
        name = name_of(group)
        if name in owners:
            name = BETWEEN.join([name, *describe_changes(owners[name], group)])
        number = next(number for number in count(1) if number_name(name, number) not in owners)
        labels[id(group)] = number_name(name, number)
        owners[labels[id(group)]] = group
    return [replace(group, label=f"{labels[id(group)]}{f' {UNTRAINED_MARK}' * group.is_untrained}") for group in groups]


def number_name(name: str, number: int) -> str:
    """Append a number above 1 to a name."""
    return f"{name} ({number})" if number > 1 else name


def first_run(group: Configuration) -> LoadedRun:
    """Return the run that was started first, of those that count if there are any."""
    return min(group.counted or group.runs, key=lambda run: run.text("started"))


def name_of(group: Configuration) -> str:
    """Name a configuration by its group in W&B, by the values of `by`, or as another system is called."""
    run = first_run(group)
    if group.options.by:
        return BETWEEN.join(group.fields[key].replace("_", " ") or f"no {key}" for key in group.options.by)
    if group.is_untrained:
        return run.setting("model")
    settings = [*run.words("settings" if "settings" in run.record else "overrides")]
    return configuration_name(run.text("experiment") or run.setting("model"), settings)


def describe_changes(first: Configuration, later: Configuration) -> list[str]:
    """Return the fields and settings, a few at most, in which a configuration differs from one of the same name."""
    fields = [value.replace("_", " ") for key, value in later.fields.items() if value and value != first.fields[key]]
    changed = {key: value for key, value in later.differences.items() if first.differences.get(key) != value}
    return [*fields, *short_differences(changed)][:SHOWN_DIFFERENCES]


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
    value = path.name if key.endswith(RUN) else class_name(key, value)
    return f"{key.removesuffix(RUN).removesuffix(TARGET).rpartition('.')[2]}={value}"
