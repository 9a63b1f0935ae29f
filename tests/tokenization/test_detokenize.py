import json

import numpy as np
import pytest
from golden import tapas
from hypothesis import example, given
from hypothesis import strategies as st

from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import find_pieces, span_text

GOLDEN = json.loads(tapas("g14_em_f1.json").read_text())


def ids_of(vocabulary, pieces):
    return np.array([vocabulary.tokens.index(piece) for piece in pieces], dtype=np.int32)


@pytest.mark.parametrize("case", GOLDEN["detokenize"], ids=lambda case: case["text"])
def test_span_text_equals_the_reference(case, vocabulary):
    assert span_text(vocabulary, ids_of(vocabulary, case["answer_pieces"]), [case["cell"]]) == case["text"]


def test_other_texts_are_searched_when_the_first_has_no_such_pieces(vocabulary):
    assert span_text(vocabulary, ids_of(vocabulary, ["red"]), ["blue", "a Red one"]) == "Red"


def test_a_known_place_is_preferred_to_the_first_occurrence(vocabulary):
    pieces = ids_of(vocabulary, ["red"])
    assert span_text(vocabulary, pieces, ["red and RED"]) == "red"
    assert span_text(vocabulary, pieces, ["red and RED"], position=2) == "RED"


def found(needle, haystack):
    return find_pieces(np.array(needle, dtype=np.int32), np.array(haystack, dtype=np.int32))


def first_place(needle, haystack):
    """Where the pieces begin, looked for one place after the other; -1 where they are not."""
    places = (n for n in range(len(haystack)) if haystack[n : n + len(needle)] == needle)
    return next(places, -1) if needle else -1


PIECES = st.sampled_from([0, 1, 2, 256, 65536])


@example([256], [65536, 0])  # whose bytes hold those of 256, but not in its place
@given(st.lists(PIECES, max_size=4), st.lists(PIECES, max_size=12))
def test_find_pieces_finds_the_first_place(needle, haystack):
    assert found(needle, haystack) == first_place(needle, haystack)


@pytest.fixture
def passage_example():
    cell = Cell("Ann Lee", ("/wiki/Ann",))
    passages = {"/wiki/Ann": "Café (Paris) was the name . the time is 14 July 1789 ."}
    return TableExample(
        "q", "when ?", Table("t", (Cell(""),), ((cell,),), passages=passages), Answer(("14 july 1789",))
    )


def test_a_labelled_span_reads_as_the_passage_writes_it(passage_example, vocabulary):
    serializer = TapasSerializer(vocabulary, whole_passages=True, label="span")
    (encoding,) = serializer.encode([passage_example])
    start, end = np.flatnonzero(encoding.label_ids)[[0, -1]]
    assert [vocabulary.tokens[piece] for piece in encoding.input_ids[start : end + 1]] == ["14", "july", "1789"]
    assert serializer.span_text(passage_example, start, end) == "14 July 1789"


def test_a_span_in_the_question_reads_as_its_pieces(passage_example, vocabulary):
    serializer = TapasSerializer(vocabulary, whole_passages=True, label="span")
    assert serializer.span_text(passage_example, 1, 4) == "when"
