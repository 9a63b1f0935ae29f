"""Fetch public files: resumes what was cut off, checks what arrived, keeps what is there."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import requests
from tqdm.auto import tqdm

from mate_cli.errors import DataError
from mate_cli.files.atomic import replacing
from mate_cli.files.plain import read_object

MANIFEST = "downloads.json"
CHUNK = 1 << 18
ATTEMPTS = 5
SILENT = 30.0
"""Seconds without a byte after which a connection counts as broken."""
PAUSE = 1.0
"""Seconds before the second attempt; each later pause is twice as long."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file to fetch.

    Args:
        url: where it is.
        destination: where it goes, relative to the dataset's root.
        checksum: "sha256:<hex>", "md5:<hex>" or "git:<blob id>"; None when no trustworthy one is known. Then
            the sum of the first download is written to downloads.json and later ones are held to it (trust on first
            use).
    """

    url: str
    destination: str
    checksum: str | None = None


def fetch_all(files: Sequence[RemoteFile], root: Path) -> None:
    """Fetch files into `root`; what is there and intact is kept, what was cut off is continued.

    Raises:
        DataError: a file cannot be fetched, or its content is not what its checksum says.
    """
    for file in files:
        fetch(file, root)


def fetch(file: RemoteFile, root: Path) -> Path:
    """Fetch one file and return where it lies.

    Raises:
        DataError: it cannot be fetched, or its content is not what its checksum says (it is kept for a look).
    """
    target = root / file.destination
    expected = file.checksum or _read_manifest(root).get(file.destination)
    if target.exists():
        if expected and checksum(target, expected) != expected:
            raise DataError(
                f"differs from the release ({expected})", where=str(target), remedy="Move it away and download again"
            )
        return target
    part = target.with_name(f"{target.name}.part")
    _receive(file.url, part)
    found = checksum(part, expected or "sha256:")
    if expected and found != expected:
        bad = part.replace(target.with_name(f"{target.name}.bad"))
        raise DataError(
            f"arrived with checksum {found}, not {expected}",
            where=file.url,
            remedy=f"It was kept as {bad}. Try again later; a proxy or a changed release may be the cause",
        )
    if not expected:
        sums = _read_manifest(root) | {file.destination: found}
        with replacing(root / MANIFEST) as partial:
            partial.write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8")
    return part.replace(target)


def checksum(path: Path, like: str) -> str:
    """The checksum of a file, of the same kind as `like` ("sha256:...", "md5:..." or "git:...")."""
    kind = like.split(":")[0]
    digest = hashlib.new({"git": "sha1"}.get(kind, kind), usedforsecurity=False)
    if kind == "git":  # git hashes a header before the content
        digest.update(f"blob {path.stat().st_size}\0".encode())
    with path.open("rb") as stream:
        while block := stream.read(CHUNK):
            digest.update(block)
    return f"{kind}:{digest.hexdigest()}"


def _receive(url: str, part: Path) -> None:
    """Append to `part` until the file is whole, starting again from what is there after each broken connection."""
    for attempt in range(ATTEMPTS):
        try:
            return _receive_once(url, part)
        except requests.HTTPError as error:
            raise DataError(
                f"the server answers {error}", where=url, remedy="Check the address or try later"
            ) from error
        except requests.RequestException as error:
            failure = error
        if attempt < ATTEMPTS - 1:
            time.sleep(PAUSE * 2**attempt)
    reason = "no network" if isinstance(failure, requests.ConnectionError) else type(failure).__name__
    raise DataError(
        f"could not be fetched from {urlsplit(url).hostname} ({reason})",
        where=url,
        remedy=f"Give the same command again to go on; without network, bring {part.with_suffix('')} there by hand",
    ) from failure


def _receive_once(url: str, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(url, headers=headers, stream=True, timeout=SILENT) as response:
        if response.status_code == requests.codes.requested_range_not_satisfiable:
            return  # nothing is left to fetch; the checksum decides
        response.raise_for_status()
        resumed = response.status_code == requests.codes.partial_content
        length = int(response.headers.get("Content-Length", 0))
        start = have if resumed else 0
        part.parent.mkdir(parents=True, exist_ok=True)  # not before: an empty folder would pass for a release
        bar = tqdm(total=start + length or None, initial=start, unit="B", unit_scale=True, desc=part.stem, disable=None)
        with part.open("ab" if resumed else "wb") as stream, bar:
            for block in response.iter_content(CHUNK):
                stream.write(block)
                bar.update(len(block))


def _read_manifest(root: Path) -> dict[str, str]:
    path = root / MANIFEST
    return read_object(path, DataError, "Move it away: it says which files arrived") if path.exists() else {}
