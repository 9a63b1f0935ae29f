"""Workbooks of two other libraries: whatever a cell shows, its number, date or truth value is the stored one."""

import datetime
import random

import pytest

from mate_cli.tables.denotation import compute
from mate_cli.tables.read import read_table

FORMATS = (
    """
General|0|0.0|0.00|0.0000|#,##0|#,##0.00|#,##0.###|0%|0.00%|00000|000-000|0.00E+00|##0.0E+0|# ?/?|# ??/??
0.0,,"M"|#,##0,"K"|"$"#,##0.00|[$£-809]#,##0.00|#,##0.00\\ [$€-407]|0.00;[Red]0.00|0%;[Red]0%|#,##0_);(#,##0)
_(* #,##0.00_);_(* (#,##0.00);_(* "-"??_);_(@_)|0;-0;;@|0" km"|"Q"0|+0;-0;0|"▲"0;"▼"0|[>=1000]0.0,"K";0|# ##0
[Red][<0]0.0;[Blue]0.0|0.##|;;;|#|0\\%|@|[$USD] #,##0.00|0.00" kg"|[=0]"none";0|0_
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
DATE_FORMATS = ["yyyy-mm-dd", "dd/mm/yyyy", "m/d/yy h:mm", "d. mmmm yyyy"]


def draw_number(chance):
    kinds = (chance.randrange(-999, 10**6), round(chance.uniform(-1e4, 1e4), chance.randrange(7)), 0, chance.random())
    return chance.choice(kinds)


def draw(seed):
    """The formats of the columns of a table, and its rows of values."""
    chance = random.Random(seed)
    codes = [chance.choice(FORMATS) for _ in range(3)] + [chance.choice(DATE_FORMATS), "General"]
    rows = [
        [
            f"row {place}",
            *(draw_number(chance) for _ in range(3)),
            datetime.datetime(chance.randrange(1904, 2100), chance.randrange(1, 13), chance.randrange(1, 29)),
            chance.random() < 0.5,
        ]
        for place in range(chance.randrange(3, 8))
    ]
    return codes, rows


def write_openpyxl(path, codes, rows):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["name", "a", "b", "c", "day", "flag"])
    for row in rows:
        book.active.append(row)
        for place, code in enumerate(codes, 2):
            book.active.cell(book.active.max_row, place).number_format = code
    book.save(path)


def write_xlsxwriter(path, codes, rows):
    xlsxwriter = pytest.importorskip("xlsxwriter")
    with xlsxwriter.Workbook(str(path)) as book:
        sheet = book.add_worksheet()
        styles = [None, *(book.add_format({"num_format": code}) for code in codes)]
        sheet.write_row(0, 0, ["name", "a", "b", "c", "day", "flag"])
        for number, row in enumerate(rows, 1):
            for place, (value, style) in enumerate(zip(row, styles, strict=True)):
                sheet.write(number, place, value, style)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("write", [write_openpyxl, write_xlsxwriter])
@pytest.mark.parametrize("seed", range(100))
def test_values_are_those_that_are_stored(tmp_path, write, seed):
    codes, rows = draw(seed)
    write(tmp_path / "t.xlsx", codes, rows)
    table, _ = read_table(tmp_path / "t.xlsx")
    assert len(table.rows) == len(rows)
    for number, row in enumerate(rows):
        for place in (1, 2, 3):
            code, stored = codes[place - 1], row[place]
            is_percent = "%" in code and "\\%" not in code
            assert compute("sum", [(number, place)], table) == pytest.approx(stored * (100 if is_percent else 1)), code
        assert table.rows[number][4].text[:10] in (f"{row[4]:%Y-%m-%d}", f"{row[4].day}. {row[4]:%B %Y}"[:10])
        assert table.rows[number][5].text == ("TRUE" if row[5] else "FALSE")
