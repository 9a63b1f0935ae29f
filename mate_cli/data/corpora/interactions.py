"""The published format of TAPAS' pre-training data: one interaction a line, as the text form of a protocol buffer.

Its conversions of data sets write the same interactions as records of TensorFlow.

Source: google-research/tapas, `protos/interaction.proto`; the files are named .txtpb or .txtpb.gz, .tfrecord or
.tfrecords.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from mate_cli.data.corpora.shards import CorpusTable
from mate_cli.errors import DataError
from mate_cli.tables.table import Cell, Table

Data = TypeVar("Data", str, bytes)
RECORDS = (".tfrecord", ".tfrecords")
INTERACTIONS = (".txtpb", ".txtpb.gz", *RECORDS)
"""Endings of the files that are read."""

_TOKEN = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[{}<>:]|[^\s{}<>:;,"']+)|[\s;,]+|(.)""")
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_CONTROLS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def read_interactions(path: Path) -> Iterator[Callable[[], CorpusTable]]:
    """Yield what makes each table of a file of interactions; its texts are titles and what the format calls questions.

    Raises:
        DataError: the file cannot be read; or, when it is made, a line or record is no interaction.
    """
    try:
        if path.name.endswith(RECORDS):
            for number, record in enumerate(read_records(path), 1):
                yield partial(_corpus_table, decode_interaction, record, path, f"record {number}")
            return
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield partial(_corpus_table, parse_message, line, path, f"line {number}")
    except (OSError, EOFError) as error:
        raise DataError("cannot be read, or is damaged", where=str(path), remedy="Fetch it again") from error


def parse_message(text: str) -> Message:
    """Read the text form of one protocol buffer.

    Raises:
        ValueError: the text is no such form.
    """
    tokens = []
    for match in _TOKEN.finditer(text):
        if match[2]:
            raise ValueError(f"unexpected {match[2]!r}")
        if match[1]:
            tokens.append(match[1])
    tokens.reverse()
    message = _message(tokens)
    if tokens:
        raise ValueError("unmatched closing bracket")
    return message


def _message(tokens: list[str]) -> Message:
    """Return fields up to a closing bracket or the end; the next token is the last of the list."""
    message: Message = {}
    while tokens and tokens[-1] not in "}>":
        name = tokens.pop()
        message.setdefault(name, []).append(_value(tokens, name))
    return message


def _value(tokens: list[str], name: str) -> Any:  # noqa: ANN401 - text, message or word
    if tokens and tokens[-1] == ":":
        tokens.pop()
    if not tokens or tokens[-1] in "}>:":
        raise ValueError(f"{name} has no value")
    token = tokens.pop()
    if token in "{<":
        inner = _message(tokens)
        if not tokens:
            raise ValueError("unclosed bracket")
        tokens.pop()
        return inner
    if token[0] not in "\"'":
        return token
    texts = [token]
    while tokens and tokens[-1][0] in "\"'":  # texts one after another are one
        texts.append(tokens.pop())
    return "".join(_unescaped(part[1:-1]) for part in texts)


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_escaped_byte, text.encode()).decode(errors="replace")


def _escaped_byte(match: re.Match[bytes]) -> bytes:
    octal, hexadecimal, letter = match.groups()
    if letter is not None:
        return _CONTROLS.get(letter, letter)
    return bytes([int(octal, 8) & 255 if octal else int(hexadecimal, 16)])


def _corpus_table(read: Callable[[Data], Message], data: Data, path: Path, place: str) -> CorpusTable:
    try:
        interaction = read(data)
    except ValueError as error:
        remedy = "Give interactions of TAPAS: one a line, as text, or records of them"
        raise DataError(f"is not a valid interaction: {error}", where=f"{path}, {place}", remedy=remedy) from error
    fields: Message = (interaction.get("table") or [{}])[0]
    header = _cells(fields.get("columns", []))
    rows = [_cells(row.get("cells", [])) for row in fields.get("rows", [])]
    table = Table(
        _text(fields, "table_id") or _text(interaction, "id"),
        header,
        tuple(row for row in rows if len(row) == len(header)),
        title=_text(fields, "document_title"),
        section_title=_text(fields, "caption"),
    )
    texts = (
        _text(question, "original_text") or _text(question, "text") for question in interaction.get("questions", [])
    )
    return CorpusTable.of(table, path.name, tuple(texts))


def _cells(messages: list[Message]) -> tuple[Cell, ...]:
    return tuple(Cell(_text(message, "text")) for message in messages)


def _text(message: Message, field: str) -> str:
    return str((message.get(field) or [""])[0])


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
    """Yield the records of a file.

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
    message = _decode_message(memoryview(record), "interaction")
    if "table" not in message:
        raise ValueError("it has no table")
    return message


def _decode_message(data: memoryview, kind: str) -> Message:
    message: Message = {}
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
            raise ValueError(f"unknown field type {wire}")
        if end > len(data):
            raise ValueError("it ends too early")
        name, inner = FIELDS[kind].get(number, ("", ""))
        if name and wire != 2:
            raise ValueError(f"{name} is not a valid {inner}")
        if name:
            value = (
                str(data[place:end], "utf-8", "replace") if inner == "text" else _decode_message(data[place:end], inner)
            )
            message.setdefault(name, []).append(value)
        place = end
    return message


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    """Return the number at a place, seven bits in a byte, the lowest first, and where it ends."""
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise ValueError("it ends too early")
        number |= (data[place] & 127) << shift
        place += 1
        if data[place - 1] < 128:
            return number, place
    raise ValueError("a number is truncated")
