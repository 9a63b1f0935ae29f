"""Reader of TensorFlow's tensor bundles (`model.ckpt.index` and `.data-*`) without TensorFlow.

A bundle has an index in LevelDB's table format, and files of raw numbers. Nothing is unpickled, and all data is
verified by the checksums in the files. Source: TensorFlow, `core/util/tensor_bundle` and
`core/protobuf/tensor_bundle.proto`, and LevelDB, `doc/table_format.md`.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from mate_cli.errors import CheckpointError, MissingDependencyError
from mate_cli.files.io_errors import wrap_file_errors

Value = TypeVar("Value", int, bytes)

MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
"""Last 8 bytes of every table."""

FOOTER_SIZE = 48
TRAILER_SIZE = 5
"""Number of bytes after a block: the type of its compression, and its checksum."""

SLICE = b"\0"
"""Prefix of the keys of variables that are stored in slices."""

TYPES = {1: torch.float32, 2: torch.float64, 3: torch.int32, 9: torch.int64, 14: torch.bfloat16, 19: torch.float16}
"""Supported dtypes, by their numbers in `core/framework/types.proto`."""


class Entry(NamedTuple):
    """Data type, shape and location of one tensor in the data files of a TensorFlow checkpoint.

    Args:
        type: number of the dtype, a key of `TYPES`.
        shape: shape of the tensor.
        shard: index of the data file, from 0.
        offset: start of the tensor in the data file, in bytes.
        size: size of the tensor, in bytes.
        checksum: masked CRC-32C of the bytes.
        sliced: whether the tensor is stored in slices.
    """

    type: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    sliced: bool


class BundleDamage(ValueError):  # noqa: N818 - used in this module only
    """Exception for a file that does not have the format of a TensorFlow checkpoint."""


class Cursor:
    """Reader of consecutive numbers and byte strings in the bytes `data`."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def __bool__(self) -> bool:
        return self.place < len(self.data)

    def take(self, count: int) -> bytes:
        """Read the next `count` bytes of the data.

        Raises:
            BundleDamage: fewer bytes are left.
        """
        content = self.data[self.place : self.place + count]
        if len(content) < count:
            raise BundleDamage("it ends too early")
        self.place += count
        return content

    def varint(self) -> int:
        """Read the next varint: seven bits per byte, least significant bits first."""
        number = 0
        for shift in range(0, 64, 7):
            (byte,) = self.take(1)
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise BundleDamage("a number is truncated")


def find_bundle(path: Path) -> Path | None:
    """Return the prefix of a TensorFlow checkpoint, such as `.../model.ckpt`, or None if there is no checkpoint.

    Args:
        path: prefix, index file, data file, or folder with a single checkpoint.

    Raises:
        CheckpointError: the folder has several bundles.
    """
    if path.is_dir():
        indexes = sorted(path.glob("*.index"))
        if len(indexes) > 1:
            hint = f"Name one of them, such as {indexes[-1].with_suffix('')}"
            raise CheckpointError(f"it has {len(indexes)} TensorFlow checkpoints", where=str(path), remedy=hint)
        return indexes[0].with_suffix("") if indexes else None
    prefix = path.with_suffix("") if path.suffix == ".index" or path.suffix.startswith(".data-") else path
    return prefix if _index_of(prefix).is_file() else None


def read_bundle(prefix: Path, wanted: Callable[[str], bool]) -> dict[str, Tensor]:
    """Read the tensors of a TensorFlow checkpoint, by variable name.

    Args:
        prefix: prefix of the checkpoint, as returned by `find_bundle`.
        wanted: function that returns whether to read the variable with a name.

    Raises:
        CheckpointError: a file is missing or damaged, or uses an unsupported feature.
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
    """Return the names of the variables of a TensorFlow checkpoint.

    Raises:
        CheckpointError: the index of the bundle is missing or damaged.
        MissingDependencyError: the package that computes checksums is not installed.
    """
    with _wrap_errors(_index_of(prefix)):
        return list(_read_index(_index_of(prefix).read_bytes())[1])


def _wrap_errors(file: Path) -> AbstractContextManager[None]:
    return wrap_file_errors(file, CheckpointError, "the TensorFlow checkpoint cannot be read", "Download it again")


def _index_of(prefix: Path) -> Path:
    return Path(f"{prefix}.index")


def _read_index(file: bytes) -> tuple[int, dict[str, Entry]]:
    """Parse an index file. Return the number of data files, and the `Entry` of each variable by name."""
    if len(file) < FOOTER_SIZE or not file.endswith(MAGIC):
        raise BundleDamage("it is not an index of tensors")
    footer = Cursor(file[-FOOTER_SIZE:])
    # Skip the handle of the metaindex block, which is empty in bundles.
    _handle(footer)
    entries, shards = {}, 1
    for _, handle in _pairs(_block(file, _handle(footer))):
        for name, value in _pairs(_block(file, _handle(Cursor(handle)))):
            if not name:
                shards = _shards(value)
            elif not name.startswith(SLICE):
                entries[name.decode()] = _entry(value)
    return shards, entries


def _handle(cursor: Cursor) -> tuple[int, int]:
    """Read a block handle: the start of the block, and its size without the trailer, in bytes."""
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
    # pyarrow is a dependency of datasets.
    import pyarrow

    return pyarrow.decompress(content, Cursor(content).varint(), codec="snappy", asbytes=True)


def _pairs(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the (key, value) pairs of a block of the index file.

    Each key is stored as the length of the prefix that it shares with the previous key, and a suffix.
    """
    restarts = int.from_bytes(block[-4:], "little")
    cursor, key = Cursor(block[: len(block) - 4 * (restarts + 1)]), b""
    while cursor:
        prefix_length, suffix_length, size = cursor.varint(), cursor.varint(), cursor.varint()
        key = key[:prefix_length] + cursor.take(suffix_length)
        yield key, cursor.take(size)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field of a serialized protocol buffer."""
    cursor = Cursor(message)
    while cursor:
        number, wire_type = divmod(cursor.varint(), 8)
        if wire_type == 0:
            yield number, cursor.varint()
        elif wire_type == 2:
            yield number, cursor.take(cursor.varint())
        elif wire_type in (1, 5):
            yield number, int.from_bytes(cursor.take(8 if wire_type == 1 else 4), "little")
        else:
            raise BundleDamage(f"unknown field type {wire_type}")


def _shards(message: bytes) -> int:
    """Return the number of data files, which the header of the index file states."""
    header = dict(_fields(message))
    if header.get(2):
        raise BundleDamage("it was written by a big-endian machine")
    return _require_type(header.get(1, 1), int)


def _entry(message: bytes) -> Entry:
    fields = dict(_fields(message))
    shape = _require_type(fields.get(2, b""), bytes)
    axes = [dict(_fields(_require_type(axis, bytes))) for number, axis in _fields(shape) if number == 2]
    type_number, shard, offset, size, checksum = (
        _require_type(fields.get(number, 0), int) for number in (1, 3, 4, 5, 6)
    )
    sizes = tuple(_require_type(axis.get(1, 0), int) for axis in axes)
    return Entry(type_number, sizes, shard, offset, size, checksum, sliced=7 in fields)


def _require_type(value: int | bytes, type_: type[Value]) -> Value:
    if not isinstance(value, type_):
        raise BundleDamage("text in place of a number" if type_ is int else "a number in place of text")
    return value


def _read_tensor(file: Path, name: str, entry: Entry) -> Tensor:
    if entry.type not in TYPES or entry.sliced:
        reason = "is stored in slices" if entry.sliced else f"has the type {entry.type}"
        raise BundleDamage(f"{name} {reason}, which is not supported")
    dtype = TYPES[entry.type]
    if entry.size != math.prod(entry.shape) * dtype.itemsize or entry.offset + entry.size > file.stat().st_size:
        raise BundleDamage(f"{name} has the wrong size")
    if not entry.size:
        return torch.empty(entry.shape, dtype=dtype)
    with file.open("rb") as stream:
        stream.seek(entry.offset)
        data = stream.read(entry.size)
    _check(data, entry.checksum, name)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(entry.shape)


def _check(data: bytes, expected: int, name: str) -> None:
    """Compare the checksum of bytes with the checksum stored in a TensorFlow checkpoint.

    The stored value is a masked CRC-32C: rotated and with an offset added.

    Raises:
        BundleDamage: the checksum does not match.
        MissingDependencyError: the package that computes the checksum is not installed.
    """
    try:
        import google_crc32c
    except ImportError as error:
        hint = "Install it: pip install google-crc32c"
        raise MissingDependencyError("TensorFlow checkpoints need the package google-crc32c", remedy=hint) from error
    checksum = google_crc32c.value(data)
    rotated = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
    if (rotated + 0xA282EAD8) & 0xFFFFFFFF != expected:
        raise BundleDamage(f"the checksum of {name} does not match")
