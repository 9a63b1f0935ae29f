"""Meaning and bounds of a key, and the files that set it in a composition.

Meanings are the comments of the YAML files of this package, and the docstrings of the classes that they configure.
Bounds are those of the validation.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from mate_cli.cli.config.class_options import ClassOptions, load_options, read_options
from mate_cli.cli.config.hydra_errors import nearest_key
from mate_cli.cli.config.hydra_setup import has_key, open_hydra
from mate_cli.cli.config.messages import KINDS, find_section
from mate_cli.cli.config.schema import SCHEMAS
from mate_cli.cli.config.user_experiment import with_user_experiment
from mate_cli.cli.config_dir import (
    choices,
    config_dir,
    find_config,
    read_config,
    user_config_dir,
    user_experiment_files,
)
from mate_cli.cli.overrides import Override, get_override_value
from mate_cli.errors import ConfigError
from mate_cli.quoting import write_value
from mate_cli.runs.identity import find_value, flat_keys

LINE = re.compile(
    r"(?P<indent> *)(?P<key>\w+):(?P<value>(?: (?:'[^']*'|\"[^\"]*\"|[^'\"].*?|))?)(?:\s+# (?P<said>.*))?$"
)
"""A key of a YAML file with its value and trailing comment."""
LIMITS = {
    **{"exclusiveMinimum": "greater than", "minimum": "at least"},
    **{"exclusiveMaximum": "less than", "maximum": "at most"},
}


@dataclass(frozen=True)
class Setting:
    """A value of a key in one source.

    Args:
        where: file, or `typed` for the command line.
        value: value as text.
        comment: comment next to the value, "" without one.
    """

    where: str
    value: str
    comment: str = ""


@dataclass(frozen=True)
class KeyDescription:
    """Meaning, bounds, value and settings of a key.

    Args:
        key: dotted key.
        meaning: description, "" if there is none.
        bounds: allowed values as text, "" if any value is allowed.
        value: value in this composition.
        settings: sources that set it, of which the last one applies.
    """

    key: str
    meaning: str
    bounds: str
    value: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Sources:
    """Files and overrides from which a command's configuration is composed.

    Args:
        name: name of the command.
        config: composed configuration.
        settings: sources that set each key, of which the last one applies.
    """

    name: str
    config: DictConfig
    settings: Mapping[str, list[Setting]]

    @classmethod
    def of(cls, name: str, overrides: Sequence[str]) -> Sources:
        """Compose a command's configuration.

        Raises:
            HydraException: if it cannot be composed.
        """
        with open_hydra():
            loader, all_overrides = GlobalHydra.instance().config_loader(), with_user_experiment(overrides, name)
            entries = loader.compute_defaults_list(name, all_overrides, RunMode.RUN).defaults
            config = compose(name, all_overrides)
        files: dict[Path, str] = {}
        for entry in entries:
            if file := find_config(str(entry.config_path)):
                files[file] = "" if entry.package in (None, "_global_") else str(entry.package)
        parsed = [*map(Override.parse, overrides)]
        users = user_experiment_files(str(get_override_value(parsed, "experiment")))  # the last file applies
        for file in (*users, find_config(f"debug/{get_override_value(parsed, 'debug')}")):
            files |= {file: files.pop(file)} if file in files else {}
        settings: dict[str, list[Setting]] = defaultdict(list)
        for file, part in files.items():
            for key, (value, comment) in read_keys(file).items():
                settings[".".join(filter(None, [part, key]))].append(Setting(_place(file), value, comment))
        for key, value in {
            override.key: override.value or "" for override in parsed if not choices(override.key)
        }.items():
            settings[key].append(Setting("typed", value))
        return cls(name, config, settings)

    def explain(self, key: str) -> KeyDescription:
        """Describe an existing key."""
        settings, raw = self.settings.get(key, []), find_value(OmegaConf.to_container(self.config), key)
        value = "null" if raw is None else str(raw).lower() if isinstance(raw, bool) else str(raw)
        return KeyDescription(key, self._meaning(key, settings), self._bounds(key), value, tuple(settings))

    def _meaning(self, key: str, settings: Sequence[Setting]) -> str:
        if settings and settings[0].comment:
            return settings[0].comment
        section, _, name = key.rpartition(".")
        for option in choices(section) if section else ():
            file = find_config(f"{section}/{option}")
            if file and (comment := read_keys(file).get(name, ("", ""))[1]):
                return comment
        return _find_description(_read_class(self._target(section)).docstrings, name) if section else ""

    def _target(self, section: str) -> str:
        """Return the class name of a section, "" for a section without a class."""
        node = OmegaConf.select(self.config, section)
        return str(node.get("_target_") or "") if isinstance(node, DictConfig) else ""

    def _bounds(self, key: str) -> str:
        section, _, name = key.rpartition(".")
        if section and (target := self._target(section)):
            return type_text(_read_class(target).hints.get(name))
        schema = find_section(SCHEMAS[self.name], key.split(".")[:-1])
        if schema is None or name not in schema.model_fields:
            return ""
        return _phrase(schema.model_json_schema()["properties"][schema.model_fields[name].alias or name])


def explain_keys(command: str, key: str, overrides: Sequence[str]) -> list[KeyDescription]:
    """Describe a key, or each key of a section. A unique last part of a key is sufficient.

    Args:
        command: command whose configuration has the key.
        key: dotted key, section, or last part of a key.
        overrides: overrides from the command line.

    Raises:
        ConfigError: if the key does not exist, with the nearest key.
    """
    sources = Sources.of(command, overrides)
    if not has_key(sources.config, key):
        similar_key = nearest_key(key, sources.config)
        section, _, name = (similar_key or "").rpartition(".")
        if similar_key is None or name != key or not section or not has_key(sources.config, similar_key):
            hint = f"Did you mean {similar_key}?" if similar_key else f"All keys: mate {command} --cfg job"
            raise ConfigError("unknown key", where=key, remedy=hint)
        key = similar_key
    node = OmegaConf.select(sources.config, key, throw_on_missing=False)
    is_section = isinstance(node, DictConfig) and (node or choices(key))
    keys = [f"{key}.{name}" for name in node if not str(name).startswith("_")] if is_section else [key]
    return [*map(sources.explain, keys)]


def read_keys(file: Path) -> dict[str, tuple[str, str]]:
    """Return the keys of a YAML file with their values as written, and adjacent comments."""
    keys: dict[str, tuple[str, str]] = {}
    parents: list[tuple[int, str]] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        match = LINE.match(line)
        if match is None:
            continue
        depth = len(match["indent"])
        parents = [(parent_depth, name) for parent_depth, name in parents if parent_depth < depth]
        key = ".".join([*(name for _, name in parents), match["key"]])
        parents.append((depth, match["key"]))
        if not key.startswith(("defaults", "hydra")):
            keys[key] = (match["value"].strip(), (match["said"] or "").strip())
    for key, value in flat_keys(read_config(file)).items():  # keys in braces have no separate line
        if not key.startswith(("defaults", "hydra")):
            keys.setdefault(key, (write_value(value), ""))
    return keys


def type_text(hint: Any) -> str:  # noqa: ANN401 - any type
    """Return the values that a type allows as text, "" for types that YAML values cannot have."""
    try:
        return _phrase(TypeAdapter(hint).json_schema()) if hint is not None else ""
    except (PydanticUserError, TypeError):
        return ""


def _phrase(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        parts = [_phrase(option) for option in schema["anyOf"]]
        return " or ".join(dict.fromkeys(filter(None, parts)))
    if "enum" in schema:
        *options, last_option = map(str, schema["enum"])
        return f"{', '.join(options)} or {last_option}" if options else last_option
    bounds = {phrase: schema[name] for name, phrase in LIMITS.items() if name in schema}
    limits = (f"{phrase} {value if isinstance(value, int) else f'{value:g}'}" for phrase, value in bounds.items())
    return " ".join([KINDS.get(str(schema.get("type", "")), ""), " and ".join(limits)]).strip()


def _read_class(target: str) -> ClassOptions:
    """Return the options of a class, without any if it cannot be imported."""
    if target and not target.startswith("mate_cli."):
        with suppress(ConfigError):
            return load_options(target)
    return read_options(target)


def _find_description(texts: Sequence[str], name: str) -> str:
    """Return the description of an argument in the first docstring that has it."""
    pattern = re.compile(rf"^    {re.escape(name)}: (.*(?:\n {{8}}.*)*)", re.MULTILINE)
    match = next(filter(None, map(pattern.search, texts)), None)
    return " ".join(match[1].split()) if match else ""


def _place(file: Path) -> str:
    """Return the displayed path of a file, relative to `conf`, with a suffix for user files."""
    user_folder = user_config_dir()
    if user_folder and file.is_relative_to(user_folder):
        return f"{Path(user_folder.name) / file.relative_to(user_folder)} (yours)"
    return str(Path("conf") / file.relative_to(config_dir()))
