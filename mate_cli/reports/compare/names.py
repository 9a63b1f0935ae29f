"""Names of configurations, the settings that they share, and those in which they differ."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import PurePath

from mate_cli.reports.compare.configuration import FIELDS, Configuration, settings
from mate_cli.runs.identity import ABSENT, differing_keys, of_stage, telling_settings

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
        return "; ".join(f"{value}: {list_labels(names)}" for value, names in shorten_labels(self.values).items())


@dataclass(frozen=True)
class Comparison:
    """The configurations of one dataset and task, held against each other.

    Args:
        title: the dataset and the task.
        common: what all of their runs share, in words.
        differences: the settings in which they differ, the most telling first.
        labels: the names of the configurations, no longer than it takes to tell these apart.
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
    named = ((title, with_labels(members)) for title, members in families.items())
    return tuple(Comparison(t, common(same), differences(same), tuple(g.label for g in same)) for t, same in named)


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
        if len(values) > 1 and not is_named and not is_in_labels(key, values):
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


def is_in_labels(key: str, values: Mapping[str, Sequence[str]]) -> bool:
    """Say whether every name has the value of this setting in it; of a stage the name does not say of which."""
    parts = [(setting_text(key, value), label.split(BETWEEN)) for value, labels in values.items() for label in labels]
    return not of_stage(key)[0] and all(text in label for text, label in parts)


def shorten_labels(values: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """Name configurations by one part of their names, the model say, where that tells apart who has which value."""
    parts = {label: label_parts(label) for labels in values.values() for label in labels}
    for place in next(iter(parts.values())):
        names = {value: [*{parts[label].get(place, ""): 0 for label in labels}] for value, labels in values.items()}
        every = [*chain(*names.values())]
        if all(every) and len({*every}) == len(every):
            return names
    return values


def label_parts(label: str) -> dict[str | int, str]:
    """Take a name apart: settings by their key, the choices before them by their place."""
    return {part.partition("=")[0] if "=" in part else place: part for place, part in enumerate(label.split(BETWEEN))}


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


def with_labels(groups: Sequence[Configuration]) -> list[Configuration]:
    """Name each configuration by its fields that tell it apart, its differences, and a number if need be.

    Runs that failed, or have not finished, rename none that have: configurations without a result are named after them.
    """
    finished = [group for group in groups if group.counted] or groups
    names: dict[int, str] = {}
    for part in (groups, finished):
        names |= zip(map(id, part), find_distinct_names(part), strict=True)
    numbers: defaultdict[str, count[int]] = defaultdict(lambda: count(1))
    for group in sorted(groups, key=lambda group: not group.counted):
        number = next(numbers[names[id(group)]])
        names[id(group)] += f" ({number})" * (number > 1) + f" {UNTRAINED_MARK}" * group.is_untrained
    return [replace(group, label=names[id(group)]) for group in groups]


def find_distinct_names(groups: Sequence[Configuration]) -> list[str]:
    """Name configurations by as few fields and settings as tell them apart, if these do.

    The settings are those that their users chose; where names would be the same, all in which they differ.
    """
    keys = tuple(groups[0].fields) if groups else ()
    varying = [key for key in keys if len({group.fields[key] for group in groups}) > 1]
    shown = drop_implied_fields(groups, varying) if keys == FIELDS else varying or keys[:1]
    names: list[str] = []
    for differences in (chosen_settings(groups), [group.differences for group in groups]):
        texts = [short_differences(difference) for difference in differences]
        fields = [[group.fields[key] for key in shown] for group in groups]
        telling = telling_names([*zip(fields, texts, strict=True)])
        names = [name_of(group, shown, words, telling) for group, words in zip(groups, texts, strict=True)]
        if len(set(names)) == len(names):
            break
    return names


def telling_names(rows: Sequence[tuple[Sequence[str], Sequence[str]]]) -> set[str]:
    """Return the names of as few settings as tell configurations apart that equal fields do not.

    Args:
        rows: fields of each, and its settings as they are written.
    """

    def number(names: Collection[str]) -> int:
        return len({(*fields, *(text for text in texts if setting_name(text) in names)) for fields, texts in rows})

    names = dict.fromkeys(setting_name(text) for _, texts in rows for text in texts)
    telling: set[str] = set()
    known, most = number(telling), number(names)
    for name in names:
        if known < most and (more := number({*telling, name})) > known:
            telling.add(name)
            known = more
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
    value = path.name if key.endswith(RUN) else class_name(key, value)
    return f"{key.removesuffix(RUN).removesuffix(TARGET).rpartition('.')[2]}={value}"
