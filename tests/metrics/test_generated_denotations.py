"""Thousands of drawn queries of WikiSQL: SQLite says what they give, and which selections give the same.

Source: salesforce/WikiSQL, `lib/dbengine.py`, whose engine is SQL; google-research/tapas, `utils/wikisql_utils.py`, by
which texts are equal where their words are, and an answer is a number or the values of its cells.
"""

import math
import random
import sqlite3
from collections import Counter
from types import SimpleNamespace

import pytest

from mate_cli.data.datasets.wikisql.reader import WikiSQLQuery, execute_sql
from mate_cli.metrics.denotation_accuracy import denotation_is_right, right_denotations, structure_accuracy
from mate_cli.tables.example import AGGREGATIONS, TableExample
from mate_cli.tables.table import Cell, Table

TEXTS = {  # as the same words are written: in small letters, signs apart
    "Ann Lee": "ann lee",
    "ann  lee": "ann lee",
    "Guard": "guard",
    "GUARD": "guard",
    "forward-guard": "forward - guard",
    "Forward - Guard": "forward - guard",
    "F.C. Köln": "f . c . köln",
    "": "",
}
NUMBERS = {"3": 3, "3.0": 3, "-4": -4, "21": 21, "2.5": 2.5, "1000": 1000, "0": 0}
TYPES = ("text", "real", "text", "real")
WORDS = ("", "MAX", "MIN", "COUNT", "SUM", "AVG")
COMPARED = ("=", ">", "<")


def drawn_table(draw):
    kinds = [TEXTS if kind == "text" else NUMBERS for kind in TYPES]
    rows = [[draw.choice([*kind]) for kind in kinds] for _ in range(draw.choice((1, 3, 6)))]
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE t (c0 TEXT, c1 REAL, c2 TEXT, c3 REAL)")
    known = [[kind[cell] for kind, cell in zip(kinds, row, strict=True)] for row in rows]
    database.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", known)
    return rows, database


def drawn_query(draw):
    column = draw.randrange(len(TYPES))
    aggregations = (0, 1, 2, 3, 4, 5) if TYPES[column] == "real" else (0, 0, 3)
    conditions = []
    for _ in range(draw.choice((0, 1, 1, 2))):
        place = draw.randrange(len(TYPES))
        if TYPES[place] == "text":
            conditions.append([place, 0, draw.choice([*TEXTS])])
        else:
            text = draw.choice([*NUMBERS])
            conditions.append([place, draw.randrange(3), draw.choice((text, NUMBERS[text]))])
    return {"sel": column, "agg": draw.choice(aggregations), "conds": conditions}


def rows_of(database, query, what):
    """The rows of a query in SQL."""
    wheres, values = [], []
    for place, operator, value in query["conds"]:
        wheres.append(f"c{place} {COMPARED[operator]} ?")
        values.append(TEXTS[value] if TYPES[place] == "text" else float(value))
    where = f" WHERE {' AND '.join(wheres)}" if wheres else ""
    return database.execute(f"SELECT {what} FROM t{where}", values).fetchall()


def values_of(rows, aggregation, cells):
    """The values of a selection in plain words: how many, their sum or mean if all are numbers, else each of them."""
    texts = [rows[row][column] for row, column in dict.fromkeys(cells)]
    if aggregation == "count":
        return Counter([len(texts)])
    numbers = [NUMBERS.get(text) for text in texts]
    if aggregation in ("sum", "average") and texts and None not in numbers:
        return Counter([round(sum(numbers) / (len(numbers) if aggregation == "average" else 1), 3)])
    return Counter(text.lower() if number is None else number for text, number in zip(texts, numbers, strict=True))


@pytest.mark.parametrize("count", [4_000, pytest.param(30_000, marks=pytest.mark.long)])
def test_answers_are_those_of_an_sql_engine(count):
    draw, seen = random.Random(count), Counter()
    for number in range(count):
        rows, database = drawn_table(draw) if number % 4 == 0 else (rows, database)  # noqa: F821 - of the last round
        query = drawn_query(draw)
        answer = execute_sql(WikiSQLQuery.parse(query, TYPES), rows, TYPES)
        column, word = f"c{query['sel']}", WORDS[query["agg"]]
        if query["agg"] == 0:
            places = [row - 1 for (row,) in rows_of(database, query, "rowid")]
            assert answer.coordinates == tuple((row, query["sel"]) for row in places), (rows, query)
        else:
            ((expected,),) = rows_of(database, query, "count(*)" if word == "COUNT" else f"{word}({column})")
            if expected is None:
                assert math.isnan(answer.number), (rows, query)
            else:
                assert answer.number == pytest.approx(expected), (rows, query)
        seen[word] += bool(answer.coordinates)
    assert all(seen[word] > count / 50 for word in WORDS), seen


@pytest.mark.parametrize("count", [4_000, pytest.param(30_000, marks=pytest.mark.long)])
def test_a_selection_is_right_where_its_values_are_the_same(count):
    draw, right, tries = random.Random(count), 0, 0
    header = tuple(Cell(f"c{place}") for place in range(len(TYPES)))
    for number in range(count):
        rows = drawn_table(draw)[0] if number % 4 == 0 else rows  # noqa: F821 - of the last round
        answer = execute_sql(WikiSQLQuery.parse(drawn_query(draw), TYPES), rows, TYPES)
        table = Table("t", header, tuple(tuple(map(Cell, row)) for row in rows))
        example = TableExample("q", "?", table, answer)
        cells = list(answer.coordinates)
        if draw.random() < 0.6:
            cells = [(row, column) for row in range(len(rows)) for column in range(len(TYPES)) if draw.random() < 0.3]
            cells = [*draw.choice([cells, cells[:1], [*answer.coordinates, *cells[:1]]])]
        draw.shuffle(cells)
        aggregation = draw.choice([answer.aggregation or "none", *AGGREGATIONS])
        selected = SimpleNamespace(cells=tuple(cells), aggregation=aggregation)
        wanted = values_of(rows, answer.aggregation or "none", answer.coordinates)
        expected = values_of(rows, aggregation, cells) == wanted
        assert denotation_is_right(selected, example) == expected, (rows, answer, selected)
        assert right_denotations({"q": selected}, {"q": example}) == {"q": expected}
        same = aggregation == (answer.aggregation or "none"), set(cells) == set(answer.coordinates)
        scores = {"aggregation_accuracy": same[0], "cell_accuracy": same[1], "joint_accuracy": all(same)}
        assert structure_accuracy({"q": selected}, {"q": example}) == scores
        right, tries = right + expected, tries + (expected and not all(same))
    assert count / 5 < right < count * 4 / 5
    assert tries > count / 50, "some selections are right though they are others"
