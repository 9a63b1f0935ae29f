from mate_cli.metrics.sequence_accuracy import place_accuracy, sequence_accuracy
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table

TABLE = Table("t", (Cell("h"),), ((Cell("a"),),))


def conversations(*lengths):
    return {
        f"{c}{place}": TableExample(
            f"{c}{place}", "?", TABLE, Answer(("a",)), conversation=str(c), history=("?",) * place
        )
        for c, length in enumerate(lengths)
        for place in range(length)
    }


def test_a_conversation_counts_when_all_of_it_is_right():
    examples = conversations(2, 3, 1, 2)
    right = dict.fromkeys(["00", "01", "10", "12", "20"], True) | {"30": True, "31": False}
    assert sequence_accuracy(right, examples) == {"sequence_accuracy": 2 / 4}


def test_by_place():
    examples = conversations(4, 2)
    right = dict.fromkeys(["00", "11", "02", "03"], True)
    wanted = {"denotation_accuracy/q1": 0.5, "denotation_accuracy/q2": 0.5, "denotation_accuracy/q3": 1.0}
    assert place_accuracy(right, examples) == wanted
    assert place_accuracy(right, conversations(1), "x") == {"x/q1": 1.0}


def test_single_questions_are_no_conversations():
    examples = {"a": TableExample("a", "?", TABLE, Answer(("a",))), **conversations(1, 1)}
    assert sequence_accuracy({"a": True, "00": True}, examples) == {}
    assert place_accuracy({"a": True}, {"a": examples["a"]}) == {}
    assert sequence_accuracy({}, {}) == {}


def test_a_conversation_without_its_beginning_is_left_out():
    examples = conversations(2, 3)
    del examples["10"]
    assert sequence_accuracy(dict.fromkeys(examples, True) | {"00": False}, examples) == {"sequence_accuracy": 0.0}
