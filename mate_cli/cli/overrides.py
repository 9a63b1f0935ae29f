"""Parse command-line arguments: flags and Hydra overrides.

Overrides have the form `key=value`, `+key=value`, `~key` or `group=option`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mate_cli.cli.config_dir import list_options

SHORT = {
    **{"--help": "-h", "--cfg": "-c", "--package": "-p", "--run": "-r", "--multirun": "-m", "--info": "-i"},
    **{"--shell-completion": "-sc", "--config-path": "-cp", "--config-name": "-cn", "--config-dir": "-cd"},
}
"""Short form of each flag of Hydra that has one."""
LONG = {flag: long for long, flag in SHORT.items()}
"""Long form of each short flag of Hydra."""
DRY = "--dry"
"""Flag that checks a run and prints its plan and cost, without training."""
PRINT_SCRIPT = "--print-script"
"""Flag that prints the batch script of a sweep instead of submitting it to Slurm."""
FLAGS = (*SHORT, *LONG, "--hydra-help", "--version", "--resolve", "--experimental-rerun", DRY, PRINT_SCRIPT)
"""All valid flags: those of Hydra in both forms, and `DRY` and `PRINT_SCRIPT`, which mate handles itself."""
VALUED = (
    *("--cfg", "--info", "--package", "--config-path", "--config-name", "--config-dir"),
    "--experimental-rerun",
)
"""Flags with a value, written `--flag=value` or `--flag value`."""
RUN_LEVEL_KEYS = ("experiment", "name", "resume", "system", "stages", "sweep", "trust", "hydra", "defaults")
"""Top-level keys that configure the whole run or the command line, not a stage."""
EXTENSIBLE_SECTIONS = ("trainer.options.", "callbacks.", "logger.", "task.metrics")
"""Key prefixes of the sections in which users may add any key, as in `+trainer.options.profiler=simple`."""
NONE = "none"
"""Name of the option that disables a config group. Only some groups have it."""
EMPTY_VALUES = ("", "null", "none", "false", "true", "~", "{}")
"""Values that users pass to disable a config group or a key."""


def split_flags(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Split command-line arguments into flags and other arguments.

    Returns:
        Flag values by long name ("" for a flag without a value), and the other arguments, usually overrides.
    """
    flags: dict[str, str] = {}
    overrides: list[str] = []
    iterator = iter(arguments)
    for argument in iterator:
        name, equals, value = argument.partition("=")
        flag = LONG.get(name, name)
        if not argument.startswith("-"):
            overrides.append(argument)
        else:
            flags[flag] = next(iterator, "") if flag in VALUED and not equals else value
    return flags, overrides


def find_help_topic(arguments: Sequence[str]) -> str | None:
    """Return the key to explain, such as `trainer` for `--help trainer` or `--help=trainer`.

    Return None if the arguments contain no help flag, or no key in addition to it.
    """
    for flag in arguments:
        if flag.startswith("--help="):
            return flag.partition("=")[2] or None
    index = next((index for index, argument in enumerate(arguments) if argument in ("--help", "-h")), None)
    if index is None:
        return None
    # Folders before the flag are run folders, as in `mate compare FOLDER --help`.
    candidates = [*arguments[index:], *(argument for argument in arguments[:index] if not Path(argument).is_dir())]
    return next((argument for argument in candidates if "=" not in argument and not argument.startswith("-")), None)


@dataclass(frozen=True)
class Override:
    """A parsed Hydra override, such as `++optimizer.lr=1e-4` or `model=mate`.

    Args:
        sign: prefix `+`, `++` or `~`. Empty without a prefix.
        key: configuration key to set, or config group to select an option of.
        value: text after the first `=`. None without `=`.
    """

    sign: str
    key: str
    value: str | None

    @classmethod
    def parse(cls, text: str) -> Override:
        """Parse a command-line argument such as `+key=value`.

        A deleted group or an empty list becomes the option `none` if the group has one.
        """
        name, equals, value = text.partition("=")
        key = name.lstrip("+~")
        sign = name[: len(name) - len(key)]
        if ((sign == "~" and value in ("", NONE)) or (not sign and value == "[]")) and NONE in list_options(key):
            return cls("", key, NONE)
        return cls(sign, key, value if equals else None)

    def __str__(self) -> str:
        return f"{self.sign}{self.key}" + ("" if self.value is None else f"={self.value}")

    @cached_property
    def group(self) -> str:
        """Config group, such as `model`, of an override that selects an option.

        Empty if the override sets a value.
        """
        name = self.key.partition("@")[0]
        # A mapping sets the keys of a section, so it is not the name of an option.
        if (self.value or "").startswith("{"):
            return ""
        return name if "/" in name or list_options(name) else ""

    @cached_property
    def stage(self) -> str:
        """Stage name in an override `stages.NAME.key=value`, or "" if it applies to all stages."""
        parts = self.key.split(".", 2)
        return parts[1] if parts[0] == "stages" and len(parts) == 3 else ""

    @property
    def inner(self) -> Override:
        """The override without the prefix `stages.NAME.`, as in `lr=1` for `stages.qa.lr=1`."""
        return Override(self.sign, self.key.removeprefix(f"stages.{self.stage}."), self.value)

    def is_below(self, *parts: str) -> bool:
        """Return whether the first component of the override's key is one of `parts`."""
        return self.key.replace("/", ".").partition(".")[0] in parts


def to_strings(overrides: Iterable[Override]) -> list[str]:
    """Convert parsed overrides to command-line arguments, such as `model=mate`."""
    return [str(override) for override in overrides]


def get_override_value(overrides: Iterable[Override], key: str) -> str | None:
    """Return the value of the last override of `key` in a list of overrides.

    Return None if no override sets the key, or if its last value is empty or `null`.
    """
    values = [override.value for override in overrides if override.key == key]
    return values[-1] if values and values[-1] not in ("", "null") else None
