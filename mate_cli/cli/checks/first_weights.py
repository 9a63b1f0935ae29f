"""First weights that cannot be had, seen before torch is loaded."""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mate_cli.errors import CheckpointError, ConfigError
from mate_cli.files.run_weights import suggest_run_weights

PUBLISHED = {
    "google/tapas-": ("tiny", "mini", "small", "medium", "base", "large"),
    "bert-": ("base", "large"),
    "FacebookAI/roberta-": ("base", "large"),
}
"""Sizes on the Hugging Face hub, by the names that stand before them.

Source: https://huggingface.co/google, google-bert and FacebookAI
"""
FROM_STAGE = "stages."


def check_init(init: Mapping[str, Any], size: object, choice: str | None, key: str = "init") -> None:
    """Refuse first weights of a size that nobody has published, and those of a file that is not there.

    Args:
        init: the group's values.
        size: of the network, which names of weights follow.
        choice: of the group, to name it in errors.
        key: where the values stand.

    Raises:
        ConfigError: there are no such weights, or those that are named would not be read.
        CheckpointError: there is no such file, or the folder has no weights.
    """
    kind, checkpoint = init.get("kind"), init.get("checkpoint")
    for name, inner in (init.get("inner") or {}).items():
        if isinstance(inner, Mapping):
            check_init(inner, size, None, f"{key}.inner.{name}")
    if not isinstance(checkpoint, str) or kind is None or checkpoint.startswith(FROM_STAGE):
        return
    if kind in ("random", "minilm"):
        problem = f"{kind} weights are not read from a checkpoint"
        raise ConfigError(problem, where=f"{key}.checkpoint", remedy="Use init=path, or leave it out")
    if kind == "path":
        _check_path(Path(checkpoint), key)
    elif not Path(checkpoint).exists():
        _check_size(checkpoint, str(size), choice or kind, key)


def _check_size(checkpoint: str, size: str, choice: str, key: str) -> None:
    """Refuse a name that was made of a size which is not published.

    Raises:
        ConfigError: with the sizes that are.
    """
    for prefix, sizes in PUBLISHED.items():
        match = re.match(rf"{re.escape(prefix)}{re.escape(size)}(?=$|[-@])", checkpoint)
        if not match or size in sizes:
            continue
        whole = size.partition(":")[0]
        if whole in sizes:
            names = checkpoint.replace(size, whole, 1)
            tokenizer = f" {key}.tokenizer={names}" if "tapas" in names else ""
            remedy = f"Type {key}.checkpoint={names}{tokenizer}, whose first layers are read"
        else:
            other = "init=minilm" if whole == "minilm" else "init=random"
            remedy = f"Use {other}, or set model.size to one of these"
        raise ConfigError(
            f"no {prefix.rstrip('-')} of size {size} is published; its sizes are {', '.join(sizes)}",
            where=f"init={choice}" if key == "init" else key,
            remedy=remedy,
        )


def _check_path(path: Path, key: str) -> None:
    """Refuse a path with nothing at it, and a folder that has runs and no weights of its own.

    Raises:
        CheckpointError: naming weights of a run below it, where there are any.
    """
    if path.is_file() or any(path.parent.glob(f"{glob.escape(path.name)}.*")):  # the prefix of a TensorFlow checkpoint
        return
    if not path.is_dir():
        raise CheckpointError("there is no such file or folder", where=f"{key}.checkpoint={path}")
    if not any(entry.is_file() for entry in path.iterdir()) or (path / "config.yaml").is_file():
        remedy = suggest_run_weights(path, f"{key}.checkpoint") or "Name a file of weights, or a folder with one"
        raise CheckpointError("no weights in this folder", where=f"{key}.checkpoint={path}", remedy=remedy)
