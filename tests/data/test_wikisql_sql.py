import pytest

from mate_cli.data.datasets.file_formats import DamagedEntryError
from mate_cli.data.datasets.wikisql.reader import WikiSQLCondition, WikiSQLQuery, execute_sql

ROWS = [["Ann Lee", "3", "Guard"], ["Bob Stone", "21", "Forward - Guard"], ["Cy Young", "21", "guard"]]
TYPES = ("text", "real", "text")


def run(column, aggregation, *conditions):
    return execute_sql(WikiSQLQuery(column, aggregation, tuple(WikiSQLCondition(*c) for c in conditions)), ROWS, TYPES)


@pytest.mark.parametrize(
    ("query", "cells", "aggregation", "number", "texts"),
    [
        ((0, 0), ((0, 0), (1, 0), (2, 0)), "none", None, ("Ann Lee", "Bob Stone", "Cy Young")),
        ((0, 0, (1, 0, "3")), ((0, 0),), "none", None, ("Ann Lee",)),
        ((0, 0, (1, 0, 3)), ((0, 0),), "none", None, ("Ann Lee",)),
        ((0, 0, (1, 0, "3.0")), ((0, 0),), "none", None, ("Ann Lee",)),
        ((0, 0, (1, 1, "3"), (2, 0, "GUARD")), ((2, 0),), "none", None, ("Cy Young",)),
        ((0, 0, (1, 2, 21)), ((0, 0),), "none", None, ("Ann Lee",)),
        ((0, 0, (2, 0, "forward-guard")), ((1, 0),), "none", None, ("Bob Stone",)),
        ((0, 0, (0, 1, "bob")), ((1, 0), (2, 0)), "none", None, ("Bob Stone", "Cy Young")),
        ((1, 0, (0, 0, "ann lee")), ((0, 1),), "none", 3.0, ("3.0",)),
        ((1, 1), ((2, 1),), "none", 21.0, ("21.0",)),
        ((1, 2), ((0, 1),), "none", 3.0, ("3.0",)),
        ((0, 1), ((2, 0),), "none", None, ("Cy Young",)),
        ((1, 3), ((0, 1), (1, 1), (2, 1)), "count", 3.0, ("3.0",)),
        ((0, 3, (2, 0, "nobody")), (), "count", 0.0, ("0.0",)),
        ((1, 4), ((0, 1), (1, 1), (2, 1)), "sum", 45.0, ("45.0",)),
        ((1, 5), ((0, 1), (1, 1), (2, 1)), "average", 15.0, ("15.0",)),
        ((1, 4, (1, 0, 3)), ((0, 1),), "sum", 3.0, ("3.0",)),
        ((0, 4), ((0, 0), (1, 0), (2, 0)), "sum", None, ("Ann Lee", "Bob Stone", "Cy Young")),
    ],
)
def test_queries(query, cells, aggregation, number, texts):
    answer = run(*query)
    assert (answer.coordinates, answer.aggregation, answer.number, answer.texts) == (cells, aggregation, number, texts)


def test_equal_extremes_are_the_last_one_for_max_and_the_first_one_for_min():
    rows = [["5"], ["7"], ["5"], ["7"]]
    assert execute_sql(WikiSQLQuery(0, 1), rows, ("real",)).coordinates == ((3, 0),)
    assert execute_sql(WikiSQLQuery(0, 2), rows, ("real",)).coordinates == ((0, 0),)


def test_a_remark_in_a_column_of_numbers_meets_no_condition_and_is_no_extreme():
    rows = [["-", "a"], ["4", "b"], ["6", "c"]]
    types = ("real", "text")
    assert execute_sql(WikiSQLQuery(1, 0, (WikiSQLCondition(0, 1, 1),)), rows, types).texts == ("b", "c")
    assert execute_sql(WikiSQLQuery(0, 2), rows, types).coordinates == ((1, 0),)
    assert execute_sql(WikiSQLQuery(0, 4), rows, types).number is None


@pytest.mark.parametrize("query", [(0, 0, (0, 0, 7)), (0, 0, (1, 0, "many")), (0, 4, (1, 0, 3))])
def test_texts_are_not_compared_with_numbers_nor_added_up(query):
    with pytest.raises(ValueError, match=r"number|float"):
        run(*query)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (None, "should contain sel, agg and conds"),
        ({"sel": 0, "agg": 0}, "should contain sel, agg and conds"),
        ({"sel": 0, "agg": 0, "conds": [[0, 0]]}, "should contain sel, agg and conds"),
        ({"sel": 3, "agg": 0, "conds": []}, "column that does not exist"),
        ({"sel": -1, "agg": 0, "conds": []}, "column that does not exist"),
        ({"sel": True, "agg": 0, "conds": []}, "column that does not exist"),
        ({"sel": 0, "agg": 0, "conds": [[9, 0, "x"]]}, "column that does not exist"),
        ({"sel": 0, "agg": 6, "conds": []}, "no aggregation 6"),
        ({"sel": 0, "agg": 0, "conds": [[0, 3, "x"]]}, "an operator other than"),
        ({"sel": 0, "agg": 0, "conds": [[0, 0, None]]}, "neither text nor a number"),
    ],
)
def test_what_is_no_query_is_refused(sql, message):
    with pytest.raises(DamagedEntryError, match=message):
        WikiSQLQuery.parse(sql, TYPES)
