"""Encoding of the text of a file, from its bytes, and the check that it is text at all."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TextIO

from mate_cli.errors import ConfigError, DataError
from mate_cli.tables.formats.cell_text import count_noun

COMMON = 14
"""So many letters of an alphabet are common; all letters that a language adds to the Latin ones are."""
_WESTERN = """
éèàçêâîôûùëïœæÿü äöüßéàè áéíóúñüç ãçáéíóúõâêàô àèéìòùóí åäöæøéü áðéíóúýþæö ëéïöüèóç äöüõšž
"""
WESTERN = _WESTERN.split()
CENTRAL = ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîşţșț", "čšž", "äöüß")
TURKISH = ("çğıi\u0307öşüâî",)  # noqa: RUF001
_CYRILLIC = """
оеаинтсрвлкмдпугяызбйьчхжцшющэфъё оаніирвтесклудмпзяьбгйчхцїжєюшщґф аиоентрсвлкдпмзгяъубчцйжщхюшьф
аиоенрсуткјвдмплгзбчшљћжђцњхџф
"""
CYRILLIC = _CYRILLIC.split()
GREEK = ("ατοιενρσκηπςυμλίόάγέδήωχθύώβφξζψϊϋΐΰ",)
HEBREW = ("יוהלרבתמאשנעםדקחפסכגטצןזךףץ",)
ARABIC = ("اليمونرتبةعدسفهكقأحجشطصىخإذضظغثءؤئآـ",)
ALPHABETS: dict[str, Sequence[str]] = {
    "cp1252": (*WESTERN, "".join(WESTERN)),
    "cp1250": CENTRAL,
    "cp1254": TURKISH,
    "cp1251": CYRILLIC,
    "koi8-r": CYRILLIC[:1],
    "koi8-u": CYRILLIC[1:2],
    "cp1253": GREEK,
    "cp1255": HEBREW,
    "cp1256": ARABIC,
    "iso8859-6": ARABIC,
    "iso8859-2": CENTRAL,
    "iso8859-5": CYRILLIC,
    "cp866": CYRILLIC[:1],
    **dict.fromkeys(("mac-roman", "cp850"), WESTERN),
}
"""The letters beyond ASCII of the languages that are written in an encoding of one byte, the commonest first."""
RARE = ("iso8859-6", "iso8859-5", "cp866", "mac-roman", "cp850")
ASIAN = ["cp932", "euc_jp", "gb18030", "big5", "euc_kr"]
"""Encodings of two bytes a letter, among which charset-normalizer chooses."""
FITS = 0.75
"""How natural a text is at least in an encoding of one byte."""
MARKS_OF_TEXT = "“”„‘’‚‹›«»–—…•· \u00ad¡¿"  # noqa: RUF001
SIGNS = re.compile(
    r"[€£¥¢$°²³¹§ªº©®™×±¼½¾¶†‡]{1,3}|[a-zA-Z]{1,3}[²³¹ªº°®™©]|°[CFK]|µ[a-zA-Z]{0,2}|[€£¥](?:[kmKM]|bn|m)|(?:US|[A-Z])£"  # noqa: RUF001
)
"""Signs, alone or where they stand beside letters."""
_UNITS = re.compile(rf"[^\x00-\x40\[-`{{-\x7f{MARKS_OF_TEXT}]+")
_RUNS = re.compile(r"[^\x00-\x7f]+")
_NOT_WESTERN = re.compile("õ(?=[rlz])|œ[wkmr]")
"""Signs of Windows-1252 that are Hungarian and Polish letters of Windows-1250."""


def guess(sample: bytes) -> str:
    """Find the likeliest encoding of a text that is not in Unicode: Windows-1252 where its letters and signs fit.

    `sample` has lines with letters beyond ASCII; the last one may be cut.
    """
    scores = {name: _natural(sample, name) for name in ALPHABETS}
    best = max(scores, key=scores.__getitem__)  # the first of equals, which is the commonest
    if scores[best] < FITS:
        from charset_normalizer import from_bytes

        asian = from_bytes(sample, cp_isolation=ASIAN, preemptive_behaviour=False).best()
        best = asian.encoding if asian else best
    return best


def _natural(sample: bytes, encoding: str) -> float:
    """Score how natural the words with letters beyond ASCII are in an encoding, in the language that fits best."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return 0.0
    units = [unit for unit in _UNITS.findall(text) if not unit.isascii()]
    scores = (sum(_judge(unit, letters) for unit in units) for letters in ALPHABETS[encoding])
    return max(scores) / len(units) * (0.9 if encoding in RARE else 1) if units else 1.0


@lru_cache(maxsize=1 << 14)
def _judge(unit: str, letters: str) -> float:
    """Score how natural a word is in a language with these letters, from 0 to 1."""
    if SIGNS.fullmatch(unit):
        return 1.0
    alphabet, is_latin = set(letters), ord(letters[0]) < 0x250
    added = [letter for letter in unit.lower() if not letter.isascii()]
    if (
        _NOT_WESTERN.search(unit.lower())
        or not alphabet.issuperset(added)
        or unit not in (unit.lower(), unit.upper(), unit[0] + unit[1:].lower())
    ):
        return 0.0
    is_strange = len(added) == len(unit) > 1 or max(map(len, _RUNS.findall(unit)), default=0) > 3
    if is_strange if is_latin else len(added) < len(unit):
        return 0.0
    share = 1 if is_latin else sum(letter in letters[:COMMON] for letter in added) / len(added)
    is_rare = len(unit) == 1 or unit.isupper() or len(letters) > 40  # of many languages at once
    return (0.6 + 0.4 * share) * (0.8 if is_rare else 0.95 if "þ" in letters else 1.0)  # Turkish before Icelandic


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
CONTROL = frozenset(range(32)) - frozenset(b"\t\n\r\f\v\x0e\x0f\x1b") | {127}
FEW, MAX_CONTROL = 3, 0.02
"""Text has few control characters, or fewer than this share."""
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
        """Return all of it."""
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
    raise ConfigError(f"unknown encoding {name!r}", where="text_encoding", remedy=remedy)


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
    marked = marked or _unmarked_utf16(start) or ("iso2022_jp" if b"\x1b$B" in start and start.isascii() else None)
    if marked:
        notes = [] if marked == "utf-8-sig" else [f"The file is in {marked.upper()}."]
        return Text(path, marked, notes=notes + _what_is_broken(path, marked))
    if sum(byte in CONTROL for byte in start) > max(FEW, MAX_CONTROL * len(start)):
        raise DataError("this is not text", where=str(path), remedy="Save it as CSV (UTF-8) or .xlsx")
    place = _first_undecodable(path)
    if place is None:
        return Text(path)
    sample = _lines_from(path, place)
    if _is_damaged_utf8(sample):
        return Text(path, notes=_what_is_broken(path, "utf-8"))
    name = guess(sample)
    notes = [f"The file is not in UTF-8; it was read as {name}; {HINT}"]
    return Text(path, name, notes=notes + _what_is_broken(path, name))


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
    return [f"{count_noun(count, 'place')} in the file cannot be read as {encoding}: replaced by \ufffd."]


def _is_damaged_utf8(sample: bytes) -> bool:
    """Tell whether most letters beyond ASCII are UTF-8 all the same."""
    text = sample.decode("utf-8", errors="replace")
    broken = text.count("\ufffd")
    return sum(not letter.isascii() for letter in text) - broken >= 2 * broken


def _unmarked_utf16(start: bytes) -> str | None:
    """Find UTF-16 without a mark: every other byte of Latin text is zero."""
    even, odd = start[::2].count(0), start[1::2].count(0)
    if max(even, odd) < 0.4 * len(start) / 2 or min(even, odd) > 0.02 * len(start):
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _first_undecodable(path: Path) -> int | None:
    """Return the place of the first piece of a file that is not UTF-8."""
    decoder, place, piece = codecs.getincrementaldecoder("utf-8")(), 0, b"-"
    with path.open("rb") as file:
        while piece:
            piece = file.read(CHUNK)
            try:
                decoder.decode(piece, final=not piece)
            except UnicodeDecodeError as error:
                return max(0, place + error.start - 8)
            place += len(piece)
    return None


def _lines_from(path: Path, place: int) -> bytes:
    """Return the lines with letters beyond ASCII, from that of a place on."""
    start = max(0, place - SAMPLE)
    with path.open("rb") as file:
        file.seek(start)
        before, after = file.read(place - start), file.read(4 * SAMPLE)
    line = before[max(before.rfind(b"\n"), before.rfind(b"\r")) + 1 :]
    return b"\n".join(row for row in (line + after).splitlines() if not row.isascii())[:SAMPLE]
