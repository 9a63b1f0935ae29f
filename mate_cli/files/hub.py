"""Files of the Hugging Face hub: the cache first, then the hub, which is asked once whether it is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from threading import Thread

NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
"""A name of the hub."""
SECONDS = 3.0
"""To wait for an answer of the hub."""


def hub_file(name: str, file: str) -> Path | None:
    """Return a file of a model: from the cache, as it was fetched last, or else from the hub.

    The name may end in the revision that is wanted: `google/tapas-large@no_reset`.

    Returns:
        The file in the cache, in one folder with the others of the same revision; None where there is no such file, or
        it is not in the cache and the hub does not answer.
    """
    import huggingface_hub
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError

    repository, _, revision = name.partition("@")
    try:
        entry = huggingface_hub.try_to_load_from_cache(repository, file, revision=revision or None)
        if isinstance(entry, str):
            return Path(entry)
        if entry is not None or not is_reachable():  # not None: the hub has said before that there is none
            return None
        return Path(huggingface_hub.hf_hub_download(repository, file, revision=revision or None, etag_timeout=SECONDS))
    except (EntryNotFoundError, HfHubHTTPError, HFValidationError, OSError):
        return None


def missing_model(name: str) -> tuple[str, str]:
    """Say what is wrong with a name for which `hub_file` finds nothing, and how its files get here without network.

    Returns:
        The problem and the remedy, for an error.
    """
    from huggingface_hub.constants import HF_HUB_CACHE

    repository, _, revision = name.partition("@")
    if near := _folder_beside(Path(name)):
        return f"there is no folder {name!r}", f"Did you mean {near}?"
    if not NAME.fullmatch(repository):
        return f"{name!r} is neither a folder here nor a name on the Hugging Face hub", "Check the name"
    if is_reachable():
        return (
            f"{name!r} is not a folder, and not on the Hugging Face hub",
            "Check the name; private ones: hf auth login",
        )
    folder = f"models--{repository.replace('/', '--')}"
    fetch = f"hf download {repository}{f' --revision {revision}' if revision else ''}"
    problem = f"{name!r} is not a folder, and not in the Hugging Face cache; the hub is not reachable"
    remedy = f"On a machine with network type {fetch}, and copy its ~/.cache/huggingface/hub/{folder} to {HF_HUB_CACHE}"
    return problem, remedy


def _folder_beside(path: Path) -> Path | None:
    """Return the model folder whose name is nearest to one that is not there; None where none is near."""
    folders = {folder.name: folder for folder in path.parent.glob("*") if (folder / "config.json").is_file()}
    near = get_close_matches(path.name, folders, 1, cutoff=0.75)
    return folders[near[0]] if near else None


@cache
def is_reachable() -> bool:
    """Ask the hub, once in a process, for a sign of life; with HF_HUB_OFFLINE=1 not even that."""
    from huggingface_hub import constants, get_session

    answers: list[object] = []

    def ask() -> None:
        try:
            answers.append(get_session().head(constants.ENDPOINT, timeout=SECONDS))
        except Exception:  # of whichever HTTP library huggingface_hub is built on
            return

    if not constants.HF_HUB_OFFLINE:
        asking = Thread(target=ask, daemon=True)  # no time-out of a request holds for the look-up of its address
        asking.start()
        asking.join(SECONDS)
    return bool(answers)


@contextmanager
def nothing_fetched() -> Iterator[None]:
    """Let `hub_file` find what is in the cache, and nothing else."""
    from huggingface_hub import constants

    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    is_reachable.cache_clear()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
        is_reachable.cache_clear()
