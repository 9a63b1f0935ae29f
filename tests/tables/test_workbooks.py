"""Workbooks as other programs write them: every cell reads as a spreadsheet program shows it."""

import datetime
import re
import zipfile
from pathlib import Path

import pytest

from mate_cli.errors import DataError
from mate_cli.tables.denotation import compute
from mate_cli.tables.read import read_table
from mate_cli.tables.read_options import ReadOptions

FILES = Path(__file__).parent / "workbooks"
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
STRICT = {
    MAIN: "http://purl.oclc.org/ooxml/spreadsheetml/main",
    OFFICE: "http://purl.oclc.org/ooxml/officeDocument/relationships",
}
WORKBOOK = (
    f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}">{{}}'
    '<sheets><sheet name="a" sheetId="1" r:id="x1"/></sheets></workbook>'
)
STYLES = (
    '<styleSheet xmlns="{}"><numFmts><numFmt numFmtId="200" formatCode="00000"/></numFmts>'
    "<cellXfs>{}</cellXfs></styleSheet>"
)


def relations(**targets):
    lines = (
        f'<Relationship Id="{name}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for name, (kind, target) in targets.items()
    )
    return f"<Relationships>{''.join(lines)}</Relationships>"


def parts(rows, strings="", about="", after="", ids=("0", "200", "14", "46")):
    """The parts of a workbook with one sheet, whose rows are XML."""
    return {
        "_rels/.rels": relations(x1=("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": WORKBOOK.format(about),
        "xl/_rels/workbook.xml.rels": relations(
            x1=("worksheet", "worksheets/s.xml"),
            x2=("styles", "/xl/styles.xml"),
            x3=("sharedStrings", "sharedStrings.xml"),
        ),
        "xl/styles.xml": STYLES.format(MAIN, "".join(f'<xf numFmtId="{one}"/>' for one in ids)),
        "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}">{strings}</sst>',
        "xl/worksheets/s.xml": f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData>{after}</worksheet>',
    }


def write(path, contents):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


def changed(path, change, name="merged_plain.xlsx"):
    with zipfile.ZipFile(FILES / name) as archive:
        return write(path, {one: change(archive.read(one).decode()) for one in archive.namelist()})


def lines(path, **options):
    table, notes = read_table(path, ReadOptions(**options))
    return [[cell.text for cell in line] for line in (table.header, *table.rows)], notes


def cells(tmp_path, *values, **options):
    """What the cells of a column show, given as XML."""
    rows = ["<c t='str'><v>h</v></c><c t='str'><v>i</v></c>", *(f"{value}<c><v>1</v></c>" for value in values)]
    made = parts("".join(f"<row>{row}</row>" for row in rows), **options)
    found, notes = lines(write(tmp_path / "t.xlsx", made))
    return [row[0] for row in found[1:]], notes


MERGED = [["region", "city", "n", "double"], ["North", "A", "1", ""], ["North", "B", "2", ""], ["South", "C", "3", ""]]


def in_strict(text):
    for plain, strict in STRICT.items():
        text = text.replace(plain, strict)
    return text


def with_prefix(text):
    return (
        text.replace("<sheet ", "<y:sheet ")
        .replace("<workbook ", f'<workbook xmlns:y="{MAIN}" ')
        .replace(" r:", " q:")
        .replace(":r=", ":q=")
    )


WAYS = {
    "plain": lambda text: text,
    "strict": in_strict,
    "single quotes": lambda text: text.replace('"', "'"),
    "other prefixes": with_prefix,
    "attributes with signs": lambda text: text.replace("<mergeCell ", "<mergeCell a='>' b='\"' "),
    "lines between": lambda text: text.replace("><", ">\n  <"),
    "a note within": lambda text: text.replace("<row", "<!-- <row> <mergeCell ref='A1:B1'/> --><row"),
}


@pytest.mark.parametrize("way", WAYS)
def test_xml_of_any_style_is_read(tmp_path, way):
    found, notes = lines(changed(tmp_path / "t.xlsx", WAYS[way]))
    assert found == MERGED
    assert notes == [
        "The value of 1 merged area was put in every cell of it.",
        "Some formulas have no saved value: open the file in a spreadsheet program and save it.",
    ]


def test_elements_with_a_prefix_are_read():
    assert lines(FILES / "merged_prefixed.xlsx") == lines(FILES / "merged_plain.xlsx")
    assert lines(FILES / "merged_plain.xlsx")[0] == MERGED


DIFFERENT = {
    "acc std": "-$1,234.50",  # the unit is kept where there are digits
    "euro": "1,234.50 €",  # English, whatever the language of the program
    "hidden": "",
    "date": "2019-03-01",
    "qtr": "2019-03-01 14:30",
    "err": "#DIV/0!",
    "gen4": "",  # an empty cell
    "cond": "1.2K",
}
"""What cells show that the sheet does not say, or says of another language."""


def test_a_sheet_that_says_what_its_cells_show():
    found, _ = lines(FILES / "formats.xlsx")
    assert len(found) == 57
    for name, shown, cell in found[1:]:
        assert cell == DIFFERENT.get(name, shown.removeprefix("'")), name


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (-2.5e-6, "0.0E+00;0.0E+00", "-2.5E-06"),  # the minus of an exponent is none of the number
        (0.3, "General%", "30%"),
        (12.5, ".00", "12.50"),
        (1234567890123456, '0" km"', "1234567890123450 km"),
        (44197, 'ggge"年"m"月"d"日"', "2021-01-01"),  # of a Japanese era
    ],
)
def test_formats_that_are_rare(tmp_path, value, code, shown):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a", "b"], ["x", value]):
        book.active.append(row)
    book.active["B2"].number_format = code
    book.save(tmp_path / "t.xlsx")
    assert lines(tmp_path / "t.xlsx")[0][1] == ["x", shown]


def test_hidden_sheets_come_last(tmp_path):
    table = [["region", "sales"], ["North", "10"], ["South", "20"]]
    note = "The sheet 'Data' was read; the workbook also has lists (hidden) (choose with sheet=...)."
    assert lines(FILES / "hidden_first.xlsx") == (table, [note])
    assert (
        lines(changed(tmp_path / "t.xlsx", lambda text: text.replace('"hidden"', '"veryHidden"'), "hidden_first.xlsx"))[
            0
        ]
        == table
    )
    assert lines(FILES / "hidden_first.xlsx", sheet="1")[0] == table
    for sheet in ("2", "lists"):
        assert lines(FILES / "hidden_first.xlsx", sheet=sheet)[0][0] == ["code", "label"]
    all_hidden = changed(tmp_path / "t.xlsx", lambda text: text.replace('"visible"', '"hidden"'), "hidden_first.xlsx")
    assert lines(all_hidden)[0][0] == ["code", "label"]


def test_styles_that_are_not_there_are_general(tmp_path):
    assert lines(FILES / "style_bad.xlsx")[0] == [["a", "b"], ["1", "2"], ["3", "4"]]
    odd = (f'<c s="{style}"><v>7</v></c>' for style in ("99", "-1", "x", "", "1"))
    assert cells(tmp_path, *odd)[0] == ["7", "7", "7", "7", "00007"]
    unknown = cells(tmp_path, '<c s="0"><v>7.5</v></c>', ids=("777",))
    assert unknown[0] == ["7.5"]


def test_escaped_characters(tmp_path):
    assert lines(FILES / "x000d.xlsx")[0][1] == ["A", "first\nsecond"]
    for text, shown in {
        "a_x0041_b": "aAb",
        "_x005F_x000D_": "_x000D_",
        "_x12_ _xyz_ snake_x_case": "_x12_ _xyz_ snake_x_case",
        "one_x000D__x000A_two_x000d_three": "one\ntwo\nthree",
    }.items():
        assert cells(
            tmp_path, f"<c t='str'><f>A1</f><v>{text}</v></c>", f"<c t='inlineStr'><is><t>{text}</t></is></c>"
        )[0] == [shown, shown]
        assert cells(tmp_path, "<c t='s'><v>0</v></c>", strings=f"<si><t>{text}</t></si>")[0] == [shown]


def test_texts_of_many_runs(tmp_path):
    runs = "<r><t xml:space='preserve'>up </t></r><r><rPr><b/></rPr><t>and up</t></r><rPh sb='0' eb='1'><t>a</t></rPh>"
    assert cells(tmp_path, "<c t='s'><v>0</v></c>", strings=f"<si>{runs}</si>")[0] == ["up and up"]


def test_values_of_every_type(tmp_path):
    shown, _ = cells(
        tmp_path,
        "<c t='b'><v>1</v></c>",
        "<c t='b'><v>0</v></c>",
        "<c t='e'><v>#DIV/0!</v></c>",
        "<c t='e' s='1'><v>#N/A</v></c>",
        "<c t='d'><v>2024-03-01T08:30:00</v></c>",
        "<c t='d' s='2'><v>2024-03-01</v></c>",
        "<c s='3'><v>1.5</v></c>",
        "<c><f>A1</f><v>12.5</v></c>",
    )
    assert shown == ["TRUE", "FALSE", "#DIV/0!", "#N/A", "2024-03-01 08:30", "2024-03-01", "36:00:00", "12.5"]


def test_days_from_1904(tmp_path):
    days = "<c s='2'><v>42063</v></c>", "<c t='d' s='2'><v>2019-03-01</v></c>"
    assert cells(tmp_path, *days, about="<workbookPr date1904='1'/>")[0] == ["2019-03-01", "2019-03-01"]


UNSAVED = "Some formulas have no saved value: open the file in a spreadsheet program and save it."


@pytest.mark.parametrize(
    ("cell", "notes"),
    [
        ("<c><f>A1</f></c>", [UNSAVED]),
        ("<c><f>A1</f><v/></c>", [UNSAVED]),
        ("<c><f t='shared' si='0'/><v></v></c>", [UNSAVED]),
        ("<c t='str'><f>\"\"</f><v></v></c>", []),
        ("<c><f>A1</f><v>3</v></c>", []),
    ],
)
def test_formulas_without_a_saved_value_are_said(tmp_path, cell, notes):
    assert cells(tmp_path, cell, "<c><v>1</v></c>")[1] == notes


EMPTY_CELL = re.compile('<c r="[A-Z0-9]+"[^<>]*/>')


def sheet(tmp_path, rows, *areas):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for area in areas:
        book.active.merge_cells(area)
    book.save(tmp_path / "t.xlsx")
    made, _ = lines(tmp_path / "t.xlsx")
    with zipfile.ZipFile(tmp_path / "t.xlsx") as archive:
        bare = {name: EMPTY_CELL.sub("", archive.read(name).decode()) for name in archive.namelist()}
    assert lines(write(tmp_path / "bare.xlsx", bare))[0] == made, "cells of merged areas need not be stored"
    return made


def test_another_workbook_part_hides_no_number_formats(tmp_path):
    with zipfile.ZipFile(FILES / "formats.xlsx") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    path = write(tmp_path / "t.xlsx", {"customXml/workbook.xml": "<nothing/>", **parts})
    assert lines(path) == lines(FILES / "formats.xlsx")


def test_merged_areas(tmp_path):
    rows = [["k", "m", "n"], ["a", 5, None], ["b", 1, 2]]
    assert sheet(tmp_path, rows, "B2:C2") == [["k", "m", "n"], ["a", "5", "5"], ["b", "1", "2"]]
    rows = [["k", "q", None], ["k", "m", "n"], ["a", 1, 2]]
    assert sheet(tmp_path, rows, "B1:C1")[0] == ["k", "q m", "q n"]
    rows = [["k", "m"], ["North", None], [None, 2], [None, 3], ["South", 4]]
    assert sheet(tmp_path, rows, "A2:A4")[1:] == [["North", ""], ["North", "2"], ["North", "3"], ["South", "4"]]


def test_a_row_without_values_of_its_own_is_not_filled(tmp_path):
    rows = [["k", "m"], ["a", 1], [None, None], ["b", 2], [None, None]]
    assert sheet(tmp_path, rows, "A2:A3", "B2:B3", "A4:A5", "B4:B5") == [["k", "m"], ["a", "1"], ["b", "2"]]


def test_a_title_over_several_columns_stays_one(tmp_path):
    rows = [["Sales"], [None], ["k", "m"], ["a", 1]]
    assert sheet(tmp_path, rows, "A1:B2") == [["k", "m"], ["a", "1"]]


def test_parts_are_found_by_any_spelling(tmp_path):
    made = parts(
        "<row r='1'><c t='s'><v>0</v></c></row><row r='4'><c r='B4' s='1'><v>7</v></c></row>", "<si><t>k</t></si>"
    )
    expected = [["k", "column 2"], ["", "00007"]]
    assert lines(write(tmp_path / "t.xlsx", made))[0] == expected
    odd = {name.replace("sharedStrings", "SharedStrings"): content for name, content in made.items()}
    assert lines(write(tmp_path / "t.xlsx", odd))[0] == expected


DOCUMENT = {"mimetype": "application/vnd.oasis.opendocument.spreadsheet", "content.xml": "<a/>"}
OTHERS = {
    "archive": ({"data.csv": "a,b\n1,2\n"}, r"this is an archive \(.zip\) without a workbook. Unpack it first"),
    "OpenDocument": (DOCUMENT, r"cannot be read: .* Open it in a spreadsheet program and save it as .xlsx"),
    "binary": ({"xl/workbook.bin": b"1"}, r"cannot be read: .* Open it in a spreadsheet program and save it as .xlsx"),
    "Word": (
        {"[Content_Types].xml": "", "word/document.xml": "<a/>"},
        "without a workbook. .* save the table as .xlsx",
    ),
    "a DTD": (parts("<row/>") | {"xl/workbook.xml": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}, "cannot be read"),
    "half a sheet": (parts("<row><c><v>1</v></c>"), "this workbook cannot be read: mismatched tag"),
    "no rows": (parts(""), "no sheet of this workbook has a table"),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("suffix", ["xlsx", "zip", "ods"])
def test_what_is_no_workbook_says_what_it_is(tmp_path, name, suffix):
    contents, message = OTHERS[name]
    with pytest.raises(DataError, match=message) as error:
        read_table(write(tmp_path / f"t.{suffix}", contents))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["short_cells.xlsb", "indented.ods"])
def test_no_cell_is_missing(name):
    table, _ = read_table(FILES / name)
    rows = [[cell.text for cell in row] for row in (table.header, *table.rows)]
    values = [["Oslo", "1250", "0.5", "TRUE"], ["Graz", "70000.25", "", "FALSE"]]
    assert rows == [["city", "sold", "share", "open"], *values]


def test_an_error_of_an_old_workbook_is_no_empty_cell():
    table, _ = read_table(FILES / "errors.xls")
    assert [row[1].text for row in table.rows] == ["5", "#DIV/0!", "7"]
    assert compute("sum", ((0, 1), (1, 1), (2, 1)), table) is None


def test_what_a_spreadsheet_library_writes(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    moment = datetime.datetime(2024, 3, 1, 8, 30, 15)
    day, span = moment.date(), datetime.timedelta(days=1, minutes=90)
    values = [moment, day, moment.time(), span, 0.1 + 0.2, 2**53, True, "=1"]
    book.active.append(["moment", "day", "time", "long", "sum", "large", "flag", "formula"])
    book.active.append(values)
    book.save(tmp_path / "t.xlsx")
    shown = ["2024-03-01 08:30:15", "2024-03-01", "8:30:15", "25:30:00", "0.3", "9007199254740990", "TRUE", ""]
    assert lines(tmp_path / "t.xlsx")[0][1][:7] == shown[:7]


def test_a_time_beyond_any_calendar_is_no_traceback(tmp_path):
    book = pytest.importorskip("xlsxwriter").Workbook(tmp_path / "t.xlsx")
    sheet = book.add_worksheet()
    sheet.write_row(0, 0, ["a", "b"])
    sheet.write_number(1, 0, -1e19, book.add_format({"num_format": "[h]:mm"}))
    book.close()
    with pytest.raises(DataError, match="this workbook cannot be read"):
        read_table(tmp_path / "t.xlsx")


@pytest.mark.parametrize("name", ["t.xls", "t.xlsx", "t.csv"])
def test_a_web_page_is_no_table(tmp_path, name):
    (tmp_path / name).write_bytes(b"<html><table><tr><td>a</td></tr></table></html>")
    with pytest.raises(DataError, match=r"this is a web page or XML\. Save the table as CSV or \.xlsx\."):
        read_table(tmp_path / name)
