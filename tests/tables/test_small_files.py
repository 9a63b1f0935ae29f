"""Small files as people and programs write them, with the tables that they hold."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from mate_cli.errors import DataError
from mate_cli.tables.denotation import compute, find_summands, number_text
from mate_cli.tables.read import read_table
from mate_cli.tables.read_options import ReadOptions

CASES = Path(__file__).with_name("cases")
TABLES = {
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


LINES = {
    "gb18030": "城市,北京市朝阳区幸福路三号院,人口统计数据来源于国家统计局",
    "big5": "城市,臺北市信義區幸福路三號,人口統計資料來源為內政部",
    "cp932": "都市,東京都千代田区の人口,データの出典は総務省統計局です",
    "euc_jp": "都市,東京都千代田区の人口,データの出典は総務省統計局です",
    "euc_kr": "도시,서울특별시 종로구 세종로,인구 통계 자료 출처는 통계청이다",
    "uhc": "도시,서울특별시 종로구 똠방로,인구 통계 자료 출처는 통계청이다",
}
"""A line in each charset of two bytes a character."""
LONG = 300


@pytest.mark.sampled(5)
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


@pytest.mark.parametrize(
    ("shown", "text", "total"),
    [*((error, error.decode(), None) for error in (b"#DIV/0!", b"#WERT!", b"Err:502")), (b"nil", "0", 12)],
)
def test_a_stored_zero_is_no_value_of_an_error(tmp_path, shown, text, total):
    path, error = tmp_path / "t.ods", b'office:value-type="string" office:string-value=""><text:p>#DIV/0!'
    with zipfile.ZipFile(CASES / "47_error_cells/err.ods") as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            zero = b'office:value-type="float" office:value="0"><text:p>' + shown
            new.writestr(name, old.read(name).replace(error, zero))
    table, _ = read_table(path)
    assert [row[1].text for row in table.rows] == ["5", text, "7"]
    assert compute("sum", [(row, 1) for row in range(3)], table) == total


@pytest.mark.parametrize("way", [b"collapse", b"filter"])
def test_what_is_hidden_in_open_documents(tmp_path, way):
    path, before = tmp_path / "t.ods", b"<table:table-row"
    with zipfile.ZipFile(CASES / "47_error_cells/err.ods") as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            start, *rows = old.read(name).split(before)
            if rows:
                rows[1] = b' table:visibility="%b"' % way + rows[1]
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


WORLD = "Country,Sales,Staff\nA,50,5\nB,100,10\nWorld,150,15\n"
SUMMARIES = {
    "Max": ("Name,Score\nA,80\nB,90\nMax,90\n", 170),
    "Minimum": ("Name,Score\nA,80\nB,90\nC,95\nN,3\nMinimum,80\n", 265),
    "SD": ("Name,Score\nA,80.5\nB,90\nSD,6.72\n", 170.5),
    "Std Dev": ("Name,Score\nA,80\nB,90\nMedian,85\nStd Dev,5\n", 170),
    "Tot.": ("Name,Score\nA,80\nB,90\nTot.,170\n", 170),
    "World": (WORLD, 150),
    "Both sexes": ("Sex,Births,Deaths\nBoth sexes,8123,7010\nMale,4170,3600\nFemale,3953,3410\n", 8123),
    "Welt": ("Land,n\nA,40217\nB,31052\nC,14\nWelt,71283\n", 71283),
    "平均": ("k,n,m\nA,14,31\nB,17,32\nC,25,37\n平均,18.67,33.33\n", 56),
    "Nord": ("k,n,m\nA,14,31\nB,17,32\nNord,31,63\nC,25,36\nD,2,4\nSüd,27,40\nAlles,58,103\n", 58),
    "Total costs": (
        "Account,n\nRevenue,\nSales,100\nServices,50\nTotal revenue,150\nRent,30\nTotal costs,30\nNet income,120\n",
        None,
    ),
    "Alle": ("k,n\nA,80\nB,93\nAlle,173\n", None),
    "Average": ("k,n\nA,80\nB,90\nAverage,99\n", None),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_rows_that_summarize_others_are_no_summands(tmp_path, name):
    text, right = SUMMARIES[name]
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    table, _ = read_table(tmp_path / "t.csv")
    cells = [(row, 1) for row in range(len(table.rows))]
    assert compute("sum", cells, table) == right
    assert any(repr(name) in note for note in find_summands(cells, table)[1])


@pytest.mark.parametrize(
    "rows",
    [
        *("A,80,2\nB,93,3\nC,173,4", "Anna,80\nMax,85\nBo,90", "Anna,80\nBo,90\nMax,85", "A,7,7\nB,7,7\nC,7,7"),
        *("A,2001,2002\nB,2004,2003\nC,2003,2002\nD,2003,2002", "A,1\nB,2\nC,3"),
    ],
)
def test_rows_that_resemble_summaries_are_summands(tmp_path, rows):
    (tmp_path / "t.csv").write_text(f"k,n,m\n{rows}\n")
    table, _ = read_table(tmp_path / "t.csv")
    numbers = [int(line.split(",")[1]) for line in rows.split()]
    assert compute("sum", [(row, 1) for row in range(len(numbers))], table) == sum(numbers)


def test_a_formula_of_a_total_is_no_summand():
    table, _ = read_table(CASES / "52_formula_total/fs.xlsx")
    assert compute("sum", [(row, 1) for row in range(3)], table) == 12


KV = [["k", "v"], ["a", "1"], ["b", "2"]]
FIELDS = [{"name": "k", "type": "STRING"}, {"name": "v", "type": "INTEGER"}]
SERVICES = {
    "CKAN": {
        "success": True,
        "result": {"fields": [{"id": "k"}, {"id": "v"}], "records": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]},
    },
    "Socrata": {"meta": {"view": {"columns": FIELDS, "tags": ["x"], "grants": [{"type": "viewer"}]}}, "data": KV[1:]},
    "BigQuery": {
        "schema": {"fields": FIELDS},
        "rows": [{"f": [{"v": "a"}, {"v": "1"}]}, {"f": [{"v": "b"}, {"v": "2"}]}],
    },
    "Google Visualization": {
        "table": {
            "cols": [{"id": "A", "label": "k"}, {"id": "B", "label": "v"}],
            "rows": [{"c": [{"v": "a"}, {"v": 1.0, "f": "1.00"}]}, {"c": [{"v": "b"}, {"v": 2}]}],
        }
    },
    "World Bank": [{"page": 1, "total": 2}, [{"k": "a", "v": 1}, {"k": "b", "v": 2}]],
    "Dataset-JSON": {
        "name": "DM",
        "columns": [{"itemOID": "IT.k", **FIELDS[0]}, {"itemOID": "IT.v", **FIELDS[1]}],
        "rows": KV[1:],
    },
}


@pytest.mark.parametrize("name", SERVICES)
def test_json_of_public_services(tmp_path, name):
    path, lines = tmp_path / "t.json", tmp_path / "t.ndjson"
    path.write_text(json.dumps(SERVICES[name]))
    read = [path]
    if name == "Dataset-JSON":
        first = {"name": "DM", "columns": SERVICES[name]["columns"]}
        lines.write_text("\n".join(map(json.dumps, [first, *KV[1:]])))
        read.append(lines)
    for file in read:
        table, _ = read_table(file)
        assert [[cell.text for cell in row] for row in (table.header, *table.rows)] == KV
