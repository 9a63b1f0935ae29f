"""Descriptions of keys for `mate explain`: meaning, bounds, and files that set a key.

The meaning of a key is its comment in a YAML file, or its description in the docstring of the configured class. The
bounds are taken from the types that validate the key.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from hydra import compose
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from mate_cli.cli.config.class_options import ClassOptions, load_options, read_options
from mate_cli.cli.config.hydra_errors import nearest_key
from mate_cli.cli.config.hydra_setup import has_key, open_hydra, with_user_experiment
from mate_cli.cli.config.messages import KINDS, find_section
from mate_cli.cli.config.schema import SCHEMAS
from mate_cli.cli.config_dir import (
    config_dir,
    find_config,
    list_options,
    user_config_dir,
    user_experiment_files,
)
from mate_cli.cli.overrides import Override, get_override_value
from mate_cli.errors import ConfigError
from mate_cli.runs.identity import find_value

LIMITS = {
    **{"exclusiveMinimum": "greater than", "minimum": "at least"},
    **{"exclusiveMaximum": "less than", "maximum": "at most"},
}


@dataclass(frozen=True)
class Setting:
    """A value that a file or the command line gives to a configuration key.

    Args:
        where: displayed path of the file, or `typed` for the command line.
        value: value as text.
        comment: comment next to the value, "" without one.
    """

    where: str
    value: str
    comment: str = ""


@dataclass(frozen=True)
class KeyDescription:
    """Description of a configuration key, as shown by `mate explain`.

    Args:
        key: dotted key.
        meaning: meaning of the key, "" if no comment or docstring describes it.
        bounds: allowed values as text, "" if any value is allowed.
        value: value in the composed configuration.
        settings: values that files and the command line set. The last one applies.
    """

    key: str
    meaning: str
    bounds: str
    value: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Sources:
    """A command's composed configuration, with the source (file or override) of each key.

    Args:
        name: name of the command.
        config: composed configuration.
        settings: values that files and the command line set, by key. The last one applies.
    """

    name: str
    config: DictConfig
    settings: Mapping[str, list[Setting]]

    @classmethod
    def of(cls, name: str, overrides: Sequence[str]) -> Sources:
        """Compose a command's configuration, and record which file or override sets each key.

        Args:
            name: name of the command.
            overrides: overrides from the command line.

        Raises:
            HydraException: if the configuration cannot be composed.
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
        typed = {override.key: override.value or "" for override in parsed if not list_options(override.key)}
        for key, value in typed.items():
            settings[key].append(Setting("typed", value))
        return cls(name, config, settings)

    def explain(self, key: str) -> KeyDescription:
        """Return the description of a key that exists in the configuration."""
        settings, raw = self.settings.get(key, []), find_value(OmegaConf.to_container(self.config), key)
        meaning = self._meaning(key, settings)
        return KeyDescription(key, meaning, self._bounds(key), format_value(raw), tuple(settings))

    def _meaning(self, key: str, settings: Sequence[Setting]) -> str:
        if settings and settings[0].comment:
            return settings[0].comment
        section, _, name = key.rpartition(".")
        for option in list_options(section) if section else ():
            file = find_config(f"{section}/{option}")
            if file and (comment := read_keys(file).get(name, ("", ""))[1]):
                return comment
        return _find_description(_read_class(self._target(section)).docstrings, name) if section else ""

    def _target(self, section: str) -> str:
        """Return the class (`_target_`) that a configuration section specifies, or "" without one."""
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
    """Return the descriptions of a configuration key, or of all keys in a section.

    Args:
        command: command whose configuration has the key.
        key: dotted key, section, or the last component of a key if it is unique.
        overrides: overrides from the command line.

    Raises:
        ConfigError: if the key does not exist. The error suggests a similar key.
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
    is_section = isinstance(node, DictConfig) and (node or list_options(key))
    keys = [f"{key}.{name}" for name in node if not str(name).startswith("_")] if is_section else [key]
    return [*map(sources.explain, keys)]


def format_value(value: object) -> str:
    """Format a configuration value for display.

    Null and booleans are written as in YAML, other values as in Python.
    """
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def read_keys(file: Path) -> dict[str, tuple[str, str]]:
    """Return the value and the comment of each dotted key in a YAML file, both as written.

    The comment is "" for a key without one. `defaults` and `hydra` are excluded.
    """
    text = file.read_text(encoding="utf-8")

    def visit(mapping: yaml.Node, prefix: str) -> Iterator[tuple[str, tuple[str, str]]]:
        for name, node in mapping.value:
            key, is_block = f"{prefix}{name.value}", isinstance(node, yaml.CollectionNode) and not node.flow_style
            end = (name if is_block else node).end_mark.index
            # Keys in braces have no separate line.
            comment = "" if mapping.flow_style else text[end:].partition("\n")[0].partition(" # ")[2]
            if not key.startswith(("defaults", "hydra")):
                yield key, ("" if is_block else text[node.start_mark.index : end], comment.strip())
            if isinstance(node, yaml.MappingNode):
                yield from visit(node, f"{key}.")

    with suppress(yaml.YAMLError):  # Hydra reports the error when it composes the file.
        root = yaml.compose(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return dict(visit(root, "")) if isinstance(root, yaml.MappingNode) else {}
    return {}


def type_text(hint: Any) -> str:  # noqa: ANN401 - any type
    """Describe the values that a type allows, such as "an integer at least 1".

    Return "" for None, and for types that YAML values cannot have.
    """
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
    """Return the constructor options of a class that may be missing.

    Return no options if the class cannot be imported.
    """
    if target and not target.startswith("mate_cli."):
        with suppress(ConfigError):
            return load_options(target)
    return read_options(target)


def _find_description(texts: Sequence[str], name: str) -> str:
    """Return the description of an argument from the docstring of a class or its bases.

    Return "" if no docstring describes the argument.
    """
    pattern = re.compile(rf"^    {re.escape(name)}: (.*(?:\n {{8}}.*)*)", re.MULTILINE)
    match = next(filter(None, map(pattern.search, texts)), None)
    return " ".join(match[1].split()) if match else ""


def _place(file: Path) -> str:
    """Format the path of a configuration file for display, such as `conf/model/mate.yaml`.

    Paths of the user's files end with (yours).
    """
    user_folder = user_config_dir()
    if user_folder and file.is_relative_to(user_folder):
        return f"{Path(user_folder.name) / file.relative_to(user_folder)} (yours)"
    return str(Path("conf") / file.relative_to(config_dir()))
