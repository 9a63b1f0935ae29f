"""Tables that people have: written and read back, and the files that spreadsheets, exports and accidents leave."""

from __future__ import annotations

import contextlib
import csv
import datetime
import json

import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import texts
from written_tables import cells_of

from mate_cli.errors import DataError, MateError
from mate_cli.tables.read import read_table
from mate_cli.tables.read_options import Limits, ReadOptions
from mate_cli.tables.table import Table

odd = st.sampled_from(
    ["", "a,b", "x;y", 'say "hi"', "two\nlines", "a|b", "tab\there", "1,204", "3.5", "Łódź", "東京", "'", "#"]
)
cells = (texts | odd).map(lambda text: text.replace("\0", "").strip())


@st.composite
def own_tables(draw):
    """A table as people have them: named columns, no blank row, no blank column, no decimal commas."""
    header = draw(st.lists(cells.filter(bool), min_size=2, max_size=5, unique=True))
    rows = draw(st.lists(st.tuples(*[cells] * len(header)), max_size=6))
    rows = [row for row in rows if any(row)]
    return [header, ["first", *["last"] * (len(header) - 1)], *map(list, rows)]


def write_csv(lines, path, delimiter=",", encoding="utf-8"):
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows(lines)


def write_tsv(lines, path):
    write_csv(lines, path, "\t")


def write_utf16(lines, path):
    write_csv(lines, path, ";", "utf-16")


def write_json(lines, path):
    path.write_text(json.dumps([dict(zip(lines[0], line, strict=True)) for line in lines[1:]]))


def write_split(lines, path):
    path.write_text(json.dumps({"header": lines[0], "rows": lines[1:]}, ensure_ascii=False), encoding="utf-8")


def write_columns(lines, path):
    path.write_text(json.dumps({name: list(column) for name, *column in zip(*lines, strict=True)}))


def write_jsonl(lines, path):
    path.write_text("".join(json.dumps(dict(zip(lines[0], line, strict=True))) + "\n" for line in lines[1:]))


def write_parquet(lines, path):
    import pyarrow
    from pyarrow.parquet import write_table

    write_table(pyarrow.table({name: list(column) for name, *column in zip(*lines, strict=True)}), path)


def write_xlsx(lines, path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for line in lines:
        book.active.append(line)
    for row in book.active.iter_rows():
        for cell in row:
            cell.data_type = "s"  # no formulas
    book.save(path)


WRITERS = {
    "t.csv": write_csv,
    "t.tsv": write_tsv,
    "utf16.csv": write_utf16,
    "t.json": write_json,
    "split.json": write_split,
    "columns.json": write_columns,
    "t.jsonl": write_jsonl,
    "t.parquet": write_parquet,
    "t.xlsx": write_xlsx,
}


def contents(table: Table) -> list[list[str]]:
    return [[cell.text for cell in line] for line in (table.header, *table.rows)]


@pytest.mark.parametrize("name", WRITERS)
@given(lines=own_tables())
def test_what_is_written_is_read(tmp_path_factory, name, lines):
    if name == "t.xlsx":  # a workbook cannot hold control characters
        lines = [["".join(filter(in_workbooks, text)).strip() for text in line] for line in lines]
    path = tmp_path_factory.mktemp("tables") / name
    WRITERS[name](lines, path)
    table, _ = read_table(path)
    assert contents(table)[1:] == lines[1:]
    if len(set(filter(None, lines[0]))) == len(lines[0]):
        assert contents(table)[0] == lines[0]


def in_workbooks(letter: str) -> bool:
    return letter.isprintable() or letter == "\n"


def read(tmp_path, data: bytes | str, name: str = "t.csv"):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    table, notes = read_table(path)
    return contents(table), notes, table.title


def guessed(encoding):
    return f"The file is not in UTF-8; it was read as {encoding}; if letters look wrong, write text_encoding=NAME."


RUSSIAN = "имя,город\nИван,Москва\nПётр,Казань\nЮлия,Новосибирск\n"  # noqa: RUF001
ONE_COLUMN = "No delimiter was found: the table has one column (delimiter=... splits it)."
HANDLED = {
    "semicolons and decimal commas": ("name;price\nA;1,5\nB;1.204,25\n",
        cells_of("name | price / A | 1,5 / B | 1.204,25"),
        ["Columns are separated by semicolons.", "Decimal commas: 'price' (otherwise write decimal=.)."]),
    "points and commas": ('n,v\na,"1,204"\nb,"2,10"\nc,3.5\n',
        cells_of("n | v / a | 1,204 / b | 2,10 / c | 3.5"),
        ["No numbers in 'v': their marks may part decimals or thousands. Write decimal=, or decimal=. or locale=de."]),
    "pipes": ("a|b\n1|2\n", cells_of("a | b / 1 | 2"), ["Columns are separated by pipes."]),
    "a hint of Excel": ("sep=;\na;b\n1;2\n", cells_of("a | b / 1 | 2"), ["Columns are separated by semicolons."]),
    "old Mac line ends": ("a,b\r1,2\r", cells_of("a | b / 1 | 2"), []),
    "a byte order mark": ("\ufeffa,b\n1,2\n", cells_of("a | b / 1 | 2"), []),
    "cp1252": ("ville;été\nÎle-de-France;1\n".encode("cp1252"),
        cells_of("ville | été / Île-de-France | 1"), [guessed("cp1252"), "Columns are separated by semicolons."]),
    "letters that many encodings share": (
        "Straße;Anteil\nKölner Straße in München;12,5%\nZürcher Straße in Düsseldorf;7,25 %\n".encode("cp1252"),
        cells_of("Straße | Anteil / Kölner Straße in München | 12,5% / Zürcher Straße in Düsseldorf | 7,25 %"),
        [guessed("cp1252"), "Columns are separated by semicolons.",
         "Decimal commas: 'Anteil' (otherwise write decimal=.)."]),
    "cp1251": (RUSSIAN.encode("cp1251"), [line.split(",") for line in RUSSIAN.splitlines()], [guessed("cp1251")]),
    "ragged rows": ("a,b\n1\n1,2,3\n",
        cells_of("a | b | column 3 / 1 |  |  / 1 | 2 | 3"),
        ["1 row shorter than the header: filled with empty cells.",
         "1 row longer than the header: 1 column added on the right.", "1 column without a name: called column 3."]),
    "duplicate and blank headers": ("a,a,,a (2)\n1,2,3,4\n",
        cells_of("a | a (3) | column 3 | a (2) / 1 | 2 | 3 | 4"),
        ["1 column without a name: called column 3.", "Columns of the same name were numbered: 'a'."]),
    "blank rows and columns": ("a,b,,\n\n1,2,,\n,,,\n3,4,,\n,,,\n,,,\n",
        cells_of("a | b / 1 | 2 / 3 | 4"), ["2 blank rows left out."]),
    "a blank column in the middle": ("a,,b\n1,,2\n", cells_of("a | b / 1 | 2"), ["1 blank column left out."]),
    "a quotation mark that is never closed": ('a,b\n1,"open\n' + "2,3\n" * 40,
        [["a", "b"], ["1", '"open'], *[["2", "3"]] * 40],
        ["Some quotation marks do not fit together; those of no whole cell were read as text."]),
    "one that is never closed, and others that are": ('a,b\n"x, y","two\nlines"\n1,"open\n' + '2,"3, 4"\n' * 40,
        [["a", "b"], ["x, y", "two\nlines"], ["1", '"open'], *[["2", "3, 4"]] * 40],
        ["Some quotation marks do not fit together; those of no whole cell were read as text."]),
    "inches": ('size,n\n5" pipe,1\n7" pipe,2\n', cells_of('size | n / 5" pipe | 1 / 7" pipe | 2'), []),
    "one column of sentences, most with a comma": ("comment\nyes, please\nwell, no\nwell, yes\nok\n",
        cells_of("comment / yes, please / well, no / well, yes / ok"), [ONE_COLUMN]),
    "some zero bytes": ("a,b\n1,x\0y\n" + "2,3\n" * 30,
        [["a", "b"], ["1", "xy"], *[["2", "3"]] * 30], ["1 NUL character left out."]),
    "zero bytes at the end": ("a,b\n1,2\n" + "\0" * 8, cells_of("a | b / 1 | 2"), ["8 NUL characters left out."]),
}  # fmt: skip


@pytest.mark.parametrize("name", HANDLED)
def test_what_spreadsheets_and_exports_leave(tmp_path, name):
    data, expected, notes = HANDLED[name]
    found, said, _ = read(tmp_path, data)
    assert found == expected
    assert said == notes


def test_a_line_above_the_table_is_its_title(tmp_path):
    found, notes, title = read(tmp_path, "Sales 2024,,\n,,\nregion,march,april\nnorth,1,2\n")
    assert (found[0], title) == (["region", "march", "april"], "Sales 2024")
    assert notes == ["1 line above the table read as its title: 'Sales 2024'."]


def test_a_line_that_only_numbers_the_columns_is_left_out_and_said(tmp_path):
    (tmp_path / "t.csv").write_text("name,sales,cost\n1,2,3\nx,10.5,20.5\ny,30.5,40.5\n")
    table, notes = read_table(tmp_path / "t.csv")
    assert contents(table)[1:] == [["x", "10.5", "20.5"], ["y", "30.5", "40.5"]]
    assert notes == ["The line that only numbers the columns was left out."]


def test_numbers_with_commas_or_a_minus_that_become_names_are_said(tmp_path):
    for first in ("1,5", "-2"):
        (tmp_path / "t.csv").write_text(f"anna;{first}\nbo;{first}\ncarl;{first}\n")
        _, notes = read_table(tmp_path / "t.csv")
        assert any(note.startswith("Numbers were read as names of columns") for note in notes)


REFUSED = {
    "empty": ("t.csv", b"", "this file is empty"),
    "white space": ("t.csv", b" \n\n", "this file has no table"),
    "blank lines": ("t.csv", b"\n\n", "this file has no table"),
    "empty rows": ("t.json", b"[[], []]", "this file has no table"),
    "header only": ("t.csv", b"a,b\n", "it has a header but no rows"),
    "binary": ("t.csv", bytes(range(256)) * 40, "this is not text"),
    "a PDF": ("t.csv", b"%PDF-1.7 ...", "this is a PDF"),
    "an image": ("t.csv", b"\x89PNG\r\n....", "this is an image"),
    "an old workbook": ("t.xls", b"\xd0\xcf\x11\xe0....", "this workbook cannot be read"),
    "a packed file": ("t.csv", b"\x1f\x8b....", "compressed with gzip. Unpack it first"),
    "a zip that is no workbook": ("t.xlsx", b"PK\x03\x04....", "this workbook cannot be read"),
    "damaged Parquet": ("t.parquet", b"PAR1....", "this table cannot be read"),
    "text called Parquet": ("t.parquet", b"a,b\n1,2\n", "this table cannot be read"),
    "text called xlsx": ("t.xlsx", b"a,b\n1,2\n", "this is not a workbook. If it is text, rename it to .csv"),
    "another kind": ("t.docx", b"words", "unsupported file type '.docx'"),
    "JSON that breaks off": ("t.json", b'[{"a": 1},\n{"a"\n', "line 2: not valid JSON"),
    "JSON without a table": ("t.json", b'"a"', "it has no table"),
    "an empty list": ("t.json", b"[]", "it has no table"),
    "a number too large": ("t.json", b'[{"a": ' + b"7" * 5000 + b"}]", "this table cannot be read"),
    "objects and others": ("t.json", b'[{"a": 1}, 2]', "entry 2 is not an object"),
    "a bad line": ("t.jsonl", b'{"a": 1}\n{"a"\n', "line 2: not valid JSON"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_table_is_refused_in_one_line(tmp_path, name):
    file, data, message = REFUSED[name]
    with pytest.raises(DataError) as error:
        read(tmp_path, data, file)
    assert message in str(error.value)
    assert str(tmp_path / file) in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_table(tmp_path / "none.csv")


@pytest.fixture
def workbook(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "cover"
    book.active["B2"] = "Company"
    sheet = book.create_sheet("sales")
    sheet.append(["Sales 2024"])
    sheet.merge_cells("A1:D1")
    sheet.append(["region", "day", "amount", "share"])
    sheet.append(["north", datetime.date(2024, 3, 1), 1204.5, 0.125])
    sheet.append([None, datetime.datetime(2024, 4, 1, 8, 30), -3, 1 / 3])
    sheet.append(["south", datetime.date(2024, 5, 1), 1e6, 2])
    sheet.merge_cells("A3:A4")
    sheet["C3"].number_format, sheet["C4"].number_format = '"$"#,##0.00', "#,##0_);(#,##0)"
    sheet["C5"].number_format, sheet["D3"].number_format = '#,##0.0,,"M"', "0.0%"
    sheet["B5"].number_format = "mmm yyyy"
    book.create_sheet("other").append(["a"])
    book.save(tmp_path / "book.xlsx")
    return tmp_path / "book.xlsx"


def test_a_workbook_reads_as_it_looks(workbook):
    table, notes = read_table(workbook)
    assert table.title == "Sales 2024"
    assert contents(table) == [
        ["region", "day", "amount", "share"],
        ["north", "2024-03-01", "$1,204.50", "12.5%"],
        ["north", "2024-04-01 08:30", "-3", "0.333333333"],
        ["south", "May 2024", "1.0M", "2"],
    ]
    assert notes[:2] == [
        "The sheet 'sales' was read; the workbook also has cover, other (choose with sheet=...).",
        "The value of 1 merged area was put in every cell of it.",
    ]


def test_merged_areas_without_end_are_left_alone(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for line in (["a", "b"], [1, 2]):
        book.active.append(line)
    book.active.merged_cells.add("C1:XFD1048576")
    book.save(tmp_path / "t.xlsx")
    assert contents(read_table(tmp_path / "t.xlsx")[0]) == [["a", "b"], ["1", "2"]]


def test_a_sheet_is_chosen_by_name_or_number(workbook):
    for sheet in ("other", "3"):
        with pytest.raises(DataError, match="it has a header but no rows"):
            read_table(workbook, ReadOptions(sheet=sheet))
    with pytest.raises(DataError, match="Sheets here: cover, sales, other"):
        read_table(workbook, ReadOptions(sheet="Sales"))


def test_a_workbook_called_csv_is_a_workbook(workbook, tmp_path):
    copy = tmp_path / "book.csv"
    copy.write_bytes(workbook.read_bytes())
    table, notes = read_table(copy)
    assert notes[0] == "The file ending is .csv, but the content is a workbook."
    assert contents(table) == contents(read_table(workbook)[0])


def test_formulas_give_what_was_saved_with_them(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for line in (["a", "b"], [1, "=A2*2"]):
        book.active.append(line)
    book.save(tmp_path / "t.xlsx")
    table, notes = read_table(tmp_path / "t.xlsx")
    assert contents(table) == [["a", "b"], ["1", ""]]
    assert notes == ["Some formulas have no saved value: open the file in a spreadsheet program and save it."]


def test_values_of_parquet_are_written_as_people_read_them(tmp_path):
    import pyarrow
    from pyarrow.parquet import write_table

    columns = {
        "day": [datetime.date(2024, 3, 1), None],
        "time": [datetime.datetime(2024, 3, 1, 8, 30), datetime.datetime(2024, 3, 1)],
        "number": [0.1 + 0.2, 1e20],
        "whole": [3.0, float("nan")],
        "flag": [True, False],
        "__index_level_0__": [0, 1],
    }
    write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    assert contents(read_table(tmp_path / "t.parquet")[0])[1:] == [
        ["2024-03-01", "2024-03-01 08:30", "0.3", "3", "TRUE"],
        ["", "2024-03-01", "1e+20", "", "FALSE"],
    ]


@pytest.mark.parametrize("whole", [True, False])
def test_long_texts_of_parquet_are_read_in_their_order(tmp_path, whole):
    import pyarrow
    from pyarrow.parquet import write_table

    texts = [f"{number}" + "x" * (number % 30) for number in range(300)]
    views = pyarrow.array(texts, pyarrow.string_view())
    pairs = [[(text, number)] if number % 3 else None for number, text in enumerate(texts)]
    columns: dict[str, object] = {
        "plain": texts,
        "coded": pyarrow.array(texts).dictionary_encode(),
        "views": views,
        "pairs": pyarrow.array(pairs, pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        "parts": [{"a": text, "b": [text, None]} for text in texts],
    }
    write_table(
        pyarrow.table(columns), tmp_path / "t.parquet", store_schema=whole, row_group_size=170 if whole else None
    )
    rows = contents(read_table(tmp_path / "t.parquet")[0])[1:]
    assert [row[0] for row in rows] == [row[1] for row in rows] == [row[2] for row in rows] == texts
    assert rows[4][3:] == ['[["4xxxx", 4]]', '{"a": "4xxxx", "b": ["4xxxx", null]}']
    assert rows[3][3] == ""


@settings(max_examples=150)  # quick, and what may break lies in one of hundreds of places
@given(st.binary(max_size=400))
def test_any_bytes_give_a_table_or_an_error_of_ours(tmp_path_factory, data):
    for name in ("t.csv", "t.json", "t.jsonl"):
        path = tmp_path_factory.mktemp("bytes") / name
        path.write_bytes(data)
        with contextlib.suppress(MateError):
            table, _ = read_table(path)
            assert {len(row) for row in table.rows} == {len(table.header)}


@pytest.mark.parametrize("name", ["t.xlsx", "t.parquet", "records.json", "split.json", "columns.json", "lists.json"])
def test_numbers_of_a_file_have_points_whatever_its_texts_have(tmp_path, name):
    import pandas

    frame = pandas.DataFrame({"text": ["12,5", "3,75"], "number": [1.204, 2.15]})
    path = tmp_path / name
    if path.suffix == ".xlsx":
        frame.to_excel(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.stem == "lists":
        path.write_text(json.dumps([list(frame.columns), *frame.to_numpy().tolist()]))
    else:
        frame.to_json(path, orient=path.stem)
    table, _ = read_table(path)
    values = [[one.read_number(cell.text) for one, cell in zip(table.formats, row, strict=True)] for row in table.rows]
    assert values == [[12.5, 1.204], [3.75, 2.15]]


@pytest.mark.parametrize(
    ("name", "blanks", "content"),
    [
        ("t.tsv", "\t" * 17 + "\n", "a\tb\n1\t2\n"),
        ("t.csv", "\r\n" * 9, "a,b\r\n1,2\r\n"),
        ("t.json", " " * 40, '[{"a": 1, "b": 2}]'),
    ],
)
def test_blanks_at_the_beginning_do_not_make_a_file_empty(tmp_path, name, blanks, content):
    (tmp_path / name).write_text(blanks + content)
    table, _ = read_table(tmp_path / name)
    assert [[cell.text for cell in row] for row in table.rows] == [["1", "2"]]


def test_a_file_that_is_too_large_names_the_limit_and_its_value(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n" + "x,1\n" * 300_000)
    with pytest.raises(DataError, match=r"raise limits\.megabytes, now 1\."):
        read_table(tmp_path / "t.csv", ReadOptions(limits=Limits(megabytes=1)))


def test_rows_that_are_equal_are_no_lines_of_the_header(tmp_path):
    (tmp_path / "t.csv").write_text("cat,dog\n" * 3 + "cat,mouse\n")
    assert len(read_table(tmp_path / "t.csv")[0].rows) == 3


def test_a_backslash_before_other_signs_stays(tmp_path):
    (tmp_path / "t.csv").write_text('n,t,v\na,\\N,1\nb,"say \\"hi\\", ok",\\N\nc,"C:\\\\x",3\nd,C:\\dir,4\n')
    rows = [[cell.text for cell in row] for row in read_table(tmp_path / "t.csv")[0].rows]
    assert rows == [["a", "\\N", "1"], ["b", 'say "hi", ok', "\\N"], ["c", "C:\\x", "3"], ["d", "C:\\dir", "4"]]


def test_rows_of_parquet_that_are_large_only_together_are_read(tmp_path):
    pandas.DataFrame({"text": ["x" * 1_000_000] * 40, "n": range(40)}).to_parquet(tmp_path / "t.parquet")
    assert len(read_table(tmp_path / "t.parquet")[0].rows) == 40


def test_a_blank_json_file_is_empty(tmp_path):
    (tmp_path / "t.json").write_text(" \n")
    with pytest.raises(DataError, match="this file is empty"):
        read_table(tmp_path / "t.json")
