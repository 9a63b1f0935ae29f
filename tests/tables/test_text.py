import json

import pytest
from golden import tapas
from hypothesis import example, given
from hypothesis import strategies as st

from mate_cli.tables.table import Cell, Table
from mate_cli.tables.text import (
    candidate_cells,
    compile_words,
    format_text,
    normalize_for_candidates,
    normalize_for_match,
    table_matches,
    tokenize_string,
    wtq_normalize,
)

GOLDEN = json.loads(tapas("g5_text.json").read_text())
CASES = "ak\u212a\u03a3\u03c3\u03c2\u0130\u017f\u00df'"
"""Letters with several lower-case or upper-case forms, and the mark that some of them look beyond."""


@pytest.mark.parametrize("case", GOLDEN["strings"], ids=lambda case: repr(case["input"]))
def test_normal_forms_equal_the_reference(case):
    assert format_text(case["input"]) == case["format_text"]
    assert normalize_for_match(case["input"]) == case["normalize_for_match"]
    assert normalize_for_candidates(case["input"]) == case["hybridqa_normalize"]
    assert wtq_normalize(case["input"]) == case["wtq_normalize"]
    assert list(tokenize_string(case["input"])) == case["tokenize_string"]


@pytest.mark.parametrize("case", GOLDEN["find_all_substrings"], ids=lambda case: repr(case["needle"]))
def test_whole_words_equal_the_reference(case):
    found = compile_words(case["needle"]).finditer(case["haystack"])
    assert [match.span(1) for match in found] == [tuple(span) for span in case["spans"]]


@pytest.mark.parametrize(
    "case", json.loads(tapas("g6_hybridqa.json").read_text())["questions"], ids=lambda c: c["answer"]
)
def test_candidate_cells_equal_the_reference(case, linked_table):
    assert candidate_cells(linked_table, case["answer"]) == [tuple(c) for c in case["all_coordinates"]]
    assert table_matches(linked_table, case["answer"]) == [tuple(c) for c in case["table_only"]]


@given(st.text(f"{CASES} .-", max_size=8), st.text(CASES, min_size=1, max_size=3))
@example("\u039f\u03a3'\u0391", "\u03bf\u03c2")  # in lower case, a sigma before an apostrophe and a letter ends no word
def test_a_cell_is_a_candidate_where_its_normal_form_holds_the_answer(text, answer):
    needle = normalize_for_candidates(answer)
    holds = bool(needle) and compile_words(needle).search(normalize_for_candidates(text)) is not None
    assert candidate_cells(Table("t", (Cell("h"),), ((Cell(text),),)), answer) == [(0, 0)] * holds


def test_an_answer_without_words_has_no_candidates():
    table = Table("t", (Cell("h"),), ((Cell("the"),), (Cell("x"),)))
    assert candidate_cells(table, "The ?") == []
    assert candidate_cells(table, "") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Caf\u00e9 \u201cNoir\u201d", 'cafe "noir"'),
        ("1995\u201396[1][a] (season 2)\u2020", "1995-96"),
        ("[1]", ""),
        ("(all)", "(all)"),
        ('"The End."', "the end"),
        ("x<br />y", "xy"),
        ("A" + "[1]" * 60 + "b", "a" + "[1]" * 60 + "b"),
    ],
)
def test_wtq_normalize(text, expected):
    assert wtq_normalize(text) == expected
