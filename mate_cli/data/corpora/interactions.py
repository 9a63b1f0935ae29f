"""Parser of the pre-training data of TAPAS: one interaction per line.

An interaction is a protocol buffer in text format.

The dataset conversions of TAPAS write the same interactions as TFRecord files.

Source: google-research/tapas, `protos/interaction.proto`. The files are named .txtpb, .txtpb.gz, .tfrecord or
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
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.tables.table import Cell, Table

Data = TypeVar("Data", str, bytes)
RECORDS = (".tfrecord", ".tfrecords")
INTERACTIONS = (".txtpb", ".txtpb.gz", *RECORDS)
"""Suffixes of files with interactions."""

_TOKEN = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[{}<>:]|[^\s{}<>:;,"']+)|[\s;,]+|(.)""")
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_CONTROLS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def read_interactions(path: Path) -> Iterator[Callable[[], CorpusTable]]:
    """Yield a function for each record of a pre-training file, which parses its table.

    A record is a protocol buffer `Interaction` of google-research/tapas.

    The texts of the table are titles and the fields that the format calls questions.

    Raises:
        DataError: the file cannot be read. The yielded functions raise it if a line or record is not an interaction.
    """
    with wrap_file_errors(path, DataError, "cannot be read, or is damaged", "Download it again"):
        if path.name.endswith(RECORDS):
            for number, record in enumerate(read_records(path), 1):
                yield partial(_corpus_table, decode_interaction, record, path, f"record {number}")
            return
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield partial(_corpus_table, parse_message, line, path, f"line {number}")


def parse_message(text: str) -> Message:
    """Parse a protocol buffer in text format to a dictionary of fields.

    Raises:
        ValueError: the text is not in this format.
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
    """Parse tokens of a protocol buffer in text format to a dictionary of its fields.

    Tokens are in reversed order. Parsing stops at a closing bracket.
    """
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
        message = _message(tokens)
        if not tokens:
            raise ValueError("unclosed bracket")
        tokens.pop()
        return message
    if token[0] not in "\"'":
        return token
    texts = [token]
    # Adjacent strings are concatenated.
    while tokens and tokens[-1][0] in "\"'":
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


def _corpus_table(parse: Callable[[Data], Message], data: Data, path: Path, location: str) -> CorpusTable:
    try:
        interaction = parse(data)
    except ValueError as error:
        hint = "Give interactions of TAPAS: one a line, as text, or records of them"
        raise DataError(f"is not a valid interaction: {error}", where=f"{path}, {location}", remedy=hint) from error
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
    questions = interaction.get("questions", [])
    texts = tuple(_text(question, "original_text") or _text(question, "text") for question in questions)
    return CorpusTable.build(table, path.name, texts)


def _cells(messages: list[Message]) -> tuple[Cell, ...]:
    return tuple(Cell(_text(message, "text")) for message in messages)


def _text(message: Message, field: str) -> str:
    return str((message.get(field) or [""])[0])


Message = dict[str, list[Any]]
"""Values of each field, in order. Text fields are `str`, message fields are `Message`."""

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
"""Name and type of the supported fields of each message type, by field number."""
CHECKSUM = 4


def read_records(path: Path) -> Iterator[bytes]:
    """Yield the content of each record in a TFRecord file as bytes.

    Raises:
        DataError: the file ends within a record.
        OSError: the file cannot be read.
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
    """Parse an interaction in the binary format of a protocol buffer.

    Raises:
        ValueError: the record is not an interaction.
    """
    message = _decode_message(memoryview(record), "interaction")
    if "table" not in message:
        raise ValueError("it has no table")
    return message


def _decode_message(data: memoryview, message_type: str) -> Message:
    message: Message = {}
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = divmod(tag, 8)
        if wire == 0:
            _, end = _varint(data, position)
        elif wire == 2:
            length, position = _varint(data, position)
            end = position + length
        elif wire in (1, 5):
            end = position + (8 if wire == 1 else 4)
        else:
            raise ValueError(f"unknown field type {wire}")
        if end > len(data):
            raise ValueError("it ends too early")
        name, field_type = FIELDS[message_type].get(number, ("", ""))
        if name and wire != 2:
            raise ValueError(f"{name} is not a valid {field_type}")
        if name:
            part, is_text = data[position:end], field_type == "text"
            value = str(part, "utf-8", "replace") if is_text else _decode_message(part, field_type)
            message.setdefault(name, []).append(value)
        position = end
    return message


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """Decode the varint at a position: seven bits per byte, lowest first.

    Return the number and its end.
    """
    number = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise ValueError("it ends too early")
        number |= (data[position] & 127) << shift
        position += 1
        if data[position - 1] < 128:
            return number, position
    raise ValueError("a number is truncated")
