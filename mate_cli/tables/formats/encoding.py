"""Which encoding the text of a file is in, and whether it is text at all."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from mate_cli.errors import ConfigError, DataError
from mate_cli.tables.formats.grid import numbered
from mate_cli.tables.formats.old_encodings import first_word, guess, natural_as_unicode

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
SWITCHES = (
    (re.compile(rb"\x1b\$[@B].*\x1b\([BJ]", re.DOTALL), "iso2022_jp"),
    (re.compile(rb"\x1b\$\)C.*\x0e", re.DOTALL), "iso2022_kr"),
    (re.compile(rb"~\{(?:[!-}][!-~])+~\}"), "hz"),
)
"""What switches letters of ASCII to others, and the encoding that does so."""
_UTF_7 = re.compile(rb"\+[A-Za-z0-9+/]{3,}-?")
CONTROL = frozenset(range(32)) - frozenset(b"\t\n\r\f\v\x0e\x0f\x1b") | {127}
MOST_CONTROL = 0.02
"""Text has fewer control characters than this share."""
FEW = 40
"""So many letters beyond ASCII can be valid UTF-8 by chance, and mean others."""
LIKELY = 0.6
"""How natural a text is at least in the encoding that it may be in."""
HINT = "if letters look wrong, write text_encoding=NAME."


@dataclass(frozen=True)
class Text:
    """A text file whose encoding is known."""

    path: Path
    encoding: str = "utf-8"
    errors: str = "replace"
    notes: list[str] = field(default_factory=list)

    def open(self, newline: str | None = None) -> TextIO:
        """Open it to be read."""
        return self.path.open(encoding=self.encoding, errors=self.errors, newline=newline)

    def read(self) -> str:
        """All of it."""
        with self.open() as file:
            return file.read()


def known_encoding(name: str) -> str:
    """Return Python's name of a text encoding.

    Raises:
        ConfigError: there is none of that name.
    """
    try:
        "".encode(name)
        if not name.lower().replace("-", "_").endswith(("escape", "punycode", "idna")):
            return codecs.lookup(name).name
    except (LookupError, UnicodeError, ValueError):
        pass
    remedy = "Known are utf-8, utf-16, cp1252, cp1251, koi8-r, shift_jis, gb18030, big5, euc-kr and others of Python"
    raise ConfigError(f"there is no encoding {name!r}", where="text_encoding", remedy=remedy)


def text_file(path: Path, encoding: str | None = None) -> Text:
    """Find the encoding of a text file; the whole file is checked, in pieces.

    A mark at its beginning counts more than what is typed.

    Raises:
        DataError: the file is not text, or not in that encoding.
    """
    with path.open("rb") as file:
        start = file.read(SAMPLE)
    marked = next((name for mark, name in MARKS if start.startswith(mark)), None)
    if encoding and not marked:
        return _typed(path, encoding)
    marked = marked or _unmarked_utf16(start)
    if marked:
        said = [] if marked == "utf-8-sig" else [f"The file is in {marked.upper()}."]
        return Text(path, marked, notes=said + _what_is_broken(path, marked))
    if sum(byte in CONTROL for byte in start) > MOST_CONTROL * len(start):
        raise DataError("this is not text", where=str(path), remedy="Save it as CSV (UTF-8) or .xlsx")
    place = _first_undecodable(path)
    if place is None:
        return Text(path, *_of_ascii(start)) if start.isascii() else Text(path, notes=_by_chance(start))
    sample = _lines_from(path, place)
    if _is_damaged_utf8(sample):
        return Text(path, notes=_what_is_broken(path, "utf-8"))
    name, _ = guess(sample)
    said = [f"The file is not in UTF-8; it was read as {name}; {HINT}"]
    return Text(path, name, notes=said + _what_is_broken(path, name))


def _typed(path: Path, encoding: str) -> Text:
    try:
        for _ in _pieces(path, encoding, "strict"):
            pass
    except UnicodeError as error:
        remedy = "Save it as UTF-8, or write text_encoding=NAME"
        raise DataError(f"it is not in {encoding.upper()}", where=str(path), remedy=remedy) from error
    return Text(path, encoding, "strict")


def _pieces(path: Path, encoding: str, errors: str) -> Iterator[str]:
    with path.open(encoding=encoding, errors=errors, newline="") as file:
        while piece := file.read(CHUNK):
            yield piece


def _what_is_broken(path: Path, encoding: str) -> list[str]:
    count = sum(piece.count("\ufffd") for piece in _pieces(path, encoding, "replace"))
    if not count or encoding == "utf-8-sig":
        return []
    return [f"{numbered(count, 'place')} in the file cannot be read as {encoding}: \ufffd stands there."]


def _of_ascii(start: bytes) -> tuple[str, str, list[str]]:
    """UTF-8, unless what begins a file switches to other letters, or might be UTF-7, in letters of ASCII."""
    for pattern, name in SWITCHES:
        if pattern.search(start):
            text = start.decode(name, errors="replace")
            if text.count("\ufffd") <= 1 and not text.isascii():  # one where the beginning was cut off
                return name, "replace", [f"The file is not in UTF-8; it was read as {name}; {HINT}"]
    words = _UTF_7.findall(start)
    try:
        meant = [word.decode("utf-7") for word in words]
    except UnicodeDecodeError:
        return "utf-8", "replace", []
    is_sure = len(words) > 1 or (words and words[0].endswith(b"-") and max(meant[0]) < "\u0250")
    if is_sure and all(text.isalpha() and not text.isascii() for text in meant):
        said = f"{words[0].decode()} may be UTF-7; if it should be {meant[0]}, write text_encoding=utf-7."
        return "utf-8", "replace", [said]
    return "utf-8", "replace", []


def _by_chance(start: bytes) -> list[str]:
    """What to say of the few letters of a text that is UTF-8, but no words in it, as those of another encoding are."""
    sample = b"\n".join(line for line in start.splitlines() if not line.isascii())
    text = sample.decode("utf-8", errors="ignore")
    letters = [letter for letter in text if not letter.isascii()]
    if len(letters) > FEW or max(letters, default="") > "\u07ff" or natural_as_unicode(text):
        return []
    name, natural = guess(sample)
    if natural < LIKELY:
        return []
    is_word, meant = first_word(text), first_word(sample.decode(name, errors="replace"))
    return [f"{is_word} is UTF-8 by chance, perhaps; if it should be {meant}, write text_encoding={name}."]


def _is_damaged_utf8(sample: bytes) -> bool:
    """Whether most letters beyond ASCII are UTF-8 all the same."""
    text = sample.decode("utf-8", errors="replace")
    broken = text.count("\ufffd")
    return sum(not letter.isascii() for letter in text) - broken >= 2 * broken


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


def _lines_from(path: Path, place: int) -> bytes:
    """The lines with letters beyond ASCII, from that of a place on."""
    start = max(0, place - SAMPLE)
    with path.open("rb") as file:
        file.seek(start)
        before, after = file.read(place - start), file.read(4 * SAMPLE)
    line = before[max(before.rfind(b"\n"), before.rfind(b"\r")) + 1 :]
    return b"\n".join(one for one in (line + after).splitlines() if not one.isascii())[:SAMPLE]
