"""Names of configurations, and the settings in which configurations agree or differ."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import PurePath

from mate_cli.reports.compare.configuration import Configuration, settings
from mate_cli.reports.runs.load import LoadedRun
from mate_cli.runs.identity import ABSENT, configuration_name, differing_keys, split_stage_prefix

TELLING = (
    *("init", "trainer.max_epochs", "trainer.max_steps", "trainer.batch_size", "optimizer.lr"),
    *("encoding.max_tokens", "attention", "device"),
)
"""Most important settings, which are shown first.

The full configuration is on the page and in config.yaml.
"""
# A pipeline trains no network: its stages are separate runs.
OF_PIPELINES = ("init", "device")
NAMED_KEYS = {"data.name", "system.compared_by", "model._target_", "attention._target_"} | {
    *("task._target_", "data._target_", "system._target_")
}
MAX_LABELS = 3


@dataclass(frozen=True)
class Difference:
    """A setting whose value differs between configurations, with all its values.

    Args:
        key: dotted key of the setting.
        values: labels of the configurations that have a value, for each value.
    """

    key: str
    values: Mapping[str, tuple[str, ...]]

    @property
    def text(self) -> str:
        """Each value with its configurations, as in `5e-05: mate and sat; 1e-05: tapas`."""
        return "; ".join(f"{value}: {list_labels(names)}" for value, names in self.values.items())


@dataclass(frozen=True)
class Comparison:
    """The settings of all configurations for one dataset and task, common and differing.

    Args:
        title: dataset and task.
        common: important settings that all runs share, as text.
        differences: settings that differ between configurations, the most important first.
        labels: labels of the configurations.
    """

    title: str
    common: tuple[str, ...]
    differences: tuple[Difference, ...]
    labels: tuple[str, ...]


def comparisons(groups: Sequence[Configuration]) -> tuple[Comparison, ...]:
    """Compare the settings of configurations, separately for each dataset and task."""
    families: dict[str, list[Configuration]] = {}
    for group in groups:
        parts = (", ".join(sorted({run.setting(key) for run in group.runs} - {""})) for key in ("dataset", "task"))
        families.setdefault(" · ".join(filter(None, parts)).replace("_", " "), []).append(group)
    return tuple(
        Comparison(title, common(members), differences(members), tuple(group.label for group in members))
        for title, members in families.items()
    )


def common(groups: Sequence[Configuration]) -> tuple[str, ...]:
    """Return important settings with equal values in all configurations, as `lr=5e-05`."""
    runs = [run for group in groups for run in group.runs]
    keys = OF_PIPELINES if any("system._target_" in run.config for run in runs) else TELLING
    size = shared_value(str(run.part("data").get("train", "")) for run in runs)
    size_text = [f"{int(size):,} training examples"] if size.isdecimal() else []
    values = {key: shared_value(run.setting(key) for run in runs) for key in keys}
    return (
        *size_text,
        *(setting_text(key, re.sub(r"^(\d+)\.0$", r"\1", value)) for key, value in values.items() if value),
    )


def shared_value(values: Iterable[str]) -> str:
    """Return the value of a setting if it is equal in all runs and never missing, else ""."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 and not distinct & {"", "null"} else ""


def differences(groups: Sequence[Configuration]) -> tuple[Difference, ...]:
    """Find the settings whose values differ between configurations, most important first.

    Omitted are settings that labels contain (model, attention, init, task), options that another configuration lacks
    because it uses another class, and settings of stages that another configuration lacks.
    """
    group_values = [values_of(group) for group in groups]
    entries = []
    for key in differing_keys(group_values):
        values: dict[str, list[str]] = {}
        for group, group_settings in zip(groups, group_values, strict=True):
            if has_stage(key, group_settings) and (
                key in group_settings or not is_replaced(key, group_settings, group_values)
            ):
                values.setdefault(class_name(key, group_settings.get(key, ABSENT)), []).append(group.label)
        name = split_stage_prefix(key)[1]
        # The name is shown already, or the group only proposes values for other keys.
        is_named = name in NAMED_KEYS or name.startswith("init.")
        if len(values) > 1 and not is_named:
            entries.append(Difference(key.removesuffix(TARGET), {v: tuple(names) for v, names in values.items()}))
    return tuple(sorted(entries, key=lambda entry: [*TELLING, entry.key].index(entry.key)))


def values_of(group: Configuration) -> dict[str, str]:
    """Return the settings of a configuration as text by dotted key.

    Different values of its runs are joined by commas.
    """
    run_settings = [settings(run) for run in group.runs]
    keys = dict.fromkeys(key for values in run_settings for key in values)
    return {key: ", ".join(dict.fromkeys(values[key] for values in run_settings if key in values)) for key in keys}


def class_name(key: str, value: str) -> str:
    """Shorten the value of a `_target_` key to the class name. Other values are unchanged."""
    return value.rpartition(".")[2] if key.endswith(TARGET) else value


def has_stage(key: str, settled: Mapping[str, str]) -> bool:
    """Return whether a configuration has the stage of a setting such as `stages.qa.lr`.

    Return True for settings that belong to no stage.
    """
    stage, name = split_stage_prefix(key)
    return not stage or (key in settled if name == "run" else any(other_key.startswith(stage) for other_key in settled))


def is_replaced(key: str, settled: Mapping[str, str], others: Iterable[Mapping[str, str]]) -> bool:
    """Return whether a setting is missing because another class without this option is used.

    Return False if the setting is itself the name of a class.

    Args:
        key: dotted key of the setting.
        settled: settings of the configuration without the key.
        others: settings of all configurations.
    """
    stage, name = split_stage_prefix(key)
    target = f"{stage}{name.partition('.')[0]}{TARGET}"
    return not key.endswith(TARGET) and any(key in v and v.get(target) != settled.get(target) for v in others)


def list_labels(labels: Sequence[str]) -> str:
    """Join labels as `mate, sat and tapas`, or `mate, sat, tapas and 5 more` for many labels."""
    if len(labels) > MAX_LABELS + 1:
        return f"{', '.join(labels[:MAX_LABELS])} and {len(labels) - MAX_LABELS} more"
    return " and ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))


SHOWN_DIFFERENCES = 2
"""Maximum number of settings appended to a name that another configuration already has."""


UNTRAINED_MARK = "‡"
"""Suffix of the names of external systems, which were not trained by this project."""


BETWEEN = " · "
"""Separator between the components of a name."""


CHECKPOINT, TARGET = ".checkpoint", "._target_"


RUN = ".run"
"""Suffix of the configuration keys of finished runs that replace stages."""


def name_configurations(groups: Sequence[Configuration]) -> list[Configuration]:
    """Give each configuration a unique name, such as `hybridqa_mate · optimizer.lr=1e-4`.

    Names do not depend on later configurations. If a name is in use, the settings in which the later configuration
    differs from the first configuration with the name are appended. Configurations with results are named before
    configurations without results.
    """
    owners: dict[str, Configuration] = {}
    labels: dict[int, str] = {}
    for group in sorted(groups, key=lambda group: (not group.counted, first_run(group).text("started"))):
        name = name_of(group)
        if name in owners:
            name = BETWEEN.join([name, *describe_changes(owners[name], group)])
        numbered = chain([name], (f"{name} ({number})" for number in count(2)))
        labels[id(group)] = next(label for label in numbered if label not in owners)
        owners[labels[id(group)]] = group
    return [replace(group, label=f"{labels[id(group)]}{f' {UNTRAINED_MARK}' * group.is_untrained}") for group in groups]


def first_run(group: Configuration) -> LoadedRun:
    """Return the run of a configuration that was started before all its other runs.

    Only counted runs are considered, if there are any.
    """
    return min(group.counted or group.runs, key=lambda run: run.text("started"))


def name_of(group: Configuration) -> str:
    """Return the name of a configuration: values of the option `by`, its system or W&B group."""
    run = first_run(group)
    if group.options.by:
        return BETWEEN.join(group.fields[key].replace("_", " ") or f"no {key}" for key in group.options.by)
    if group.is_untrained:
        return run.setting("model")
    settings = [*run.texts("settings" if "settings" in run.record else "overrides")]
    return configuration_name(run.text("experiment") or run.setting("model"), settings)


def describe_changes(first: Configuration, later: Configuration) -> list[str]:
    """Return settings such as `lr=0.0001` that distinguish two configurations of equal name.

    These are the first settings that differ.

    A setting with the same text under several keys appears once, and missing settings are omitted. Initial weights come
    last, with only their checkpoint if that is set, because it implies the other `init.` settings.
    """
    fields = [value.replace("_", " ") for key, value in later.fields.items() if value and value != first.fields[key]]
    changed = {
        key: value for key, value in later.differences.items() if value not in (ABSENT, first.differences.get(key))
    }
    implied = {key.rpartition(".")[0] for key in changed if key.startswith("init.") and key.endswith(CHECKPOINT)}
    shown = [key for key in changed if key.endswith(CHECKPOINT) or key.rpartition(".")[0] not in implied]
    shown.sort(key=lambda key: (key.endswith(RUN), key.startswith("init."), TARGET in key))
    return list(dict.fromkeys([*fields, *(setting_text(key, changed[key]) for key in shown)]))[:SHOWN_DIFFERENCES]


def setting_text(key: str, value: str) -> str:
    """Format a setting for display as `key=value`, with the last component of its key.

    A run or its checkpoint is shown by the name of its folder, a class by its name.
    """
    path = PurePath(value)
    if key.endswith(CHECKPOINT) and path.parent.name == "checkpoints":
        value = path.parent.parent.name
    value = path.name if key.endswith(RUN) else class_name(key, value)
    return f"{key.removesuffix(RUN).removesuffix(TARGET).rpartition('.')[2]}={value}"
