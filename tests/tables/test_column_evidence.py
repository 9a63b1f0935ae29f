"""One cell never decides how the other cells of a column, or other columns, are read."""

from __future__ import annotations

import pytest

from mate_cli.tables.values.column_evidence import collect_evidence
from mate_cli.tables.values.column_format import find_formats, format_of

LAYOUTS = {
    "integers": "12 7 350 41 8 19 22 5 97 60",
    "groups": "1,204 12,350 7,001 9,412 1,000 2,505 88,100 3,333 4,040 6,789",
    "three_places": "1.204 12.350 7.001 9.412 1.000 2.505 88.100 3.333 4.040 6.789",
    "points": "1.5 2.75 3.0 10.25 7.1 8.8 9.9 0.5 4.4 6.2",
    "commas": "1,5 2,75 3,0 10,25 7,1 8,8 9,9 0,5 4,4 6,2",
    "german": "1.204,50 12,00 7,25 9.412,10 1.000,00 5,5 3,33 4,04 6,78 8,1",
    "english": "1,204.50 12.00 7.25 9,412.10 1,000.00 5.5 3.33 4.04 6.78 8.1",
    "indian": "12,34,567 1,00,000 5,000 7,50,000 12,00,000 3,00,000 9,99,999 1,11,111 2,22,222 4,44,444",
    "spaces": "1~204 12~350 7~001 9~412 1~000 2~505 88~100 3~333 4~040 6~789",
    "accounting": "(12) 7 (350) 41 8 19 22 (5) 97 60",
    "trailing_minus": "12- 7 350- 41 8 19 22 5- 97 60",
    "years": "1999 2001 2003 2010 1987 1991 2015 2018 1975 2020",
    "money": "$5 $1,204 $12 $7 $99 $1,000 $3 $44 $8 $61",
    "percent": "5% 12% 7% 99% 3% 44% 8% 61% 2% 1%",
    "apples": "5_apples 12_apples 7_apples 99_apples 3_apples 44_apples 8_apples 61_apples 2_apples 1_apple",
    "fractions": "3½ 2_1/4 1/2 3/4 5 7 1_1/2 2_3/4 1/4 9",
}
OTHERS = """
- n/a text 1,5 1.5 1.234 1,234 1,234.5 0,250 0.250 (5) (2011) (1,204) 2011- 5- 1,_2 1,2,3 1.2.3 10.0.0.1 1/2 2_1/2
1/2/2024 13/01/2024 12:30 $5 €5 5% 5_km 5_pears 5km 5K 1F 007 00123 <5 5-10 A380 Q1 #DIV/0! 1e5 1E5 5k $5k 5_million
12_34 555-1234 +4930123456789 1990s 1½ 13,5000 1.2. 9007199254740993 5_(3) 5* 1_234 1'234 12,34,567 1,234,567 10^6
"""


def cells(text):
    return [cell.replace("_", " ").replace("~", "\u00a0") for cell in text.split()]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_cell_among_ten_changes_no_other(layout):
    texts = cells(LAYOUTS[layout])
    right = list(map(format_of(texts).read_number, texts))
    assert None not in right
    for other in cells(OTHERS):
        assert (other, list(map(format_of([other, *texts]).read_number, texts))) == (other, right)


@pytest.mark.parametrize("slip", ["1,5", "0,25", "13,5000"])
def test_one_cell_does_not_decide_for_other_columns(slip):
    columns = [collect_evidence([*cells(LAYOUTS["integers"]), slip]), collect_evidence(["1.204", "2.150"])]
    formats, _ = find_formats(["a", "b"], columns)
    assert formats[1].read_number("1.204") is None  # nothing tells what its point parts


def test_one_point_and_one_comma_spoil_no_integers():
    one = format_of([*cells(LAYOUTS["integers"]), "1.5", "1,5"])
    assert one.read_number("350") == 350
    assert one.read_number("1,5") is None
