"""Small files as people and programs write them, with the tables that they hold."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from mate_cli.errors import DataError
from mate_cli.tables.denotation import compute, number_text
from mate_cli.tables.read import read_table
from mate_cli.tables.read_options import ReadOptions

CASES = Path(__file__).with_name("cases")
TABLES = {
    "09_quotes_even_in_number/films.tsv": (["id", "title", "year"], 5, "Some quotation marks do not fit together"),
    "10_delimiter_tie/namen.csv": (["Nr", "Name, Vorname", "Betrag"], 3, "separated by semicolons"),
    "11_lines_above_the_table/short.csv": (["name", "n", "m"], 2, "# exported"),
    "11_lines_above_the_table/two_titles.csv": (["region", "q1", "q2"], 12, "2 lines above the table"),
    "11_lines_above_the_table/worldbank.csv": (
        ["Country Name", "Country Code", "Indicator Name", "2019", "2020"],
        12,
        "2 lines above the table",
    ),
    "12_pandas_index_of_one_column/series.csv": (["column 1", "n"], 3, "without a name"),
    "13_backslash_quotes/songs.csv": (["Title", "Year", "Note"], 2, "Backslashes"),
    "14_space_before_quote/people.csv": (["id", "name", "amount"], 2, ""),
    "15_hash_delimiter_one_column/tabfact.csv": (["name", "n"], 2, "'#'"),
    "15_hash_delimiter_one_column/spaces.txt": (["name", "value"], 2, "spaces"),
    "22_json_shapes/index.json": (["region", "sales"], 2, ""),
    "22_json_shapes/table.json": (["region", "sales"], 2, ""),
    "43_xls_with_a_theme/tiny_theme.xls": (["k", "n"], 2, "The sheet 'S' was read"),
    "45_replacement_character/fffd.csv": (["name", "n"], 2, ""),
    "49_numbering_row/num2.csv": (["Player", "G1", "G2"], 3, "counts from 1"),
}


@pytest.mark.parametrize("file", TABLES)
def test_a_file_holds_the_table_that_its_writer_sees(file):
    header, rows, note = TABLES[file]
    table, notes = read_table(CASES / file)
    assert [cell.text for cell in table.header] == header
    assert len(table.rows) == rows
    assert any(note in line for line in notes) if note else notes == []


def test_quotation_marks_are_part_of_a_text_where_they_are_escaped():
    table, _ = read_table(CASES / "13_backslash_quotes/songs.csv")
    assert table.rows[0][0].text == 'A "Blue" Song'
    assert table.rows[1][2].text == 'says "no, never", twice'


LINES = {
    "gb18030": "城市,北京市朝阳区幸福路三号院,人口统计数据来源于国家统计局",
    "big5": "城市,臺北市信義區幸福路三號,人口統計資料來源為內政部",
    "cp932": "都市,東京都千代田区の人口,データの出典は総務省統計局です",
    "euc_jp": "都市,東京都千代田区の人口,データの出典は総務省統計局です",
    "euc_kr": "도시,서울특별시 종로구 세종로,인구 통계 자료 출처는 통계청이다",
}
"""A line in each charset of two bytes a character."""
LONG = 300


@pytest.mark.parametrize("charset", LINES)
@pytest.mark.parametrize("damage", ["", "long", "long, shifted", "a broken byte", "a cut character"])
def test_charsets_of_two_bytes(tmp_path, charset, damage):
    line, path = LINES[charset], tmp_path / "t.csv"
    head = f"{line},n\n" + f"{line},1\n" * 30
    if "long" in damage:  # one of the two has a character across the end of the sample
        joined = line.replace(",", "") * 6
        head += "x" * ("shifted" in damage) + f"{line},1\n" + "".join(f"a,{joined},{n},1\n" for n in range(LONG))
    end = {"a broken byte": b"\x81,x,y,2\n", "a cut character": line.encode(charset)[:-1]}.get(damage, b"")
    path.write_bytes(head.encode(charset) + end)
    table, notes = read_table(path)
    assert [cell.text for cell in table.header] == [*line.split(","), "n"]
    assert f"read as {charset}" in notes[0]
    assert any("cannot be read" in note for note in notes) == bool(end)


def test_bytes_that_are_text_in_no_charset_are_refused(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"k,v\n" + bytes(range(128, 256)) + b",1\n")
    with pytest.raises(DataError, match="text encoding is unknown"):
        read_table(tmp_path / "t.csv")


def test_a_workbook_with_a_password_says_so(tmp_path):
    begin = bytes.fromhex("D0CF11E0A1B11AE1")
    (tmp_path / "t.xlsx").write_bytes(begin + bytes(504) + "EncryptedPackage".encode("utf-16-le") + bytes(1000))
    with pytest.raises(DataError, match="has a password"):
        read_table(tmp_path / "t.xlsx")


def test_a_far_date_inside_a_value_is_text(tmp_path):
    far = pa.array([{"min": 2**60}], pa.struct([("min", pa.int64())]))
    inside = far.cast(pa.struct([("min", pa.timestamp("us"))]))
    parquet.write_table(pa.table({"k": ["a"], "s": inside}), tmp_path / "far.parquet")
    table, _ = read_table(tmp_path / "far.parquet")
    assert "38504-08-17" in " ".join(cell.text for cell in table.rows[0])


def test_sums_of_integers_are_exact():
    table, _ = read_table(CASES / "55_large_integers/big.csv")
    assert number_text(compute("sum", ((0, 1), (1, 1)), table)) == "9007199254740994"
    assert number_text(compute("sum", ((0, 1),), table)) == "9007199254740993"


@pytest.mark.parametrize(
    ("file", "cells"),
    [
        ("47_error_cells/err.ods", ["5", "#DIV/0!", "7"]),
        ("48_ods_durations/dur.ods", ["23:59:59", "24:00:00", "100:05:00"]),
    ],
)
def test_cells_of_open_documents(file, cells):
    table, _ = read_table(CASES / file)
    assert [row[1].text for row in table.rows] == cells


def test_what_is_hidden_in_open_documents(tmp_path):
    path, before = tmp_path / "t.ods", b"<table:table-row"
    with zipfile.ZipFile(CASES / "47_error_cells/err.ods") as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            start, *rows = old.read(name).split(before)
            if rows:
                rows[1] = b' table:visibility="collapse"' + rows[1]
            new.writestr(name, before.join([start, *rows]))
    table, notes = read_table(path)
    assert len(table.rows) == 3
    assert "1 hidden row" in notes[0]
    table, _ = read_table(path, ReadOptions(hidden=False))
    assert [row[0].text for row in table.rows] == ["b", "c"]


def test_hidden_rows_of_formats_that_do_not_tell_are_refused_by_name():
    path = CASES / "46_hidden_rows_xls_ods/hid.xls"
    assert len(read_table(path)[0].rows) == 3
    with pytest.raises(DataError, match="hidden=false"):
        read_table(path, ReadOptions(hidden=False))
