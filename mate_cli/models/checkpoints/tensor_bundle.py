"""Read TensorFlow's tensor bundles without TensorFlow: an index in LevelDB's table format beside files of raw numbers.

Nothing is unpickled, and what is read must agree with the checksums in the file.
Source: TensorFlow, `core/util/tensor_bundle`, `core/protobuf/tensor_bundle.proto`; LevelDB, `doc/table_format.md`.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from mate_cli.errors import CheckpointError, MissingDependencyError
from mate_cli.files.io_errors import wrap_read_errors

Value = TypeVar("Value", int, bytes)

MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
"""The last bytes of every table."""

FOOTER_SIZE = 48
TRAILER_SIZE = 5
"""Bytes behind a block: how it is compressed, and its checksum."""

SLICE = b"\0"
"""Prefix of the keys of a variable that is stored in parts."""

TYPES = {1: torch.float32, 2: torch.float64, 3: torch.int32, 9: torch.int64, 14: torch.bfloat16, 19: torch.float16}
"""By their numbers in `core/framework/types.proto`."""


class Entry(NamedTuple):
    """The place of a tensor in its file.

    Args:
        type: a key of `TYPES`.
        offset: where it begins in the file, in bytes.
        sliced: whether it is stored in several pieces.
    """

    type: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    sliced: bool


class BundleDamage(ValueError):  # noqa: N818 - never seen outside
    """Damage: the file is not as TensorFlow writes it."""


class Cursor:
    """Bytes that are read from left to right."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def __bool__(self) -> bool:
        return self.place < len(self.data)

    def take(self, count: int) -> bytes:
        """Return the next bytes.

        Raises:
            Damaged: there are fewer.
        """
        content = self.data[self.place : self.place + count]
        if len(content) < count:
            raise BundleDamage("it ends too early")
        self.place += count
        return content

    def varint(self) -> int:
        """Return the next number, seven bits in a byte, the lowest first."""
        number = 0
        for shift in range(0, 64, 7):
            (byte,) = self.take(1)
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise BundleDamage("a number is truncated")


def find_bundle(path: Path) -> Path | None:
    """Return the prefix of the bundle at a path.

    The prefix itself, its index, a data file, or the folder of a single bundle.

    Raises:
        CheckpointError: the folder has several.
    """
    if path.is_dir():
        indexes = sorted(path.glob("*.index"))
        if len(indexes) > 1:
            raise CheckpointError(
                f"it has {len(indexes)} TensorFlow checkpoints",
                where=str(path),
                remedy=f"Name one of them, such as {indexes[-1].with_suffix('')}",
            )
        return indexes[0].with_suffix("") if indexes else None
    prefix = path.with_suffix("") if path.suffix == ".index" or path.suffix.startswith(".data-") else path
    return prefix if _index_of(prefix).is_file() else None


def read_bundle(prefix: Path, wanted: Callable[[str], bool]) -> dict[str, Tensor]:
    """Return the tensors of a bundle, by the name of their variable, as far as they are wanted.

    Raises:
        CheckpointError: a file is missing or damaged, or has what is not supported.
        MissingDependencyError: the package that computes checksums is not installed.
    """
    with _wrap_errors(_index_of(prefix)):
        shards, entries = _read_index(_index_of(prefix).read_bytes())
    tensors = {}
    for name, entry in entries.items():
        if wanted(name):
            file = Path(f"{prefix}.data-{entry.shard:05d}-of-{shards:05d}")
            with _wrap_errors(file):
                tensors[name] = _read_tensor(file, name, entry)
    return tensors


def list_bundle(prefix: Path) -> list[str]:
    """Return the names of the variables of a bundle.

    Raises:
        CheckpointError: its index is missing or damaged.
        MissingDependencyError: the package that computes checksums is not installed.
    """
    with _wrap_errors(_index_of(prefix)):
        return list(_read_index(_index_of(prefix).read_bytes())[1])


def _wrap_errors(file: Path) -> AbstractContextManager[None]:
    return wrap_read_errors(file, CheckpointError, "the TensorFlow checkpoint cannot be read", "Fetch it again")


def _index_of(prefix: Path) -> Path:
    return Path(f"{prefix}.index")


def _read_index(file: bytes) -> tuple[int, dict[str, Entry]]:
    """Return the number of data files, and where each variable is."""
    if len(file) < FOOTER_SIZE or not file.endswith(MAGIC):
        raise BundleDamage("it is not an index of tensors")
    footer = Cursor(file[-FOOTER_SIZE:])
    _handle(footer)  # of a block about blocks, which bundles leave empty
    entries, shards = {}, 1
    for _, handle in _pairs(_block(file, _handle(footer))):
        for name, value in _pairs(_block(file, _handle(Cursor(handle)))):
            if not name:
                shards = _shards(value)
            elif not name.startswith(SLICE):
                entries[name.decode()] = _entry(value)
    return shards, entries


def _handle(cursor: Cursor) -> tuple[int, int]:
    """Return where a block begins, and its size without the trailer."""
    return cursor.varint(), cursor.varint()


def _block(file: bytes, handle: tuple[int, int]) -> bytes:
    start, size = handle
    block = Cursor(file[start:]).take(size + TRAILER_SIZE)
    _check(block[:-4], int.from_bytes(block[-4:], "little"), "a part of the index")
    content, compression = block[:size], block[size]
    if compression not in (0, 1):
        raise BundleDamage(f"unknown compression {compression}")
    if compression == 0:
        return content
    import pyarrow  # comes with datasets

    return pyarrow.decompress(content, Cursor(content).varint(), codec="snappy", asbytes=True)


def _pairs(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block; a key says only how it differs from the one before."""
    restarts = int.from_bytes(block[-4:], "little")
    cursor, key = Cursor(block[: len(block) - 4 * (restarts + 1)]), b""
    while cursor:
        shared, added, size = cursor.varint(), cursor.varint(), cursor.varint()
        key = key[:shared] + cursor.take(added)
        yield key, cursor.take(size)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a protocol buffer: their numbers and values."""
    cursor = Cursor(message)
    while cursor:
        number, kind = divmod(cursor.varint(), 8)
        if kind == 0:
            yield number, cursor.varint()
        elif kind == 2:
            yield number, cursor.take(cursor.varint())
        elif kind in (1, 5):
            yield number, int.from_bytes(cursor.take(8 if kind == 1 else 4), "little")
        else:
            raise BundleDamage(f"unknown field type {kind}")


def _shards(message: bytes) -> int:
    """Return the number of data files, from the header of the index."""
    header = dict(_fields(message))
    if header.get(2):
        raise BundleDamage("it was written by a big-endian machine")
    return _typed(header.get(1, 1), int)


def _entry(message: bytes) -> Entry:
    fields = dict(_fields(message))
    shape = _typed(fields.get(2, b""), bytes)
    axes = [dict(_fields(_typed(axis, bytes))) for number, axis in _fields(shape) if number == 2]
    kind, shard, offset, size, checksum = (_typed(fields.get(number, 0), int) for number in (1, 3, 4, 5, 6))
    return Entry(kind, tuple(_typed(axis.get(1, 0), int) for axis in axes), shard, offset, size, checksum, 7 in fields)


def _typed(value: int | bytes, kind: type[Value]) -> Value:
    if not isinstance(value, kind):
        raise BundleDamage("text in place of a number" if kind is int else "a number in place of text")
    return value


def _read_tensor(file: Path, name: str, entry: Entry) -> Tensor:
    if entry.type not in TYPES or entry.sliced:
        what = "is stored in slices" if entry.sliced else f"has the type {entry.type}"
        raise BundleDamage(f"{name} {what}, which is not supported")
    kind = TYPES[entry.type]
    if entry.size != math.prod(entry.shape) * kind.itemsize or entry.offset + entry.size > file.stat().st_size:
        raise BundleDamage(f"{name} has the wrong size")
    if not entry.size:
        return torch.empty(entry.shape, dtype=kind)
    with file.open("rb") as opened:
        opened.seek(entry.offset)
        data = opened.read(entry.size)
    _check(data, entry.checksum, name)
    return torch.frombuffer(bytearray(data), dtype=kind).reshape(entry.shape)


def _check(data: bytes, stated: int, name: str) -> None:
    """Compare a checksum, CRC-32C with its bits turned and an offset added.

    Raises:
        Damaged: it is another.
        MissingDependencyError: the package that computes it is not installed.
    """
    try:
        import google_crc32c
    except ImportError as error:
        raise MissingDependencyError(
            "TensorFlow checkpoints need the package google-crc32c", remedy="Install it: pip install google-crc32c"
        ) from error
    checksum = google_crc32c.value(data)
    turned = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
    if (turned + 0xA282EAD8) & 0xFFFFFFFF != stated:
        raise BundleDamage(f"the checksum of {name} does not match")
