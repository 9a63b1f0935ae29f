"""Tables in JSON: every orient of pandas, lists under keys, and what is no table."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written_tables import cells_of

from mate_cli.errors import DataError
from mate_cli.tables.read import read_table

NAMELESS = "1 column without a name: called column 1."


def read(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    table, notes = read_table(path)
    return [[cell.text for cell in line] for line in (table.header, *table.rows)], notes


NORTH = [["region", "sales"], ["North", "10"], ["South", "20"]]
ROWS = [{"region": "North", "sales": 10}, {"region": "South", "sales": 20}]
FIELDS = [{"name": "index", "type": "integer"}, {"name": "region"}, {"name": "sales"}]
TABLES = {
    "records": (ROWS, NORTH, []),
    "split": ({"columns": ["region", "sales"], "index": [0, 1], "data": [["North", 10], ["South", 20]]}, NORTH, []),
    "split with names of rows": ({"columns": ["sales"], "index": ["North", "South"], "data": [[10], [20]]},
        [["column 1", "sales"], *NORTH[1:]], [NAMELESS]),
    "index": ({"0": ROWS[0], "1": ROWS[1]}, NORTH, []),
    "index with names": ({"a": ROWS[0], "b": ROWS[1]},
        cells_of("column 1 | region | sales / a | North | 10 / b | South | 20"), [NAMELESS]),
    "columns": ({"region": {"0": "North", "1": "South"}, "sales": {"0": 10, "1": 20}}, NORTH, []),
    "columns in another order": ({"region": {"0": "North", "1": "South"}, "sales": {"1": 20, "0": 10}}, NORTH, []),
    "columns that lack rows": ({"a": {"0": 1, "1": 2}, "b": {"1": "y"}}, cells_of("a | b / 1 |  / 2 | y"), []),
    "columns with names of rows": ({"sales": {"N": 10, "S": 20, "W": 5}, "who": {"N": "Ann", "S": "Bo", "W": None}},
        cells_of("column 1 | sales | who / N | 10 | Ann / S | 20 | Bo / W | 5 | "), [NAMELESS]),
    "more names outside": ({"N": {"q1": 1, "q2": 2}, "S": {"q1": 3, "q2": 4}, "W": {"q1": 5, "q2": 6}},
        cells_of("column 1 | q1 | q2 / N | 1 | 2 / S | 3 | 4 / W | 5 | 6"), [NAMELESS]),
    "table": (
        {"schema": {"fields": FIELDS, "primaryKey": ["index"]}, "data": [{"index": 0, **ROWS[0]}, {"index": 1,
         **ROWS[1]}]},
        NORTH, []),
    "table with a named index": (
        {"schema": {"fields": FIELDS[1:], "primaryKey": ["region"], "pandas_version": "1.4.0"}, "data": ROWS}, NORTH,
        []),
    "values": ([["North", 10], ["South", 20]],
        [["column 1", "column 2"], *NORTH[1:]], ["2 columns without a name: called column 1, column 2."]),
    "a header with years": ([["r", 2019, 2020], ["N", 1, 2]], cells_of("r | 2019 | 2020 / N | 1 | 2"), []),
    "MongoDB": ([{"a": {"$oid": "x"}, "n": {"$numberLong": "5"}}], cells_of("a | n / x | 5"), []),
    "references": ([{"a": {"$ref": "x"}, "n": 5}], cells_of('a | n / {"$ref": "x"} | 5'), []),
    "under a key": ({"data": ROWS, "errors": [], "page": 1}, NORTH, ["The table was read from 'data'."]),
    "lists under a key": ({"data": [["a", "b"], [1, 2]]},
        cells_of("a | b / 1 | 2"), ["The table was read from 'data'."]),
    "columns under a key": ({"data": {"a": [1, 2], "b": [3, 4]}, "ok": True},
        cells_of("a | b / 1 | 3 / 2 | 4"), ["The table was read from 'data'."]),
    "deep": ({"count": 2, "next": None, "results": {"items": ROWS}},
        NORTH, ["The table was read from 'results.items'."]),
    "names of columns as objects": ({"columns": [{"name": "a"}, {"name": "b"}], "rows": [[1, 2]]},
        cells_of("a | b / 1 | 2"), []),
    "objects beside a header": ({"columns": ["b", "a"], "rows": [{"a": 1, "b": 2}]}, cells_of("b | a / 2 | 1"), []),
    "a later key": ([{"a": 1}, {"b": True}, {"b": None, "a": 2.50}], cells_of("a | b / 1 |  /  | TRUE / 2.5 | "), []),
    "not a number": ('[{"a": NaN, "b": 1}]', cells_of("a | b /  | 1"), []),
    "lists one after another": ('[{"a": 1}, {"a": 2}]\n[{"a": 3, "b": 4}],\n[{"b": 5}]\n',
        cells_of("a | b / 1 |  / 2 |  / 3 | 4 /  | 5"), []),
    "lists of lists one after another": ('[["a"], [1]] [[2]]\n[[3]]', cells_of("a / 1 / 2 / 3"), []),
    "in a call": ('/*O_o*/\nset.rows({"columns": ["n"], "rows": [[1]]});', cells_of("n / 1"), []),
    "GeoJSON": ({"type": "FeatureCollection", "features": [
        {"type": "Feature", "geometry": {"type": "Point", "coordinates": [1, 2]}, "properties": row} for row in ROWS]},
        NORTH, ["The table was read from 'features'."]),
    "ArcGIS": ({"fields": FIELDS[1:], "features": [{"attributes": row} for row in ROWS]}, NORTH, []),
    "Airtable": ({"records": [{"id": f"r{n}", "createdTime": "2020", "fields": row} for n, row in enumerate(ROWS)]},
        cells_of("id | region | sales / r0 | North | 10 / r1 | South | 20"), ["The table was read from 'records'."]),
    "properties of a product": ([{"title": "a", "properties": {"size": 1}}],
        cells_of('title | properties / a | {"size": 1}'), []),
    "SPARQL": ({"head": {"vars": ["region", "sales"]}, "results": {"bindings": [
        {key: {"type": "literal", "value": value} for key, value in row.items()} for row in ROWS]}}, NORTH,
        ["The table was read from 'results'."]),
    "a schema beside rows": ({"results": ROWS, "schema": {"a1": {"fields": {"region": {"type": "text"},
        "sales": {"type": "text"}}}}}, NORTH, ["The table was read from 'results'."]),
    "nested values": ('[{"a": {"b": [1]}, "c": 2}]', cells_of('a | c / {"b": [1]} | 2'), []),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_many_shapes(tmp_path, name):
    content, expected, notes = TABLES[name]
    assert read(tmp_path / "t.json", content) == (expected, notes)


def test_a_line_of_lists_is_a_row(tmp_path):
    assert read(tmp_path / "t.jsonl", '["a", "b"]\n[["c"], "d"]\n["e", "f"]\n')[0] == [
        ["a", "b"],
        ['["c"]', "d"],
        ["e", "f"],
    ]
    assert read(tmp_path / "t.jsonl", '[\n{"a": 1},\n{"a": 2}\n]\n')[0] == [["a"], ["1"], ["2"]]


NONE = {
    "one object": ({"a": 1, "b": "x"}, "it has no table. Write a list of objects"),
    "an answer that failed": ({"error": {"code": 404, "message": "not found"}}, "it has no table"),
    "settings": ({"paths": {"root": "/", "out": "x"}, "trainer": {"epochs": 3}}, "it has no table"),
    "a text": ("a", "it has no table"),
    "an empty object": ({}, "it has no table"),
    "several tables": (
        {"x": [{"a": 1}], "y": {"z": [{"b": 1}]}},
        "it has several tables: x, y.z. Save each in its own file",
    ),
    "single values": ([1, 2], "it has no table"),
    "columns of unequal length": ({"a": [1, 2], "b": [3]}, "or a list per column, all of one length"),
    "no rows": ({"data": []}, "it has a header but no rows"),
}


@pytest.mark.parametrize("name", NONE)
def test_what_is_no_table_is_refused_with_the_reason(tmp_path, name):
    content, problem = NONE[name]
    with pytest.raises(DataError) as error:
        read(tmp_path / "t.json", json.dumps(content))
    assert problem in str(error.value)


LISTS = {
    "a file that ends early": ('[{"a": 1},\n{"a": 2},\n{"a"', "line 3: not valid JSON"),
    "no comma": ('[{"a": 1},\n{"a": 2}\n{"a": 3}]', "line 3: not valid JSON: Expecting ',' delimiter"),
    "more behind it": ('[{"a": 1},\n{"a": 2}]\nx', "line 3: not valid JSON: Expecting value"),
    "an error amid many": ('[{"a": 1},\n{"a": oops},\n' + '{"a": 1},\n' * 99_999, "line 2: not valid JSON"),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_with_a_fault_is_refused_where_it_stands(tmp_path, name):
    content, problem = LISTS[name]
    with pytest.raises(DataError) as error:
        read(tmp_path / "t.json", content)
    assert problem in str(error.value)


def shapes(header, rows, names):
    """The same table in each orient of pandas, and under keys; whether the names of its rows are lost."""
    records = [dict(zip(header, row, strict=True)) for row in rows]
    keyed = dict(zip(names, records, strict=True))
    columns = {name: {key: record[name] for key, record in keyed.items()} for name in header}
    fields = [{"name": name} for name in ("index", *header)]
    data = [{"index": key, **record} for key, record in keyed.items()]
    yield True, records
    yield True, {"results": {"count": len(rows), "items": records}}
    yield True, {name: [row[place] for row in rows] for place, name in enumerate(header)}
    yield True, [header, *rows]
    yield False, keyed
    yield False, columns
    yield False, {"columns": header, "index": names, "data": rows}
    yield False, {"schema": {"fields": fields, "primaryKey": ["index"]}, "data": data}


@settings(max_examples=settings().max_examples * 5)
@given(st.integers(0, 2**48))
def test_orients_are_read_back(tmp_path_factory, seed):
    chance = random.Random(seed)
    header = chance.sample(["region", "sales", "n", "Name, Vorname", "2019", "rate"], chance.randint(2, 4))
    rows = [
        [f"text {chance.randint(0, 9)}", *(chance.choice([chance.randint(-99, 99), 2.5, None]) for _ in header[1:])]
        for _ in range(chance.randint(2, 7))
    ]
    rows[0][1:] = [7] * (len(header) - 1)  # no column is blank
    are_counted = chance.random() < 0.5
    names = [str(n) if are_counted else f"row {n}" for n in range(len(rows))]
    body = [["" if value is None else str(value) for value in row] for row in rows]
    for is_without_names, content in shapes(header, rows, names):
        is_plain = is_without_names or are_counted
        index = "index" if isinstance(content, dict) and "schema" in content else "column 1"
        expected = [header, *body] if is_plain else [
            [index, *header], *([name, *row] for name, row in zip(names, body, strict=True))
        ]  # fmt: skip
        assert read(tmp_path_factory.getbasetemp() / "t.json", content)[0] == expected, content
