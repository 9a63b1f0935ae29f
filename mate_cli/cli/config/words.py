"""Overrides as they are typed, and as Hydra's sweeper takes them.

A sweep hands its words to Hydra before any stage is composed. Hydra would refuse what only a stage has, so values go
through it as additions and deletions as rows; in each job they are again what was typed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString

from mate_cli.cli.config_dir import choices

ROW = "row"
"""A parameter of a sweep each of whose values holds several overrides, as in a shell: what a grid cannot say."""
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
    """What Hydra is shown of the overrides of a sweep."""
    return [str(_shown(Word.parse(word), place)) for place, word in enumerate(words)]


def parameters_for_sweeper(parameters: Mapping[str, object]) -> dict[str, str]:
    """What Hydra is shown of the parameters in a sweep's file."""
    texts = {key: "null" if value is None else value for key, value in parameters.items()}
    shown = [_shown(Word.parse(f"{key}={value}"), 0) for key, value in texts.items()]
    return {f"{word.sign}{word.key}": word.value or "" for word in shown}


def _shown(word: Word, place: int) -> Word:
    if word.sign == "~":
        return Word("++", f"{ROW}.deleted_{place}", QuotedString(shlex.quote(str(word)), Quote.single).with_quotes())
    return word if word.group or word.is_below(*PASSED_ON) else replace(word, sign="++")


def of_job(overrides: Iterable[str], typed: Sequence[str]) -> list[str]:
    """The overrides of a sweep's job as they would be typed for it alone."""
    signs = {word.key: word.sign for word in map(Word.parse, typed)}
    found: list[str] = []
    for word in map(Word.parse, overrides):
        if word.is_below(ROW):
            found += shlex.split(str(OverridesParser.create().parse_override(str(word)).value()))
        elif word.key != "sweep":
            found.append(str(word if word.group else replace(word, sign=signs.get(word.key, ""))))
    return found
