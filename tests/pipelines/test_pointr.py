"""PointR with several cells: which of them has the answer, and the one weight that is learnt of a development split."""

import math
from dataclasses import replace
from unittest.mock import Mock

import pytest

from mate_cli.lit_modules.cell_selection import CellRanking, CellSelection
from mate_cli.lit_modules.span_reading import SpanPrediction, SpanReading
from mate_cli.pipelines.systems.pointr import PointR, ReadCell, best_weight
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table

TABLE = Table("t", (Cell("City"), Cell("Mayor")), ((Cell("Oslo"), Cell("Bob")), (Cell("Bergen"), Cell("Ann"))))
ANN = TableExample("ann", "who?", TABLE, Answer(("Ann",), ((1, 1),), "table"))
BOB = TableExample("bob", "who else?", TABLE, Answer(("Bob",), ((0, 1),), "table"))
RANKINGS = [
    CellRanking("ann", ((0, 0), (1, 1), (0, 1)), (0.6, 0.3, 0.1)),
    CellRanking("bob", ((0, 1), (1, 0)), (0.9, 0.1)),
]
READ = {"Oslo": 0.1, "Ann": 0.9, "Bob": 0.3, "Bergen": 0.4}
"""How sure the reader is of its span, by the cell."""


class Selector:
    """Ranks as `RANKINGS` says."""

    def __init__(self):
        self.task = Mock(spec=CellSelection)
        self.task.score.return_value = {"hits@1": 0.5}

    def task_of(self, kind):
        return self.task

    def predict(self, examples, name):
        return RANKINGS


class Reader:
    """Reads the whole cell, and would rather say nothing; some cells cannot be encoded."""

    def __init__(self, lost=()):
        self.task, self.lost, self.calls = Mock(spec=SpanReading), lost, 0
        self.task.answers.side_effect = lambda found, asked: {
            one.example_id: text_of(asked[one.example_id]) if not one.no_answer else "" for one in found
        }

    def task_of(self, kind):
        assert kind is SpanReading
        return self.task

    def predict(self, examples, name):
        self.calls += 1
        kept = [example for example in examples if text_of(example) not in self.lost]
        return [SpanPrediction(one.example_id, 1, 1, READ.get(text_of(one), 0.5), no_answer=0.95) for one in kept]


def text_of(example):
    return example.table.rows[0][0].text


def stages(**reader):
    return {"cell_selection": Selector(), "span_reading": Reader(**reader)}


def test_the_best_cell_alone_is_read_at_the_settings_of_the_paper():
    system, answered = PointR().learn(stages(), [ANN, BOB], "dev")
    assert answered.texts == {"ann": "Oslo", "bob": "Bob"}
    assert answered.cells == {"ann": ((0, 0),), "bob": ((0, 1),)}
    assert (system.parameters, answered.metrics) == ({}, {"hits@1": 0.5})


def test_of_several_cells_both_scores_choose():
    trusting, reading = (PointR(cells=2, weight=weight).answer(stages(), [ANN, BOB], "dev") for weight in (0.0, 1.0))
    assert trusting.texts == {"ann": "Oslo", "bob": "Bob"}
    assert reading.texts == {"ann": "Ann", "bob": "Bergen"}
    assert reading.cells == {"ann": ((1, 1), (0, 0)), "bob": ((1, 0), (0, 1))}


def test_the_weight_is_learnt_of_the_development_split_and_kept():
    read = stages()
    system, answered = PointR("cell_selection", cells=2).learn(read, [ANN, BOB], "dev")
    assert answered.texts == {"ann": "Ann", "bob": "Bob"}
    # Oslo: 0.6 and 0.1, Ann: 0.3 and 0.9; at (1-w) ln 2 = w ln 9 both are equal.
    crossing = math.log(2) / (math.log(2) + math.log(9))
    assert system.parameters == {"weight": math.ceil(20 * crossing) / 20}
    assert read["span_reading"].calls == 1, "what was learnt from is not read again"
    again = PointR("cell_selection", cells=2).with_parameters(system.parameters)
    assert again.answer(stages(), [ANN, BOB], "test").texts == answered.texts
    assert PointR(cells=2, weight=0.0).learn(stages(), [ANN, BOB], "dev")[0].parameters == {"weight": 0.0}, (
        "as it is said"
    )


def test_where_nothing_is_gained_the_selector_is_trusted():
    cells = {"ann": [ReadCell((0, 0), -0.1, -3.0, "Rome"), ReadCell((1, 1), -3.0, -0.1, "Paris")]}
    assert best_weight(cells, [ANN]) == 0.0


def test_cells_that_cannot_be_encoded_are_passed_over():
    answered = PointR(cells=2, weight=0.0).answer(stages(lost=("Oslo",)), [ANN, BOB], "dev")
    assert answered.texts["ann"] == "Ann"
    nothing = PointR(cells=1).answer(stages(lost=("Oslo",)), [ANN, BOB], "dev")
    assert nothing.texts == {"bob": "Bob"}


@pytest.mark.parametrize(
    ("said", "answer"),
    {"Kansas": "Territory of Kansas", "the Kansas": "Territory of Kansas", "Kan": "Kan", "a river": "a river"}.items(),
)
def test_an_answer_within_the_cell_s_own_text_is_all_of_it(said, answer):
    table = replace(TABLE, rows=((Cell("Territory of Kansas"), Cell("Bob")), TABLE.rows[1]))
    reading = stages()
    reading["span_reading"].task.answers.side_effect = lambda found, asked: {one.example_id: said for one in found}
    asked = [replace(example, table=table) for example in (ANN, BOB)]
    assert PointR(whole_cells=True).with_parameters({}).answer(reading, asked, "dev").texts == {
        "ann": answer,
        "bob": said,
    }
    assert PointR().answer(reading, asked, "dev").texts == {"ann": said, "bob": said}
