import json
import random

import pytest
from golden import tapas
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.tables.numbers import (
    EQUAL,
    GREATER,
    LESS,
    Date,
    column_ranks,
    column_values,
    convert_to_float,
    numeric_values,
    parse_text,
    relations,
)

GOLDEN = json.loads(tapas("g5_text.json").read_text())


def as_json(value):
    return value if isinstance(value, float) else {k: v for k, v in value._asdict().items() if v is not None}


def as_spans(text):
    return [{"begin": s.start, "end": s.end, "values": [as_json(v) for v in s.values]} for s in parse_text(text)]


@pytest.mark.parametrize("case", GOLDEN["strings"], ids=lambda case: repr(case["input"]))
def test_parse_text_equals_the_reference(case):
    assert as_spans(case["input"]) == case["parse_text"]
    assert as_spans(case["normalize_for_match"]) == case["parse_text_of_normalized"]


@pytest.mark.parametrize("case", GOLDEN["strings"], ids=lambda case: repr(case["input"]))
def test_convert_to_float_equals_the_reference(case):
    if isinstance(case["convert_to_float"], dict):
        with pytest.raises(ValueError, match="could not convert"):
            convert_to_float(case["input"])
    else:
        assert convert_to_float(case["input"]) == float(case["convert_to_float"])


@pytest.mark.parametrize("case", GOLDEN["column_consolidation"].values(), ids=GOLDEN["column_consolidation"].keys())
def test_consolidation_equals_the_reference(case):
    assert {str(row): as_json(value) for row, value in column_values(case["cells"]).items()} == case["consolidated"]


NAMES = "january february may sept september sep dec augu\u017ft monday friday zero twelve fith third 1st 22nd x the"
NUMBERS = "1999 2016 2017 1700 1699 1990s 0000 0 00 5 05 12 13 29 30 31 32 1,000 .5 -5 1e5 3d inf infinity nan \u0663"
DATES_AND_MARKS = "2010-05-05 05-06-1999 12.10.2005 2005-13 - + , . : _ ² \uff11\uff12"
PIECES = [*NAMES.split(), *NUMBERS.split(), *DATES_AND_MARKS.split()]


@given(st.lists(st.sampled_from(PIECES), max_size=7), st.sampled_from([" ", ", ", "-", "", " , "]))
def test_parse_text_equals_the_port_in_transformers(pieces, separator):
    port = pytest.importorskip("transformers.models.tapas.tokenization_tapas")
    text = port.normalize_for_match(separator.join(pieces)).replace("fith", "x")

    def value_of(value):
        if value.date is None:
            return value.float_value
        return Date(value.date.year, value.date.month, value.date.day)

    expected = [(s.begin_index, s.end_index, tuple(map(value_of, s.values))) for s in port.parse_text(text)]
    found = [(s.start, s.end, s.values) for s in parse_text(text)]
    assert [span[:2] for span in found] == [span[:2] for span in expected]
    for (_, _, ours), (_, _, theirs) in zip(found, expected, strict=True):
        assert ours == tuple(pytest.approx(v, rel=1e-6) if isinstance(v, float) else v for v in theirs)


@given(
    st.text(st.sampled_from("0123456789\u0663"), max_size=5)
    | st.text(st.sampled_from("12.,-+0 "), max_size=8)
    | st.sampled_from(["9" * 400, " 7 ", "²", "-2012", "1,000.", "2001-05", "12.05.2001", "+.5"])
)
def test_the_short_way_for_plain_numbers_changes_nothing(text):
    assert numeric_values(text) == tuple(value for span in parse_text(text) for value in span.values)


@pytest.mark.parametrize(
    ("question", "expected"),
    [("2", {0: EQUAL, 1: LESS, 2: GREATER}), ("2 or 4", {0: EQUAL | GREATER, 1: EQUAL | LESS, 2: GREATER}), ("x", {})],
)
def test_relations_are_seen_from_the_question(question, expected):
    assert relations(numeric_values(question), column_values(["2", "4", "1"])) == expected


def test_dates_are_compared_by_what_all_of_them_state():
    assert column_ranks(column_values(["may 5, 2010", "august 2007", "2006"])) == {0: (3, 1), 1: (2, 2), 2: (1, 3)}
    assert relations(numeric_values("2007"), column_values(["may 2010", "august 2007"])) == {0: LESS, 1: EQUAL}
    assert column_ranks(column_values(["january", "2010"])) == {}


def test_consolidation_needs_seven_of_ten():
    words = ["a", "b", "c"]
    assert len(column_values([*"1234567", *words])) == 7
    assert column_values([*"123456", "g", *words]) == {}


@given(st.lists(st.sampled_from([f"{n}" for n in range(40)] + ["x", "1.5", "-3"]), min_size=1, max_size=30))
def test_ranks_and_inverse_ranks_agree(cells):
    ranks = column_ranks(column_values(cells))
    assert len({rank + inverse for rank, inverse in ranks.values()}) <= 1
    assert {rank for rank, _ in ranks.values()} == set(range(1, len({r for r, _ in ranks.values()}) + 1))
    assert ranks.keys() <= set(range(len(cells)))


def test_parsing_a_shuffled_column_gives_the_same_ranks():
    cells = [str(n * 7 % 31) for n in range(25)]
    by_text = {cells[row]: rank for row, rank in column_ranks(column_values(cells)).items()}
    random.Random(0).shuffle(cells)
    assert {cells[row]: rank for row, rank in column_ranks(column_values(cells)).items()} == by_text
