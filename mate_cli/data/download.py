"""Download of public dataset files.

Downloads are verified by checksums, existing files are kept, and an interrupted download is resumed if its checksum is
known.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import InvalidHeader
from urllib3.util import Retry

from mate_cli.data.archive import check_packed
from mate_cli.errors import DataError
from mate_cli.files.atomic import replace_file
from mate_cli.files.safe_load import read_object, to_json
from mate_cli.terminal.progress import Progress

MANIFEST = "downloads.json"
CHUNK, BLOCK = 1 << 10, 1 << 18
"""Chunk sizes in bytes: of writing a download, and of computing a checksum."""
MAX_SIZE = 1 << 32
"""Maximum size of a download in bytes. A larger file is assumed to be endless."""
ATTEMPTS = 5
RETRY_STATUS_CODES = (429, 500, 502, 503, 504)
"""HTTP status codes after which a request is retried."""
READ_TIMEOUT_SECONDS = 30.0
"""Timeout in seconds for connecting and between received bytes."""
PAUSE, MAX_PAUSE = 1.0, 60.0
"""Seconds before the second attempt, doubled for each later attempt, and maximum pause that a server may request."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file to download: its URL, its destination and its checksum.

    Args:
        url: address of the file.
        destination: path of the downloaded file, relative to the root of the dataset.
        checksum: "sha256:<hex>", "md5:<hex>" or "git:<blob id>". None if no trustworthy checksum is known. Then the
            checksum of the first download is written to downloads.json, and later downloads are compared with it
            (trust on first use).
    """

    url: str
    destination: str
    checksum: str | None = None


def fetch_all(files: Sequence[RemoteFile], root: Path) -> None:
    """Download files one after another, see `fetch`."""
    for file in files:
        fetch(file, root)


def fetch(file: RemoteFile, root: Path) -> Path:
    """Download one file unless it exists, and return the path of the file.

    Raises:
        DataError: the file cannot be downloaded, or its content does not match its checksum or suffix. The invalid
            download is kept as `.bad` for inspection.
    """
    target = root / file.destination
    first = None if file.checksum else _read_manifest(root).get(file.destination)
    expected = file.checksum or first
    advice = f"; if the new one is right, remove {root / MANIFEST}, and run the command again" if first else ""
    if target.exists():
        if expected and checksum(target, expected) != expected:
            release = f"the first download, recorded in {MANIFEST}" if first else "the release"
            hint = f"Move it away and download again{advice}"
            raise DataError(f"differs from {release} ({expected})", where=str(target), remedy=hint)
        return target
    part = target.with_name(f"{target.name}.part")
    gone_on = _receive(file.url, part, checked=file.checksum is not None)
    digest = checksum(part, expected or "sha256:")
    if gone_on and expected and digest != expected:  # The file on the server changed since the interruption.
        part.unlink()
        _receive(file.url, part)
        digest = checksum(part, expected)
    if expected and digest != expected:
        _refuse(part, file.url, f"arrived with checksum {digest}, not {expected}", f"a changed release{advice}")
    if not file.checksum:
        try:
            check_packed(part, target.name)
        except DataError as error:
            _refuse(part, file.url, f"is not a valid {target.name}: {error.problem}", "a login page")
    if not expected:
        sums = _read_manifest(root) | {file.destination: digest}
        with replace_file(root / MANIFEST) as draft:
            draft.write_text(to_json(sums, indent=2), encoding="utf-8")
    return part.replace(target)


def _refuse(part: Path, url: str, problem: str, cause: str) -> NoReturn:
    bad = part.replace(part.with_suffix(".bad"))
    hint = f"It was kept as {bad}. Try again later; possible causes: a proxy, or {cause}"
    raise DataError(problem, where=url, remedy=hint)


def checksum(path: Path, like: str) -> str:
    """Compute the checksum of a file, as `algorithm:hex`.

    Args:
        path: path of the file.
        like: algorithm ("sha256", "md5" or "git"), or a checksum of the same algorithm ("sha256:...").
    """
    kind = like.split(":")[0]
    digest = hashlib.new({"git": "sha1"}.get(kind, kind), usedforsecurity=False)
    if kind == "git":  # Git hashes a header before the content.
        digest.update(f"blob {path.stat().st_size}\0".encode())
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    return f"{kind}:{digest.hexdigest()}"


def _receive(url: str, part: Path, *, checked: bool = False) -> bool:
    """Download a file to `part`, with retries after a broken connection.

    Args:
        url: address of the file.
        part: path of the partial file.
        checked: resume the partial file. This needs a checksum of the release, which detects a file composed of two
            versions. False starts every attempt from the first byte.

    Returns:
        Whether the download resumed a file that existed before the call.

    Raises:
        DataError: the file cannot be downloaded.
    """
    begun = part.exists()
    for attempt in range(ATTEMPTS):
        pause = PAUSE * 2**attempt
        try:
            return _receive_once(url, part, checked=checked) and begun
        except requests.HTTPError as error:
            if error.response.status_code not in RETRY_STATUS_CODES:
                hint = "Check the address or try later"
                raise DataError(f"the server returned {error}", where=url, remedy=hint) from error
            failure: requests.RequestException = error
            pause = max(pause, parse_retry_after(error.response.headers))
        except requests.RequestException as error:
            failure = error
        if attempt < ATTEMPTS - 1:
            time.sleep(pause)
    reasons = {requests.ConnectionError: "no network", requests.HTTPError: f"the server returned {failure}"}
    reason = next((text for kind, text in reasons.items() if isinstance(failure, kind)), type(failure).__name__)
    problem = f"could not be downloaded from {urlsplit(url).hostname} ({reason})"
    hint = f"Run the same command again to continue; without a network, copy the file to {part.with_suffix('')}"
    raise DataError(problem, where=url, remedy=hint) from failure


def parse_retry_after(headers: Mapping[str, str], longest: float = MAX_PAUSE) -> float:
    """Parse the header Retry-After, a number or a date, to a pause in seconds.

    Args:
        headers: headers of a response.
        longest: maximum pause in seconds.
    """
    with suppress(ValueError, OverflowError, InvalidHeader):
        return min(float(Retry().parse_retry_after(headers["Retry-After"])), longest) if "Retry-After" in headers else 0
    return 0.0


def _receive_once(url: str, part: Path, *, checked: bool) -> bool:
    have = part.stat().st_size if checked and part.is_file() and not part.is_symlink() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(url, headers=headers, stream=True, timeout=READ_TIMEOUT_SECONDS) as response:
        content_range = response.headers.get("Content-Range", "")
        partial = response.status_code == requests.codes.partial_content
        is_elsewhere = partial and content_range and not content_range.startswith(f"bytes {have}-")
        if is_elsewhere or response.status_code == requests.codes.requested_range_not_satisfiable:
            if content_range == f"bytes */{have}":
                return True  # The partial file is complete.
            part.unlink()
            raise requests.ConnectionError("the file on the server has changed")
        response.raise_for_status()
        _write(response, url, part, have if partial else 0)
        return partial


def _write(response: requests.Response, url: str, part: Path, start: int) -> None:
    """Append the downloaded bytes of a response to the file `part`, and show the progress.

    Chunks have 1 kB.

    Raises:
        DataError: the file is larger than `MAX_SIZE`.
    """
    length = int(response.headers.get("Content-Length", 0))
    part.parent.mkdir(parents=True, exist_ok=True)  # Not earlier: an empty folder would look like a release.
    if not start:
        part.unlink(missing_ok=True)  # The path may be a symbolic link.
    with part.open("ab") as stream, Progress(f"downloading {part.stem}", start + length or None, "B") as progress:
        progress.start_at(start)
        for block in response.iter_content(CHUNK):
            stream.write(block)
            progress.advance(len(block))
            if stream.tell() > MAX_SIZE:
                break
        else:
            return
    part.unlink()
    raise DataError(f"is larger than {MAX_SIZE >> 30} GB", where=url, remedy="Check the address")


def _read_manifest(root: Path) -> dict[str, str]:
    path = root / MANIFEST
    return read_object(path, DataError, "Move it away; it lists the downloaded files") if path.exists() else {}
