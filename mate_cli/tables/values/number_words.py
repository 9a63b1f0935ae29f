# ruff: noqa: RUF001 - letters of other alphabets
"""Words beside numbers: currencies, magnitudes, units, and how languages write decimals."""

from __future__ import annotations

CURRENCY_SIGNS = "$€£¥₹₽₩₺₴₦₫₱฿₪₡₲₵₸₼₾₭₮₨₿¢"
_CODES = """
USD EUR GBP JPY CHF CAD AUD NZD CNY RMB HKD SGD TWD KRW INR PKR LKR BDT NPR IDR MYR THB PHP VND SEK NOK DKK ISK PLN CZK
HUF RON BGN RSD HRK UAH RUB TRY ILS AED SAR QAR KWD EGP ZAR NGN KES GHS MAD BRL ARS CLP COP MXN PEN UYU DEM FRF ITL ESP
NLG ATS BEF FIM PTE GRD IEP
"""
_NAMES = """
Rs. Rs kr. kr Kr. Kr zł Kč Ft lei лв. лв руб. руб р. Fr. SFr. SFr Euro Euros euro euros dollars Dollar Rp. Rp RM
"""
CURRENCIES = frozenset([*CURRENCY_SIGNS, *_CODES.split(), *_NAMES.split()])

SHORT_MAGNITUDES = {"k": 3, "K": 3, "m": 6, "M": 6, "b": 9, "B": 9, "t": 12, "T": 12}
"""Powers of ten by letters that are a magnitude beside a currency only: 200 m is metres."""
_MAGNITUDES = {
    2: "hundred hundreds",
    3: "thousand thousands tsd tsd. tausend тыс тыс.",
    5: "lakh lakhs lac lacs",
    6: "million millions mio mio. mill. mln mln. mn millionen millones milhões milioni miljoen млн млн.",
    7: "crore crores",
    9: "billion billions bn bn. bln milliard milliards milliarden mrd mrd. mld mld. miljard млрд млрд.",
    12: "trillion trillions tn trn",
}
MAGNITUDES = {word: power for power, words in _MAGNITUDES.items() for word in words.split()}
"""Power of ten by word, in lower case."""

_UNITS = """
% ‰ pp bp bps pts pt st nd rd th
km m cm mm µm nm mi ft in yd nmi km² m² cm² mm² km2 m2 m³ cm³ m3 ha ac acre acres sqm kg g mg t lb lbs oz l L ml cl hl
gal bbl s sec secs ms min mins h hr hrs hour hours day days week weeks month months year years yr yrs second seconds
minute minutes km/h mph kph kn kt m/s ° °C °F C F K W kW MW GW Wh kWh MWh GWh TWh V kV A mA Hz kHz MHz GHz B kB KB MB GB
TB kbit/s Mbit/s Mbps Gbps px J kJ MJ cal kcal hp bhp PS Nm N kN Pa hPa kPa MPa bar psi dB bpm rpm ppm people persons
"""
KNOWN_UNITS = frozenset(_UNITS.split())
"""Units that count whatever stands in the other cells of a column."""

_MONTHS = "january february march april may june july august september october november december"
MONTHS = tuple(_MONTHS.split())
_ERAS = "sept am pm a.m. p.m. uhr bc ad bce ce b.c."
DATE_WORDS = frozenset([*MONTHS, *(month[:3] for month in MONTHS), *_ERAS.split()])
"""Words after a number, in lower case, that make it a part of a date or a time."""

_COMMA = """
af az be bg bs ca cs da de el es et eu fi fo fr gl hr hu hy id is it ka kk lt lv mk nb nl nn no pl pt ro ru sk sl sq sr
sv tr uk uz vi
"""
COMMA_LANGUAGES = frozenset(_COMMA.split())
"""Languages that write decimals with a comma."""
_POINT = "de_CH de_LI fr_CH it_CH es_MX es_US es_GT es_HN es_NI es_PA es_PE es_SV es_DO es_PR"
POINT_LOCALES = frozenset(_POINT.split())
"""Locales of these languages that do not."""
COMMA_LOCALES = frozenset(["en_ZA"])
