"""Command-line arguments: flags and overrides.

Overrides have the form `key=value`, `+key=value`, `~key` or `group=option`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mate_cli.cli.config_dir import choices

SHORT = {
    **{"--help": "-h", "--cfg": "-c", "--package": "-p", "--run": "-r", "--multirun": "-m", "--info": "-i"},
    **{"--shell-completion": "-sc", "--config-path": "-cp", "--config-name": "-cn", "--config-dir": "-cd"},
}
"""Short form of each flag of Hydra that has one."""
LONG = {short: long for long, short in SHORT.items()}
"""Long form of each short flag."""
DRY = "--dry"
"""Flag that resolves and checks a run without training."""
PRINT_SCRIPT = "--print-script"
"""Flag that prints the script that would be submitted to Slurm."""
FLAGS = (*SHORT, *LONG, "--hydra-help", "--version", "--resolve", "--experimental-rerun", DRY, PRINT_SCRIPT)
"""Flags of Hydra, plus `DRY` and `PRINT_SCRIPT`, which mate handles before Hydra."""
VALUED = (
    *("--cfg", "--info", "--package", "--config-path", "--config-name", "--config-dir"),
    "--experimental-rerun",
)
"""Flags that take a value, as `--flag=value` or `--flag value`."""
RUN_LEVEL_KEYS = ("experiment", "name", "resume", "system", "stages", "sweep", "trust", "hydra", "defaults")
"""Keys of the run, which do not belong to a stage."""
EXTENSIBLE_SECTIONS = ("trainer.options.", "callbacks.", "logger.", "task.metrics")
"""Sections to which any key may be added."""
NONE = "none"
"""Option that disables a config group, in groups that have it."""
EMPTY_VALUES = ("", "null", "none", "false", "true", "~", "{}")
"""Values that users write to disable a config group or key."""


def split_flags(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Split command-line arguments into flags and overrides.

    Returns:
        Values of the flags by long name ("" without a value), and the overrides.
    """
    pairs = list(_paired(arguments))
    return {flag: text for flag, text in pairs if flag}, [text for flag, text in pairs if not flag]


def _paired(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (long flag, value) for each flag and ("", argument) for each argument."""
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        flag = LONG.get(name, name)
        if not argument.startswith("-"):
            yield "", argument
        elif flag in VALUED and not equals:
            yield flag, next(rest, "")
        else:
            yield flag, value


def find_help_topic(arguments: Sequence[str]) -> str | None:
    """Return the key that help is requested for, as in `--help trainer`.

    Return None without a help flag, or if it has no key.
    """
    for flag in arguments:
        if flag.startswith("--help="):
            return flag.partition("=")[2] or None
    place = next((place for place, argument in enumerate(arguments) if argument in ("--help", "-h")), None)
    if place is None:
        return None
    # Folders before the flag are run folders, as in `mate compare FOLDER --help`.
    asked = [*arguments[place:], *(argument for argument in arguments[:place] if not Path(argument).is_dir())]
    return next((argument for argument in asked if "=" not in argument and not argument.startswith("-")), None)


@dataclass(frozen=True)
class Override:
    """A Hydra override.

    Args:
        sign: prefix `+`, `++` or `~`; empty without a prefix.
        key: configuration key to set, or config group to select an option of.
        value: text after the first `=`; None without `=`.
    """

    sign: str
    key: str
    value: str | None

    @classmethod
    def parse(cls, text: str) -> Override:
        """Parse an override.

        A deleted group or an empty list becomes the option `none` if the group has one.
        """
        name, equals, value = text.partition("=")
        key = name.lstrip("+~")
        sign = name[: len(name) - len(key)]
        if ((sign == "~" and value in ("", NONE)) or (not sign and value == "[]")) and NONE in choices(key):
            return cls("", key, NONE)
        return cls(sign, key, value if equals else None)

    def __str__(self) -> str:
        return f"{self.sign}{self.key}" + ("" if self.value is None else f"={self.value}")

    @cached_property
    def group(self) -> str:
        """Config group that the override selects an option of; empty if it sets a value."""
        name = self.key.partition("@")[0]
        # A mapping sets the keys of a section, so it is not the name of an option.
        if (self.value or "").startswith("{"):
            return ""
        return name if "/" in name or choices(name) else ""

    @cached_property
    def stage(self) -> str:
        """Stage name in `stages.NAME.key=value`; empty if the override applies to all stages."""
        parts = self.key.split(".", 2)
        return parts[1] if parts[0] == "stages" and len(parts) == 3 else ""

    @property
    def inner(self) -> Override:
        """The override without its prefix `stages.NAME.`."""
        return Override(self.sign, self.key.removeprefix(f"stages.{self.stage}."), self.value)

    def is_below(self, *parts: str) -> bool:
        """Return whether the first component of the key is one of `parts`."""
        return self.key.replace("/", ".").partition(".")[0] in parts


def to_strings(overrides: Iterable[Override]) -> list[str]:
    """Return overrides as command-line arguments."""
    return [str(override) for override in overrides]


def get_override_value(overrides: Iterable[Override], key: str) -> str | None:
    """Return the value of the last override of `key`, or None.

    The result is None if no override sets the key, or if the value is null or empty.
    """
    values = [override.value for override in overrides if override.key == key]
    return values[-1] if values and values[-1] not in ("", "null") else None
