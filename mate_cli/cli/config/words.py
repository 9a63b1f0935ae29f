"""Overrides as they are typed, and as Hydra's sweeper takes them.

A sweep hands its words to Hydra before any stage is composed. Hydra would refuse what only a stage has, so words go
through it as additions, and are what was typed again in each job.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mate_cli.cli.help import choices

DELETED = "deleted."
"""Before the key of what a sweep's jobs delete, while Hydra has it."""
ROW = "row"
"""A parameter of a sweep each of whose values holds several overrides: what a grid cannot say."""
PASSED_ON = ("hydra", "experiment", "sweep")
"""Keys that Hydra itself composes a sweep by."""


@dataclass(frozen=True)
class Word:
    """One override.

    Args:
        sign: `+`, `++` or `~` in front, or nothing.
        key: what it sets.
        value: what follows the first `=`; None without one.
    """

    sign: str
    key: str
    value: str | None

    @classmethod
    def parse(cls, text: str) -> Word:
        """Take an override apart."""
        name, equals, value = text.partition("=")
        key = name.lstrip("+~")
        return cls(name[: len(name) - len(key)], key, value if equals else None)

    def __str__(self) -> str:
        return f"{self.sign}{self.key}" + ("" if self.value is None else f"={self.value}")

    @property
    def group(self) -> str:
        """The group whose file it chooses; empty for a word that sets a value."""
        name = self.key.partition("@")[0]
        return name if "/" in name or choices(name) else ""

    def is_below(self, *parts: str) -> bool:
        """Whether it is of one of these parts of the configuration."""
        return self.key.replace("/", ".").partition(".")[0] in parts


def for_sweeper(words: Iterable[str]) -> list[str]:
    """What Hydra is shown of a sweep: values as additions, deletions as values."""
    return [str(_shown(Word.parse(word))) if not word.startswith("-") else word for word in words]


def _shown(word: Word) -> Word:
    if word.is_below(*PASSED_ON):
        return word
    if word.sign == "~":
        return Word("++", f"{DELETED}{word.key}", "true")
    return word if word.sign or word.group else Word("++", word.key, word.value)


def of_job(overrides: Iterable[str], typed: Sequence[str]) -> list[str]:
    """The overrides of a sweep's job as they would be typed for it alone.

    Args:
        overrides: as Hydra has them.
        typed: the words of the sweep.
    """
    found: list[str] = []
    added = {word.key for word in map(Word.parse, typed) if word.sign == "++"}
    for word in map(Word.parse, overrides):
        if word.key == ROW:
            found += shlex.split((word.value or "").strip("'\""))
        elif word.key.startswith(DELETED):
            found.append(f"~{word.key.removeprefix(DELETED)}")
        elif word.key != "sweep":
            found.append(str(word if word.key in added or word.sign != "++" else Word("", word.key, word.value)))
    return found


LONG = {"-c": "--cfg", "-cd": "--config-dir", "-p": "--package"}
"""Flags that take a value, by their short names."""


def split_flags(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Flags by their long names, and the overrides."""
    flags: dict[str, str] = {}
    overrides: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        long = LONG.get(name, name)
        if not word.startswith("-"):
            overrides.append(word)
        elif long in LONG.values():
            flags[long] = value if equals else next(rest, "")
        else:
            flags[long] = ""
    return flags, overrides
