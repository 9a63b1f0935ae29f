"""Paths and servers of a run from elsewhere: they are replaced by those of the user who types the command.

A run folder may be untrusted, so its config.yaml alone decides on no folder that is written to, no download and no
server. `trust=paths` on the command line keeps its values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from mate_cli.errors import RunError, TrustError
from mate_cli.files.targets import find_leaves

PATHS = "paths"
"""Word of `trust=` that keeps the paths and servers of config.yaml."""
LOCAL_LOGGER = re.compile(
    r"mate_cli\.runs\.loggers\.wandb_logger|pytorch_lightning\.loggers\.((csv_logs\.)?CSV|(tensorboard\.)?TensorBoard)Logger"
)
"""Loggers that use no server unless `mode` says so."""
PATH_KEY = re.compile(r"(dir|path|uri)$|root|folder|location|cache|_args_", re.IGNORECASE)
PATH_VALUE = re.compile(r"^[~/]|://|::|\.\.|\{[^}]*:(?![.\d]*[defg]?\})")
"""Absolute paths, homes, parent folders, addresses, and formats that make letters such as `/` of a number."""
WRITERS = ("callbacks", "logger", "trainer")
"""Parts whose classes write files."""
NAME = re.compile(r"\w[\w.@=+-]*(/\w[\w.@=+-]*)*")
Keys = tuple[str | int, ...]


def remove_paths(config: Mapping[str, Any], folder: Path | None) -> tuple[dict[str, Any], list[str]]:
    """Replace the values by which a run writes outside its folder, downloads data or uses a server.

    A removed value gets its default.

    Args:
        config: values of config.yaml, with those of its stages.
        folder: folder of the run, for its stages. None if it is unknown.

    Returns:
        The configuration, and the keys of the replaced values.

    Raises:
        TrustError: data have positional arguments, which can be anything.
    """
    inside = deepcopy(dict(config))
    parts = {"": inside, **{f"stages.{name}.": stage for name, stage in _part(inside, "stages").items()}}
    keys = {
        prefix: [*_replace_values(part, folder), *_remove_values(part)]
        for prefix, part in parts.items()
        if isinstance(part, dict)
    }
    return inside, [prefix + ".".join(map(str, one)) for prefix, some in keys.items() for one in some]


def _replace_values(config: dict[str, Any], folder: Path | None) -> Iterator[Keys]:
    values: dict[Keys, object] = {}
    loggers = _part(config, "logger")
    if _part(config, "paths"):
        values["paths", "cache"] = default_cache()
        if _part(config, "origin").get("shared"):  # Otherwise the stage would be trained in the folder of all runs.
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
        for keys, value in reversed([*find_leaves(config.get(part), (part,))]):  # Indices before a removed one stay.
            name = next(key for key in reversed(keys) if isinstance(key, str))
            if isinstance(value, str) and name != "_target_" and (PATH_KEY.search(name) or PATH_VALUE.search(value)):
                del _find(config, keys[:-1])[keys[-1]]
                yield keys
    for name, node in [*_part(config, "logger").items()]:
        if isinstance(node, Mapping) and not LOCAL_LOGGER.fullmatch(str(node.get("_target_"))):
            del config["logger"][name]
            yield "logger", name


def stay_inside(config: Mapping[str, Any], folder: Path, trust: Sequence[str], where: str) -> dict[str, Any]:
    """Remove the paths of a run unless `trust` contains "paths", and print their keys."""
    if PATHS in trust:
        return dict(config)
    inside, removed = remove_paths(config, folder)
    if shown := [key for key in removed if not key.endswith("download")]:
        print(f"{where}: not used, as they lead elsewhere: {', '.join(shown)}. trust=paths keeps them.", flush=True)
    return inside


def check_inside_run(folder: Path) -> None:
    """Refuse links, hard ones too, through which a training could write outside of its folder; W&B links its own logs.

    Raises:
        RunError: naming the first.
    """
    check_settings(folder)
    root = os.path.realpath(folder)
    for path in folder.rglob("*"):
        of_wandb = path.relative_to(folder).parts[0] == "wandb" and not path.is_dir()
        if path.is_symlink() and not of_wandb and not Path(os.path.realpath(path)).is_relative_to(root):
            raise RunError("is a link that leads out of this folder", where=str(path), remedy="Remove the link")
        if not of_wandb and path.is_file() and path.lstat().st_nlink > 1:  # loggers open their files where they lie
            raise RunError("is a hard link: the same file elsewhere", where=str(path), remedy="Copy it to its place")


def check_settings(folder: Path) -> None:
    """Refuse settings of W&B in a folder that may be anyone's: they name the server that figures are sent to.

    Raises:
        RunError: they lie there.
    """
    if os.path.lexists(file := folder / "wandb" / "settings"):
        raise RunError("could name another server of W&B", where=str(file), remedy="Remove it")


def check_names(names: Sequence[object], where: str) -> None:
    """Refuse names of stages and experiments that would make a folder elsewhere.

    Raises:
        TrustError: naming the first.
    """
    for name in names:
        if not NAME.fullmatch(str(name)) or ".." in str(name).split("/"):
            raise TrustError(f"{name} is not the name of a folder", where=where)


def _find(tree: Any, keys: Keys) -> Any:  # noqa: ANN401 - any mapping or list
    for key in keys:
        tree = tree[key]
    return tree


def default_cache() -> str:
    """Return the folder of encoded tables where none is typed."""
    return os.environ.get("MATE_CACHE", "~/.cache/mate")


def _part(config: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - a mapping that can be changed
    """Return a part of a configuration. Return an empty mapping if the part is no mapping."""
    part = config.get(name)
    return part if isinstance(part, Mapping) else {}
