"""Files of the Hugging Face Hub, from the local cache or by download.

Whether the Hub is reachable is checked at most once per process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from threading import Thread

NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
"""A repository name on the Hub."""
SECONDS = 3.0
"""Seconds to wait for a response of the Hub."""


def hub_file(name: str, file: str) -> Path | None:
    """Return the path of a file in a model repository of the Hub.

    The last cached version is used. A file that is not cached is downloaded.

    Args:
        name: repository, optionally with a revision: `google/tapas-large@no_reset`.
        file: name of the file in the repository.

    Returns:
        The path in the cache, in the folder of its revision. None if the file does not exist, or if it is not cached
        and the Hub is not reachable.
    """
    import huggingface_hub
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError

    repository, _, revision = name.partition("@")
    try:
        entry = huggingface_hub.try_to_load_from_cache(repository, file, revision=revision or None)
        if isinstance(entry, str):
            return Path(entry)
        # An entry that is not None marks a file that the Hub has reported as missing before.
        if entry is not None or not is_reachable():
            return None
        return Path(huggingface_hub.hf_hub_download(repository, file, revision=revision or None, etag_timeout=SECONDS))
    except (EntryNotFoundError, HfHubHTTPError, HFValidationError, OSError):
        return None


def missing_model(name: str) -> tuple[str, str]:
    """Return an error message and a hint that explain why a model name has no files.

    Returns:
        The problem and the hint for an error message. Without network, the hint describes how to copy the files.
    """
    from huggingface_hub.constants import HF_HUB_CACHE

    repository, _, revision = name.partition("@")
    if similar := _folder_beside(Path(name)):
        return f"there is no folder {name!r}", f"Did you mean {similar}?"
    if not NAME.fullmatch(repository):
        return f"{name!r} is neither a folder here nor a name on the Hugging Face hub", "Check the name"
    if is_reachable():
        problem = f"{name!r} is not a folder, and not on the Hugging Face hub"
        return problem, "Check the name; private ones: hf auth login"
    folder = f"models--{repository.replace('/', '--')}"
    fetch = f"hf download {repository}{f' --revision {revision}' if revision else ''}"
    problem = f"{name!r} is not a folder, and not in the Hugging Face cache; the hub is not reachable"
    hint = f"On a machine with network type {fetch}, and copy its ~/.cache/huggingface/hub/{folder} to {HF_HUB_CACHE}"
    return problem, hint


def _folder_beside(path: Path) -> Path | None:
    """Return the model folder whose name is most similar to a missing path, or None."""
    folders = {folder.name: folder for folder in path.parent.glob("*") if (folder / "config.json").is_file()}
    similar = get_close_matches(path.name, folders, 1, cutoff=0.75)
    return folders[similar[0]] if similar else None


@cache
def is_reachable() -> bool:
    """Return whether the Hugging Face Hub is reachable.

    The result is cached per process. It is False if HF_HUB_OFFLINE=1.
    """
    from huggingface_hub import constants, get_session

    answers: list[object] = []

    def ask() -> None:
        try:
            answers.append(get_session().head(constants.ENDPOINT, timeout=SECONDS))
        except Exception:  # the types depend on the HTTP library of huggingface_hub
            return

    if not constants.HF_HUB_OFFLINE:
        # The request runs in a thread, because its timeout does not cover the DNS lookup.
        asking = Thread(target=ask, daemon=True)
        asking.start()
        asking.join(SECONDS)
    return bool(answers)


@contextmanager
def offline_mode() -> Iterator[None]:
    """Restrict `hub_file` to cached files inside the context, as HF_HUB_OFFLINE=1 does."""
    from huggingface_hub import constants

    offline, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    is_reachable.cache_clear()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = offline
        is_reachable.cache_clear()
