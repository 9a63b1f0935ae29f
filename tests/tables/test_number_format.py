"""Number formats, against what spreadsheet programs show.

`number_formats.json` was written by SheetJS' SSF 0.11.2 with spaces at the ends taken off. Left out is where it departs
from Excel: decimals that have no exact binary fraction, halves below zero, and literals beside `General`.
"""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.tables.formats.number_format import format_number, format_string, parse_number

SHOWN = json.loads((Path(__file__).parent / "workbooks" / "number_formats.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("code", SHOWN)
def test_formats_show_what_another_implementation_shows(code):
    for value, shown in SHOWN[code]:
        assert format_number(parse_number(repr(value)), code) == shown, value


ACCOUNTING = '_($* #,##0.00_);_($* (#,##0.00);_($* "-"??_);_(@_)'
LAKHS = r"[>=10000000]##\,##\,##\,##0;[>=100000]##\,##\,##0;##,##0"
SPREADSHEET = [
    # leading zeros
    ("1234", "00000", "01234"),
    ("7", "000", "007"),
    ("-7", "000", "-007"),
    ("123456", "000-00-0000", "000-12-3456"),
    ("5550100123", "(000) 000-0000", "(555) 010-0123"),
    # halves go away from zero, of the decimal that is stored
    ("2.5", "0", "3"),
    ("-2.5", "0", "-3"),
    ("0.5", "0", "1"),
    ("1.5", "0", "2"),
    ("0.125", "0.00", "0.13"),
    ("2.675", "0.00", "2.68"),
    ("2.6749999999999998", "0.00", "2.68"),
    ("1.005", "0.00", "1.01"),
    ("0.125", "0%", "13%"),
    ("1234.5", "#,##0", "1,235"),
    ("0.30000000000000004", "0.0000000000000000", "0.3000000000000000"),
    # digits that are shown where there are any
    ("5", "0.##", "5"),
    ("5.5", "#,##0.##", "5.5"),
    ("5.678", "0.0#", "5.68"),
    ("0.5", "#.##", ".5"),
    ("0", "#", ""),
    # fifteen digits
    ("1234567890123456", "0", "1234567890123450"),
    ("1234567890123456", "General", "1234567890123450"),
    ("123456789012345678", "#,##0", "123,456,789,012,345,000"),
    ("4006381333931", "General", "4006381333931"),
    ("1.234567890123457e+19", "General", "1.23457E+19"),
    # eleven characters
    ("12345678901", "General", "12345678901"),
    ("1234567.891", "General", "1234567.891"),
    ("1234567.89123", "General", "1234567.891"),
    ("0.000012345", "General", "0.000012345"),
    ("0.0000123456", "General", "1.23456E-05"),
    ("0.1428571428571428", "General", "0.142857143"),
    # scale, percent, power, fraction
    ("1234567", '0.0,,"M"', "1.2M"),
    ("1234567", '#,##0,"K"', "1,235K"),
    ("12345", "0,", "12"),
    ("-0.05", "0%", "-5%"),
    ("1234567", "0.0E+00", "1.2E+06"),
    ("12345", "##0.0E+0", "12.3E+3"),
    ("999999", "##0.0E+0", "1.0E+6"),
    ("1.5", "# ?/?", "1 1/2"),
    ("0.75", "# ?/?", "3/4"),
    ("-2.25", "# ??/??", "-2 1/4"),
    ("5", "# ?/?", "5"),
    ("0.375", "# ?/8", "3/8"),
    ("3.5", '# ?/?" in"', "3 1/2 in"),
    # literal text and units
    ("5", '0" km"', "5 km"),
    ("3", '"Q"0', "Q3"),
    ("5", '"▲"0;"▼"0', "▲5"),
    ("-5", '"▲"0;"▼"0', "▼5"),
    ("5", "+0;-0;0", "+5"),
    ("5", ";;;", ""),
    ("12", r"0\%", "12%"),
    ("5.5", 'General" kg"', "5.5 kg"),
    # currencies, also those of accountants
    ("-5", '"$"#,##0.00', "-$5.00"),
    ("1234.5", r"#,##0.00\ [$€-407]", "1,234.50 €"),
    ("1234.5", "[$£-809]#,##0.00", "£1,234.50"),
    ("-1234.5", "#,##0.00_);(#,##0.00)", "-1,234.50"),
    ("-1234.5", ACCOUNTING, "-$1,234.50"),
    ("1234.5", ACCOUNTING, "$1,234.50"),
    ("0", ACCOUNTING, "-"),
    ("-0.05", "0%;(0%)", "(5%)"),
    ("-1234.5", r'_-* #,##0.00\ "€"_-;\-* #,##0.00\ "€"_-;_-* "-"??\ "€"_-;_-@_-', "-1,234.50 €"),
    ("0", r'_-* #,##0.00\ "€"_-;\-* #,##0.00\ "€"_-;_-* "-"??\ "€"_-;_-@_-', "- €"),
    # groups of other kinds
    ("1234567", "# ##0", "1 234 567"),
    ("1234567", "#'##0", "1'234'567"),
    ("1234567", LAKHS, "12,34,567"),
    ("12345678", LAKHS, "1,23,45,678"),
    ("5", "0,000", "0,005"),
    # sections and conditions
    ("-5", "0;[Red]-0", "-5"),
    ("-0.2", "0", "-0"),
    ("0", '0;-0;"none"', "none"),
    ("1234", '[>=1000]0.0,"K";0', "1.2K"),
    ("999", '[>=1000]0.0,"K";0', "999"),
    ("-7", '[<0]"minus "0;0', "minus 7"),
    ("-3", '[=0]"-";0', "-3"),
    # dates
    ("43525", "dd/mm/yyyy", "2019-03-01"),
    ("43525", 'yyyy"年"m"月"d"日"', "2019-03-01"),
    ("43525.60416666666", "d.m.yy h:mm", "2019-03-01 14:30"),
    ("43525", "m/d/yyyy h:mm", "2019-03-01"),
    ("43525", "mmm-yy", "Mar-19"),
    ("43525", "yyyy", "2019"),
    ("43525", r"[$-F800]dddd\,\ mmmm\ dd\,\ yyyy", "Friday, March 01, 2019"),
    ("0", "dd/mm/yyyy", "0"),
    ("2958466", "dd/mm/yyyy", "2958466"),
    # times and durations
    ("0.5868055555555556", "h:mm", "14:05"),
    ("0.5868055555555556", "h:mm AM/PM", "2:05 PM"),
    ("0.0034722222222", "h:mm AM/PM", "12:05 AM"),
    ("1.104166666666667", "[h]:mm", "26:30"),
    ("-0.0208333333333", "[h]:mm", "-0:30"),
    ("0.0625", "[mm]:ss", "90:00"),
    ("0.001741898148148148", "mm:ss.0", "02:30.5"),
    ("0.99999999", "h:mm:ss", "0:00:00"),
    ("1e999", "0", "#NUM!"),
    ("1" + "0" * 400, "General", "#NUM!"),
    ("-1e999", "0%", "#NUM!"),
    ("1e300", "General", "1E+300"),
]


@pytest.mark.parametrize(("stored", "code", "shown"), SPREADSHEET)
def test_a_number_reads_as_its_format_shows_it(stored, code, shown):
    assert format_number(parse_number(stored), code) == shown


def test_days_are_counted_from_1900_or_1904():
    assert format_number(Decimal(59), "yyyy-mm-dd") == "1900-02-28"
    assert format_number(Decimal(61), "yyyy-mm-dd") == "1900-03-01"
    assert format_number(Decimal(42063), "yyyy-mm-dd", date1904=True) == "2019-03-01"


@pytest.mark.parametrize(
    ("code", "shown"),
    [("@", "x"), ("0", "x"), ('@" kg"', "x kg"), ('0;0;0;"<"@">"', "<x>"), (";;;", ""), ("_(@_)", " x ")],
)
def test_texts_have_a_section_of_their_own(code, shown):
    assert format_string("x", code) == shown


@given(st.text('0#?.,%/@ymdhsE+-;[]()<>=$"\\_* aGeneral5', max_size=40), st.decimals(allow_nan=False))
def test_any_format_shows_something(code, number):
    assert isinstance(format_number(number, code), str)
    assert isinstance(format_string("x", code), str)
