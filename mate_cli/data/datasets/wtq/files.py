"""The tab-separated files of WikiTableQuestions: no quoting; newline, backslash and pipe stand escaped.

Source: ppasupat/WikiTableQuestions, README.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mate_cli.data.check import Problem
from mate_cli.data.datasets.csv_tables import decode, open_end

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "p": "|"}

_SIGNS = ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", "-NaN", "-nan", "NaN", "nan")
NO_VALUE = frozenset([*_SIGNS, "<NA>", "N/A", "NA", "NULL", "n/a", "null"])
"""Texts of cells that pandas takes for a missing value, as the reference's reader of tables does."""


def unescape(text: str) -> str:
    """Undo the escapes of a field or of an item in a list."""
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text) if "\\" in text else text


def items(field: str) -> tuple[str, ...]:
    """The items of a list, which a pipe parts; none in an empty field."""
    return tuple(unescape(item) for item in field.split("|")) if field else ()


def rows(
    file: str, content: bytes, wanted: Sequence[str], problems: list[Problem], suspicions: list[Problem] | None = None
) -> Iterator[dict[str, str]]:
    """The wanted columns of each line, still escaped; lines that are too short are noted and left out.

    The first line names the columns.
    """
    text = decode(file, content, problems)
    if text is None:
        return
    if not text.strip():
        problems.append(Problem(file, "", "is empty"))
        return
    header, *lines = (line.removesuffix("\r").split("\t") for line in text.removesuffix("\n").split("\n"))
    absent = [name for name in wanted if name not in header]
    if absent:
        problems.append(Problem(file, "", f"line 1 has no column {', '.join(absent)}, but {', '.join(header)[:200]}"))
        return
    places = {name: header.index(name) for name in wanted}
    for number, fields in enumerate(lines, 2):
        if len(fields) <= max(places.values()):
            what = f"has {len(fields)} fields, not {len(header)}"
            problems.append(Problem(file, f"line {number}", what))
        else:
            if suspicions is not None and len(fields) > len(header):
                suspicions.append(Problem(file, f"line {number}", f"has {len(fields)} fields, not {len(header)}"))
            yield {name: fields[place] for name, place in places.items()}
    if suspicions is not None and (not lines or len(lines[-1]) == len(header)):
        suspicions += open_end(file, text)
