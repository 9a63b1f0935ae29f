"""Encoding of the text of a file, from its bytes, and the check that it is text at all."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TextIO

from charset_normalizer.constant import FREQUENCIES

from mate_cli.errors import ConfigError, DataError
from mate_cli.tables.formats.grid import count_noun

COMMON = 14
"""So many letters of an alphabet are common; all letters that a language adds to the Latin ones are."""
WESTERN = ("éèàçêâîôûùëïœæÿü", "äöüßéàè", "áéíóúñüç", "ãçáéíóúõâêàô", "àèéìòùóí", "åäöæøéü", "áðéíóúýþæö", "ëéïöüèó")
CENTRAL = ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîşţșț", "čšž", "äöüß")
TURKISH = ("çğıi\u0307öşüâî",)  # noqa: RUF001
CYRILLIC = (
    "оеаинтсрвлкмдпугяызбйьчхжцшющэфъё",
    "оаніирвтесклудмпзяьбгйчхцїжєюшщґф",
    "аиоентрсвлкдпмзгяъубчцйжщхюшьф",
    "аиоенрсуткјвдмплгзбчшљћжђцњхџф",
)
GREEK = ("ατοιενρσκηπςυμλίόάγέδήωχθύώβφξζψϊϋΐΰ",)
HEBREW = ("יוהלרבתמאשנעםדקחפסכגטצןזךףץ",)
ARABIC = ("اليمونرتبةعدسفهكقأحجشطصىخإذضظغثءؤئآـ",)
ALPHABETS: dict[str, tuple[str, ...]] = {
    "cp1252": WESTERN,
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
    "mac-roman": WESTERN,
    "cp850": WESTERN,
}
"""The letters beyond ASCII of the languages that are written in an encoding, the commonest first."""
KANA = "".join(map(chr, (*range(0x3041, 0x3097), *range(0x30A1, 0x30FD))))
OFTEN = {
    "ja": KANA
    + "".join(FREQUENCIES["Japanese"])
    + "県市区町村府都道京阪神州価格数量売上総計合商品番号住所電話氏性別期間株式社課員",
    "zh": "".join(FREQUENCIES["Chinese"])
    + "姓名字城市省区县价格数量总计合产品销售电话编号性别收入日期间公司北京海广州深圳山东江苏浙河南湖四川西安武汉重庆"
    "月元万亿男女职业历史文明类型单位金额苹果香蕉学校班级考试成绩语数英电视",
    "tw": "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子得下自之年過發後作里用道行所然家"
    "姓名字城市縣區價格數量總計合產品銷售電話編號性別收入日期間公司台臺北高雄南灣新竹月元萬億男女單位金額蘋果香蕉學校視",
    "ko": "".join(FREQUENCIES["Korean"])
    + "가나라마바사아자구국군기남녀동명목번부북산생서성수시업역연영원월위유을읍인일자장전제조주중지천총"
    "판평품학한합해호화회름이격량과교금단당대댁데도매면모무문물미반방별보비상선설세소식신실여용울은점정종직진청체출코타통투트파표프하행형후",
}
LEVEL_ONE: dict[str, tuple[str, str, range, range]] = {
    "gb18030": ("zh", "gb2312", range(0xB0, 0xD8), range(0xA1, 0xFF)),
    "big5": ("tw", "big5", range(0xA4, 0xC7), range(0x40, 0xFF)),
    "euc-kr": ("ko", "euc_kr", range(0xB0, 0xC9), range(0xA1, 0xFF)),
    "cp932": ("ja", "cp932", range(0x88, 0x99), range(0x40, 0xFD)),
    "euc-jp": ("ja", "euc_jp", range(0xB0, 0xD0), range(0xA1, 0xFF)),
}
"""Of an encoding with two bytes for a letter: its language, and the bytes of its usual letters."""
SIGNS = frozenset("“”„‘’‚–—…•·€£°²³«»№§¿¡ªº©®™×±½¼¾ \u00ad・、。，：；？！（）「」『』【】《》％～／＋－〜　،؛؟")  # noqa: RUF001
_UNITS, _RUNS = re.compile(r"[^\W\d_]+|[^\x00-\x7f]"), re.compile(r"[^\x00-\x7f]+")


def guess(sample: bytes) -> tuple[str, float]:
    """Find the likeliest encoding of a text that is not in Unicode.

    Args:
        sample: lines that have letters beyond ASCII; the last one may be cut.

    Returns:
        Python's name of the encoding, and how natural the text is in it, from 0 to 1.
    """
    scores = {name: _natural(sample, name) for name in (*ALPHABETS, *LEVEL_ONE)}
    best = max(scores, key=scores.__getitem__)  # the first of equals, which is the commonest
    return best, scores[best]


def natural_as_unicode(text: str) -> bool:
    """Tell whether the words with letters beyond ASCII in a text are of one alphabet each, with its usual letters."""
    judges = [_alphabetic(letters) for letters in dict.fromkeys(chain(*ALPHABETS.values()))]
    return all(
        unit in SIGNS or any(judge(unit) for judge in judges) or _is_of_one_script(unit) for unit in _units(text)
    )


def _is_of_one_script(word: str) -> bool:
    """Tell whether a word of three letters or more is of one script that no older encoding here has."""
    return len(word) > 2 and len({unicodedata.name(letter, " ").split()[0] for letter in word}) == 1


def first_word(text: str) -> str:
    """Return the first word with letters beyond ASCII."""
    return next(_units(text), "")


def _units(text: str) -> Iterator[str]:
    return (found[0] for found in _UNITS.finditer(text) if not found[0].isascii())


def _natural(sample: bytes, encoding: str) -> float:
    """Score how natural the words with letters beyond ASCII are in an encoding, in the language that fits best."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return 0.0
    units = list(_units(text))
    judges = _judges(encoding)
    return max(sum(map(judge, units)) / max(len(units), 1) for judge in judges)


@cache
def _judges(encoding: str) -> list[Callable[[str], float]]:
    if encoding in LEVEL_ONE:
        return [_asian(encoding)]
    return [_alphabetic(letters) for letters in ALPHABETS[encoding]]


def _asian(encoding: str) -> Callable[[str], float]:
    language, codec, first, second = LEVEL_ONE[encoding]
    pairs = (bytes((high, low)).decode(codec, errors="ignore") for high in first for low in second)
    known, often = frozenset("".join(pairs)), frozenset(OFTEN[language])

    def judge(unit: str) -> float:
        letters = [letter for letter in unit if not letter.isascii()]
        shares = (1.0 if one in often or one in SIGNS else 0.7 if one in known else 0.1 for one in letters)
        return sum(shares) / len(letters)

    return judge


def _alphabetic(letters: str) -> Callable[[str], float]:
    alphabet, is_latin = frozenset(letters), ord(letters[0]) < 0x250
    common = alphabet if is_latin else frozenset(letters[:COMMON])

    def judge(unit: str) -> float:
        if unit in SIGNS:
            return 0.9
        added = [letter for letter in unit.lower() if not letter.isascii()]
        if not alphabet.issuperset(added) or not _has_natural_case(unit):
            return 0.0
        if is_latin and (len(added) == len(unit) > 1 or max(map(len, _RUNS.findall(unit)), default=0) > 3):
            return 0.0
        if not is_latin and len(added) < len(unit):
            return 0.0
        share = sum(letter in common for letter in added) / len(added)
        return (0.6 + 0.4 * share) * (0.9 if len(unit) > 1 and unit.isupper() else 1.0)

    return judge


def _has_natural_case(word: str) -> bool:
    return word in (word.lower(), word.upper(), word[0] + word[1:].lower())


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
MAX_CONTROL = 0.02
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
    marked = marked or _unmarked_utf16(start)
    if marked:
        said = [] if marked == "utf-8-sig" else [f"The file is in {marked.upper()}."]
        return Text(path, marked, notes=said + _what_is_broken(path, marked))
    if sum(byte in CONTROL for byte in start) > MAX_CONTROL * len(start):
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
    return [f"{count_noun(count, 'place')} in the file cannot be read as {encoding}: replaced by \ufffd."]


def _of_ascii(start: bytes) -> tuple[str, str, list[str]]:
    """Guess UTF-8, unless what begins a file switches to other letters, or might be UTF-7, in letters of ASCII."""
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
    """Warn of the few letters of a text that is UTF-8, but no words in it, as those of another encoding are."""
    sample = b"\n".join(line for line in start.splitlines() if not line.isascii())
    text = sample.decode("utf-8", errors="ignore")
    letters = [letter for letter in text if not letter.isascii()]
    if len(letters) > FEW or max(letters, default="") > "\u07ff" or natural_as_unicode(text):
        return []
    name, natural = guess(sample)
    if natural < LIKELY:
        return []
    is_word, meant = first_word(text), first_word(sample.decode(name, errors="replace"))
    return [f"{is_word} may be UTF-8 by chance; if it should be {meant}, write text_encoding={name}."]


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
    """Return the lines with letters beyond ASCII, from that of a place on."""
    start = max(0, place - SAMPLE)
    with path.open("rb") as file:
        file.seek(start)
        before, after = file.read(place - start), file.read(4 * SAMPLE)
    line = before[max(before.rfind(b"\n"), before.rfind(b"\r")) + 1 :]
    return b"\n".join(one for one in (line + after).splitlines() if not one.isascii())[:SAMPLE]
