"""Overrides as they are typed: `key=value`, `+key=value`, `~key`, `group=choice`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mate_cli.cli.config_dir import choices

NONE = "none"
"""The choice of a group that a run may be without."""
NOTHING = ("", "null", "none", "false", "true", "~", "{}")
"""What people write for no choice at all."""


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
        if ((sign == "~" and value in (None, "", NONE)) or (not sign and value == "[]")) and NONE in choices(key):
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

    def is_below(self, *parts: str) -> bool:
        """Say whether it is of one of these parts of the configuration."""
        return self.key.replace("/", ".").partition(".")[0] in parts


def texts(overrides: Iterable[Override]) -> list[str]:
    """Return overrides as they are typed."""
    return [str(override) for override in overrides]
