"""`mate explain KEY`: print meaning and allowed values of a key, and where it is set."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mate_cli.cli.config.reference import Setting, format_value, read_keys
from mate_cli.cli.config_dir import find_config, list_options, read_choice, top_keys, typed_config_dir
from mate_cli.cli.help import groups_of, nearest, read_summary
from mate_cli.cli.overrides import Override, split_flags
from mate_cli.errors import ConfigError, RunError
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.files.safe_load import read_yaml
from mate_cli.quoting import quote_for_shell
from mate_cli.runs.configuration import ORIGIN
from mate_cli.runs.identity import find_value, flat_keys

if TYPE_CHECKING:
    from mate_cli.cli.config.reference import KeyDescription

HELP = """Explain keys of `mate train`: their meaning, values and where they are set.

Usage: mate explain KEY [group=option] [key=value]
       mate explain RUN [KEY]

Examples
  mate explain trainer.val_every
  mate explain trainer.val_every experiment=wtq_mate scale=small
  mate explain model model=linformer
  mate explain slots

RUN is the folder of a run, such as outputs/train/quickstart/first: its values,
and the files and overrides that set them. Without KEY: the keys that its
overrides set.

Of other commands: mate COMMAND --help KEY"""

MAX_FOUND = 12
"""Maximum number of matching keys to print for a partial or unknown name."""


def run_plain(arguments: Sequence[str]) -> int:
    """Print the meaning and the allowed values of a configuration key.

    Args:
        arguments: the key, and overrides that select the configuration to explain, or a run folder and a key.

    Raises:
        ConfigError: if no key is named, or the key does not exist.
        RunError: if the config.yaml of the run is damaged.
    """
    arguments = [str(Override.parse(argument)) for argument in arguments]
    flags, others = split_flags(arguments)
    run = next((argument for argument in others if (Path(argument) / "config.yaml").is_file()), "")
    keys = [argument for argument in others if argument.strip() and "=" not in argument and argument != run]
    overrides = [argument for argument in others if "=" in argument and argument != run]
    run_values: Mapping[str, Any] = {}
    if run:
        if overrides:
            raise ConfigError("cannot be combined with a run", where=overrides[0], remedy="Leave it out")
        run_values, overrides = _read_run(Path(run))
    topics = [" ".join(keys)] if keys else [o.key for o in map(Override.parse, overrides) if run and not o.group]
    if not topics:
        key = arguments[0].partition("=")[0] if len(arguments) == 1 and not run else f"{run} trainer.val_every".strip()
        raise ConfigError("needs one key", where="mate explain", remedy=f"Type mate explain {key}")
    from mate_cli.cli.config.hydra_errors import wrap_hydra_errors
    from mate_cli.cli.config.syntax import Syntax

    Syntax("train", ({*keys, run} - {""}).__contains__).check(arguments)
    with typed_config_dir(flags.get("--config-dir")), wrap_hydra_errors("train", overrides, __file__):
        print("\n\n".join(text("train", topic, overrides, run_values) for topic in topics))
    return 0


def _read_run(folder: Path) -> tuple[Mapping[str, Any], list[str]]:
    """Read the values and the overrides of a run from its config.yaml.

    The file is untrusted, so overrides that name a class to import, or change the search path, are omitted.
    """
    file = folder / "config.yaml"
    values = read_yaml(file, RunError, "Give a folder below outputs/")
    with wrap_file_errors(file, RunError, "it does not fit this version of mate", "Train the run again"):
        overrides = [Override.parse(override) for override in values[ORIGIN]["overrides"]]
    return values, [str(o) for o in overrides if "_target_" not in str(o) and not o.is_below("hydra")]


def text(command: str, key: str, overrides: Sequence[str], run_values: Mapping[str, Any] | None = None) -> str:
    """Format the explanation of a configuration key, or of all keys of a section, for the terminal.

    Args:
        command: command whose configuration has the key.
        key: dotted key, section, or the last component of a key if it is unique.
        overrides: overrides that select the configuration to explain.
        run_values: values of the run with these overrides. None or empty to explain a new run.

    Raises:
        ConfigError: if the key does not exist.
    """
    from mate_cli.cli.config.reference import explain_keys

    stages = _stages(command, overrides)
    name, _, stage_key = key.removeprefix("stages.").partition(".")
    if stage_key and key.startswith("stages.") and name in stages:
        key, stages = stage_key, {name: stages[name]}
    width = min(shutil.get_terminal_size().columns, 120)
    parts, unknown = [], None
    for name, stage_overrides in stages.items():
        try:
            entries = [
                _name_experiment(entry, name, overrides) for entry in explain_keys(command, key, stage_overrides)
            ]
            if run_values:
                values = (run_values.get("stages") or {}).get(name, run_values)
                entries = [_show_recorded(entry, values) for entry in entries]
        except ConfigError as error:
            unknown = unknown or error
            continue
        description = _one(entries[0], width) if len(entries) == 1 else _section(key, entries, width)
        parts.append(f"stage {name}\n{description}" if name else description)
    if unknown and not parts:
        return _elsewhere(command, key, next(iter(stages.values())), width, unknown)
    return "\n\n".join(dict.fromkeys(parts))


def _name_experiment(entry: KeyDescription, stage: str, overrides: Sequence[str]) -> KeyDescription:
    """Name the experiment file as the source of a stage's settings, unless the user overrides the key.

    The overrides of a stage come from the experiment, unless the command line sets the key.

    Args:
        entry: description of the key.
        stage: name of the stage, "" for a plain run.
        overrides: overrides from the command line.
    """
    values = {override.partition("=")[0].lstrip("+~"): override for override in overrides}
    if not stage or {entry.key, f"stages.{stage}.{entry.key}"} & values.keys():
        return entry
    origin = {"where": values["experiment"], "comment": f"stages.{stage}.overrides"}
    settings = [replace(setting, **origin) if setting.where == "typed" else setting for setting in entry.settings]
    return replace(entry, settings=tuple(settings))


def _show_recorded(entry: KeyDescription, values: Mapping[str, Any]) -> KeyDescription:
    """Replace the composed value of a key by the value in the config.yaml of a run.

    The values differ if the machine or an earlier stage determined the value, or if a file has changed since.
    """
    value = format_value(find_value(values, entry.key))
    run_setting = () if value == entry.value else (Setting("config.yaml", value, "as the run was trained"),)
    return replace(entry, value=value, settings=(*entry.settings, *run_setting))


def _elsewhere(command: str, key: str, overrides: Sequence[str], width: int, unknown: ConfigError) -> str:
    """Explain a configuration key that exists only with other config group options.

    Args:
        command: command whose configuration is explained.
        key: dotted key.
        overrides: overrides from the command line.
        width: width of the terminal in characters.
        unknown: error for the unknown key.

    Raises:
        ConfigError: if no option has the key. The error suggests a similar key.
    """
    from mate_cli.cli.config.reference import explain_keys
    from mate_cli.cli.config.schema import SCHEMAS

    if names := list_options(key):
        return f"{key} is a config group of {len(names)} options: mate list {key}"
    all_keys = choice_keys(command)
    parts = []
    # Without an exact match, the user may have omitted the leading sections.
    exact_matches = [entry for entry in all_keys if entry.key == key]
    for choice_key in exact_matches or [entry for entry in all_keys if entry.key.endswith(f".{key}")]:
        first = choice_key.homes[0]
        found_text = f"{choice_key.key} is a key of {', '.join(choice_key.homes)}"
        (entry,) = explain_keys(command, choice_key.key, [*overrides, first])
        usage = f"  type    mate {command} {first} {quote_for_shell(f'{choice_key.key}={entry.value}')}"
        head = textwrap.fill(found_text, width, subsequent_indent="  ")
        parts.append("\n".join([head, *_one(entry, width).splitlines()[1:], usage]))
    if parts:
        return "\n\n".join(parts[:MAX_FOUND])
    group = key.partition(".")[0]
    if not list_options(group) and (
        other_commands := [name for name in SCHEMAS if name != command and group in top_keys(name)]
    ):
        commands = " and ".join(f"mate {name}" for name in other_commands)
        raise ConfigError(f"is a key of {commands}", where=key, remedy=f"Type mate {other_commands[0]} --help {key}")
    if rows := search_keys(key, command, all_keys)[:MAX_FOUND]:
        size = max(len(name) for name, _ in rows)
        lines = [textwrap.shorten(text, max(width - size - 4, 20), placeholder="...") for _, text in rows]
        found_text = "\n".join(
            f"  {name:<{size}}  {line}".rstrip() for (name, _), line in zip(rows, lines, strict=True)
        )
        return f"unknown key {key}. Close to it:\n{found_text}"
    if not unknown.remedy or "Did you mean" not in unknown.remedy:
        suggestion = nearest(key, [*groups_of(command), *(choice.key for choice in all_keys)], cutoff=0.8)
        raise ConfigError(unknown.problem, where=unknown.where, remedy=suggestion or unknown.remedy)
    raise unknown


def _stages(command: str, overrides: Sequence[str]) -> dict[str, list[str]]:
    """Return the overrides of each stage by stage name. A run without stages has one stage ""."""
    if command != "train" or not any(override.startswith("experiment=") for override in overrides):
        return {"": list(overrides)}
    from mate_cli.cli.config.resolve import resolve

    spec = resolve(overrides)
    if not spec.upstream_stages:
        return {"": list(overrides)}
    return {stage.name: stage.overrides for stage in spec.stages if not stage.run}


def _one(entry: KeyDescription, width: int) -> str:
    rows = [("may be", entry.bounds)] if entry.bounds else []
    origins = [
        (setting.where, setting.value, setting.comment if setting.comment != entry.meaning else "")
        for setting in entry.settings
    ]
    sizes = [max((len(origin[part]) for origin in origins), default=0) for part in (0, 1)]
    for number, (source, value, comment) in enumerate(origins):
        row = f"{source:<{sizes[0]}}  {value:<{sizes[1]}}  {comment}".rstrip()
        rows.append(("" if number else "set by", row))
    head = textwrap.fill(f"{entry.key} = {entry.value}", width)
    meaning = [textwrap.indent(textwrap.fill(entry.meaning, width - 2), "  ")] if entry.meaning else []
    return "\n".join([head, *meaning, *(f"  {name:<8}{line}" for name, line in rows)])


def _section(key: str, entries: Sequence[KeyDescription], width: int) -> str:
    size = max((len(entry.key) for entry in entries), default=0)
    rows = [f"{key}: {', '.join(list_options(key))}"] if list_options(key) else []
    for entry in entries:
        line = f"  {entry.key:<{size}}  {entry.value}"
        meaning = f"{entry.meaning.rstrip('.')} ({entry.bounds})" if entry.bounds else entry.meaning
        rows += [line, *([textwrap.indent(textwrap.fill(meaning, width - 6), "      ")] if meaning else [])]
    return "\n".join(rows)


@dataclass(frozen=True)
class ChoiceKey:
    """A configuration key that only some options of a config group have.

    Args:
        key: dotted key, such as `model.slots`.
        homes: options that have the key, such as `model=linformer`.
        meaning: first comment next to the key in these files, "" without a comment.
    """

    key: str
    homes: tuple[str, ...]
    meaning: str


def choice_keys(command: str) -> list[ChoiceKey]:
    """Return the configuration keys that the config group options of a command define.

    Files with `@package _global_`, such as experiments, are excluded.
    """
    homes: dict[str, list[str]] = {}
    meanings: dict[str, str] = {}
    for group in groups_of(command):
        for name in list_options(group):
            file = find_config(f"{group}/{name}")
            if file is None or "@package _global_" in file.read_text(encoding="utf-8", errors="replace")[:200]:
                continue
            file_keys = read_keys(file)
            for key in flat_keys(read_choice(group, name)):
                if key.rpartition(".")[2].startswith("_"):
                    continue
                homes.setdefault(f"{group}.{key}", []).append(f"{group}={name}")
                if comment := file_keys.get(key, ("", ""))[1]:
                    meanings.setdefault(f"{group}.{key}", comment)
    return [ChoiceKey(key, tuple(names), meanings.get(key, "")) for key, names in homes.items()]


def search_keys(text: str, command: str, known: Sequence[ChoiceKey]) -> list[tuple[str, str]]:
    """Search keys by name, then by comment, and search config group options by name.

    Args:
        text: word or phrase to search for.
        command: command whose options are searched.
        known: keys to search.

    Returns:
        (key or `group=option`, its description) for each match.
    """
    phrase = re.sub(r"[_\W]+", " ", text).strip()
    if not phrase:
        return []
    pattern = re.compile(rf"\b{re.escape(phrase)}\b", re.IGNORECASE)
    key_texts = [(entry, entry.key.replace("_", " ").replace(".", " ")) for entry in known]
    matches = [entry for entry, name in key_texts if pattern.search(name)]
    matches += [entry for entry in known if entry not in matches and pattern.search(entry.meaning)]
    options = [
        (f"{group}={name}", read_summary(group, name).text)
        for group in groups_of(command)
        for name in list_options(group)
        if name == text
    ]
    return [*((entry.key, entry.meaning) for entry in matches), *options]
