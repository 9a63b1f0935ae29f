"""Files and folders of files, read alike as they are or packed: .gz, .bz2, .xz, .zip; .tar, .tar.*, .zip."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Any

from mate_cli.errors import ConfigError, DataError

SUFFIXES = ("", ".tar.xz", ".tar.gz", ".tgz", ".tar.bz2", ".tar", ".zip")
"""What may follow the folder's name, in the order of preference; "" is the folder itself."""

PACKED = ("", ".gz", ".bz2", ".xz", ".zip")
"""What may follow a single file's name, in the order of preference."""

_OPENERS: dict[str, Callable[..., Any]] = {
    ".xz": lzma.open,
    ".gz": gzip.open,
    ".tgz": gzip.open,
    ".bz2": bz2.open,
    ".tar": open,
}
LARGEST, MEGABYTES = "MATE_LARGEST_FILE", 800
"""Megabytes of a file that are read, unpacked, and the environment's word for another number of them; HotpotQA's
questions for training have 566."""
MAX_UNPACKED = 1 << 34
"""Bytes of a whole archive."""
PIECE = 1 << 20
"""Bytes read at a time."""
_OF_ZIP = (zipfile.BadZipFile, RuntimeError, UnicodeDecodeError)  # bits that say: packed in a way that nobody knows
_DAMAGE = (EOFError, OSError, tarfile.TarError, lzma.LZMAError, zlib.error, *_OF_ZIP)


def find_file(root: Path, name: str) -> Path | None:
    """Find `root/name`, as it is or packed by itself (`PACKED`), or None."""
    packed = root / name
    if not packed.parent.is_dir():  # one look, not one for each of thousands of files and suffixes
        return None
    places = (packed.with_name(f"{packed.name}{suffix}") for suffix in PACKED)
    return next((place for place in places if place.is_file()), None)


def read_file(path: Path) -> bytes:
    """Read a file, unpacking it where its name says that it is packed by itself.

    Raises:
        DataError: it is cut short or damaged.
    """
    try:
        if path.suffix == ".zip":
            return _single_member(path)
        with _OPENERS.get(path.suffix, Path.open)(path, "rb") as stream:
            return _content(stream, path)
    except _DAMAGE as error:
        raise _damaged(path, error) from error


def _single_member(path: Path) -> bytes:
    """Return the file of a .zip that holds one, or that of its own name among several.

    Raises:
        DataError: there is none.
    """
    with zipfile.ZipFile(path) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
        named = [name for name in names if PurePosixPath(name).name == path.stem] or names
        if len(named) != 1:
            raise DataError(f"has {len(named)} files, but none named {path.stem}", where=str(path))
        with archive.open(named[0]) as stream:
            return _content(stream, path)


def _content(stream: IO[bytes], where: Path | str) -> bytes:
    """Unpack all bytes of a file, as long as they are not too many.

    Raises:
        DataError: they are.
    """
    most, content = largest_file(), BytesIO()
    while piece := stream.read(PIECE):
        content.write(piece)
        if content.tell() > most:
            remedy = f"To read it, set {LARGEST} to a larger number"
            raise DataError(f"it has more than {most // 1_000_000:,} MB unpacked", where=str(where), remedy=remedy)
    return content.getvalue()


def largest_file() -> int:
    """Return the largest number of bytes of a file that are read.

    Raises:
        ConfigError: the environment says something else than a number.
    """
    told = os.environ.get(LARGEST, str(MEGABYTES))
    if not (told.isascii() and told.isdigit()):
        raise ConfigError(
            f"{told!r} is not a number of megabytes", where=LARGEST, remedy=f"Write {LARGEST}={MEGABYTES}"
        )
    return int(told) * 1_000_000


def find_store(root: Path, folder: str, repository: str = "") -> Path | None:
    """Find where the files of `folder` are kept below `root`, or None.

    That is `root/folder` itself, an archive of it, or a checkout or an archive of the whole repository
    which has the folder inside.
    Checkouts and archives of the repository are those whose names begin with `repository`; none is looked for without
    one.
    """
    places = [root / f"{folder}{suffix}" for suffix in SUFFIXES]
    for checkout in sorted(root.glob(f"{repository}*") if repository else ()):
        places.append(checkout / folder if checkout.is_dir() else checkout)
    known = (place for place in places if place.is_dir() or place.name.endswith(SUFFIXES[1:]))
    return next((place for place in known if place.exists()), None)


def read_members(
    store: Path, folder: str, wanted: Collection[str] | None = None, *, nested: bool = False
) -> Iterator[tuple[str, bytes]]:
    """Yield (file name, content) of the files inside `folder`, in the order in which they are stored.

    Args:
        store: a folder or an archive, as `find_store` returns it.
        folder: the archive's inner folder, at any depth.
        wanted: file names to read; reading ends when all were met. None reads all.
        nested: also those of the folders inside it, named by their path below it; else only its own.

    Raises:
        DataError: the archive is cut short or damaged; members before the damage have been yielded.
    """
    remaining = None if wanted is None else set(wanted)
    if remaining is not None and not remaining:
        return
    try:
        for name, content in _members(store, folder, remaining, nested):
            yield name, content
            if remaining is not None:
                remaining.discard(name)
                if not remaining:
                    return
    except _DAMAGE as error:
        raise _damaged(store, error) from error


def list_archive(archive: Path) -> dict[str, int]:
    """Return the bytes of every file in an archive, unpacked, by its path inside.

    Raises:
        DataError: the archive is cut short or damaged.
    """
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as zipped:
                return {_slashed(info.filename): info.file_size for info in zipped.infolist() if not info.is_dir()}
        with _OPENERS[archive.suffix](archive, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as tarred:
            return {member.name.removeprefix("./"): member.size for member in tarred if member.isfile()}
    except _DAMAGE as error:
        raise _damaged(archive, error) from error


def read_paths(archive: Path, paths: Collection[str]) -> dict[str, bytes]:
    """Read files of an archive, by their paths inside as `list_archive` writes them, in one pass.

    Raises:
        DataError: the archive is cut short or damaged.
    """
    wanted = set(paths)
    members = _zip_members if archive.suffix == ".zip" else _tar_members

    def name_of(path: str) -> str | None:
        return plain if (plain := path.removeprefix("./")) in wanted else None

    try:
        return dict(members(archive, name_of))
    except _DAMAGE as error:
        raise _damaged(archive, error) from error


def _slashed(path: str) -> str:
    """Return the path of a member of a .zip, of which some programs for Windows write backslashes."""
    return path.replace("\\", "/")


def _damaged(path: Path, error: BaseException) -> DataError:
    return DataError(
        f"cannot be read completely ({type(error).__name__}: {error})",
        where=str(path),
        remedy="The file is truncated or damaged: download it again",
    )


def _members(store: Path, folder: str, wanted: Collection[str] | None, nested: bool) -> Iterator[tuple[str, bytes]]:
    if store.is_dir():
        return _folder_members(store, wanted, nested)
    members = _zip_members if store.suffix == ".zip" else _tar_members
    return members(store, partial(_name_inside, folder=folder, wanted=wanted, nested=nested))


def _folder_members(store: Path, wanted: Collection[str] | None, nested: bool) -> Iterator[tuple[str, bytes]]:
    if wanted is None:
        paths = sorted(path for path in (store.rglob("*") if nested else store.iterdir()) if path.is_file())
        packed = [suffix for suffix in PACKED if suffix in _OPENERS]
        for path in paths:
            suffix = path.suffix if path.suffix in packed else ""
            yield path.relative_to(store).as_posix().removesuffix(suffix), read_file(path)
        return
    for name in sorted(wanted):
        if file := find_file(store, name):
            yield name, read_file(file)


def _zip_members(store: Path, name_of: Callable[[str], str | None]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(store) as archive:
        for info in archive.infolist():
            if not info.is_dir() and (name := name_of(_slashed(info.filename))):
                with archive.open(info) as stream:
                    yield name, _content(stream, f"{store}: {info.filename}")


def _tar_members(store: Path, name_of: Callable[[str], str | None]) -> Iterator[tuple[str, bytes]]:
    # The decompressor, unlike tarfile's own stream reader, notices an archive that ends too early.
    with _OPENERS[store.suffix](store, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if member.isfile() and (name := name_of(member.name)):
                content = archive.extractfile(member)
                assert content is not None  # a plain file always has content
                yield name, _content(content, f"{store}: {member.name}")


def check_packed(path: Path, name: str) -> None:
    """Read a file that arrived to its end, unpacked as its name says.

    Raises:
        DataError: it is damaged, or a page that somebody sends instead.
    """
    with path.open("rb") as file:
        begin = file.read(1000).lstrip().lower()
    if begin.startswith((b"<!doctype html", b"<html")):
        raise DataError("it is a web page", where=str(path))
    try:
        if name.endswith(".zip"):
            with zipfile.ZipFile(path) as archive:
                _read_through((archive.open(info) for info in archive.infolist()), path)
        elif Path(name).suffix in _OPENERS:
            with _OPENERS[Path(name).suffix](path, "rb") as stream:
                _read_through([stream], path)
    except _DAMAGE as error:
        raise _damaged(path, error) from error


def _read_through(streams: Iterable[IO[bytes]], where: Path) -> None:
    """Unpack all of a file without keeping it, as long as there is an end.

    Raises:
        DataError: there is none.
    """
    left = MAX_UNPACKED
    for stream in streams:
        while piece := stream.read(PIECE):
            left -= len(piece)
            if left < 0:
                raise DataError(f"it has more than {MAX_UNPACKED >> 30} GB unpacked", where=str(where))


def _name_inside(path: str, folder: str, wanted: Collection[str] | None, nested: bool) -> str | None:
    *above, name = PurePosixPath(path).parts or ("",)
    if folder not in (above if nested else above[-1:]):
        return None
    if nested:
        name = "/".join((*above[above.index(folder) + 1 :], name))
    return None if wanted is not None and name not in wanted else name
