"""Alterations of dataset files, by users and by software."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from small_releases import Change, File, content

NAMED_BY = ("id", "_id", "qid", "idx", "question_id", "id_string", "table_id", "db_id", "title", "question")
"""Keys whose value identifies the object that contains them."""


@dataclass(frozen=True)
class Alteration:
    """An altered file.

    Args:
        kind: description of the alteration.
        content: content of the altered file.
        names: strings, one of which the error message must contain.
    """

    kind: str
    content: bytes
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} ({' or '.join(self.names)})"


def alterations(name: str, file: File, before: bytes) -> Iterator[Alteration]:
    """Yield every alteration of a file that the data check must report."""
    yield from of_bytes(file, before)
    if file.value is None:
        return
    for kind, change in file.wrong.items():
        value = copy.deepcopy(file.value)
        change(value)
        yield Alteration(kind, content(name, value), ("",))
    for path in places(file.value):
        yield from of_place(name, file, path)


def of_bytes(file: File, before: bytes) -> Iterator[Alteration]:
    """Yield truncated and empty files, and files with invalid UTF-8."""
    named = ("line ",) if not file.as_one else ("",)
    yield Alteration("empty", b"", ("empty",))
    yield Alteration("only spaces", b" \n \n", ("",))
    lines = before.splitlines(keepends=True)
    for share in (0.3, 0.6, 0.9):
        place = int(len(before) * share)
        while before[place - 1 : place] == b"\n" or before[place : place + 1] in (b"\n", b"\r"):
            place -= 1  # what ends with a line is not told from a shorter file
        if not file.open_end:
            yield Alteration(f"cut at its end ({share})", before[:place], named)
        yield Alteration("not UTF-8", before[:place] + b"\xe4\xff" + before[place:], named)
        number = min(len(lines) - 1, int(len(lines) * share))
        line = lines[number]
        if b"\t" in line or b"{" in line[:-2]:
            cut = line[: line.rindex(b"\t") if b"\t" in line else len(line) // 2]
            made = b"".join([*lines[:number], cut, b"\n", *lines[number + 1 :]])
            yield Alteration(f"line {number + 1} cut in its middle", made, named)


def harmless(before: bytes) -> Iterator[Alteration]:
    """Yield alterations that the data check must accept."""
    plain = before.replace(b"\r\n", b"\n")
    yield Alteration("CRLF", plain.replace(b"\n", b"\r\n"))
    yield Alteration("BOM", b"\xef\xbb\xbf" + before)
    yield Alteration("BOM and CRLF", b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n"))


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """Yield the path of every part of a nested value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*path, key)
        yield from places(part, (*path, key))


def of_place(name: str, file: File, path: tuple) -> Iterator[Alteration]:
    """Yield alterations that remove a part, rename its key or change its type."""
    words = [str(key) for key in path]
    dotted = {*words} | {f"{outer}.{inner}" for outer, inner in zip(words, words[2:], strict=False)}
    if dotted & file.unread:
        return
    optional = bool({words[-1], *dotted} & file.optional) and (words[-1] in file.optional or len(words) > 1)
    names = tuple(named(file, path))
    *above, key = path
    if isinstance(key, str) and not (optional or (file.by_id and len(path) == 1)):
        yield Alteration(f"{path}: removed", changed(name, file, above, lambda node: node.pop(key)), names)
        rename: Change = lambda node: node.update({f"{key}_": node.pop(key)})  # noqa: E731
        yield Alteration(f"{path}: renamed", changed(name, file, above, rename), names)
    for kind, other in others(node_at(file.value, path)):
        if other is None and optional:
            continue
        put: Change = lambda node, other=other: node.__setitem__(key, other)  # noqa: E731
        yield Alteration(f"{path}: {kind}", changed(name, file, above, put), names)


def others(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield values of other types, with descriptions."""
    if value is not None:
        yield "null", None
    match value:
        case bool():
            yield "a text for a truth", "yes"
        case str():
            yield "a number for a text", 7
            yield "a list for a text", [value]
        case int():
            yield "a text for a number", "x"
            yield "a list for a number", [value]
        case list():
            yield "an object for a list", {"x": value}
            yield "a text for a list", "x"
        case dict():
            yield "a list for an object", [value]
            yield "a text for an object", "x"


def named(file: File, path: tuple) -> Iterator[str]:
    """Yield strings that may locate a part: ids and positions of the objects around it."""
    node = file.value
    for key in path:
        if isinstance(node, dict):
            yield from (str(node[name]) for name in NAMED_BY if isinstance(node.get(name), str | int))
        elif isinstance(node, list):
            yield from (
                f"entry {key}",
                f"line {key + 1}",
                f"article {key}",
                f"-{key}",
                f"-{key + 1}",
                f"-{key:05}",
                f"/{key + 1}",
                f"/{key}",
            )
        if file.as_one or (isinstance(key, str) and len(path) == 1) or node is file.value:
            yield str(key) if isinstance(key, str) else "entry"
        node = node[key]


def node_at(value: Any, path: tuple) -> Any:
    for key in path:
        value = value[key]
    return value


def changed(name: str, file: File, above: list, change: Change) -> bytes:
    value = copy.deepcopy(file.value)
    change(node_at(value, tuple(above)))
    return content(name, value)
