"""Files and folders of files, read alike as they are or packed: .gz, .bz2, .xz, .zip; .tar, .tar.*, .zip."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tarfile
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
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


def unpacked_name(name: str) -> str:
    """Return a file's name without the ending of what packs a single file."""
    packed = next((suffix for suffix in PACKED if suffix and name.endswith(suffix)), "")
    return name.removesuffix(packed)


def read_file(path: Path) -> bytes:
    """Read a file, unpacking it where its name says that it is packed by itself.

    Raises:
        DataError: it is cut short or damaged.
    """
    with _name_damage(path):
        if path.suffix == ".zip":
            return _single_member(path)
        with _OPENERS.get(path.suffix, Path.open)(path, "rb") as stream:
            return _content(stream, path)


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


def read_members(store: Path, folder: str, wanted: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """Yield (file name, content) of files inside `folder`, in the order in which they are stored.

    Args:
        store: a folder or an archive, as `find_store` returns it.
        folder: the archive's inner folder, at any depth.
        wanted: file names to read; reading ends when all were met.

    Raises:
        DataError: the archive is cut short or damaged; members before the damage have been yielded.
    """
    remaining = set(wanted)

    def name_of(path: str) -> str | None:
        *above, name = PurePosixPath(path).parts
        return name if above[-1:] == [folder] and name in remaining else None

    if store.is_dir():
        files = ((name, find_file(store, name)) for name in sorted(wanted))
        yield from ((name, read_file(file)) for name, file in files if file)
        return
    with _name_damage(store):
        for name, content in _archived(store, name_of) if remaining else ():
            yield name, content
            remaining.discard(name)
            if not remaining:
                return


def list_archive(archive: Path) -> dict[str, int]:
    """List the paths of the files of an archive, with their sizes.

    Raises:
        DataError: the archive is cut short or damaged.
    """
    with _name_damage(archive):
        return {path: size for path, size, _ in _entries(archive)}


def read_paths(archive: Path, paths: Collection[str]) -> dict[str, bytes]:
    """Read files of an archive, by their paths inside as `list_archive` writes them, in one pass.

    Raises:
        DataError: the archive is cut short or damaged.
    """
    wanted = set(paths)
    with _name_damage(archive):
        return dict(_archived(archive, lambda path: path if path in wanted else None))


@contextmanager
def _name_damage(path: Path) -> Iterator[None]:
    """Read a file or archive.

    Raises:
        DataError: it is cut short or damaged.
    """
    try:
        yield
    except _DAMAGE as error:
        raise DataError(
            f"cannot be read completely ({type(error).__name__}: {error})",
            where=str(path),
            remedy="The file is truncated or damaged: download it again",
        ) from error


def _archived(archive: Path, name_of: Callable[[str], str | None]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files of an archive that are given a name."""
    for path, _, open_file in _entries(archive):
        if name := name_of(path):
            with open_file() as stream:
                yield name, _content(stream, f"{archive}: {path}")


def _entries(archive: Path) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """Yield path, size and what opens it of each file of an archive, in the order in which they are stored."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                if not info.is_dir():  # some programs for Windows write backslashes
                    yield info.filename.replace("\\", "/"), info.file_size, partial(zipped.open, info)
        return
    # The decompressor, unlike tarfile's own stream reader, notices an archive that ends too early.
    with _OPENERS[archive.suffix](archive, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as tarred:
        for member in tarred:
            if member.isfile():
                yield member.name.removeprefix("./"), member.size, partial(tarred.extractfile, member)


def check_packed(path: Path, name: str) -> None:
    """Read a file that arrived to its end, unpacked as its name says.

    Raises:
        DataError: it is damaged, or a page that somebody sends instead.
    """
    with path.open("rb") as file:
        begin = file.read(1000).lstrip().lower()
    if begin.startswith((b"<!doctype html", b"<html")):
        raise DataError("it is a web page", where=str(path))
    with _name_damage(path):
        if name.endswith(".zip"):
            with zipfile.ZipFile(path) as archive:
                _read_through((archive.open(info) for info in archive.infolist()), path)
        elif Path(name).suffix in _OPENERS:
            with _OPENERS[Path(name).suffix](path, "rb") as stream:
                _read_through([stream], path)


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


DEEPER = 200
"""Folders below another one that are looked into at most, to say where files are."""


def folders_below(root: Path) -> list[Path]:
    """Return the folders below another one, the upper ones first, as far as they are few."""
    folders: list[Path] = []
    waiting = [root] if root.is_dir() else []
    while waiting and len(folders) < DEEPER:
        with suppress(OSError):
            inner = sorted(path for path in waiting.pop(0).iterdir() if path.is_dir() and not path.is_symlink())
            folders, waiting = folders + inner, waiting + inner
    return folders[:DEEPER]


class ReleaseFiles:
    """The files below a folder, or in an archive; paths are relative and without the ending of a packed file.

    The first of these places that has a file counts:

    - the folder, where the file may be packed by itself, or lie in an archive named like a folder above it;
    - one of its folders, as an archive that was unpacked there leaves it;
    - any archive in it, whose files may lie in one folder of any name, as in `SQA Release 1.0.zip`.

    Args:
        root: the folder, or one archive.
        archives: patterns of the names of archives that are looked into.
    """

    def __init__(self, root: Path, archives: Sequence[str] = ("*",)) -> None:
        self._root, self._patterns = root, archives
        self._packed: dict[tuple[Path, str], tuple[Path | None, dict[str, str]]] = {}
        self._sizes: dict[Path, dict[str, int]] = {}
        self._places_in: dict[Path, dict[str, list[str]]] = {}
        self._members: dict[tuple[Path, str], bytes] = {}

    def has(self, file: str) -> bool:
        """Say whether there is a file.

        Raises:
            DataError: an archive is damaged.
        """
        if any(find_file(place, file) or self._packed_with(place, file) for place in (self._root, *self._folders)):
            return True
        return any(self._places(archive, file) for archive in self._archives)

    def has_folder(self, folder: str) -> bool:
        """Say whether there is a folder of files.

        Raises:
            DataError: an archive is damaged.
        """
        if any(find_store(place, folder) for place in (self._root, *self._folders)):
            return True
        return any(f"/{folder}/" in f"/{path}" for archive in self._archives for path in self._listed(archive))

    def content(self, file: str) -> bytes | None:
        """Return a file's content; None where it is nowhere.

        Raises:
            DataError: it is cut short or damaged, or several places hold it with different content.
        """
        plain = self._content_below(self._root, file)
        if plain is not None:
            return plain
        unpacked = ((folder.name, self._content_below(folder, file)) for folder in self._folders)
        archived = (
            (f"{archive.name}: {path}", self._member(archive, path))
            for archive in self._archives
            for path in self._places(archive, file)
        )
        for places in (unpacked, archived):
            contents = {name: content for name, content in places if content is not None}
            if len(set(contents.values())) > 1:
                raise DataError(
                    f"{file} differs between {' and '.join(sorted(contents))}",
                    where=str(self._root),
                    remedy="Keep one of them there, or give its folder or archive as data.root",
                )
            if contents:
                return next(iter(contents.values()))
        return None

    @cached_property
    def _folders(self) -> list[Path]:
        return sorted(path for path in self._root.iterdir() if path.is_dir()) if self._root.is_dir() else []

    @cached_property
    def _archives(self) -> list[Path]:
        named = {path for pattern in self._patterns for path in self._root.glob(pattern)}
        paths = sorted(named) if self._root.is_dir() else [self._root]
        return [path for path in paths if path.name.endswith(SUFFIXES[1:]) and path.is_file()]

    def _content_below(self, place: Path, file: str) -> bytes | None:
        if path := find_file(place, file):
            return read_file(path)
        packed = self._packed_with(place, file)
        return self._member(*packed) if packed else None

    def _packed_with(self, place: Path, file: str) -> tuple[Path, str] | None:
        """Find a file in the archive that is named like a folder above it: the archive, and the path there."""
        for folder in PurePosixPath(file).parents[:-1]:
            store, paths = self._packed_folder(place, str(folder))
            path = paths.get(str(PurePosixPath(file).relative_to(folder)))
            if store and path:
                return store, path
        return None

    def _packed_folder(self, place: Path, folder: str) -> tuple[Path | None, dict[str, str]]:
        """Find the archive of a folder, and the paths there of the files in this folder, at any depth, by the ends."""
        if (place, folder) not in self._packed:
            store, name = find_store(place, folder), PurePosixPath(folder).name
            listed = self._listed(store) if store and not store.is_dir() else ()
            ends = ((path, f"/{path}".partition(f"/{name}/")[2]) for path in listed)
            self._packed[place, folder] = store, {end: path for path, end in ends if end}
        return self._packed[place, folder]

    def _places(self, archive: Path, file: str) -> list[str]:
        """Return the paths at which an archive has a file: at its top, or below one folder."""
        if archive not in self._places_in:
            places = self._places_in[archive] = defaultdict(list)
            for path in self._listed(archive):
                for name in {path, path.partition("/")[2]}:
                    places[name].append(path)
        return self._places_in[archive].get(file, [])

    def _listed(self, archive: Path) -> dict[str, int]:
        if archive not in self._sizes:
            self._sizes[archive] = list_archive(archive)
        return self._sizes[archive]

    def _member(self, archive: Path, path: str) -> bytes:
        """Read a file of an archive; all of its kind too, where they are no larger than one may be."""
        if (archive, path) not in self._members:
            sizes = self._listed(archive)
            alike = [name for name in sizes if name.endswith(PurePosixPath(path).suffix)]
            wanted = alike if sum(map(sizes.__getitem__, alike)) <= largest_file() else [path]
            self._members |= {(archive, name): content for name, content in read_paths(archive, wanted).items()}
        return self._members[archive, path]
