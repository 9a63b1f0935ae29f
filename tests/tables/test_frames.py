"""Data frames and Parquet: each value as people write it, the same from both."""

import datetime
import decimal
import uuid
from pathlib import Path

import numpy
import pandas
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.parquet import write_table

from mate_cli.tables.formats.cell_text import spreadsheet_text
from mate_cli.tables.read import read_table
from mate_cli.tables.table import Table

TIME = "2024-03-01 08:30"
VALUES = {
    "floats of 32 bits": (pyarrow.array([0.1, 33.3, None, 1e10, 16777216.0, -0.0], pyarrow.float32()),
        ["0.1", "33.3", "", "10000000000", "16777216", "0"]),
    "floats of 16 bits": (pyarrow.array([0.1, 65504.0, None], pyarrow.float16()), ["0.1", "65504", ""]),
    "in lists": (pyarrow.array([[0.1, None], None, []], pyarrow.list_(pyarrow.float64())), ["[0.1, null]", "", "[]"]),
    "in parts": (pyarrow.array([{"a": 0.1, "b": None}]), ['{"a": 0.1, "b": null}']),
    "in maps": (pyarrow.array([[("k", 0.1)]], pyarrow.map_(pyarrow.string(), pyarrow.float64())), ['[["k", 0.1]]']),
    "in dictionaries": (pyarrow.array([0.1, 0.1, None], pyarrow.float32()).dictionary_encode(), ["0.1", "0.1", ""]),
    "floats": (pyarrow.array([0.1 + 0.2, 1e15, 1234567890123456.0, 1e20, 1e-7]),
        ["0.3", "1000000000000000", "1234567890123456", "1e+20", "1e-07"]),
    "whole numbers": (pyarrow.array([2**63 + 5, None, 0], pyarrow.uint64()), ["9223372036854775813", "", "0"]),
    "decimals": (pyarrow.array([decimal.Decimal("1.50"), decimal.Decimal("-0.05"), None], pyarrow.decimal128(9, 2)),
        ["1.50", "-0.05", ""]),
    "durations": (
        pyarrow.array([datetime.timedelta(minutes=-30), datetime.timedelta(seconds=-5), datetime.timedelta(seconds=1.5),
         datetime.timedelta(days=2, hours=3), datetime.timedelta(microseconds=-1), None, ]),
        ["-0:30:00", "-0:00:05", "0:00:01.5", "51:00:00", "-0:00:00.000001", ""]),
    "durations in nanoseconds": (pyarrow.array([-1_500_000_000, None], pyarrow.duration("ns")), ["-0:00:01.5", ""]),
    "moments": (pyarrow.array([datetime.datetime(2024, 3, 1, 8, 30, 0, 250_000), datetime.datetime(2024, 3, 1), None]),
        [f"{TIME}:00.25", "2024-03-01", ""]),
    "moments of nanoseconds": (pyarrow.array([1, None], pyarrow.timestamp("ns")),
        ["1970-01-01 00:00:00.000000001", ""]),
    "time zones": (
        pyarrow.array([datetime.datetime(2024, 3, 1, 7, 30), datetime.datetime(2024, 2, 29, 23), None],
         pyarrow.timestamp("us", "Europe/Berlin")),
        [f"{TIME}+01:00", "2024-03-01 00:00+01:00", ""]),
    "days": (pyarrow.array([datetime.date(2024, 3, 1), None]), ["2024-03-01", ""]),
    "times": (pyarrow.array([datetime.time(8, 30), datetime.time(1, 2, 3, 5000), None]), ["08:30", "01:02:03.005", ""]),
    "flags": (pyarrow.array([True, False, None]), ["TRUE", "FALSE", ""]),
    "bytes": (pyarrow.array([b"ab", b"\xff", None]), ["ab", "\ufffd", ""]),
    "categories": (pyarrow.array(["x", None, "y"]).dictionary_encode(), ["x", "", "y"]),
}  # fmt: skip


def texts(table):
    return [cell.text for (cell,) in table.rows]


@pytest.mark.parametrize("name", VALUES)
def test_values_of_parquet_and_frames(tmp_path, name):
    array, expected = VALUES[name]
    ones = pyarrow.table({"a": array, "b": [1] * len(array)})
    write_table(ones, tmp_path / "t.parquet")
    assert [row[0].text for row in read_table(tmp_path / "t.parquet")[0].rows] == expected
    for types in (None, pandas.ArrowDtype):
        if types and name.startswith("in "):
            continue
        frame = ones.to_pandas(types_mapper=types)
        if name not in ("whole numbers", "flags", "in lists", "in parts", "in maps"):
            assert [row[0].text for row in Table.from_pandas(frame).rows] == expected, types


def test_floats_of_a_file():
    table, _ = read_table(Path(__file__).parent / "workbooks" / "f32.parquet")
    assert [row[1].text for row in table.rows] == ["0.1", "33.3", "1000000.1"]


def objects(*values):
    return pandas.Series(values, dtype=object)


FRAMES = {
    "nullable whole numbers": (pandas.array([1, None, 2**60], dtype="Int64"), ["1", "", "1152921504606846976"]),
    "nullable floats": (pandas.array([0.1, None], dtype="Float32"), ["0.1", ""]),
    "nullable flags": (pandas.array([True, None], dtype="boolean"), ["TRUE", ""]),
    "missing values": (objects(None, pandas.NA, pandas.NaT, numpy.nan, "x"), ["", "", "", "", "x"]),
    "categories of floats": (pandas.Categorical(numpy.array([0.1, 2], "f4")), ["0.1", "2"]),
    "sparse": (pandas.arrays.SparseArray([0.5, numpy.nan]), ["0.5", ""]),
    "periods": (pandas.period_range("2024-01", periods=2, freq="M"), ["2024-01", "2024-02"]),
    "intervals": (pandas.interval_range(0, 2), ["(0, 1]", "(1, 2]"]),
    "whole numbers of any size": (objects(2**70, -1), ["1180591620717411303424", "-1"]),
    "values of numpy": (
        objects(numpy.float32(0.1), numpy.float16(0.1), numpy.int8(3), numpy.bool_(True), numpy.array([0.1, 2.5],
         "f4")),
        ["0.1", "0.1", "3", "TRUE", "[0.1, 2.5]"]),
    "nested": (objects({"a": [numpy.float32(0.1), float("nan")], datetime.date(2024, 1, 2): b"x"}, (1, None)),
        ['{"a": [0.1, null], "2024-01-02": "x"}', "[1, null]"]),
    "decimals": (objects(decimal.Decimal("NaN"), decimal.Decimal("1E+3"), decimal.Decimal("1.10")),
        ["", "1000", "1.10"]),
    "others": (objects(uuid.UUID(int=1), datetime.time(8, 30)), [str(uuid.UUID(int=1)), "08:30"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_values_of_frames(name):
    values, expected = FRAMES[name]
    assert texts(Table.from_pandas(pandas.DataFrame({"a": values}))) == expected


def header(frame):
    return [cell.text for cell in Table.from_pandas(frame).header]


def test_names_of_columns(tmp_path):
    levels = pandas.MultiIndex.from_tuples([("sales", "2020"), ("cost", "x"), ("k", "")])
    frame = pandas.DataFrame([[1, 2, 3]], columns=levels)
    assert header(frame) == ["sales 2020", "cost x", "k"]
    frame.to_parquet(tmp_path / "t.parquet")
    assert [cell.text for cell in read_table(tmp_path / "t.parquet")[0].header] == header(frame)
    assert header(pandas.DataFrame([[1, 2, 3]], columns=[pandas.Timestamp("2024-01-01"), 2020.0, None])) == [
        "2024-01-01",
        "2020",
        "",
    ]


def test_an_index_with_names_becomes_columns():
    index = pandas.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["k", None])
    table = Table.from_pandas(pandas.DataFrame({"k": [3, 4]}, index=index))
    assert [[cell.text for cell in row] for row in (table.header, *table.rows)] == [["k", "k"], ["a", "3"], ["b", "4"]]
    floats = pandas.Index(numpy.array([0.1], "f4"), name="i")
    assert Table.from_pandas(pandas.DataFrame({"a": [1]}, index=floats)).rows[0][0].text == "0.1"
    assert Table.from_pandas(pandas.DataFrame({"a": []})).rows == ()


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_of_32_bits_is_itself_again(value):
    assert numpy.float32(spreadsheet_text(numpy.float32(value))) == numpy.float32(value)


@given(st.timedeltas(datetime.timedelta(days=-999), datetime.timedelta(days=999)))
def test_a_duration_is_itself_again(value):
    text = spreadsheet_text(value)
    hours, minutes, seconds = text.lstrip("-").split(":")
    amount = decimal.Decimal(seconds) + 60 * int(minutes) + 3600 * int(hours)
    assert amount * (-1 if text.startswith("-") else 1) == value // datetime.timedelta(
        microseconds=1
    ) / decimal.Decimal(10**6)


@given(st.integers(-(10**20) + 1, 10**20 - 1))
def test_whole_numbers_are_exact(value):
    assert spreadsheet_text(value) == str(value)
    assert int(spreadsheet_text(float(value)).replace("1e+20", str(10**20))) == int(float(value))
