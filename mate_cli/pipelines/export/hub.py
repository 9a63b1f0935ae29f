"""An exported folder as a repository of the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import HfApi, get_token
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils._validators import validate_repo_id

from mate_cli.errors import ConfigError, RunError
from mate_cli.files.io_errors import shorten_reason
from mate_cli.quoting import format_command

LOG_IN = "Log in with hf auth login, or set HF_TOKEN, with a token that may write"


def check_push(name: str) -> None:
    """Refuse a name that is none, and a hub that would refuse this user; nothing is written.

    Raises:
        ConfigError: the name is none, or there is no token.
        RunError: the hub does not answer, or does not know the token.
    """
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ConfigError(shorten_reason(error), where=f"push={name}", remedy="Type push=USER/NAME") from error
    if name.count("/") != 1:
        raise ConfigError("lacks the user name", where=f"push={name}", remedy=f"Type push=USER/{name}")
    if get_token() is None:
        raise ConfigError("no Hugging Face token found", where=f"push={name}", remedy=LOG_IN)
    with _explain_errors(name, LOG_IN):
        HfApi().whoami()


def push_folder(folder: Path, files: Iterable[str], name: str, *, private: bool) -> str:
    """Upload these files of a folder; a repository that is there stays as public as it is.

    Returns:
        Its address.

    Raises:
        RunError: the hub refuses it, or does not answer; the folder stays.
    """
    remedy = f"The folder is written: type {format_command('hf', 'upload', name, str(folder))}"
    with _explain_errors(name, remedy):
        api = HfApi()
        address = str(api.create_repo(name, private=private, exist_ok=True))
        api.upload_folder(repo_id=name, folder_path=folder, allow_patterns=[*files], commit_message="mate export")
    return address


@contextmanager
def _explain_errors(name: str, remedy: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # of the library, of what it connects with, or a ValueError of either
        raise RunError(
            f"the Hugging Face hub refused it: {shorten_reason(error)}", where=f"push={name}", remedy=remedy
        ) from error
