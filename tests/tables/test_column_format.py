"""Numbers and dates in columns as people write them, decided by the whole column and table."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mate_cli.errors import ConfigError
from mate_cli.tables.denotation import compute, find_units
from mate_cli.tables.formats.cell_text import NumberText
from mate_cli.tables.read import open_table, read_table
from mate_cli.tables.read_options import ReadOptions, read_decimal
from mate_cli.tables.table import Table
from mate_cli.tables.values.column_evidence import collect_evidence
from mate_cli.tables.values.column_format import find_formats, format_of

CASES = Path(__file__).with_name("cases")
EXTREMES = sorted((CASES / "26_row_choice_reads_fewer_numbers").iterdir())


def numbers(*texts):
    return [format_of(texts).read_number(text) for text in texts]


def total(path, column=-1):
    table, _ = read_table(path)
    cells = tuple((row, column % len(table.header)) for row in range(len(table.rows)))
    return compute("sum", cells, table)


@pytest.mark.parametrize(
    ("file", "right"),
    [
        ("01_minus_and_parentheses/accounting.csv", 765.5),
        ("01_minus_and_parentheses/trailing_minus.csv", 150),
        ("01_minus_and_parentheses/unicode_minus.csv", 6),
        ("02_one_cell_makes_decimal_commas/attendance.csv", None),
        ("02_one_cell_makes_decimal_commas/notes.csv", None),
        ("02_one_cell_makes_decimal_commas/places.csv", None),
        ("03_points_as_thousands_beside_decimal_commas/umsatz.csv", 4334),
        ("04_decimal_comma_with_unit/laenge.csv", 16.4),
        ("04_decimal_comma_with_unit/preis.csv", 16.49),
        ("05_spaces_apostrophes_lakhs/french.csv", 13500.5),
        ("05_spaces_apostrophes_lakhs/rupee.csv", 1358023.5),
        ("05_spaces_apostrophes_lakhs/space.csv", 2184),
        ("06_magnitudes/mixed.csv", 2150000),
        ("06_magnitudes/words.csv", 4250000),
        ("07_float32_beside_units/km.csv", 123456790),
        ("08_dates_versions_lists_as_numbers/dates.csv", None),
        ("08_dates_versions_lists_as_numbers/lists.csv", None),
        ("08_dates_versions_lists_as_numbers/words.csv", None),
        ("08_dates_versions_lists_as_numbers/fractions.csv", 5),
        ("08_dates_versions_lists_as_numbers/excel_error.csv", None),
    ],
)
def test_the_sum_of_a_column_is_what_its_writer_meant(file, right):
    assert total(CASES / file) == right


@pytest.mark.parametrize("file", sorted(CASES.glob("0[1-8]*/*.csv")), ids=lambda file: file.stem)
def test_texts_are_never_rewritten(file):
    text = file.read_text(encoding="utf-8")
    lines = list(csv.reader(text.splitlines(), delimiter=";" if ";" in text else ","))
    assert [list(row) for row in open_table(file)] == lines[1:]


@pytest.mark.parametrize("file", EXTREMES, ids=lambda file: file.stem)
def test_the_extreme_of_a_column_is_found(file):
    table = open_table(file)
    values = [table.formats[1].read_sortable(row[1]) for row in table]
    known = {value: row for row, value in enumerate(values) if math.isfinite(value)}
    assert known[min(known) if "min" in file.stem else max(known)] == 500


def test_a_frame_of_texts_is_read_like_a_file():
    import pandas

    table = Table.from_pandas(pandas.DataFrame({"Preis": ["1.234,56", "€ 1.204,50", "12,50"], "x": [1.204, 2.5, 7.0]}))
    assert compute("sum", ((0, 0), (1, 0), (2, 0)), table) == 2451.56
    assert compute("sum", ((0, 1), (1, 1)), table) == 3.704
    assert [row[0].text for row in table.rows] == ["1.234,56", "€ 1.204,50", "12,50"]


NUMBERS = """
-5 = -5 | \u22125 = -5 | \u20135 = -5 | - 5 = -5 | +5 = 5 | 5- = -5 | (5.0) = -5 | $(1,234) = -1234
($1,234.50) = -1234.5 | $ (12) = -12 | -$5,000.00 = -5000 | $-5 = -5 | (12.5%) = -12.5 | (12)% = -12
100,00- EUR = -100 | R$ 1.204,50 = 1204.5 | US$5 = 5 | Rs.500 = 500 | Rs. 5,00,000 = 500000 | 500 kr = 500
kr. 500 = 500 | EUR 12 = 12 | 12 EUR = 12 | 12 € = 12 | CHF 1'204.50 = 1204.5 | 12,- = 12 | 5 % = 5
12.5‰ = 12.5 | $950k = 950000 | $1.2m = 1200000 | 1,2 Mio. € = 1200000 | €1.2bn = 1200000000 | 5m EUR = 5000000
3.4 million people = 3400000 | 5 crore = 50000000 | 2.3 billion = 2300000000 | 200 m = 200 | 20 °C = 20
5 km² = 5 | 5 km/h = 5 | 3½ = 3.5 | ½ = 0.5 | 2 1/4 = 2.25 | 1 milhão = 1000000 | 1 millón de pesos = 1000000
60W = 60 | $5 USD = 5 | USD $5.50 = 5.5 | 5 € EUR = 5 | 5 CNY ¥ = 5 | %5 = 5 | ＄5 = 5 | ￡7 = 7 | 1.5e6 = 1500000
1.23E+05 = 123000 | 1.2 × 10⁶ = 1200000 | 6.02 x 10^23 = 6.02e+23 | 1,204[1] = 1204 | 1,204* = 1204
1,204† = 1204 | 1,204² = 1204 | 1 204 = 1204 | 1\u202f204\u202f000 = 1204000 | 1\u2019204 = 1204
12,34,567.50 = 1234567.5 | ١٬٢٣٤٫٥ = 1234.5 | １２３ = 123 | 9007199254740993 = 9007199254740992.0 | .5 = 0.5
5. = 5 | 0,5 = 0.5 | 1.234.567 = 1234567 | 12万円 = 120000 | 1.2億 = 120000000 | 1,200円 = 1200 | 12.\u2014 Fr. = 12
us$ 5 = 5 | 5 usd = 5 | 12 TEUR = 12000 | 12 T€ = 12000 | 12 M€ = 12000000 | 3 k€ = 3000 | $1.2T = 1200000000000
5 MSEK = 5000000 | 12 mkr = 12000000 | 3,5 Md€ = 3500000000 | $3MM = 3000000 | R$ 1,2 mi = 1200000
5 tis. Kč = 5000 | 3 milyar TL = 3000000000 | 1,2 milliards d'euros = 1200000000
2 millones de dollars = 2000000 | ₹5 cr = 50000000 | ₹12L = 1200000 | 5 per cent = 5 | 5 €/kg = 5
$5 per hour = 5 | 7 km / h = 7 | 250cc = 250 | 5x = 5 | 5·10⁶ = 5000000 | 5.2e-3*** = 0.0052
"""  # noqa: RUF001 - signs of other languages


@pytest.mark.parametrize("case", NUMBERS.strip().replace("\n", " | ").split(" | "))
def test_a_number_is_read(case):
    text, _, number = case.rpartition(" = ")
    assert numbers(text) == [float(number)]


@pytest.mark.parametrize(
    "text",
    r"""north|A380|Q1|F16|3D|747SP|950k|12E4|H2O|km²|#1|No. 5|#DIV/0!|#N/A|nan|inf|-|n/a|<5|>5|≥ 5|~5|±5|ca. 5|5-10
    |5 to 10|3:1|12:30|1:02:03|5'10"|2019-03-01|01/02/2024|3 March 2019|March 3, 2019|3 Mar|5 pm|44 BC|2010/11|1/2|1.2.3
    |10.0.0.1|192.168.100.100|1,2,3|1, 2|12 34|555-1234|+49 30 123456|(030) 123456|5 (3)|$'000|--5|5--|(5|5)|12-inch
    |€ 5 kg|$5 €|12 Angry Men and a Dog|1990s|2009-|1.3.|+4930123456|+46 701 234 567|5 mars|12 gennaio|5 de mayo
    |5 Mon|2019年|5月|Euro 1996|3K|4.5B|2019E|1,234.50 CR|200,00 S|3 mil|20 or younger|75 plus|12 Main St|5.1/10
    |50000 / -|5.2 ± 0.3|1.2(3)|1.234,5.6|1,23,45|00:05:00|1 2|٪|4 x 100 m|page 5|$5 USD CAD
    |5 USD EUR|$5 EUR|12345W|5% %|1st|2nd|3rd|2e|1er|5ème|3º""".replace("\n", "").split("|"),
)
def test_no_number_is_read(text):
    assert numbers(text.strip()) == [None]


@pytest.mark.parametrize(
    ("texts", "right"),
    [
        (("(12)", "7", "3"), [-12, 7, 3]),
        (("2009", "(2011)", "2010"), [2009, None, 2010]),
        (("(2011)", "(2012)"), [None, None]),
        (("1500", "(2011)", "800"), [1500, -2011, 800]),
        (("Alpha", "(12)", "Beta", "Gamma"), [None] * 4),
        (("Alpha", "(1,204)", "Beta", "$(12)"), [None, -1204, None, -12]),
        (("1.204", "12,5"), [1204, 12.5]),
        (("1,204", "12.5"), [1204, 12.5]),
        (("1,204", "12,5"), [1.204, 12.5]),
        (("1.204", "2.150"), [1.204, 2.15]),  # one column alone; a table says that nothing tells
        (("12.5", "12,5"), [None, None]),
        ((*["12.5"] * 9, "12,5"), [*[12.5] * 9, None]),
        ((*["12,5"] * 9, "12.5"), [*[12.5] * 9, None]),
        (("17,189", "6,902", "13,5000", "10,000"), [17189, 6902, None, 10000]),
        (("1/2", "2 1/4"), [0.5, 2.25]),
        (("1/100000", "2 1/4"), [1e-05, 2.25]),
        (("01067", "10115", "99084"), [None] * 3),
        (("00000", "00000"), [None, None]),
        (("007", "12", "1000"), [7, 12, 1000]),
        (("1.2", "1.10", "1.2.3"), [None] * 3),
        (("100,200,300", "1,2,3", "4,5"), [None] * 3),
        (("10.0.0.1", "192.168.100.100"), [None, None]),
        (("5 apples", "7 apples"), [5, 7]),
        (("1 stroke", "3 strokes", "2 strokes"), [1, 3, 2]),
        (("0,250", "1,125", "2,500"), [0.25, 1.125, 2.5]),
        (("12,- €", "1.234,- €"), [12, 1234]),
        (("1.204", "350.112", "1.234.567"), [1204, 350112, 1234567]),
        (("2009 \u2013", "2011", "1998 \u2013", "2010"), [None, 2011, None, 2010]),
        (("2009 \u2013", "2003\u20132005"), [None, None]),
        (("-2005", "2009", "2012", "2013-"), [-2005, 2009, 2012, None]),
        (("804\n718", "12"), [None, 12]),
        (("2005\nDetails", "2006\nDetails"), [None, None]),
        (("1.147.203.200", "1.427.647.786"), [1147203200, 1427647786]),
        (("441A", "5 tons", "7 tons"), [None, 5, 7]),
        (("1/2", "3/4", "5/8", "7/8", "1/3", "2/3", "2 1/4"), [*[None] * 6, 2.25]),
        (("8 Mile", "12 Monkeys", "Titanic", "300"), [None, None, None, 300]),
        (("-", "5", "n/a", "(3)", "..."), [None, 5, None, -3, None]),
        (("5", "#DIV/0!", "7"), [5, None, 7]),
    ],
)
def test_the_whole_column_decides(texts, right):
    assert numbers(*texts) == right


@pytest.mark.parametrize(
    "header", ["Phone", "phone number", "ZIP code", "PLZ", "Version", "IP address", "ISBN", "Code postal", "Postnr."]
)
def test_headers_tell_of_digits_that_are_names(header):
    (one,), _ = find_formats([header], [collect_evidence(["612 345 678", "1.2"])])
    assert one.read_number("1.2") is None
    for other in ("Mobile subscriptions", "IP"):  # innings pitched
        (one,), _ = find_formats([other], [collect_evidence(["612 345 678"])])
        assert one.read_number("612 345 678") == 612345678


def test_other_columns_tell_where_a_column_is_silent():
    ambiguous = collect_evidence(["1.204", "2.150"])
    formats, notes = find_formats(["a", "b"], [collect_evidence(["12,5"]), ambiguous])
    assert formats[1].read_number("1.204") == 1204
    assert notes == ["Decimal commas: 'a', 'b' (otherwise write decimal=.)."]
    formats, notes = find_formats(["a", "b", "c"], [collect_evidence(["12,5"]), ambiguous, collect_evidence(["12.5"])])
    assert [one.decimal for one in formats] == [",", "", "."]
    assert (
        "No numbers in 'b': their marks may part decimals or thousands. Write decimal=, or decimal=. or locale=de."
        in notes
    )


def test_zeros_before_points_prove_decimals():
    formats, notes = find_formats(["a"], [collect_evidence(["0.125", "1.250", "3.500"])])
    assert (formats[0].read_number("1.250"), notes) == (1.25, [])


def test_numbers_of_the_file_itself_need_no_format():
    stored = NumberText("1.204", 1.204)
    formats, _ = find_formats(["a", "b"], [collect_evidence(["12,5"]), collect_evidence([stored])])
    assert formats[1].read_number(stored) == 1.204
    formats, _ = find_formats(["a"], [collect_evidence([stored, "1.204"])], ReadOptions(locale="de"))
    assert (formats[0].read_number(stored), formats[0].read_number("1.204")) == (1.204, 1204)


@pytest.mark.parametrize(
    ("options", "text", "number"),
    [
        ({"locale": "de"}, "1.204", 1204),
        ({"locale": "de-AT"}, "1.204", 1204),
        ({"locale": "de_CH"}, "1.204", 1.204),
        ({"locale": "en_IN"}, "1,204", 1204),
        ({"locale": "fr_FR"}, "1,204", 1.204),
        ({"decimal": ","}, "1,204", 1.204),
        ({"decimal": "."}, "1.204", 1.204),
    ],
)
def test_what_is_typed_holds_for_every_column(options, text, number):
    (one,), _ = find_formats(["a"], [collect_evidence([text])], ReadOptions(**options))
    assert one.read_number(text) == number


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"decimal": ";"}, "';' is not a decimal mark"), ({"locale": "german please"}, "'german please' is not a locale")],
)
def test_what_cannot_be_typed_is_refused(options, problem):
    with pytest.raises(ConfigError, match=problem):
        read_decimal(ReadOptions(**options))


@pytest.mark.parametrize(
    ("texts", "order"),
    [
        (("2024-03-01", "2023-12-31", "2024-03-01 12:30"), [1, 0, 2]),
        (("27/01/2020", "05/02/2020", "01/03/2019"), [2, 0, 1]),
        (("1/27/2020", "2/5/2020", "3/1/2019"), [2, 0, 1]),
        (("1.3.2019", "15.2.2019"), [1, 0]),
        (("3 March 2019", "Sept 15, 2019", "7 Aug 2019", "March 2018"), [3, 0, 2, 1]),
        (("27/01/69", "27/01/20"), [0, 1]),
        (("1:30:00", "-0:30:00", "0:00:01.5"), [1, 2, 0]),
        (("01/05/2020 11:00 PM", "13/01/2020 1:00 AM", "13/01/2020 12:30 am"), [2, 1, 0]),
        (("(5,000.00)", "147.00", "-3"), [0, 2, 1]),
        (("september 11 , 2000", "31 Dec, 1999", "Dec-2021"), [1, 0, 2]),
        (("2. März 2019", "15 de enero de 2019", "1 maggio 2018"), [2, 1, 0]),
        (("2019年12月1日", "2019年3月5日"), [1, 0]),
        (("7:00 PM", "11:30 am", "12:15 p.m."), [1, 2, 0]),
        (("2nd", "10th (q)", "1st", "3rd*"), [2, 0, 3, 1]),
        (("+1:06.9", "+ 0:08.35", "29:31.80", "2:21:22"), [1, 0, 2, 3]),
    ],
)
def test_dates_times_and_numbers_are_ordered(texts, order):
    values = [format_of(texts).read_sortable(text) for text in texts]
    assert sorted(range(len(texts)), key=values.__getitem__) == order


@pytest.mark.parametrize("text", ["01/02/2024", "31/02/2024", "99/99/2024", "north", "2024-13-01", "3 Foo 2019"])
def test_what_is_no_day_or_any_of_two_is_not_ordered(text):
    assert math.isnan(format_of([text]).read_sortable(text))


@pytest.mark.parametrize(
    ("texts", "units"),
    [
        (("$5", "€5"), ("$", "€")),
        (("5 km", "3 m"), ("km", "m")),
        (("$5", "7"), ("$",)),
        (("5%", "7"), ("%", "")),
        (("5", "7"), ()),
        (("$1.2m", "$950k"), ("$",)),
        (("1 year", "3 years"), ("year",)),
        (("1st", "2nd"), ()),
    ],
)
def test_mixed_units_are_found(texts, units):
    table = Table.from_pandas(__import__("pandas").DataFrame({"v": texts}))
    assert find_units(((0, 0), (1, 0)), table) == units


FOUR_GROUPS = re.compile(r"\d{3}(\.\d{3}){3}")
"""192.168.100.100 may be an address."""
LOCALES = {
    "en": (",", "."),
    "de": (".", ","),
    "fr": ("\u202f", ","),
    "fr_nbsp": ("\u00a0", ","),
    "pl": (" ", ","),
    "de_CH": ("'", "."),
    "de_CH_typographic": ("\u2019", "."),
    "en_IN": ("lakh", "."),
    "plain_point": ("", "."),
    "plain_comma": ("", ","),
}
AFFIXES = [("", ""), ("$", ""), ("", " €"), ("€ ", ""), ("", "%"), ("", " %"), ("", " km"), ("R$ ", ""), ("", " EUR")]
SIGNS = [("-", ""), ("\u2212", ""), ("(", ")"), ("", "-"), ("\u2013", "")]


def grouped(digits, mark):
    if mark == "lakh" and len(digits) > 3:
        head = digits[:-3]
        pairs = [head[max(0, end - 2) : end] for end in range(len(head), 0, -2)][::-1]
        return ",".join([*pairs, digits[-3:]])
    mark = "," if mark == "lakh" else mark
    return mark.join(digits[max(0, end - 3) : end] for end in range(len(digits), 0, -3)[::-1])


@st.composite
def columns(draw):
    """A column of numbers as one person writes them, of which at least one shows the decimal mark, and the numbers."""
    group, decimal = LOCALES[draw(st.sampled_from(sorted(LOCALES)))]
    before, after = draw(st.sampled_from(AFFIXES))
    opening, closing = draw(st.sampled_from(SIGNS))
    places = draw(st.sampled_from([0, 1, 2, 4]))
    cents = st.integers(-(10**12), 10**12)
    written, right = [], []
    for number in [*draw(st.lists(cents, min_size=1, max_size=12)), 10 ** (places + 1) + 1]:
        digits = str(abs(number)).rjust(places + 1, "0")
        whole, part = (digits[:-places], digits[-places:]) if places else (digits, "")
        text = before + grouped(whole, group) + (decimal + part if places else "") + after
        written.append(opening + text + closing if number < 0 else text)
        right.append(float(f"{number}e-{places}"))
    known = places > 0 or group in ("", " ", "\u202f", "\u00a0", "'", "\u2019")
    return written, right, None if known else decimal


@settings(max_examples=500 if settings().max_examples < 100 else 20_000)
@given(columns())
def test_numbers_are_read_back_in_ten_locales(column):
    written, right, typed = column
    assume(not any(FOUR_GROUPS.fullmatch(text) for text in written))
    (one,), _ = find_formats(["v"], [collect_evidence(written)], ReadOptions(decimal=typed))
    assert [one.read_number(text) for text in written] == right


@given(st.lists(st.text(max_size=12), max_size=8))
def test_no_text_is_too_strange(texts):
    one = format_of(texts)
    for text in texts:
        number = one.read_number(text)
        assert number is None or math.isfinite(number)
        assert isinstance(one.read_sortable(text), float)
        assert isinstance(one.read_unit(text), str)
