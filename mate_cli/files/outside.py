"""Ways out of a run's folder: what its config.yaml would write elsewhere, download, or send to a server.

A folder may come from anyone, so its file alone allows none of these: they stay inside, or are refused, unless the
person who types the command trusts them by name (`trust=`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mate_cli.errors import RunError, TrustError
from mate_cli.files.targets import find_leaves

ONLINE = "online"
"""Word of `trust=` for loggers that send to a server."""
LOCAL_LOGGERS = (
    "mate_cli.runs.loggers.wandb_logger",
    *(f"pytorch_lightning.loggers.{name}" for name in ("CSVLogger", "TensorBoardLogger", "MLFlowLogger")),
    *(f"pytorch_lightning.loggers.{name}" for name in ("csv_logs.CSVLogger", "tensorboard.TensorBoardLogger")),
    "pytorch_lightning.loggers.mlflow.MLFlowLogger",
)
"""Loggers that write files, and know nothing of a server unless it is named."""
PLACE = re.compile(r"dir$|path$|root|folder|location|cache|_args_", re.IGNORECASE)
"""Keys of folders and files, whose values are relative to the folder in which a command is typed."""
ELSEWHERE = re.compile(r"^~|://|::|\{[^}]*:(?![.\d]*[defg]?\})")
"""Places that are nowhere below a folder: homes, addresses, and formats of numbers that make letters such as `/`."""
WRITERS = ("callbacks", "logger", "trainer")
"""Parts whose classes write what they are told to, where they are told to."""
NAME = re.compile(r"\w[\w.@=+-]*(/\w[\w.@=+-]*)*")


@dataclass(frozen=True)
class WayOut:
    """A value by which a run would leave its folder.

    Args:
        keys: those that lead to it, and places in lists.
        word: of `trust=` that allows it.
        instead: the value that stays inside; None where it is refused.
    """

    keys: tuple[str | int, ...]
    word: str
    instead: str | bool | None = None


def find_ways_out(config: Mapping[str, Any], folder: Path | None = None) -> Iterator[WayOut]:
    """Find the values of a configuration, and of its stages, that leave a folder; None for one that is not known."""
    for name, stage in _part(config, "stages").items():
        if isinstance(stage, Mapping):
            yield from (replace(way, keys=("stages", name, *way.keys)) for way in find_ways_out(stage, folder))
    yield from _find_in_paths(config, folder)
    yield from _find_in_data(config)
    yield from _find_online(config)
    for part in WRITERS:
        for keys, value in find_leaves(config.get(part), (part,)):
            if isinstance(value, str) and keys[-1] != "_target_" and _leads_out(keys, value, folder):
                yield WayOut(keys, value)


def _find_in_paths(config: Mapping[str, Any], folder: Path | None) -> Iterator[WayOut]:
    """Find the cache, unless it is that of this machine, and the folder of a stage that is trained for others too."""
    paths, shared = _part(config, "paths"), _part(config, "origin").get("shared")
    for key, inside in {"cache": default_cache(), **({"outputs": str(folder)} if shared else {})}.items():
        if paths.get(key, inside) != inside:
            yield WayOut(("paths", key), str(paths[key]), inside)


def _find_in_data(config: Mapping[str, Any]) -> Iterator[WayOut]:
    """Find folders that data are fetched to, and caches."""
    for keys, value in find_leaves(config.get("data"), ("data",)):
        if keys[-1] == "download" and value:
            beside = find(config, keys[:-1])
            yield WayOut(keys, str(beside.get("root") or beside.get("datasets")), False)
        elif keys[-1] == "cache" and value != default_cache():
            yield WayOut(keys, str(value), default_cache())
        elif "_args_" in keys and isinstance(value, str):
            yield WayOut(keys, value)


def _find_online(config: Mapping[str, Any]) -> Iterator[WayOut]:
    """Find loggers that use a server."""
    for name, node in _part(config, "logger").items():
        if isinstance(node, Mapping) and not _is_local(node):
            yield WayOut(("logger", name, "_target_"), ONLINE)
        elif isinstance(node, Mapping) and node.get("mode", "offline") not in ("offline", "disabled"):
            yield WayOut(("logger", name, "mode"), ONLINE, "offline")


def stay_inside(config: Mapping[str, Any], folder: Path, trust: Sequence[str], where: str) -> dict[str, Any]:
    """Return a configuration that leaves the folder of its run only as far as it is trusted.

    Raises:
        TrustError: naming the first value that cannot be another.
    """
    inside = deepcopy(dict(config))
    for way in find_ways_out(config, folder):
        if way.word in trust:
            continue
        key, value = ".".join(map(str, way.keys)), find(config, way.keys)
        if way.instead is None:
            told = "would send to a server" if way.word == ONLINE else "leads out of the folder of this run"
            remedy = f"If you trust its author, add trust={way.word}"
            raise TrustError(f"{key}={value} {told}", where=where, remedy=remedy)
        find(inside, way.keys[:-1])[way.keys[-1]] = way.instead
        if key != "data.download" and way.keys[-1] in ("mode", "cache"):
            print(f"{key}={value} is not trusted (trust={way.word}): {way.instead} instead", flush=True)
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


def find(tree: Any, keys: Sequence[str | int]) -> Any:  # noqa: ANN401 - any value
    """Return what a nested mapping or list has at these keys."""
    for key in keys:
        tree = tree[key]
    return tree


def default_cache() -> str:
    """Return the folder of encoded tables where none is typed."""
    return os.environ.get("MATE_CACHE", "~/.cache/mate")


def _is_local(logger: Mapping[str, Any]) -> bool:
    """Say whether a logger knows no server but those that its settings name; MLflow's looks into the environment."""
    name = str(logger.get("_target_"))
    return name in LOCAL_LOGGERS and (not name.endswith("MLFlowLogger") or bool(logger.get("tracking_uri")))


def _part(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a part of a configuration; an empty one where it is no mapping."""
    part = config.get(name)
    return part if isinstance(part, Mapping) else {}


def _leads_out(keys: tuple[str | int, ...], value: str, folder: Path | None) -> bool:
    """Say whether a text is of a place outside: only that of a folder or file begins where the command is typed."""
    key = next(key for key in reversed(keys) if isinstance(key, str))
    if key.endswith("uri") or ELSEWHERE.search(value):
        return True
    if not PLACE.search(key) and not value.startswith("/"):  # relative to a place that is looked at by itself
        return ".." in re.split(r"[/\\]", value)
    return folder is None or not Path(os.path.realpath(value)).is_relative_to(os.path.realpath(folder))
