"""Repair of valid workbooks that the library calamine rejects or reads incompletely.

Source: MS-XLSB, sections 2.1.4 (records) and 2.5.9 to 2.5.16 (cells); OpenDocument 1.3, section 9.1 (tables).
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from io import BytesIO

SHORT_CELLS, SHORTENED = range(12, 19), 11
"""Record types of .xlsb cells without a column number, and the difference to the types with a column number."""
_SPACE = re.compile(rb">\s+(?=</?table:)")
"""White space before a tag of a table, which indents the XML."""
_RECORD = re.compile(rb"([\x80-\xff]?.)([\x80-\xff]{0,3}.)", re.DOTALL)
"""Type and size of a record of an .xlsb file, in bytes of seven bits, lowest first."""


def repair_workbook(archive: zipfile.ZipFile | None) -> BytesIO | None:
    """Return a repaired copy of a workbook, or None if it needs no repair.

    White space between the tags of .ods tables is removed, and .xlsb cells without a column number get a column number.

    Args:
        archive: opened workbook. None if the workbook is not a zip archive, which gives None.
    """
    parts = dict[str, bytes]()
    if archive is None:
        return None
    for name in archive.namelist():
        if name == "content.xml" or (name.startswith("xl/worksheets/") and name.endswith(".bin")):
            part = archive.read(name)
            parts[name] = _SPACE.sub(b">", part) if name.endswith(".xml") else b"".join(_number_cells(part))
            if parts[name] == part:
                del parts[name]
    if not parts:
        return None
    copy = BytesIO()
    with zipfile.ZipFile(copy, "w") as output:
        for name in archive.namelist():
            output.writestr(name, parts.get(name) or archive.read(name))
    copy.seek(0)
    return copy


def _number_cells(part: bytes) -> Iterator[bytes]:
    """Yield the binary records of an .xlsb sheet, and add missing column numbers to its cells.

    A cell without a column number follows the previous cell of its row.
    """
    offset = column = 0
    while match := _RECORD.match(part, offset):
        size = sum((byte & 127) << 7 * index for index, byte in enumerate(match[2]))
        kind, head, content = match[1][0], match[0], part[match.end() : match.end() + size]
        offset = match.end() + size
        if kind in SHORT_CELLS:
            column, size = column + 1, size + 4
            sizes = (size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127 | 128, size >> 21)
            head = bytes([kind - SHORTENED, *sizes]) + column.to_bytes(4, "little")
        else:
            column = int.from_bytes(content[:4], "little")
        yield head + content
