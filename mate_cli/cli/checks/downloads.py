"""Files that a run would fetch: releases of data that are not on disk, and weights that the hub's cache lacks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from mate_cli.runs.configuration import RunConfig

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
VOCABULARIES = ("vocab.txt", "tokenizer.json", "vocab.json")
FULL = 4
"""Bytes of a weight."""
ON_HUB = ("bert", "roberta", "tapas")
"""Kinds of first weights that have names on the Hugging Face hub."""


def downloads(config: RunConfig, parameters: int | None) -> Iterator[str]:
    """Yield what a run would fetch, with its size where that is known.

    Args:
        config: of the run.
        parameters: of its network; None where they are not known.
    """
    yield from _release(config)
    init = config.init
    checkpoint = str(init.get("checkpoint"))
    if init.get("kind") in ON_HUB and not Path(checkpoint).exists() and not _is_cached(checkpoint, WEIGHTS):
        size = f"about {FULL * parameters / 1e6:,.0f} MB" if parameters else "size not known"
        yield f"weights of {checkpoint} ({size})"
    tokenizer = str(init.get("tokenizer"))
    here = tokenizer in ("minilm", "sample") or Path(tokenizer).exists()
    if not here and not _is_cached(tokenizer, VOCABULARIES):
        yield f"word pieces of {tokenizer} (size not known)"


def _release(config: RunConfig) -> Iterator[str]:
    from mate_cli.data.datasets.catalogue import dataset_names, find_dataset

    root = config.data.get("root")
    if not root or Path(root).expanduser().exists() or config.data.get("download") is False:
        return
    name = str(config.data.get("name"))
    if name in dataset_names() and (files := find_dataset(find_dataset(name).folder).remote_files):
        hosts = ", ".join(sorted({urlsplit(file.url).hostname or "" for file in files}))
        yield f"{len(files)} files of {name} from {hosts} (size not known)"


def _is_cached(name: str, files: tuple[str, ...]) -> bool:
    """Tell whether the hub's cache has one of some files of a model."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    repository, _, revision = name.partition("@")
    try:
        return any(isinstance(try_to_load_from_cache(repository, one, revision=revision or None), str) for one in files)
    except HFValidationError:
        return True  # no name of the hub
