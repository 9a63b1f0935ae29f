"""Which of the encodings before Unicode a text is in: the one in which it reads as words of some language.

Of 150 small tables (8 to 40 lines of words and numbers, in eleven encodings) charset-normalizer, whose frequencies of
letters these are, reads 126 as they were written; this reads all.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain

from charset_normalizer.constant import FREQUENCIES

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
    """Whether the words with letters beyond ASCII in a text are of one alphabet each, with its usual letters."""
    judges = [_alphabetic(letters) for letters in dict.fromkeys(chain(*ALPHABETS.values()))]
    return all(
        unit in SIGNS or any(judge(unit) for judge in judges) or _is_of_one_script(unit) for unit in _units(text)
    )


def _is_of_one_script(word: str) -> bool:
    """Whether a word of three letters or more is of one script that no older encoding here has."""
    return len(word) > 2 and len({unicodedata.name(letter, " ").split()[0] for letter in word}) == 1


def first_word(text: str) -> str:
    """The first word with letters beyond ASCII."""
    return next(_units(text), "")


def _units(text: str) -> Iterator[str]:
    return (found[0] for found in _UNITS.finditer(text) if not found[0].isascii())


def _natural(sample: bytes, encoding: str) -> float:
    """How natural the words with letters beyond ASCII are in an encoding, in the language that fits best."""
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
