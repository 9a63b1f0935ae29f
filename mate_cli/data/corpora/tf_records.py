"""TensorFlow's files of records with the interactions of TAPAS in them, as its conversion of a data set writes them.

Their tables are read; their questions are those of the data set, and no text about a table.

Source: TensorFlow, `lib/io/record_writer.h`: the length of a record in eight bytes, four of a checksum, the record, and
four of another checksum; google-research/tapas, `protos/interaction.proto`; Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mate_cli.errors import DataError

Message = dict[str, list[Any]]
"""The values of each field in their order: texts as `str`, messages as such."""

FIELDS: dict[str, dict[int, tuple[str, str]]] = {
    "interaction": {1: ("id", "text"), 2: ("table", "table")},
    "table": {
        1: ("columns", "cell"),
        2: ("rows", "cells"),
        3: ("table_id", "text"),
        4: ("document_title", "text"),
        5: ("caption", "text"),
    },
    "cells": {1: ("cells", "cell")},
    "cell": {1: ("text", "text")},
}
"""Names and kinds of the fields that are read of each kind of message, by their numbers."""
CHECKSUM = 4


def read_records(path: Path) -> Iterator[bytes]:
    """The records of a file.

    Raises:
        DataError: it ends in the middle of one.
        OSError: it cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        for number in range(1, size + 1):
            head = file.read(8 + CHECKSUM)
            if not head:
                return
            length = int.from_bytes(head[:8], "little")
            if len(head) < 8 + CHECKSUM or file.tell() + length + CHECKSUM > size:
                raise DataError("ends too early", where=f"{path}, record {number}", remedy="Fetch or write it again")
            yield file.read(length)
            file.seek(CHECKSUM, 1)


def decode_interaction(record: bytes) -> Message:
    """Read an interaction in the binary form of a protocol buffer.

    Raises:
        ValueError: it is none.
    """
    found = _message(memoryview(record), "interaction")
    if "table" not in found:
        raise ValueError("there is no table in it")
    return found


def _message(data: memoryview, kind: str) -> Message:
    found: Message = {}
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        number, wire = divmod(tag, 8)
        if wire == 0:
            _, end = _varint(data, place)
        elif wire == 2:
            length, place = _varint(data, place)
            end = place + length
        elif wire in (1, 5):
            end = place + (8 if wire == 1 else 4)
        else:
            raise ValueError(f"a field of kind {wire}")
        if end > len(data):
            raise ValueError("it ends too early")
        name, inner = FIELDS[kind].get(number, ("", ""))
        if name and wire != 2:
            raise ValueError(f"{name} is no {inner}")
        if name:
            value = str(data[place:end], "utf-8", "replace") if inner == "text" else _message(data[place:end], inner)
            found.setdefault(name, []).append(value)
        place = end
    return found


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    """The number at a place, seven bits in a byte, the lowest first, and where it ends."""
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise ValueError("it ends too early")
        number |= (data[place] & 127) << shift
        place += 1
        if data[place - 1] < 128:
            return number, place
    raise ValueError("a number has no end")
