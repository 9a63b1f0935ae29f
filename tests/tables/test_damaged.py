"""Damaged tables and questions: each is read, or refused in one line; none hangs, and none is larger than it may be."""

import json
import os
import time
import zipfile
from contextlib import contextmanager, suppress

import pytest
from damage import every, samples

from mate_cli.errors import DataError, MateError
from mate_cli.tables.questions import find_tables, read_questions
from mate_cli.tables.read import open_table
from mate_cli.tables.read_options import Limits, ReadOptions

SECONDS = 10


@contextmanager
def refusing():
    """What is refused is refused in one line."""
    try:
        yield
    except MateError as error:
        if "\n" in str(error):
            raise AssertionError(str(error)) from error


def read_all(tmp_path, cases):
    """Read each file as a table and as questions; count how many could be."""
    answered = 0
    for seed, name, content in cases:
        file = tmp_path / name
        file.write_bytes(content)
        start = time.process_time()
        with refusing():
            table = open_table(file)
            rows = list(table)
            assert len(set(table.header)) == len(table.header), seed
            assert all(len(row) == len(table.header) for row in rows), seed
            "".join(cell for row in (table.header, *rows, table.notes) for cell in row).encode()
            answered += 1
        with refusing():
            assert all(question.question.strip() for question in read_questions(str(file))), seed
        assert time.process_time() - start < SECONDS, seed
    return answered


def test_damaged_tables_are_read_or_refused(tmp_path):
    assert 60 < read_all(tmp_path, every(250)) < 240


@pytest.mark.long
def test_thousands_of_damaged_tables_are_read_or_refused(tmp_path):
    assert read_all(tmp_path, every(6000, first=1000)) > 1500


def workbook(path, old, new):
    with zipfile.ZipFile(path.with_name("base.xlsx")) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as to:
        for name in source.namelist():
            content = source.read(name)
            if name == "xl/worksheets/sheet1.xml":
                assert old in content
                content = content.replace(old, new)
            to.writestr(name, content)


def of_workbook(old, new):
    def make(file):
        file.with_name("base.xlsx").write_bytes(samples()["j.xlsx"])
        workbook(file, old, new)

    return "t.xlsx", make


def of_text(name, text):
    return name, lambda file: file.write_text(text)


SMALL = Limits(rows=1000, columns=50, cells=20_000, megabytes=1)
LARGE = {
    "a packed sheet": (*of_workbook(b"</sheetData>", b"</sheetData>" + b" " * 1_200_000), "more than 1 megabytes"),
    "rows": (*of_text("t.csv", "a\n" + "1\n" * 1001), "more than 1,000 rows"),
    "blank rows": (*of_text("t.csv", "a,b\n" + ",\n" * 1001), "more than 1,000 rows"),
    "columns": (*of_text("t.csv", "a" + ",a" * 50 + "\n1\n"), "more than 50 columns"),
    "columns of a row": (*of_text("t.csv", "a,b\n1,2\n1" + ",1" * 50), "more than 50 columns"),
    "columns of JSON": (*of_text("t.json", json.dumps([{f"k{n}": 1} for n in range(60)])), "more than 50 columns"),
    "cells": (*of_text("t.csv", ("1" + ",1" * 39 + "\n") * 600), "more than 20,000 cells"),
    "a quotation": (*of_text("t.csv", 'a,b\n"' + "x\n" * 70_000 + '"'), "more than 1,000 rows"),
    "a file": (*of_text("t.csv", "a\n" + "1" * 1_000_001), "more than 1 megabytes"),
}


@pytest.mark.parametrize("name", LARGE)
def test_what_is_too_large_is_refused_with_the_word_that_allows_it(name, tmp_path):
    file, make, message = LARGE[name]
    make(tmp_path / file)
    with pytest.raises(DataError, match=message):
        open_table(tmp_path / file, ReadOptions(limits=SMALL))
    if message.startswith("more than"):
        with pytest.raises(DataError, match=r"or raise limits\.[a-z]+"):
            open_table(tmp_path / file, ReadOptions(limits=SMALL))


HUNDRED = b'<mergeCell ref="A1:J1000"/>' * 100
SLOW = {
    "equal names": of_text("t.csv", ",".join(["x"] * 16_000) + "\n" + ",".join(["1"] * 16_000)),
    "blank names": of_text("t.csv", "," * 16_000 + "\n" + ",".join(["1"] * 16_000)),
    "keys": of_text("t.json", json.dumps([{f"k{number}": 1} for number in range(2000)])),
    "spaces after a formula": of_workbook(b"</f>", b"</f>" + b" " * 1_000_000),
    "merged areas without an end": of_workbook(b"<mergeCell ", b"<mergeCell " + b"a " * 9 + b"mergeCell " * 90_000),
    "many merged areas": of_workbook(b"<mergeCell ", HUNDRED + b"<mergeCell "),
    "quotation marks": of_text("t.csv", 'a,b\n"' + 'x",y\n"' * 20_000),
    "a quotation mark in each line": of_text("t.csv", "a,b\n" + '"x,1\n' * 50_000),
    "escapes": of_text("t.csv", "a,b\n" + '"\\",\\' * 9000 + "\n" + '"x\\"\n' * 20_000),
    "signs in a cell": of_text("t.csv", "a,b\n" + ('1,"1' + "," * 60_000 + 'abcd"\n') * 9),
    "spaces": of_text("t.txt", "a  b\n" + " a   b" * 9000 + "\n" + "a  b\n" * 50_000),
}


def seconds_to_read(file):
    start = time.process_time()
    with suppress(MateError):
        open_table(file)
    return time.process_time() - start


@pytest.fixture(scope="module")
def seconds_of_a_plain_file(tmp_path_factory):
    """CPU time of reading a plain file of 1 MB, which is larger than each of the files that could be slow."""
    file = tmp_path_factory.mktemp("plain") / "plain.csv"
    file.write_text("a,b\n" + "1,x2\n" * 200_000)
    return seconds_to_read(file)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", SLOW)
def test_nothing_is_slow(name, tmp_path, seconds_of_a_plain_file):
    file, make = SLOW[name]
    make(tmp_path / file)
    assert seconds_to_read(tmp_path / file) < 5 * seconds_of_a_plain_file


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    for name, problem in (
        ("pipe.csv", "this is not a regular file"),
        ("loop.csv", "too many levels"),
        ("/dev/zero.csv", "no such"),
    ):
        with pytest.raises(DataError, match=problem):
            open_table(tmp_path / name)
    for name in ("pipe.csv", "pipe.txt"):
        os.path.lexists(tmp_path / name) or os.mkfifo(tmp_path / name)
        with pytest.raises(DataError, match="this is not a regular file"):
            read_questions(str(tmp_path / name))
    with pytest.raises(DataError, match="cannot be searched: file name too long"):
        find_tables(["n" * 5000 + ".csv"])


def test_half_a_character_becomes_the_sign_for_what_is_broken(tmp_path):
    (tmp_path / "t.json").write_text('[{"a\\udfff": "x\\ud800y"}]')
    table = open_table(tmp_path / "t.json")
    assert (table.header, table.row(0)) == (("a\ufffd",), ("x\ufffdy",))


def test_letters_of_ascii_that_stand_for_others_are_read(tmp_path):
    rows = [["地域", "数"], ["北海道", "12"], ["沖縄", "7"]]
    (tmp_path / "t.csv").write_bytes("\n".join(map(",".join, rows)).encode("iso2022_jp"))
    table = open_table(tmp_path / "t.csv")
    assert [list(table.header), *map(list, table)] == rows
    assert "it was read as iso2022_jp" in table.notes[0]


def test_nuls_are_left_out_and_said(tmp_path):
    (tmp_path / "t.csv").write_text("a\0,b\n1,2\0\n" + "3,4\n" * 100)
    assert open_table(tmp_path / "t.csv").notes == ["2 NUL characters left out."]
