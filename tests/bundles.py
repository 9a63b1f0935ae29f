"""Writer of small tensor bundles, also with features that TensorFlow does not write."""

from pathlib import Path

import google_crc32c
import numpy as np
import pyarrow


def varint(number: int) -> bytes:
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return varint(number * 8 + 2) + varint(len(value)) + value
    return varint(number * 8) + varint(value)


def masked(data: bytes) -> bytes:
    checksum = google_crc32c.value(data)
    turned = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
    return ((turned + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def entry(value: np.ndarray, offset: int, kind=1, shard=0, more=b"") -> bytes:
    shape = b"".join(field(2, field(1, size)) for size in value.shape)
    checksum = varint(6 * 8 + 5) + masked(value.tobytes())
    parts = [field(1, kind), field(2, shape), field(3, shard), field(4, offset), field(5, value.nbytes), checksum, more]
    return b"".join(parts)


def pairs(items: list[tuple[bytes, bytes]]) -> bytes:
    """Encode a block in which each key stores only its difference from the previous key."""
    block, before = b"", b""
    for key, value in items:
        shared = next(
            (i for i, (a, b) in enumerate(zip(key, before, strict=False)) if a != b), min(len(key), len(before))
        )
        block += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    return block + (0).to_bytes(4, "little") + (1).to_bytes(4, "little")


def index(items: list[tuple[bytes, bytes]], *, snappy=False, blocks=1, compression=None) -> bytes:
    file, handles = b"", []
    for part in (items[place::blocks] for place in range(blocks)):
        handles.append((part[-1][0], _handle(file, part, snappy)))
        file += _block(part, snappy, compression)
    above = _handle(file, handles, False)
    file += _block(handles, False, None)
    return file + (varint(0) + varint(0) + above).ljust(40, b"\0") + (0xDB4775248B80FB57).to_bytes(8, "little")


def _content(items, snappy):
    content = pairs(items)
    return bytes(pyarrow.compress(content, codec="snappy", asbytes=True)) if snappy else content


def _handle(file, items, snappy):
    return varint(len(file)) + varint(len(_content(items, snappy)))


def _block(items, snappy, compression):
    content = _content(items, snappy) + bytes([int(snappy) if compression is None else compression])
    return content + masked(content)


def write(
    folder: Path, values: dict[str, np.ndarray], *, shards=1, header=b"", kinds=None, more=b"", **options
) -> Path:
    """Write a bundle `model.ckpt` of values, distributed over shards in turn.

    Args:
        folder: folder of the bundle.
        values: tensors by name.
        shards: number of shards.
        header: additional bytes of the header entry.
        kinds: TensorFlow data type codes by name. Default: 1, float32.
        more: additional bytes of each entry.
        **options: arguments of `index`.
    """
    items, data = [(b"", field(1, shards) + header)], [b""] * shards
    for place, (name, value) in enumerate(sorted(values.items())):
        shard = place % shards
        kind = (kinds or {}).get(name, 1)
        items.append((name.encode(), entry(value, len(data[shard]), kind, shard, more)))
        data[shard] += value.tobytes()
    for shard, content in enumerate(data):
        (folder / f"model.ckpt.data-{shard:05d}-of-{shards:05d}").write_bytes(content)
    (folder / "model.ckpt.index").write_bytes(index(items, **options))
    return folder / "model.ckpt"
