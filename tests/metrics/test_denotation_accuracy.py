import ast
import csv
import io
import json
from dataclasses import dataclass

import pytest
from golden import tapas

from mate_cli.metrics.denotation_accuracy import (
    denotation_is_right,
    right_denotations,
    structure_accuracy,
    true_denotation,
)
from mate_cli.tables.denotation import denotation_of, normal_form
from mate_cli.tables.example import AGGREGATIONS, Answer, TableExample
from mate_cli.tables.table import Cell, Table

GOLDEN = json.loads(tapas("g9_metrics.json").read_text())


@dataclass(frozen=True)
class Picked:
    cells: tuple[tuple[int, int], ...] = ()
    aggregation: str = "none"


def golden_table(name):
    raw = GOLDEN["tables"][name]
    rows = tuple(tuple(Cell(text) for text in row) for row in raw["rows"])
    return Table(name, tuple(Cell(text) for text in raw["columns"]), rows)


def golden_example(name):
    gold = GOLDEN["gold"][name]
    number = None if gold["float_answer"] is None else float(gold["float_answer"])
    cells = tuple(map(tuple, gold["coordinates"]))
    answer = Answer(("text",), cells, aggregation=AGGREGATIONS[gold["agg"]], number=number)
    return TableExample(name, "?", golden_table(name.split("-")[0]), answer if gold["valid"] else None)


def golden_predictions():
    rows = csv.DictReader(io.StringIO(GOLDEN["predictions_tsv"]), delimiter="\t")
    return {
        row["question_id"]: Picked(
            tuple(ast.literal_eval(cell) for cell in ast.literal_eval(row["answer_coordinates"])),
            AGGREGATIONS[int(row["pred_aggr"])],
        )
        for row in rows
    }


EXAMPLES = {name: golden_example(name) for name in GOLDEN["gold"]}
PREDICTIONS = golden_predictions()


@pytest.mark.parametrize("name", GOLDEN["per_example"])
def test_each_question_equals_the_reference(name):
    wanted, example, picked = GOLDEN["per_example"][name], EXAMPLES[name], PREDICTIONS[name]
    assert denotation_is_right(picked, example) == wanted["correct"]
    assert list(normal_form(denotation_of(picked.aggregation, picked.cells, example.table))) == wanted["pred"]
    if example.answer:
        assert list(true_denotation(example.answer, example.table)) == wanted["gold"]
    else:
        assert wanted["gold"] is None


def unknown_as_text(example):
    """The reference counts questions whose answer could not be read; here such an answer is a text alone."""
    return example if example.answer else TableExample(example.example_id, "?", example.table, Answer(("text",)))


def test_accuracy_equals_the_reference():
    examples = {name: unknown_as_text(example) for name, example in EXAMPLES.items()}
    right = right_denotations(PREDICTIONS, examples)
    assert sum(right.values()) / len(right) == pytest.approx(GOLDEN["denotation_accuracy"])


def test_structure_equals_the_reference():
    cells = {name: tuple(map(tuple, gold["coordinates"])) for name, gold in GOLDEN["gold"].items()}
    examples = {
        name: TableExample(
            name, "?", example.table, Answer((), cells[name], aggregation=AGGREGATIONS[GOLDEN["gold"][name]["agg"]])
        )
        for name, example in EXAMPLES.items()
    }
    found = structure_accuracy(PREDICTIONS, examples)
    wanted = {key.replace("_acc", "_accuracy"): value for key, value in GOLDEN["structure"].items()}
    assert found == pytest.approx(wanted)


def test_without_prediction_a_question_is_wrong_and_counts():
    table = golden_table("t1")
    examples = {
        "empty": TableExample("empty", "?", table, Answer((), ())),
        "unanswered": TableExample("unanswered", "?", table),
        "a": TableExample("a", "?", table, Answer(("Paris",), ((0, 3),))),
    }
    assert right_denotations({}, examples) == {"empty": False, "a": False}
    assert right_denotations({"empty": Picked(), "a": Picked(((0, 3),))}, examples) == {"empty": True, "a": True}
    assert set(structure_accuracy({}, examples).values()) == {0.0}
    assert structure_accuracy({}, {}) == {}


def test_an_answer_that_was_not_found_is_never_right():
    table = golden_table("t1")
    assert true_denotation(Answer(("nowhere",)), table) is None
    assert not denotation_is_right(Picked(), TableExample("q", "?", table, Answer(("nowhere",))))


def test_the_number_of_an_answer_goes_before_its_cells():
    example = TableExample("q", "?", golden_table("t1"), Answer(("2",), ((0, 1),), number=2.0))
    assert denotation_is_right(Picked(((0, 1), (1, 1)), "count"), example)
    assert not denotation_is_right(Picked(((0, 1),)), example)
