"""Removal of outside paths, downloads and servers from untrusted configurations.

An outside path leads out of the run folder.

The config.yaml of an untrusted run folder must not determine the folders that mate writes to, the downloads or the
servers. Such values are replaced by the defaults of the current user. `trust=paths` on the command line keeps the
values of config.yaml.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from mate_cli.errors import RunError, TrustError
from mate_cli.files.atomic import check_inside
from mate_cli.files.targets import find_leaves

PATHS = "paths"
"""Value of `trust=` that keeps the paths and servers of config.yaml."""
LOCAL_LOGGER = re.compile(
    r"mate_cli\.runs\.loggers\.wandb_logger|pytorch_lightning\.loggers\.((csv_logs\.)?CSV|(tensorboard\.)?TensorBoard)Logger"
)
"""Class paths of the loggers that use no server unless their option `mode` requests one."""
PATH_KEY = re.compile(r"(dir|path|uri)$|root|folder|location|cache|_args_", re.IGNORECASE)
PATH_VALUE = re.compile(r"^[~/]|://|::|\.\.|\{[^}]*:(?![.\d]*[defg]?\})")
"""Absolute paths, home folders, parent folders, URLs, and format specifiers that could turn a number into `/`."""
WRITERS = ("callbacks", "logger", "trainer")
"""Configuration sections whose classes write files."""
NAME = re.compile(r"\w[\w.@=+-]*(/\w[\w.@=+-]*)*")
Keys = tuple[str | int, ...]


def remove_paths(config: Mapping[str, Any], folder: Path | None) -> tuple[dict[str, Any], list[str]]:
    """Replace values that write outside the run folder, download data or use a server.

    Removed options have the defaults of their classes when the configuration is instantiated.

    Args:
        config: values of config.yaml, including the values of its stages.
        folder: folder of the run, which becomes the output folder of the stages. None if the folder is unknown.

    Returns:
        A copy of the configuration, and the dotted keys of the replaced and removed values.

    Raises:
        TrustError: the section `data` has positional arguments, which cannot be checked because they have no names.
    """
    safe_config = deepcopy(dict(config))
    parts = {"": safe_config, **{f"stages.{name}.": stage for name, stage in _part(safe_config, "stages").items()}}
    keys = {
        prefix: [*_replace_values(part, folder), *_remove_values(part)]
        for prefix, part in parts.items()
        if isinstance(part, dict)
    }
    return safe_config, [prefix + ".".join(map(str, path)) for prefix, paths in keys.items() for path in paths]


def _replace_values(config: dict[str, Any], folder: Path | None) -> Iterator[Keys]:
    values: dict[Keys, object] = {}
    loggers = _part(config, "logger")
    if _part(config, "paths"):
        values["paths", "cache"] = default_cache()
        if _part(config, "origin").get("shared"):  # Otherwise mate would train the stage in the folder of all runs.
            values["paths", "outputs"] = str(folder)
    for keys, _ in find_leaves(config.get("data"), ("data",)):
        if "_args_" in keys:
            raise TrustError("data has positional arguments", where="config.yaml", remedy="Write their names")
        if keys[-1] in ("download", "cache"):
            values[keys] = keys[-1] == "cache" and default_cache()
    for name in loggers:
        if _part(loggers, name).get("mode", "offline") not in ("offline", "disabled"):
            values["logger", name, "mode"] = "offline"
    for keys, value in values.items():
        parent = _find(config, keys[:-1])
        if parent.get(keys[-1], value) != value:
            parent[keys[-1]] = value
            yield keys


def _remove_values(config: dict[str, Any]) -> Iterator[Keys]:
    for part in WRITERS:
        # Reversed, because removing a list item shifts the later indices.
        for keys, value in reversed([*find_leaves(config.get(part), (part,))]):
            name = next(key for key in reversed(keys) if isinstance(key, str))
            if isinstance(value, str) and name != "_target_" and (PATH_KEY.search(name) or PATH_VALUE.search(value)):
                del _find(config, keys[:-1])[keys[-1]]
                yield keys
    for name, node in [*_part(config, "logger").items()]:
        if isinstance(node, Mapping) and not LOCAL_LOGGER.fullmatch(str(node.get("_target_"))):
            del config["logger"][name]
            yield "logger", name


def restrict_to_folder(config: Mapping[str, Any], folder: Path, trust: Sequence[str], where: str) -> dict[str, Any]:
    """Replace unsafe values in an untrusted configuration, and print their keys.

    See `remove_paths` for the replaced values.

    Args:
        config: values of config.yaml, including the values of its stages.
        folder: folder of the run.
        trust: values of `trust=` on the command line. With "paths" the configuration is returned unchanged.
        where: path of the configuration, with which the printed message starts.
    """
    if PATHS in trust:
        return dict(config)
    safe_config, removed = remove_paths(config, folder)
    if keys := [key for key in removed if not key.endswith("download")]:
        print(f"{where}: {', '.join(keys)} ignored: outside this folder. trust=paths allows them.", flush=True)
    return safe_config


def check_inside_run(folder: Path) -> None:
    """Check that no link in a run folder lets training write outside the folder.

    Symbolic links that lead out of the folder and all hard links are rejected. Files below `wandb/` are excepted,
    because W&B links its own logs.

    Raises:
        RunError: the folder contains such a link or W&B settings. The message names the first such file.
    """
    check_settings(folder)
    for path in folder.rglob("*"):
        if path.relative_to(folder).parts[0] == "wandb" and not path.is_dir():
            continue
        if path.is_symlink():
            check_inside(folder, path / "file")
        # Loggers write to existing files in place, which would change the file behind a hard link.
        elif path.is_file() and path.lstat().st_nlink > 1:
            raise RunError("is a hard link to a file with another path", where=str(path), remedy="Replace it by a copy")


def check_settings(folder: Path) -> None:
    """Check that a run folder has no W&B settings, which could send its logs elsewhere.

    Raises:
        RunError: the file `wandb/settings` exists.
    """
    if os.path.lexists(file := folder / "wandb" / "settings"):
        raise RunError("could name another server of W&B", where=str(file), remedy="Remove it")


def check_names(names: Sequence[object], where: str) -> None:
    """Check that names of stages and experiments are relative folder names without `..`.

    Args:
        names: names to check.
        where: location of the names, for the error message.

    Raises:
        TrustError: a name could create a folder outside the run folder. The message contains the first such name.
    """
    for name in names:
        if not NAME.fullmatch(str(name)) or ".." in str(name).split("/"):
            raise TrustError(f"{name} is not the name of a folder", where=where)


def _find(tree: Any, keys: Keys) -> Any:  # noqa: ANN401 - any mapping or list
    for key in keys:
        tree = tree[key]
    return tree


def default_cache() -> str:
    """Return the default cache folder of encoded tables: MATE_CACHE, else `~/.cache/mate`."""
    return os.environ.get("MATE_CACHE", "~/.cache/mate")


def _part(config: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - a mapping that can be changed
    """Return a section of a configuration, or an empty mapping if the section is no mapping."""
    part = config.get(name)
    return part if isinstance(part, Mapping) else {}
