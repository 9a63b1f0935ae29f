"""Keys that no composition shows: those of choices that are not made, and those whose comment speaks of a word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mate_cli.cli.config.reference import read_keys
from mate_cli.cli.config_dir import choices, extended_choice, find_config
from mate_cli.cli.shell.help import groups_of
from mate_cli.cli.shell.summaries import read_summary
from mate_cli.runs.identity import flat_keys


@dataclass(frozen=True)
class ChoiceKey:
    """A key of some choices of a group.

    Args:
        key: its full name.
        homes: the choices that have it, as they are typed.
        meaning: the first comment beside it; empty where nobody says.
    """

    key: str
    homes: tuple[str, ...]
    meaning: str


def choice_keys(command: str) -> list[ChoiceKey]:
    """Return the keys of all choices of a command's groups, but for those that set keys of others."""
    homes: dict[str, list[str]] = {}
    meanings: dict[str, str] = {}
    for group in groups_of(command):
        for name in choices(group):
            file = find_config(f"{group}/{name}")
            if file is None or "@package _global_" in file.read_text(encoding="utf-8", errors="replace")[:200]:
                continue
            file_keys = read_keys(file)
            for key in dict.fromkeys(_keys(group, name)):
                homes.setdefault(f"{group}.{key}", []).append(f"{group}={name}")
                if comment := file_keys.get(key, ("", ""))[1]:
                    meanings.setdefault(f"{group}.{key}", comment)
    return [ChoiceKey(key, tuple(names), meanings.get(key, "")) for key, names in homes.items()]


def find_named(key: str, known: Sequence[ChoiceKey]) -> list[ChoiceKey]:
    """Return the keys of a name, which may lack the sections before it."""
    return [entry for entry in known if entry.key == key] or [entry for entry in known if entry.key.endswith(f".{key}")]


def search_keys(word: str, command: str, known: Sequence[ChoiceKey]) -> list[tuple[str, str]]:
    """Return what speaks of a word: keys that have it in their name, then others by their comment, then choices.

    Returns:
        A key or choice as it is typed, and its line.
    """
    words = re.sub(r"[_\W]+", " ", word).strip()
    if not words:
        return []
    phrase = re.compile(rf"\b{re.escape(words)}\b", re.IGNORECASE)
    plain = [(entry, entry.key.replace("_", " ").replace(".", " ")) for entry in known]
    matches = [entry for entry, name in plain if phrase.search(name)]
    matches += [entry for entry in known if entry not in matches and phrase.search(entry.meaning)]
    chosen = [
        (f"{group}={name}", read_summary(group, name).text)
        for group in groups_of(command)
        for name in choices(group)
        if name == word
    ]
    return [*((entry.key, entry.meaning) for entry in matches), *chosen]


def _keys(group: str, name: str) -> Iterator[str]:
    for content in extended_choice(group, name):
        values = {key: value for key, value in content.items() if key != "defaults"}
        yield from (key for key in flat_keys(values) if not key.rpartition(".")[2].startswith("_"))
