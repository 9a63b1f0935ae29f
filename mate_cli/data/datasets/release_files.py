"""The files of a release, wherever people keep them: plain, packed, or inside the archive that its authors offer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePosixPath

from mate_cli.data.archive import (
    SUFFIXES,
    find_file,
    find_store,
    largest_file,
    list_archive,
    read_file,
    read_paths,
)
from mate_cli.errors import DataError

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
        for places in (self._find_unpacked(file), self._find_archived(file)):
            contents = dict(places)
            if len(set(contents.values())) > 1:
                raise DataError(
                    f"{file} differs between {' and '.join(sorted(contents))}",
                    where=str(self._root),
                    remedy="Keep one of them there, or give its folder or archive as data.root",
                )
            if contents:
                return next(iter(contents.values()))
        return None

    def _find_unpacked(self, file: str) -> Iterator[tuple[str, bytes]]:
        contents = ((folder.name, self._content_below(folder, file)) for folder in self._folders)
        return ((name, content) for name, content in contents if content is not None)

    def _find_archived(self, file: str) -> Iterator[tuple[str, bytes]]:
        places = ((archive, path) for archive in self._archives for path in self._places(archive, file))
        return ((f"{archive.name}: {path}", self._member(archive, path)) for archive, path in places)

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
            store = find_store(place, str(folder))
            inside = str(PurePosixPath(folder.name, PurePosixPath(file).relative_to(folder)))
            if store and not store.is_dir() and (paths := self._places(store, inside)):
                return store, paths[0]
        return None

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
