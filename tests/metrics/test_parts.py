import pytest

from mate_cli.metrics.subsets import LENGTH_PARTS, LIMITS, average_by_part, parts_by_tokens, words_of
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table

ANSWER = Answer(("a",))


def example(name, words=1, subsets=(), answer=ANSWER):
    table = Table("t", (Cell("h"),), ((Cell(" ".join(["w"] * (words - 2))),),))
    return TableExample(name, "ask", table, answer, subsets=subsets)


def test_all_questions_and_each_subset():
    examples = {
        "a": example("a", subsets=("simple", "small")),
        "b": example("b", subsets=("simple",)),
        "c": example("c", subsets=("complex",)),
        "unanswered": example("unanswered", subsets=("simple",), answer=None),
    }
    found = average_by_part({"a": True, "c": 0.5, "stranger": 1.0}, examples, "accuracy")
    wanted = {"accuracy": 0.5, "accuracy/simple": 0.5, "accuracy/small": 1.0, "accuracy/complex": 0.5}
    assert found == pytest.approx(wanted)


def test_parts_by_length_share_their_limits_with_nobody():
    sizes = [3, 128, 129, 256, 257, 1024, 1025]
    examples = {str(size): example(str(size), size) for size in sizes}
    assert list(words_of(examples).values()) == sizes
    found = average_by_part({"3": True, "129": True, "256": True, "1025": True}, examples, "x")
    assert found == pytest.approx(
        {
            "x": 4 / 7,
            "x/1-128_words": 0.5,
            "x/129-256_words": 1.0,
            "x/257-512_words": 0.0,
            "x/513-1024_words": 0.0,
            "x/over_1024_words": 1.0,
        }
    )


def test_questions_of_one_length_have_no_such_parts():
    assert average_by_part({"a": True}, {"a": example("a"), "b": example("b", 5)}, "x") == {"x": 0.5}
    assert average_by_part({}, {}, "x") == {}


def test_questions_by_tokens_of_the_uncut_input():
    tokens = {"a": 1, "b": 256, "c": 257, "d": 1024, "e": 1025}
    assert parts_by_tokens(tokens) == {
        "1-256_tokens": ["a", "b"],
        "257-512_tokens": ["c"],
        "513-1024_tokens": ["d"],
        "over_1024_tokens": ["e"],
    }
    assert parts_by_tokens({"a": 3, "b": 256}) == parts_by_tokens({}) == {}


def test_punctuation_and_empty_cells():
    table = Table("t", (Cell("Name, city"), Cell("")), ((Cell("5,000.5"), Cell(" ")),))
    assert words_of({"q": TableExample("q", "who?", table)}) == {"q": 2 + 3 + 5}
    assert len(LENGTH_PARTS) == len(LIMITS) + 1
