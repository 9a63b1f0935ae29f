# ruff: noqa: RUF001 - letters of other alphabets
"""Words next to numbers, and the decimal marks of languages.

The words are currencies, magnitudes, units, months and ordinals.
"""

from __future__ import annotations

_CURRENCIES = """
USD EUR GBP JPY CHF CAD AUD NZD CNY RMB HKD SGD TWD KRW INR PKR LKR BDT NPR IDR MYR THB PHP VND SEK NOK DKK ISK PLN CZK
HUF RON BGN RSD UAH RUB TRY ILS AED SAR QAR KWD EGP ZAR NGN KES GHS MAD BRL ARS CLP COP MXN PEN UYU DEM FRF ITL usd eur
gbp jpy chf cad aud inr sek nok dkk Rs. Rs kr. kr Kr. Kr KR zł Kč Ft lei лв. лв руб. руб р. рублей Fr. SFr. SFr sFr. sFr
Rp. Rp RM TL R S/ S/. Dh Dhs euros d'euros dollars pesos rupees rubles yen yuan บาท
"""
CURRENCIES = frozenset([*"$€£¥₹₽₩₺₴₦₫₱฿₪₡₲₵₸₼₾₭₮₨₿¢円元圓원", *_CURRENCIES.split()])
"""Signs, codes and words of currencies, except Euro, because Euro 1996 is a competition."""
_PAIRS = "$USD $CAD $AUD $NZD $HKD $SGD $TWD $MXN $CLP $COP $ARS EUR€ GBP£ CNY¥ JPY¥ INR₹"
SIGNED_CODES = frozenset(_PAIRS.split())
"""Sign and code of the same currency, joined in sorted order, for cells such as $5 USD."""

_LETTERS = {3: "k K", 5: "L", 6: "m M MM mi", 7: "cr Cr", 9: "b B bi Md", 12: "t T"}
SHORT_MAGNITUDES = {letters: power for power, words in _LETTERS.items() for letters in words.split()}
"""Powers of ten by letters that denote a magnitude only next to a currency: 200 m means meters."""
_MAGNITUDES = {
    2: "hundred hundreds 百",
    3: """thousand thousands tsd tsd. tausend тыс тыс. тысяч tys tys. tis tis. tusen mille mila bin ribu nghìn 千 천 k$
    t€ teur keur""",
    4: "万 萬 만",
    5: "lakh lakhs lac lacs",
    6: """million millions mio mio. mill. mln mln. mn millionen millón millones milhão milhões milioni milione miljoen
    miljon miljoner milyon juta triệu milionů miliony milionów млн млн. миллион миллиона миллионов 百万 백만 m$ meur
    msek mkr""",
    7: "crore crores 千万",
    8: "億 亿 억",
    9: """billion billions bn bn. bln milliard milliards milliarden mrd mrd. mld mld. mds miljard miljarder milyar
    bilhão bilhões miliardi miliardo miliard miliardy miliardů miliardów tỷ miliar млрд млрд. миллиард миллиарда
    миллиардов""",
    12: "trillion trillions tn trn 兆 조",
}
MAGNITUDES = {word: power for power, words in _MAGNITUDES.items() for word in words.split()}
"""Powers of ten by magnitude word, in lower case."""

_UNITS = """
% ‰ pp bp pt km m cm mm µm nm mi ft in yd nmi km² m² cm² mm² km2 m2 m³ cm³ m3 cc ha ac acre sqm kg g
mg t lb oz l L ml cl hl gal bbl s sec ms min h hr hour day week month year yr second minute km/h mph kph kn kt m/s °
°C °F C F W kW MW GW Wh kWh MWh GWh TWh V kV A mA Hz kHz MHz GHz kB KB MB GB TB kbit/s Mbit/s Mbps Gbps px J kJ MJ cal
kcal hp bhp PS Nm N kN Pa hPa kPa MPa bar psi dB bpm rpm ppm people person x
"""
KNOWN_UNITS = frozenset(_UNITS.split())
"""Singular units that are recognized regardless of the other cells of the column."""

_MONTHS = """
january february march april may june july august september october november december
jan feb mar apr may jun jul aug sep oct nov dec
jan feb mär apr mai jun jul aug sept okt nov dez
januar februar märz april mai juni juli august september oktober november dezember
janvier février mars avril mai juin juillet août septembre octobre novembre décembre
enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro
gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre
januari februari maart april mei juni juli augustus september oktober november december
"""
MONTHS = {name: month for names in _MONTHS.split("\n") for month, name in enumerate(names.split(), 1)}
"""Number of the month (from 1) by its name in seven languages, in lower case."""
ORDINALS = ("st", "nd", "rd", "th", "er", "re", "e", "ème", "º", "ª")
"""Suffixes of ordinals, which can be sorted but not added."""
_OPEN = "cr dr s h soll haben mil mil. bis to or and plus am pm a.m. p.m. uhr bc ad bce ce b.c. 年 月 日 時 年度 回"
_DAYS = "mon tue wed thu fri sat sun"
NO_UNITS = frozenset([*_OPEN.split(), *_DAYS.split(), *MONTHS, *ORDINALS])
"""Lower-case words after a number that are not units: parts of a date or time, bounds, and words that leave the number
ambiguous (credit or debit, thousand or million)."""

_POINT = "am ar bn cy en fa fil ga gu he hi ja kn ko ml mn mr ms mt my ne pa si sw ta te th ur yi yo zh zu"
POINT_LANGUAGES = frozenset(_POINT.split())
"""Languages whose decimal mark is a point."""
_UNLIKE = "de_CH de_LI fr_CH it_CH es_MX es_US es_GT es_HN es_NI es_PA es_PE es_SV es_DO es_PR en_ZA"
LOCALES_UNLIKE_LANGUAGE = frozenset(_UNLIKE.split())
"""Locales whose decimal mark differs from that of their language."""
