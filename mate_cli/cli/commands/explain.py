"""`mate explain KEY`: print meaning and allowed values of a key, and where it is set."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mate_cli.cli.config.reference import format_value, read_keys
from mate_cli.cli.config_dir import find_config, list_options, read_choice, top_keys, typed_config_dir
from mate_cli.cli.help import groups_of, nearest, read_summary
from mate_cli.cli.overrides import Override, split_flags
from mate_cli.errors import ConfigError, RunError
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.files.safe_load import read_yaml
from mate_cli.quoting import format_command, quote_for_shell
from mate_cli.runs.configuration import ORIGIN
from mate_cli.runs.identity import flat_keys

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

RUN is the folder of a run, such as outputs/train/quickstart/first: its value,
and the overrides that set it. Without KEY: all keys that its overrides set.

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
    # `Path.is_file` raises an error for an argument that is longer than a file name.
    if arguments and os.path.isfile(f"{arguments[0]}/config.yaml"):  # noqa: PTH113
        print(explain_run(Path(arguments[0]), arguments[1:]))
        return 0
    arguments = [str(Override.parse(argument)) for argument in arguments]
    flags, others = split_flags(arguments)
    keys = [argument for argument in others if argument.strip() and "=" not in argument]
    if not keys:
        key = arguments[0].partition("=")[0] if len(arguments) == 1 else "trainer.val_every"
        raise ConfigError("needs one key", where="mate explain", remedy=f"Type mate explain {key}")
    from mate_cli.cli.config.hydra_errors import wrap_hydra_errors
    from mate_cli.cli.config.syntax import Syntax

    overrides = [argument for argument in others if "=" in argument]
    Syntax("train", keys.__contains__).check(arguments)
    with typed_config_dir(flags.get("--config-dir")), wrap_hydra_errors("train", overrides, __file__):
        print(text("train", " ".join(keys), overrides))
    return 0


def explain_run(folder: Path, keys: Sequence[str]) -> str:
    """Format the recorded value of each key of a run, with the recorded overrides that set it.

    The run may be untrusted, so its configuration is not composed, and no class is imported. The last line is the
    command that also shows the files that set the keys.

    Args:
        folder: run folder.
        keys: dotted keys or sections. If empty, all keys that the overrides of the run set.

    Raises:
        RunError: if config.yaml is damaged, or not that of a training run.
        ConfigError: if the run has no such key.
    """
    file, hint = folder / "config.yaml", "Give the folder of a training run"
    values = read_yaml(file, RunError, hint)
    with wrap_file_errors(file, RunError, "is not the configuration of a training run", hint):
        overrides = [" ".join(override.split()) for override in list[str](values.pop(ORIGIN)["overrides"])]
        leaves = flat_keys(values)
    set_keys = {override: override.lstrip("+~").partition("=")[0] for override in overrides}
    lines = []
    for key in keys or [name for name in leaves if name in set_keys.values()]:
        entries = {name: value for name, value in leaves.items() if f"{name}.".startswith(f"{key}.")}
        if not entries:
            raise ConfigError(f"is not a key of {file}", where=key, remedy=nearest(key, leaves) or "Leave it out")
        for name, value in entries.items():
            names = (f"{name}.", re.sub(r"^stages\.[^.]+\.", "", f"{name}."))
            setters = [text for text, set_key in set_keys.items() if any(n.startswith(f"{set_key}.") for n in names)]
            lines += [
                f"{name} = {' '.join(format_value(value).split())}",
                f"  set by  {', '.join(setters) or 'files of conf/'}",
            ]
    command = format_command("mate", "explain", *(keys[:1] or ["KEY"]), *overrides)
    return "\n".join([*lines, f"The files that set a key: {command}"])


def text(command: str, key: str, overrides: Sequence[str]) -> str:
    """Format the explanation of a configuration key, or of a section, for the terminal.

    Args:
        command: command whose configuration has the key.
        key: dotted key, section, or the last component of a key if it is unique.
        overrides: overrides that select the configuration to explain.

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
        except ConfigError as error:
            unknown = unknown or error
            continue
        description = _one(entries[0], width) if len(entries) == 1 else _section(key, entries, width)
        parts.append(f"stage {name}\n{description}" if name else description)
    if unknown and not parts:
        return _elsewhere(command, key, next(iter(stages.values())), width, unknown)
    return "\n\n".join(dict.fromkeys(parts))


def _name_experiment(entry: KeyDescription, stage: str, overrides: Sequence[str]) -> KeyDescription:
    """Name the experiment file, not the command line, as the source of a stage's value.

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
        room = max(width - size - 4, 20)
        lines = [f"  {name:<{size}}  {textwrap.shorten(text, room, placeholder='...')}".rstrip() for name, text in rows]
        return "\n".join([f"unknown key {key}. Close to it:", *lines])
    if not unknown.remedy or "Did you mean" not in unknown.remedy:
        suggestion = nearest(key, [*groups_of(command), *(choice.key for choice in all_keys)], cutoff=0.8)
        raise ConfigError(unknown.problem, where=unknown.where, remedy=suggestion or unknown.remedy)
    raise unknown


def _stages(command: str, overrides: Sequence[str]) -> dict[str, list[str]]:
    """Return the overrides that apply to each stage of a run, by stage name.

    A run without stages has one stage "".
    """
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
    """A configuration key that exists only if certain options of a config group are selected.

    Args:
        key: dotted key, such as `model.slots`.
        homes: options that have the key, such as `model=linformer`.
        meaning: first comment next to the key in these files, "" without a comment.
    """

    key: str
    homes: tuple[str, ...]
    meaning: str


def choice_keys(command: str) -> list[ChoiceKey]:
    """List the configuration keys that exist only with certain options of config groups.

    The options are in the config groups of `command`. Files with `@package _global_`, such as experiments, are
    excluded.
    """
    uses: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for group in groups_of(command):
        for name in list_options(group):
            file = find_config(f"{group}/{name}")
            if file is None or "@package _global_" in file.read_text(encoding="utf-8", errors="replace")[:200]:
                continue
            file_keys = read_keys(file)
            for key in flat_keys(read_choice(group, name)):
                if not key.rpartition(".")[2].startswith("_"):
                    uses[f"{group}.{key}"].append((f"{group}={name}", file_keys.get(key, ("", ""))[1]))
    return [
        ChoiceKey(key, tuple(home for home, _ in pairs), next((comment for _, comment in pairs if comment), ""))
        for key, pairs in uses.items()
    ]


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
