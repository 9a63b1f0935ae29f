"""Detection of the text encoding of a file, and the check that the file is text."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from functools import lru_cache, partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from mate_cli.errors import ConfigError, DataError
from mate_cli.tables.formats.cell_text import count_noun

FREQUENT_LETTERS = 14
"""Number of frequent letters of a non-Latin alphabet. Of a Latin alphabet, all non-ASCII letters are frequent."""
_WESTERN = "éèàçêâîôûùëïœæÿü äöüßéàè áéíóúñüç àèéíïòóúüç ãçáéíóúõâêàô àèéìòùóí åäöæøéü áðéíóúýþæö ëéïöüèóç äöüõšž"
ALPHABETS = {
    "cp1252 mac-roman cp850": f"{_WESTERN} {_WESTERN.replace(' ', '')}",
    "cp1250 iso8859-2": "ąćęłńóśźż áčďéěíňóřšťúůýž áäčďéíĺľňóôŕšťúýž áéíóöőúüű čćđšž ăâîşţșț čšž äöüß",
    "cp1254": "çğıi\u0307öşüâî",  # noqa: RUF001
    "cp1251 koi8-r koi8-u iso8859-5 cp866": """
        оеаинтсрвлкмдпугяызбйьчхжцшющэфъё оаніирвтесклудмпзяьбгйчхцїжєюшщґф аиоентрсвлкдпмзгяъубчцйжщхюшьф
        аиоенрсуткјвдмплгзбчшљћжђцњхџф
    """,
    "cp1253 iso8859-7": "ατοιενρσκηπςυμλίόάγέδήωχθύώβφξζψϊϋΐΰ",
    "cp1255": "יוהלרבתמאשנעםדקחפסכגטצןזךףץ",
    "cp1256 iso8859-6": "اليمونرتبةعدسفهكقأحجشطصىخإذضظغثءؤئآـ",
    "cp1257": "ąčęėįšųūž āčēģīķļņšūž äõöüšž",
    "cp874": "านรอกเงมยลวดทตะสปขบคแหจพำชไผถใฟโธซณภฐฒศ่้ิีัุู็์ืึๆ",
}
"""Non-ASCII letters of languages, by the single-byte encodings of the languages. Languages are separated by spaces.
Letters and encodings are sorted by frequency, most frequent first."""
ASIAN = {
    "gb18030": "[\ue000-\uf8ff]",
    "euc_kr": "[\u4e00-\u9fff]",
    "uhc": "[\u4e00-\u9fff]",
    "cp932": "[\uff61-\uff9f]",
    "big5": "(?!)",
    "euc_jp": "[\uff61-\uff9f]",
}
"""Double-byte encodings, with a pattern of characters that are rare in texts of their languages."""
MAX_DAMAGE = 0.05
"""Maximum share of broken characters in a double-byte encoding. In a text of more than `MIN_CHARACTERS`, one broken
character is always accepted."""
MIN_CHARACTERS = 3
RARE = 0.9
"""Weight of the score of an encoding that is not the most frequent encoding of its letters."""
MIN_SCORE = 0.75
"""Minimum score of a text in a single-byte encoding."""
MARKS_OF_TEXT = "“”„‘’‹›«»–—…•· \u00ad¡¿"  # noqa: RUF001
SIGNS = re.compile(
    r"[€£¥¢$°²³¹§ªº©®™×÷±¼½¾¶†‡‰]{1,3}|[a-zA-Z]{1,3}[²³¹ªº°®™©]|[a-zA-Z]+[a-z][®™©]|°[CFK]|µ[a-zA-Z]{0,2}|[€£¥](?:[kmKM]|bn|m)|(?:US|[A-Z])£"  # noqa: RUF001
)
"""Signs, alone or next to the letters that they occur with."""
_WORDS = re.compile(rf"[^\x00-\x40\[-`{{-\x7f{MARKS_OF_TEXT}]+")
_NO_BREAK = re.compile(rb"(?i)(?<![\x80-\xff])\xa0+(?![a-z\x80-\xff])|(?<![a-z\x80-\xff])\xa0+")
"""No-break spaces of Windows encodings, except inside words and after non-ASCII letters. The byte is a letter or sign
in other encodings."""
_STRANGE = re.compile("õ(?=[rlz])|œ[wkmr]|ç[bcdfghjklmnprstvz]")
"""Letters of Windows-1252 that suggest Hungarian or Polish in Windows-1250, or Latvian in Windows-1257."""


def guess(sample: bytes) -> str | None:
    """Guess the text encoding of bytes, or return None if the bytes are text in no known encoding.

    UTF-8 is tried first, and accepted even if some characters are broken. The single-byte encoding with the best score
    is next (Windows-1252 on a tie), then the double-byte encodings.

    Args:
        sample: lines of the file with non-ASCII bytes.
    """
    text = sample.decode("utf-8", "replace")
    damage = text.count("\ufffd") - sample.count(REPLACEMENT)
    if sum(not letter.isascii() for letter in text) >= 3 * damage:
        return "utf-8"
    sample = _NO_BREAK.sub(b" ", sample)
    scores = {
        name: _score(sample, name, alphabets.split()) * (1 if names.startswith(name) else RARE)
        for names, alphabets in ALPHABETS.items()
        for name in names.split()
    }
    # On a tie, max returns the first encoding, which is the most frequent one.
    winner = max(scores, key=scores.__getitem__)
    if scores[winner] >= MIN_SCORE:
        return winner
    return min(filter(None, map(partial(_judge_asian, sample), ASIAN)), default=(0, 0, None))[-1]


def _judge_asian(sample: bytes, encoding: str) -> tuple[float, float, str | None] | None:
    """Score how unlikely it is that bytes are text in a double-byte encoding.

    Returns:
        A tuple that ends with the encoding and sorts the most likely encoding first. None if too many characters are
        broken.
    """
    from charset_normalizer import from_bytes

    text = sample.decode(encoding, "replace")
    damage, size = text.count("\ufffd"), sum(not letter.isascii() for letter in text)
    if damage > max(MAX_DAMAGE * size, size > MIN_CHARACTERS):
        return None
    content = text.replace("\ufffd", "").encode(encoding, "ignore")
    match = from_bytes(content, cp_isolation=[encoding], preemptive_behaviour=False).best()
    rare = len(re.findall(ASIAN[encoding], text))
    return (match.chaos + (damage + rare) / size, -match.coherence, encoding) if match else None


def _score(sample: bytes, encoding: str, alphabets: list[str]) -> float:
    """Score from 0 to 1 how plausible the non-ASCII words of a text are if its bytes have this encoding.

    Args:
        sample: bytes of the text.
        encoding: a single-byte encoding.
        alphabets: non-ASCII letters of each language of the encoding. The language with the best score counts.
    """
    # Kana of cp932 are low quotation marks with letters in cp1252, where such a mark only starts a word.
    candidates = (word.lstrip("\u201a") for word in _WORDS.findall(sample.decode(encoding, "replace")))
    words = [word for word in candidates if not word.isascii()]
    scores = (sum(_judge(word, letters) for word in words) for letters in alphabets)
    return max(scores) / len(words) if words else 1.0


@lru_cache(maxsize=1 << 14)
def _judge(word: str, letters: str) -> float:
    """Score from 0 to 1 how plausible a word is in a language with these non-ASCII letters."""
    if SIGNS.fullmatch(word):
        return 1.0
    non_ascii = [letter for letter in word.lower() if not letter.isascii()]
    has_case = word in (word.lower(), word.upper(), word.capitalize())
    is_latin = letters[0] < "\u0250"
    is_strange = _STRANGE.search(word.lower()) if is_latin else len(non_ascii) < len(word)
    if is_strange or not has_case or not {*letters}.issuperset(non_ascii):
        return 0.0
    # Letters of many languages at once score less than letters of one. Icelandic scores less than Turkish.
    if is_latin:
        return 0.8 if len(letters) > 40 else 0.95 if "þ" in letters else 1.0
    share = sum(letter in letters[:FREQUENT_LETTERS] for letter in non_ascii) / len(non_ascii)
    return (0.6 + 0.4 * share) * (0.85 if word.isupper() else 1)


REPLACEMENT = "\ufffd".encode()
SAMPLE, SAMPLE_LINES = 1 << 16, 300
"""Maximum size in bytes and maximum number of lines of the sample from which an encoding is guessed."""
BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""Encodings by byte order mark."""
CONTROL = bytes({*range(32), 127} - {*b"\t\n\r\f\v\x0e\x0f\x1b"})
FEW, MAX_CONTROL = 3, 0.02
"""Maximum number and maximum share of control characters in text. The larger limit applies."""
HINT = "write text_encoding=NAME"


class Text(NamedTuple):
    """The decoded content of a text file, and how it was decoded.

    Args:
        content: the decoded text.
        encoding: name of the encoding.
        notes: notes for the user, as sentences.
    """

    content: str
    encoding: str
    notes: list[str]


def known_encoding(name: str) -> str:
    """Return the name under which Python knows a text encoding, such as "cp1252" for "Windows-1252".

    Raises:
        ConfigError: Python has no text encoding of this name.
    """
    with suppress(LookupError, ValueError):
        "".encode(name)
        if not name.lower().replace("-", "_").endswith(("escape", "punycode", "idna")):
            return codecs.lookup(name).name
    hint = "Use one that Python knows, such as utf-8, utf-16, cp1252, cp1251, koi8-r, shift_jis, gb18030 or big5"
    raise ConfigError(f"unknown encoding {name!r}", where="text_encoding", remedy=hint)


def read_text(path: Path, encoding: str | None = None) -> Text:
    """Read a text file. A byte order mark takes precedence over `encoding`.

    Args:
        path: path of the file.
        encoding: encoding of the file. None: guess it from the bytes.

    Raises:
        DataError: the file is not text, is not in `encoding`, or its encoding cannot be guessed.
    """
    data = path.read_bytes()
    sample = b"".join(islice((line for line in BytesIO(data) if not line.isascii()), SAMPLE_LINES))
    # The sample must not end inside a character, so it ends after a line.
    if len(sample) > SAMPLE:
        sample = sample[:SAMPLE].rpartition(b"\n")[0] or sample[:SAMPLE]
    start = data[:SAMPLE]
    marked = next((name for mark, name in BYTE_ORDER_MARKS.items() if start.startswith(mark)), None)
    controls = sum(start.rstrip(b"\0").count(bytes([sign])) for sign in CONTROL)
    if not (marked or encoding) and controls > max(FEW, MAX_CONTROL * len(start)):
        raise DataError("this is not text", where=str(path), remedy="Save it as CSV (UTF-8) or .xlsx")
    name = marked or encoding or ("iso2022_jp" if b"\x1b$B" in start else guess(sample))
    if name is None:
        raise DataError("its text encoding is unknown", where=str(path), remedy=f"Save it as UTF-8, or {HINT}")
    try:
        content = data.decode(name, "strict" if encoding and not marked else "replace")
    except UnicodeError as error:
        hint = f"Save it as UTF-8, or {HINT}"
        raise DataError(f"it is not in {name.upper()}", where=str(path), remedy=hint) from error
    text = Text(content, name, [])
    if name != encoding and not name.startswith("utf-8"):
        text.notes.append(f"The file is not in UTF-8; it was read as {name}; if letters look wrong, {HINT}.")
    unknown = content.count("\ufffd") - (data.count(REPLACEMENT) if name.startswith("utf-8") else 0)
    if unknown:
        text.notes.append(f"{count_noun(unknown, 'place')} in the file cannot be read as {name}: shown as \ufffd.")
    return text
