"""`mate train sweep=NAME`: run here, job by job, a grid that a file in conf/sweep/ describes for W&B."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mate_cli.cli.config_dir import config_dir, user_config_dir
from mate_cli.cli.help import choices, nearest
from mate_cli.errors import ConfigError

KEY = "sweep="
MULTIRUN = ("-m", "--multirun")


def expand(words: Sequence[str]) -> list[str]:
    """Replace `sweep=NAME` by -m and the file's values; what else is typed comes later, and wins.

    Raises:
        ConfigError: there is no such file, or it is no grid.
    """
    names = [word.removeprefix(KEY) for word in words if word.startswith(KEY)]
    if not names:
        return list(words)
    typed = [word for word in words if not word.startswith(KEY)]
    keys = {_key(word) for word in typed}
    own = [word for word in _grid(names[-1]) if _key(word) not in keys]
    return [*([] if set(MULTIRUN) & set(typed) else ["-m"]), *own, *typed]


def _grid(name: str) -> list[str]:
    """The overrides of a sweep file: those of its command, then the values of its parameters."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError  # type: ignore[import-untyped]

    path = _find(name)
    try:
        content: Any = OmegaConf.to_container(OmegaConf.load(path))
        if content.get("method") != "grid":
            raise ConfigError(
                f"a search by {content.get('method')!r} is made by W&B's server",
                where=str(path),
                remedy=f"Use `wandb sweep {path}`, or hydra/sweeper=optuna",
            )
        fixed = [word for word in content["command"] if "=" in word and not word.startswith("logger.")]
        return fixed + [f"{key}={_values(parameter)}" for key, parameter in content["parameters"].items()]
    except (OmegaConfBaseException, YAMLError, OSError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"not a sweep file: {type(error).__name__}", where=str(path), remedy="See the files in conf/sweep"
        ) from error


def _find(name: str) -> Path:
    for folder in (user_config_dir(), config_dir()):
        if folder and (path := folder / "sweep" / f"{name}.yaml").is_file():
            return path
    known = choices("sweep")
    remedy = nearest(name, known, prefix=KEY) or f"There are {', '.join(known)}"
    raise ConfigError("no such sweep", where=f"{KEY}{name}", remedy=remedy)


def _values(parameter: Mapping[str, Any]) -> str:
    """The value or values of a parameter as Hydra writes them."""
    values = [parameter["value"]] if "value" in parameter else parameter["values"]
    return ",".join(str(value).lower() if isinstance(value, bool) else str(value) for value in values)


def _key(word: str) -> str:
    return word.partition("=")[0].lstrip("+~")
