"""Generator of damaged table files of every format, determined by a seed."""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from collections.abc import Iterator
from functools import cache

ROWS = [["region", "sold", "on"], ["north", "3", "2024-03-01"], ["south", "1,204", "2023-12-24"], ["ünö", "-7.5", ""]]
NUMBERS = [
    "99999999",
    "-1",
    "1e999",
    "9" * 400,
    "9" * 5000,
    "NaN",
    "0x1",
    "",
    "1.5",
    "2958466",
    "-2958466",
    "A1:XFD9",
    "٣",
]
TEXTS = [
    *("\x1b]0;x\x07", "\u202e", "\x00", "\ud800", "=1+1", "&#0;", "&#xD800;", "<a>", "${x}", "\x9b31m", "\uffff"),
    "'",
]


@cache
def samples() -> dict[str, bytes]:
    """Return a small table in every format, by file name."""
    text = "\n".join(",".join(f'"{cell}"' for cell in row) for row in ROWS)
    header, *rows = ROWS
    objects = [dict(zip(header, row, strict=True)) for row in rows]
    lists = {"header": header, "rows": rows}
    columns = {name: [row[place] for row in rows] for place, name in enumerate(header)}
    found = {
        "a.csv": text.encode(),
        "b.tsv": text.replace(",", "\t").encode(),
        "c.csv": text.replace(",", ";").encode("cp1252"),
        "d.csv": text.encode("utf-16"),
        "e.txt": text.replace(",", "|").encode(),
        **{
            f"{name}.json": json.dumps(one).encode() for name, one in zip("fgh", (objects, lists, columns), strict=True)
        },
        "i.jsonl": b"\n".join(json.dumps(one).encode() for one in objects),
    }
    return found | {"j.xlsx": workbook(), "k.parquet": parquet()}


def workbook() -> bytes:
    """Return a workbook with numbers, dates, formats, styles, merged cells and a formula."""
    import datetime

    import openpyxl
    from openpyxl.styles import Font

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["a title"])
    for row in ROWS:
        sheet.append(row)
    sheet.append(["x", 0.25, datetime.datetime(2024, 3, 1)])
    sheet.append(["y", 1234.5, datetime.time(12, 30)])
    sheet.append(["z", "=B6+1", True])
    sheet["B6"].number_format, sheet["B7"].number_format, sheet["A3"].font = "0.0%", "#,##0.00 [$€]", Font(bold=True)
    sheet.merge_cells("A1:C1")
    book.create_sheet("empty")
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def parquet() -> bytes:
    """Return a Parquet file with numbers, strings, lists and nulls."""
    import pyarrow
    from pyarrow.parquet import write_table

    columns = {"n": [1, None, 3], "t": ["a", "ü", None], "d": [1.5, 2.5, None], "l": [[1], [], None]}
    file = io.BytesIO()
    write_table(pyarrow.table(columns), file)
    return file.getvalue()


def damaged(seed: int) -> tuple[str, bytes]:
    """Return the name and content of the damaged file of a seed."""
    chance = random.Random(seed)
    name = chance.choice(sorted(samples()))
    content = samples()[name]
    if name.endswith(".xlsx") and chance.random() < 0.7:
        return name, _in_workbook(content, chance)
    if name.endswith((".json", ".jsonl")) and chance.random() < 0.4:
        return name, _in_json(content, chance)
    for _ in range(chance.choice([1, 1, 2, 8])):
        content = chance.choice([_flipped, _cut, _spliced, _inserted, _repeated])(content, chance)
    return name, content


def _flipped(content: bytes, chance: random.Random) -> bytes:
    made = bytearray(content)
    for _ in range(chance.choice([1, 1, 3, 30])):
        if made:
            made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
    return bytes(made)


def _cut(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content) + 1)
    return chance.choice([content[:place], content[place:], content[:place] + content[place + chance.randrange(99) :]])


def _spliced(content: bytes, chance: random.Random) -> bytes:
    other = samples()[chance.choice(sorted(samples()))]
    start, place = chance.randrange(len(other)), chance.randrange(len(content) + 1)
    return content[:place] + other[start : start + chance.randrange(200)] + content[place:]


def _inserted(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content) + 1)
    text = chance.choice([*TEXTS, *NUMBERS, '"', "\r", "\n\n\n", ",,,,", '"a', "\ufeff"])
    return content[:place] + text.encode(errors="surrogatepass") + content[place:]


def _repeated(content: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(content) + 1)
    piece = content[start : start + chance.randrange(1, 40)]
    return content[:start] + piece * chance.choice([2, 50, 500]) + content[start:]


def _in_json(content: bytes, chance: random.Random) -> bytes:
    """Replace a text by an unusual value, or nest the content deeply."""
    odd = ["9" * 5000, "1e999", "NaN", "-Infinity", '"\\ud800"', "[" * 100_000 + "]" * 100_000, "{}", "null", "[[1]]"]
    texts = [found.span() for found in re.finditer(rb'"[^"]*"', content)]
    start, end = chance.choice(texts)
    return content[:start] + chance.choice(odd).encode() + content[end:]


def _in_workbook(content: bytes, chance: random.Random) -> bytes:
    """Damage a workbook without damaging its archive.

    A part gets an unusual number, reference or text, or is removed.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = chance.choice([*parts, *["xl/worksheets/sheet1.xml", "xl/styles.xml"] * 4])
    spots = [found.span(1) for found in re.finditer(rb'(?:="|>)([^"<>]{1,30})', parts[name])]
    way = chance.randrange(6)
    if way == 0:
        del parts[name]
    elif way == 1:
        parts[name] = _flipped(parts[name], chance)
    elif way == 2:
        parts[name] = _cut(parts[name], chance)
    elif spots:
        start, end = chance.choice(spots)
        odd = chance.choice([*NUMBERS, *TEXTS, "sharedStrings", "99999999999", "ZZZ1", "A0", "d", "s", "b", "e"])
        parts[name] = parts[name][:start] + odd.encode(errors="surrogatepass") + parts[name][end:]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, inside in parts.items():
            archive.writestr(part, inside)
    return file.getvalue()


def every(count: int, first: int = 0) -> Iterator[tuple[int, str, bytes]]:
    """Yield seed, name and content of several damaged files."""
    for seed in range(first, first + count):
        yield seed, *damaged(seed)
