"""The table-only baseline learns from cells that hold the answer themselves, and answers with a cell's text."""

from dataclasses import replace

import pytest

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.lit_modules.cell_answering import CellAnswering
from mate_cli.lit_modules.cell_selection import CellRanking, CellSelection
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.tapas import Tapas
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table

TABLE = Table(
    "t",
    (Cell("City"), Cell("Mayor")),
    ((Cell("Oslo , Norway"), Cell("Ann Lee", ("/wiki/Ann_Lee",))), (Cell("Bergen"), Cell("Bob Stone"))),
    passages={"/wiki/Ann_Lee": "Ann Lee grew up in Oslo ."},
)
OSLO = TableExample("oslo", "where ?", TABLE, Answer(("Oslo",), ((0, 0), (0, 1)), "table"))
SINGER = TableExample("singer", "who is she ?", TABLE, Answer(("grew up",), ((0, 1),), "passage"))
UNKNOWN = TableExample("unknown", "what ?", TABLE)


def task(kind=CellAnswering, **options):
    return kind(TaskContext(Tapas("tiny", attention=Sdpa(), vocab_size=100)), **options)


def ranking(name, *cells):
    return CellRanking(name, cells, (0.5,) * len(cells))


def test_only_cells_that_hold_the_answer_themselves_are_learnt():
    kept = task().training_examples([OSLO, SINGER, UNKNOWN])
    assert [(example.example_id, example.answer.coordinates) for example in kept] == [("oslo", ((0, 0),))]
    assert kept[0].answer.source == "table"
    assert task(CellSelection).training_examples([OSLO, SINGER, UNKNOWN]) == [OSLO, SINGER]


def test_ambiguous_questions_are_those_with_two_such_cells():
    twice = replace(OSLO, table=replace(TABLE, rows=((Cell("Oslo"), Cell("Oslo")),)))
    kept = task(drop_ambiguous=True).training_examples([OSLO, twice])
    assert [example.table for example in kept] == [TABLE]


def test_the_best_cell_is_the_answer():
    predictions = [ranking("oslo", (0, 0), (1, 0)), ranking("singer", (0, 1))]
    examples = {example.example_id: example for example in (OSLO, SINGER)}
    scores = task().score(predictions, examples)
    assert (scores["em"], scores["f1"]) == (0, pytest.approx(1 / 3)), "one of two words, of one of two questions"
    assert scores["f1/table"] == pytest.approx(2 / 3)
    assert {key: value for key, value in scores.items() if "hits" in key} == task(CellSelection).score(
        predictions, examples
    )
    assert scores["hits@1"] == 1, "hits count cells that link to the answer, as for any other selector"


def test_a_question_without_a_ranking_is_wrong():
    assert task().score([], {"oslo": OSLO})["em"] == 0
