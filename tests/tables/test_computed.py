"""Sums, averages and counts of cells as people write them."""

from __future__ import annotations

import pytest

from mate_cli.tables.denotation import compute, needs_all_rows
from mate_cli.tables.table import Cell, Table

TABLE = Table("t", (Cell("n"),), tuple((Cell(text),) for text in ("1,204", "$96.50", "12%", "3 km", "north", "-5")))


@pytest.mark.parametrize(
    ("aggregation", "rows", "value"),
    [
        ("sum", (0, 1), 1300.5),
        ("average", (2, 3), 7.5),
        ("count", (0, 4), 2),
        ("count", (), 0),
        ("sum", (0, 4), None),
        ("sum", (), None),
        ("none", (0,), None),
        ("sum", (0, 0, 5), 1199),
    ],
)
def test_cells_are_computed(aggregation, rows, value):
    assert compute(aggregation, tuple((row, 0) for row in rows), TABLE) == value


@pytest.mark.parametrize("aggregation", ["sum", "average"])
def test_what_is_beyond_all_numbers_is_no_answer(aggregation):
    largest = Table("t", (Cell("n"),), ((Cell("9" * 308),), (Cell("9" * 308),), (Cell("9" * 400),)))
    assert compute(aggregation, ((0, 0), (1, 0)), largest) is None
    assert compute(aggregation, ((2, 0),), largest) is None


@pytest.mark.parametrize(
    ("question", "aggregation", "needed"),
    [
        ("how many regions are there", "none", True),
        ("which region sold most?", "none", True),
        ("what is the highest mountain", "none", True),
        ("who is the manager of the north", "none", False),
        ("who is the manager of the north", "count", True),
    ],
)
def test_some_questions_need_all_rows(question, aggregation, needed):
    assert needs_all_rows(question, aggregation) == needed
