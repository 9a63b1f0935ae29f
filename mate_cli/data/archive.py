"""Readers of files and folders that may be compressed or archived.

Single files may be .gz, .bz2, .xz or .zip. Folders may be .tar, .tar.gz, .tgz, .tar.bz2, .tar.xz or .zip archives.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tarfile
import zipfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache, cached_property, partial
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Any

from mate_cli.errors import ConfigError, DataError
from mate_cli.files.io_errors import wrap_file_errors

SUFFIXES = ("", ".tar.xz", ".tar.gz", ".tgz", ".tar.bz2", ".tar", ".zip")
"""Suffixes of a folder name, in the order of preference. "" is the unpacked folder."""

PACKED = ("", ".gz", ".bz2", ".xz", ".zip")
"""Suffixes of a single file, in the order of preference. "" is the uncompressed file."""

_OPENERS: dict[str, Callable[..., Any]] = {
    ".xz": lzma.open,
    ".gz": gzip.open,
    ".tgz": gzip.open,
    ".bz2": bz2.open,
    ".tar": open,
}
LARGEST, MEGABYTES = "MATE_LARGEST_FILE", 800
"""Environment variable for the maximum unpacked size of a file in MB, and its default. HotpotQA's training questions
have 566 MB."""
MAX_UNPACKED = 1 << 34
"""Maximum unpacked size of an archive in bytes."""
CHUNK_BYTES = 1 << 20
"""Chunk size of reads in bytes."""


def find_file(root: Path, name: str) -> Path | None:
    """Find the file `root/name` or its compressed form, such as `name.gz`, else return None."""
    base = root / name
    if not base.parent.is_dir():  # Checking the folder first saves one check per suffix.
        return None
    candidates = (base.with_name(f"{base.name}{suffix}") for suffix in PACKED)
    return next((path for path in candidates if path.is_file()), None)


def unpacked_name(name: str) -> str:
    """Return a file name without its compression suffix, such as `.gz`."""
    return name.removesuffix(next(filter(name.endswith, PACKED[1:]), ""))


def read_file(path: Path) -> bytes:
    """Return the content of a file, decompressed if its suffix is in `PACKED`, such as .gz.

    Raises:
        DataError: the file is truncated, damaged or larger than `largest_file()`.
    """
    with _name_damage(path):
        if path.suffix == ".zip":
            return _single_member(path)
        with _OPENERS.get(path.suffix, Path.open)(path, "rb") as stream:
            return _content(stream, path)


def _single_member(path: Path) -> bytes:
    """Return the content of the only file in a .zip archive, or of `a.json` in `a.json.zip`.

    Raises:
        DataError: the .zip file has several or no members, and not exactly one has its name.
    """
    with zipfile.ZipFile(path) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
        matches = [name for name in names if PurePosixPath(name).name == path.stem] or names
        if len(matches) != 1:
            raise DataError(f"has {len(matches)} files, but none named {path.stem}", where=str(path))
        with archive.open(matches[0]) as stream:
            return _content(stream, path)


def _content(stream: IO[bytes], location: Path | str) -> bytes:
    """Read a decompressed stream, which may have at most `largest_file()` bytes.

    Raises:
        DataError: the content is larger than `largest_file()`.
    """
    limit, content = largest_file(), BytesIO()
    while chunk := stream.read(CHUNK_BYTES):
        content.write(chunk)
        if content.tell() > limit:
            hint = f"To read it, set {LARGEST} to a larger number"
            raise DataError(f"it has more than {limit // 1_000_000:,} MB unpacked", where=str(location), remedy=hint)
    return content.getvalue()


def largest_file() -> int:
    """Return the maximum size in bytes of a decompressed file, set by MATE_LARGEST_FILE in MB.

    Raises:
        ConfigError: the environment variable MATE_LARGEST_FILE is no number.
    """
    value = os.environ.get(LARGEST, str(MEGABYTES))
    if not (value.isascii() and value.isdigit()):
        hint = f"Write {LARGEST}={MEGABYTES}"
        raise ConfigError(f"{value!r} is not a number of megabytes", where=LARGEST, remedy=hint)
    return int(value) * 1_000_000


def find_store(root: Path, folder: str, repository: str = "") -> Path | None:
    """Find a folder of a downloaded dataset, or an archive with the files of this folder.

    Return None if neither exists.

    Candidates are `root/folder` itself, an archive of the folder, and a checkout or an archive of a repository that
    contains the folder. An archive of a repository is not opened to check this.

    Args:
        root: folder to search.
        folder: relative path of the folder.
        repository: prefix of the names of checkouts and archives of the repository. "" searches no repository.
    """
    candidates = [root / f"{folder}{suffix}" for suffix in SUFFIXES]
    for checkout in sorted(root.glob(f"{repository}*") if repository else ()):
        candidates.append(checkout / folder if checkout.is_dir() else checkout)
    stores = (path for path in candidates if path.is_dir() or path.name.endswith(SUFFIXES[1:]))
    return next((path for path in stores if path.exists()), None)


def read_members(store: Path, folder: str, wanted: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the wanted files in one folder of a dataset or of an archive.

    Files of an archive are yielded in stored order.

    Args:
        store: folder or archive, as returned by `find_store`.
        folder: name of the folder inside the archive, at any depth.
        wanted: names of the files to read. Reading stops once all are found. Missing files are skipped.

    Raises:
        DataError: the archive is truncated or damaged. Members before the damage are still yielded.
    """
    pending = set(wanted)

    def name_of(path: str) -> str | None:
        *parents, name = PurePosixPath(path).parts
        return name if parents[-1:] == [folder] and name in pending else None

    if store.is_dir():
        files = ((name, find_file(store, name)) for name in sorted(wanted))
        yield from ((name, read_file(file)) for name, file in files if file)
        return
    with _name_damage(store):
        for name, content in _archived(store, name_of) if pending else ():
            yield name, content
            pending.discard(name)
            if not pending:
                return


def list_archive(archive: Path) -> dict[str, int]:
    """Return the sizes in bytes of the files of an archive, by their paths in the archive.

    Raises:
        DataError: the archive is truncated or damaged.
    """
    with _name_damage(archive):
        return {path: size for path, size, _ in _entries(archive)}


def read_paths(archive: Path, paths: Collection[str]) -> dict[str, bytes]:
    """Read several files of an archive in one pass. Files that do not exist are skipped.

    Args:
        archive: path of the archive.
        paths: paths in the archive, as returned by `list_archive`.

    Returns:
        Contents by path.

    Raises:
        DataError: the archive is truncated or damaged.
    """
    selection = set(paths)
    with _name_damage(archive):
        return dict(_archived(archive, lambda path: path if path in selection else None))


def _name_damage(path: Path) -> AbstractContextManager[None]:
    """Convert errors of truncated or damaged files within the context to `DataError`."""
    hint = "The file is truncated or damaged: download it again"
    return wrap_file_errors(path, DataError, "cannot be read completely", hint)


def _archived(archive: Path, name_of: Callable[[str], str | None]) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the archived files that `name_of` selects.

    `name_of` maps a path in the archive to a name, or to None to skip the file.
    """
    for path, _, open_file in _entries(archive):
        if name := name_of(path):
            with open_file() as stream:
                yield name, _content(stream, f"{archive}: {path}")


def _entries(archive: Path) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """Yield (path, size in bytes, open function) of each file of an archive, in stored order."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                if not info.is_dir():  # Some Windows programs write backslashes as separators.
                    yield info.filename.replace("\\", "/"), info.file_size, partial(zipped.open, info)
        return
    # Unlike tarfile's stream reader, the decompressor raises an error if the archive is truncated.
    with _OPENERS[archive.suffix](archive, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as tarred:
        for member in tarred:
            if member.isfile():
                yield member.name.removeprefix("./"), member.size, partial(tarred.extractfile, member)


def check_packed(path: Path, name: str) -> None:
    """Check that a downloaded file is intact, by reading and decompressing it completely.

    Args:
        path: path of the downloaded file.
        name: final name of the file, whose suffix determines the compression.

    Raises:
        DataError: the file is damaged, or an HTML page instead of the requested file.
    """
    with path.open("rb") as file:
        head = file.read(1000).lstrip().lower()
    if head.startswith((b"<!doctype html", b"<html")):
        raise DataError("it is a web page", where=str(path))
    with _name_damage(path):
        if name.endswith(".zip"):
            with zipfile.ZipFile(path) as archive:
                _read_through((archive.open(info) for info in archive.infolist()), path)
        elif Path(name).suffix in _OPENERS:
            with _OPENERS[Path(name).suffix](path, "rb") as stream:
                _read_through([stream], path)


def _read_through(streams: Iterable[IO[bytes]], location: Path) -> None:
    """Decompress the streams of a file to check that they are intact. Content is discarded.

    Raises:
        DataError: the content is larger than `MAX_UNPACKED` bytes.
    """
    budget = MAX_UNPACKED
    for stream in streams:
        while chunk := stream.read(CHUNK_BYTES):
            budget -= len(chunk)
            if budget < 0:
                raise DataError(f"it has more than {MAX_UNPACKED >> 30} GB unpacked", where=str(location))


MAX_SUBFOLDERS = 200
"""Maximum number of subfolders that are searched to suggest the location of files."""


def folders_below(root: Path) -> list[Path]:
    """Return at most `MAX_SUBFOLDERS` subfolders of a folder, at any depth, breadth first."""
    folders: list[Path] = []
    waiting = [root] if root.is_dir() else []
    while waiting and len(folders) < MAX_SUBFOLDERS:
        with suppress(OSError):
            subfolders = sorted(path for path in waiting.pop(0).iterdir() if path.is_dir() and not path.is_symlink())
            folders, waiting = folders + subfolders, waiting + subfolders
    return folders[:MAX_SUBFOLDERS]


class ReleaseFiles:
    """Lookup of the files of a dataset release, in a folder or in archives.

    Paths are relative, without the suffix of a compressed file. The first of these locations that has a file is used:

    - the folder itself, where the file may be compressed or in an archive named like one of its parent folders,
    - a direct subfolder, as unpacking an archive creates it,
    - any archive in the folder, whose files may be in one top-level folder of any name, as in `SQA Release 1.0.zip`.

    Args:
        root: the folder, or one archive.
        archives: glob patterns of the archive names to search.
    """

    def __init__(self, root: Path, archives: Sequence[str] = ("*",)) -> None:
        self._root, self._patterns = root, archives
        self._listed = cache(list_archive)
        self._packed_folder, self._places = cache(self._pack_folder), cache(self._index_paths)
        self._members: dict[tuple[Path, str], bytes] = {}

    def __reduce__(self) -> tuple[type[ReleaseFiles], tuple[Path, Sequence[str]]]:
        return ReleaseFiles, (self._root, self._patterns)  # Caches of methods cannot be pickled.

    def has(self, file: str) -> bool:
        """Return whether the folder or archives of the release contain a file.

        Raises:
            DataError: an archive is damaged.
        """
        return any(self._find_readers(file))

    def has_folder(self, folder: str) -> bool:
        """Return whether the folder or archives of the release contain a subfolder.

        Raises:
            DataError: an archive is damaged.
        """
        if any(find_store(base, folder) for base in (self._root, *self._folders)):
            return True
        return any(f"/{folder}/" in f"/{path}" for archive in self._archives for path in self._listed(archive))

    def content(self, file: str) -> bytes | None:
        """Return the content of a file, or None if the release does not contain the file.

        Raises:
            DataError: the file is truncated or damaged, or its content differs between several subfolders or archives.
        """
        for readers in self._find_readers(file):
            contents = {name: read() for name, read in readers.items()}
            if len(set(contents.values())) > 1:
                problem = f"{file} differs between {' and '.join(sorted(contents))}"
                hint = "Keep one of them there, or give its folder or archive as data.root"
                raise DataError(problem, where=str(self._root), remedy=hint)
            if contents:
                return next(iter(contents.values()))
        return None

    @cached_property
    def _folders(self) -> list[Path]:
        return sorted(path for path in self._root.iterdir() if path.is_dir()) if self._root.is_dir() else []

    @cached_property
    def _archives(self) -> list[Path]:
        matches = {path for pattern in self._patterns for path in self._root.glob(pattern)}
        paths = sorted(matches) if self._root.is_dir() else [self._root]
        return [path for path in paths if path.name.endswith(SUFFIXES[1:]) and path.is_file()]

    def _find_readers(self, file: str) -> Iterator[dict[str, Callable[[], bytes]]]:
        """Yield functions that read a file, by location: folder, then subfolders, then archives."""
        for bases in ([self._root], self._folders):
            yield {base.name: reader for base in bases if (reader := self._find_reader(base, file))}
        yield {
            f"{archive.name}: {path}": partial(self._member, archive, path)
            for archive in self._archives
            for path in self._places(archive).get(file, ())
        }

    def _find_reader(self, base: Path, file: str) -> Callable[[], bytes] | None:
        """Return a function that reads a file of a folder, or of its parent folder's archive.

        The archive of the folder `data` is, for example, `data.zip`.
        """
        if path := find_file(base, file):
            return partial(read_file, path)
        for folder in PurePosixPath(file).parents[:-1]:
            store, paths = self._packed_folder(base, str(folder))
            member = paths.get(str(PurePosixPath(file).relative_to(folder)))
            if store and member:
                return partial(self._member, store, member)
        return None

    def _pack_folder(self, base: Path, folder: str) -> tuple[Path | None, dict[str, str]]:
        """Find an archive that contains a folder, such as `data.zip` for the folder `data`.

        Returns:
            The archive (None if missing), and the paths of its files by their paths relative to the folder, which may
            be at any depth of the archive.
        """
        store, name = find_store(base, folder), PurePosixPath(folder).name
        names = self._listed(store) if store and not store.is_dir() else ()
        pairs = ((path, f"/{path}".partition(f"/{name}/")[2]) for path in names)
        return store, {end: path for path, end in pairs if end}

    def _index_paths(self, archive: Path) -> Mapping[str, list[str]]:
        """Index the paths in an archive by file name: `a.json` and `folder/a.json` by `a.json`.

        A file is found at the top level or in one top-level folder.
        """
        members = defaultdict(list)
        for path in self._listed(archive):
            for name in {path, path.partition("/")[2]}:
                members[name].append(path)
        return members

    def _member(self, archive: Path, path: str) -> bytes:
        """Return the content of a file in an archive. Contents are cached after the first read.

        All files with the same suffix are read in the same pass if their total size is at most `largest_file()`.
        """
        if (archive, path) not in self._members:
            sizes = self._listed(archive)
            group = [name for name in sizes if name.endswith(PurePosixPath(path).suffix)]
            selection = group if sum(map(sizes.__getitem__, group)) <= largest_file() else [path]
            self._members |= {(archive, name): content for name, content in read_paths(archive, selection).items()}
        return self._members[archive, path]
