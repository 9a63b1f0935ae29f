"""Which encoding the text of a file is in, and whether it is text at all."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from mate_cli.errors import DataError

CHUNK = 1 << 20
SAMPLE = 1 << 16
"""Bytes that are looked at where a guess is needed."""
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""How files begin that say their encoding; the longer marks come before those that they begin with."""
CANDIDATES = ["cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp932", "gb18030", "big5", "euc_kr"]
"""What spreadsheets write where they do not write Unicode."""
ENOUGH = 40
"""Bytes of lines with letters beyond ASCII from which their encoding can be guessed."""
_SWITCHES, _UTF_7 = re.compile(rb"\x1b\$[@B].*\x1b\([BJ]", re.DOTALL), re.compile(rb"\+[A-Za-z0-9+/]{3,}-?")
CONTROL = frozenset(range(32)) - frozenset(b"\t\n\r\f\v\x1b") | {127}
MOST_CONTROL = 0.02
"""Text has fewer control characters than this share."""


def find_encoding(path: Path) -> tuple[str, list[str]]:
    """Find the encoding of a text file; the whole file is checked, in pieces.

    Returns:
        Its name for Python, and what to tell about it: nothing where it is UTF-8.

    Raises:
        DataError: the file is not text.
    """
    with path.open("rb") as file:
        start = file.read(SAMPLE)
    marked = next((name for mark, name in MARKS if start.startswith(mark)), None) or _unmarked_utf16(start)
    if marked:
        return marked, [] if marked == "utf-8-sig" else [f"The file is in {marked.upper()}."]
    if sum(byte in CONTROL for byte in start) > MOST_CONTROL * len(start):
        raise DataError("this is not text", where=str(path), remedy="Save it as CSV (UTF-8) or .xlsx")
    place = _first_undecodable(path)
    if place is None:
        return _of_ascii(start)
    name = _guess(path, place)
    return name, [f"The file is not in UTF-8; it was read as {name}."]


def _of_ascii(start: bytes) -> tuple[str, list[str]]:
    """UTF-8, unless what begins a file switches to Japanese, or might be UTF-7, in letters of ASCII."""
    if _SWITCHES.search(start):
        text = start.decode("iso2022_jp", errors="replace")
        if text.count("\ufffd") <= 1:  # where the beginning was cut off
            return "iso2022_jp", ["The file is not in UTF-8; it was read as iso2022_jp."]
    words = _UTF_7.findall(start) if start.isascii() else []
    try:
        meant = [word.decode("utf-7") for word in words]
    except UnicodeDecodeError:
        meant = []
    if len(meant) > 1 and all(text.isalpha() and not text.isascii() for text in meant):
        return "utf-8", [f"{words[0].decode()} might be UTF-7; if it should be {meant[0]}, save the file as UTF-8."]
    return "utf-8", []


def _unmarked_utf16(start: bytes) -> str | None:
    """UTF-16 without a mark: every other byte of Latin text is zero."""
    even, odd = start[::2].count(0), start[1::2].count(0)
    if max(even, odd) < 0.4 * len(start) / 2 or min(even, odd) > 0.02 * len(start):
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _first_undecodable(path: Path) -> int | None:
    """The place of the first piece of a file that is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        place = 0
        while piece := file.read(CHUNK):
            try:
                decoder.decode(piece)
            except UnicodeDecodeError as error:
                return max(0, place + error.start - 8)
            place += len(piece)
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return max(0, place - 8)
    return None


def _guess(path: Path, place: int) -> str:
    """The likeliest encoding of the lines with letters beyond ASCII, from the first of them on."""
    from charset_normalizer import from_bytes

    with path.open("rb") as file:
        file.seek(max(0, place - 200))
        lines = file.read(4 * SAMPLE).splitlines()
    sample = b"\n".join(line for line in lines if not line.isascii())[:SAMPLE]
    best = from_bytes(sample, cp_isolation=CANDIDATES).best() if len(sample) > ENOUGH else None
    try:
        western = sample.decode("cp1252")
    except UnicodeDecodeError:
        return _plain_name(best.encoding) if best else "latin-1"
    # Alphabets share letters: where both readings are the same, the commonest name is the better one.
    return "cp1252" if best is None or str(best) == western else _plain_name(best.encoding)


def _plain_name(encoding: str) -> str:
    return encoding.replace("_", "-") if encoding.startswith("euc") else encoding
