"""`mate train sweep=NAME`: what Hydra's group of sweeps lacks.

A file of `conf/sweep/` says under `hydra.sweeper.params` what every job has and what varies, and under `rows` what a
grid cannot say: a list of mappings, one for each row. The jobs have these as overrides of their own, and know nothing
of the sweep.
"""

from collections.abc import Sequence
from typing import Any

from mate_cli.cli.config_dir import find_config, group_choices, read_config
from mate_cli.cli.flags import split_flags
from mate_cli.errors import ConfigError

KEY = "sweep="
NO_RUN = {"--multirun", "--cfg", "--help", "--info", "--hydra-help", "--shell-completion"}
"""Flags that say themselves what is done."""


def expand(words: Sequence[str]) -> list[str]:
    """Add -m to `sweep=NAME`, unless it is there or nothing is to be run.

    Raises:
        ConfigError: there are several sweeps, or the file holds what the jobs would not get.
    """
    names = [word.removeprefix(KEY) for word in words if word.startswith(KEY)]
    if not names or names[-1] in ("", "null"):
        return list(words)
    if "," in names[-1]:
        raise ConfigError("has several sweeps", where=f"{KEY}{names[-1]}", remedy="Run them one at a time")
    path = find_config(f"sweep/{names[-1]}")
    if other := _find_unknown_key(read_config(path)):
        remedy = f"Write it under hydra.sweeper.params: {other}: ..."
        raise ConfigError(f"a sweep file can only set keys of hydra, not {other}", where=str(path), remedy=remedy)
    return list(words) if NO_RUN & set(split_flags(words)[0]) else ["-m", *words]


def _find_unknown_key(content: dict[str, Any]) -> str | None:
    """Find a key or group in a sweep's file that is not Hydra's."""
    groups = [group.removeprefix("override").strip() for group, _ in group_choices(content)]
    others = [group.lstrip("/") for group in groups if not group.startswith("/hydra/")]
    return next(iter([*others, *(name for name in content if name not in ("defaults", "hydra", "rows"))]), None)
