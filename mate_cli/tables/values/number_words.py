# ruff: noqa: RUF001 - letters of other alphabets
"""Words beside numbers: currencies, magnitudes, units, months, and how languages write decimals."""

from __future__ import annotations

CURRENCY_SIGNS = "$€£¥₹₽₩₺₴₦₫₱฿₪₡₲₵₸₼₾₭₮₨₿¢円元圓원"
_CODES = """
USD EUR GBP JPY CHF CAD AUD NZD CNY RMB HKD SGD TWD KRW INR PKR LKR BDT NPR IDR MYR THB PHP VND SEK NOK DKK ISK PLN CZK
HUF RON BGN RSD HRK UAH RUB TRY ILS AED SAR QAR KWD EGP ZAR NGN KES GHS MAD BRL ARS CLP COP MXN PEN UYU DEM FRF ITL ESP
NLG ATS BEF FIM PTE GRD IEP usd eur gbp jpy chf cad aud inr sek nok dkk pln czk
"""
_NAMES = """
Rs. Rs kr. kr Kr. Kr KR zł Kč Ft lei лв. лв руб. руб р. Fr. SFr. SFr sFr. sFr Rp. Rp RM TL R S/ S/. Dh Dhs
"""
_WORDS = "euro euros d'euros dollar dollars pesos rupees rubles yen yuan рублей บาท"
CURRENCY_WORDS = frozenset(_WORDS.split())
"""Currencies by words, in lower case, which stand before no bare integer: Euro 1996 is a competition."""
CURRENCIES = frozenset([*CURRENCY_SIGNS, *_CODES.split(), *_NAMES.split()])
_PAIRS = "$USD $CAD $AUD $NZD $HKD $SGD $TWD $MXN $CLP $COP $ARS $UYU €EUR £GBP £EGP ¥JPY ¥CNY ¥RMB ₹INR"
SIGNED_CODES = frozenset(_PAIRS.split())
"""Signs and codes of the same currency, as in $5 USD."""

_SHORT = {3: "k K", 5: "L", 6: "m M MM mi", 7: "cr Cr", 9: "b B bi Md", 12: "t T"}
SHORT_MAGNITUDES = {letters: power for power, words in _SHORT.items() for letters in words.split()}
"""Powers of ten by letters that are a magnitude beside a currency only: 200 m is metres."""
PREFIXED_MAGNITUDES = {"T": "tsd", "t": "tsd"}
"""Letters that mean something else right before a currency: TEUR are thousands."""
_MAGNITUDES = {
    2: "hundred hundreds 百",
    3: "thousand thousands tsd tsd. tausend тыс тыс. тысяч tys tys. tis tis. tusen mille mila bin ribu nghìn 千 천",
    4: "万 萬 만",
    5: "lakh lakhs lac lacs",
    6: """million millions mio mio. mill. mln mln. mn millionen millones milhões milhão milioni milione miljoen miljon
    miljoner milyon juta triệu milionů miliony milionów млн млн. миллион миллиона миллионов 百万 백만""",
    7: "crore crores 千万",
    8: "億 亿 억",
    9: """billion billions bn bn. bln milliard milliards milliarden mrd mrd. mld mld. mds miljard miljarder milyar
    miliar bilhão bilhões miliardi miliardo miliard miliardy miliardów tỷ млрд млрд. миллиард миллиарда миллиардов""",
    12: "trillion trillions tn trn 兆 조",
}
MAGNITUDES = {word: power for power, words in _MAGNITUDES.items() for word in words.split()}
"""Power of ten by word, in lower case."""

ORDINALS = ("st", "nd", "rd", "th", "er", "re", "e", "ème", "º", "ª")
"""Letters behind the number of a place, which can be put in order but not added."""
UNIT_NAMES = dict.fromkeys(("percent", "per cent", "pct", "pct.", "Prozent", "procent"), "%")
"""Other names of units."""
_UNITS = """
% ‰ pp bp bps pts pt km m cm mm µm nm mi ft in yd nmi km² m² cm² mm² km2 m2 m³ cm³ m3 cc ha ac acre acres sqm kg g mg t
lb lbs oz l L ml cl hl gal bbl s sec secs ms min mins h hr hrs hour hours day days week weeks month months year years yr
yrs second seconds minute minutes km/h mph kph kn kt m/s ° °C °F C F K W kW MW GW Wh kWh MWh GWh TWh V kV A mA Hz kHz
MHz GHz B kB KB MB GB TB kbit/s Mbit/s Mbps Gbps px J kJ MJ cal kcal hp bhp PS Nm N kN Pa hPa kPa MPa bar psi dB bpm rpm
ppm people persons x
"""
KNOWN_UNITS = frozenset(_UNITS.split())
"""Units that count whatever stands in the other cells of a column."""
_OPEN = "CR DR Cr Dr cr dr S H Soll Haben mil mil. bis to or and plus"
NO_UNITS = frozenset(_OPEN.split())
"""Words behind a number that leave open which number it is: credit or debit, thousand or million, bounds."""

_MONTHS = """
january januar janvier enero janeiro gennaio januari stycznia ledna января ocak jan
february februar février febrero fevereiro febbraio februari lutego února февраля şubat feb
march märz mars marzo março maart marts marca března марта mart mar mär
april avril abril aprile kwietnia dubna апреля nisan apr
may mai mayo maio maggio mei maj maja května мая mayıs
june juni juin junio junho giugno czerwca června июня haziran jun
july juli juillet julio julho luglio lipca července июля temmuz jul
august août agosto augustus augusti sierpnia srpna августа ağustos aug
september septembre septiembre setembro settembre września září сентября eylül sep sept
october oktober octobre octubre outubro ottobre października října октября ekim oct okt
november novembre noviembre novembro listopada listopadu ноября kasım nov
december dezember décembre diciembre dezembro dicembre desember grudnia prosince декабря aralık dec dez
"""
MONTHS = {name: place for place, names in enumerate(_MONTHS.split("\n")) for name in names.split()}
"""Month of the year by its name in many languages, in lower case."""
_OTHERS = "am pm a.m. p.m. uhr bc ad bce ce b.c. mon tue wed thu fri sat sun 年 月 日 時 年度 回"
DATE_WORDS = frozenset([*MONTHS, *_OTHERS.split()])
"""Words after a number, in lower case, that make it a part of a date or a time."""

_COMMA = """
af az be bg bs ca cs da de el es et eu fi fo fr gl hr hu hy id is it ka kk lt lv mk nb nl nn no pl pt ro ru sk sl sq sr
sv tr uk uz vi
"""
COMMA_LANGUAGES = frozenset(_COMMA.split())
"""Languages that write decimals with a comma."""
_UNLIKE = "de_CH de_LI fr_CH it_CH es_MX es_US es_GT es_HN es_NI es_PA es_PE es_SV es_DO es_PR en_ZA"
LOCALES_UNLIKE_LANGUAGE = frozenset(_UNLIKE.split())
"""Locales that do not write decimals as their language does elsewhere."""
