"""What lies in a run's folder may come from anyone: only files are read, and none that takes more than it is worth."""

import json
import os
import time
import tracemalloc

import pytest

from mate_cli.errors import RunError
from mate_cli.files.safe_load import (
    MAX_SIZE,
    MAX_YAML,
    load_json,
    parse_yaml,
    read_lines,
    read_object,
    read_yaml,
    to_json,
)


def read_all_lines(path):
    return list(read_lines(path))


def as_yaml(path):
    return read_yaml(path, RunError, "")


READERS = {"json": (load_json, MAX_SIZE), "lines": (read_all_lines, MAX_SIZE), "yaml": (as_yaml, MAX_YAML)}


def make_link(path):
    path.with_name("target").write_text("{}")
    path.symlink_to(path.with_name("target"))


PLACES = {
    "a link": make_link,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a pipe": os.mkfifo,
    "a folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("place", PLACES)
def test_only_files_are_read_and_nothing_is_waited_for(tmp_path, name, place):
    PLACES[place](tmp_path / "x")
    with pytest.raises((OSError, RunError), match=r"it is a link|it is not a regular file"):
        READERS[name][0](tmp_path / "x")


def test_links_are_followed_where_files_are_kept_behind_them(tmp_path):
    make_link(tmp_path / "x")
    assert read_object(tmp_path / "x", RunError, "", links=True) == {}
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "y").symlink_to(tmp_path / "pipe")
    with pytest.raises(RunError, match="it is not a regular file"):
        read_object(tmp_path / "y", RunError, "", links=True)


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_is_too_large_is_not_read(tmp_path, name):
    read, largest = READERS[name]
    with (tmp_path / "x").open("wb") as file:
        file.truncate(largest + 1)
    tracemalloc.start()
    with pytest.raises((ValueError, RunError), match=r"it has more than (64 MB|256 KB)"):
        read(tmp_path / "x")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[" + "[]," * 4_100_000 + "1]", "more than 4,000,000 values"),
        ("[" * 100_000 + "]" * 100_000, "nested|recursion"),
        ('{"a": ' * 61 + "1" + "}" * 61, "nested"),
        ("1" * 5000, "digits"),
        ("[1]", "not a mapping"),
    ],
    ids=["many", "deep", "a little too deep", "digits", "a list"],
)
def test_json_that_takes_more_than_it_is_worth(tmp_path, content, problem):
    (tmp_path / "x").write_text(content)
    with pytest.raises(RunError, match=problem):
        read_object(tmp_path / "x", RunError, "")


@pytest.mark.parametrize(
    "text",
    [
        "a: 1" + ":1" * 60_000,
        "a: !!int '1" + ":1" * 60_000 + "'",
        "a: 0x" + "f" * 200_000,
        "\n".join(" " * i + "a:" for i in range(90)),
    ],
    ids=["base 60", "base 60 in quotes", "hexadecimal", "deep"],
)
def test_yaml_that_takes_more_than_it_is_worth(tmp_path, text):
    (tmp_path / "x").write_text(text)
    began = time.process_time()
    with pytest.raises(RunError, match=r"more than 300 digits|nested too deep"):
        as_yaml(tmp_path / "x")
    assert time.process_time() - began < 2
    with pytest.raises(RecursionError):
        parse_yaml("[" * 61 + "]" * 61)


def test_json_never_holds_nan(tmp_path):
    nan = float("nan")
    text = to_json({"a": [nan, -float("inf")], "b": {"c": (1.5, nan)}}, indent=1)
    assert json.loads(text, parse_constant=pytest.fail) == {"a": [None, None], "b": {"c": [1.5, None]}}
    (tmp_path / "x").write_text('{"a": NaN, "b": -Infinity, "c": 1}')
    assert load_json(tmp_path / "x") == {"a": None, "b": None, "c": 1}


def test_lines_that_are_no_objects_are_left_out(tmp_path):
    (tmp_path / "x").write_text('{"a": 1}\n[1]\nx\n{"a": NaN}\n{"a"')
    assert read_all_lines(tmp_path / "x") == [{"a": 1}, {"a": None}]
