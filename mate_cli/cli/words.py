"""Words of a command line: flags, and overrides such as `key=value`, `+key=value`, `~key` and `group=choice`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mate_cli.cli.config_dir import choices

SHORT = {
    **{"--help": "-h", "--cfg": "-c", "--package": "-p", "--run": "-r", "--multirun": "-m", "--info": "-i"},
    **{"--shell-completion": "-sc", "--config-path": "-cp", "--config-name": "-cn", "--config-dir": "-cd"},
}
LONG = {short: long for long, short in SHORT.items()}
DRY = "--dry"
"""Resolve and check a run, and train nothing."""
PRINT_SCRIPT = "--print-script"
"""Print what would be submitted to Slurm."""
FLAGS = (*SHORT, *LONG, "--hydra-help", "--version", "--resolve", "--experimental-rerun", DRY, PRINT_SCRIPT)
"""All that Hydra understands, and two that are answered before it."""
VALUED = (
    *("--cfg", "--info", "--package", "--config-path", "--config-name", "--config-dir"),
    "--experimental-rerun",
)
"""Flags whose value may be the word after them."""
NONE = "none"
"""The choice of a group that a run may be without."""
NOTHING = ("", "null", "none", "false", "true", "~", "{}")
"""What people write for no choice at all."""


def split_flags(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return flags by their long names, with their values, and the overrides."""
    pairs = list(_paired(words))
    return {flag: text for flag, text in pairs if flag}, [text for flag, text in pairs if not flag]


def _paired(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each flag with its value, and each override with no flag."""
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        flag = LONG.get(name, name)
        if not word.startswith("-"):
            yield "", word
        elif flag in VALUED and not equals:
            yield flag, next(rest, "")
        else:
            yield flag, value


def find_help_topic(words: Sequence[str]) -> str | None:
    """Return the key that is asked about, as in `--help trainer`; None where no help is asked for, or for all."""
    for flag in words:
        if flag.startswith("--help="):
            return flag.partition("=")[2] or None
    place = next((place for place, word in enumerate(words) if word in ("--help", "-h")), None)
    if place is None:
        return None
    asked = [*words[place:], *(word for word in words[:place] if not Path(word).is_dir())]  # folders are compared
    return next((word for word in asked if "=" not in word and not word.startswith("-")), None)


@dataclass(frozen=True)
class Override:
    """One override.

    Args:
        sign: `+`, `++` or `~` in front, or nothing.
        key: the key that it sets, or the group whose file it chooses.
        value: the text after the first `=`; None without one.
    """

    sign: str
    key: str
    value: str | None

    @classmethod
    def parse(cls, text: str) -> Override:
        """Take an override apart; a group that is deleted, or an empty list, is its choice `none` where it has one."""
        name, equals, value = text.partition("=")
        key = name.lstrip("+~")
        sign = name[: len(name) - len(key)]
        if ((sign == "~" and value in ("", NONE)) or (not sign and value == "[]")) and NONE in choices(key):
            return cls("", key, NONE)
        return cls(sign, key, value if equals else None)

    def __str__(self) -> str:
        return f"{self.sign}{self.key}" + ("" if self.value is None else f"={self.value}")

    @property
    def group(self) -> str:
        """The group whose file it chooses; empty for an override that sets a value."""
        name = self.key.partition("@")[0]
        if (self.value or "").startswith("{"):  # keys of a section, not the name of a file
            return ""
        return name if "/" in name or choices(name) else ""

    @property
    def stage(self) -> str:
        """The stage that it is for alone, as `stages.NAME.key=value`; empty where it is for all."""
        parts = self.key.split(".", 2)
        return parts[1] if parts[0] == "stages" and len(parts) == 3 else ""

    @property
    def inner(self) -> Override:
        """The same as it is written within its stage."""
        return Override(self.sign, self.key.removeprefix(f"stages.{self.stage}."), self.value)

    def is_below(self, *parts: str) -> bool:
        """Say whether it is of one of these parts of the configuration."""
        return self.key.replace("/", ".").partition(".")[0] in parts


def texts(overrides: Iterable[Override]) -> list[str]:
    """Return overrides as they are typed."""
    return [str(override) for override in overrides]


def last_value(overrides: Iterable[Override], key: str) -> str | None:
    """Return the value that is typed last of a key; None where it is not typed, or null."""
    values = [word.value for word in overrides if word.key == key]
    return values[-1] if values and values[-1] not in ("", "null") else None
