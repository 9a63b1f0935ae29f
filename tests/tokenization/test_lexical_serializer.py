"""One token per cell, and the features that say which row and column a question means."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.expansion import SentenceIndex
from mate_cli.tokenization.serializers.lexical import (
    FEATURES,
    QUESTION,
    LexicalSerializer,
    LexicalTable,
    best_elsewhere,
)
from mate_cli.tokenization.serializers.serializer import EncodingFailure
from mate_cli.tokenization.vocabulary import load_tokenizer

ATHLETES = Table(
    "t",
    (Cell("Name"), Cell("Event"), Cell("Year")),
    (
        (Cell("Ann Lee", ("ann",)), Cell("Boxing"), Cell("1996")),
        (Cell("Bob Stone", ("bob",)), Cell("Rowing"), Cell("2000")),
    ),
    passages={"ann": "She lives near the sea. She paints.", "bob": "He was born in a village of Ohio."},
)
QUESTIONED = TableExample("q", "what event did the man from ohio win in 2000", ATHLETES, Answer(("Rowing",), ((1, 1),)))


@pytest.fixture(scope="module")
def serializer():
    return LexicalSerializer(load_tokenizer("sample"))


@pytest.fixture(scope="module")
def found(serializer):
    """The features of every body cell, by name, as [rows, columns]."""
    (encoding,) = serializer.encode([QUESTIONED])
    return {name: encoding.cell_features[1:, i].reshape(2, 3) for i, name in enumerate(FEATURES)}


@given(examples(), st.integers(8, 40))
def test_every_body_cell_is_one_token(serializer, example, max_tokens):
    (encoding,) = LexicalSerializer(serializer.tokenizer, max_tokens=max_tokens).encode([example])
    width = len(example.table.header)
    rows = min(len(example.table.rows), (max_tokens - 1) // width)
    cells = list(zip(encoding.row_ids[1:].tolist(), encoding.column_ids[1:].tolist(), strict=True))
    assert cells == [(row + 1, column + 1) for row in range(rows) for column in range(width)]
    assert (encoding.segment_ids[0], encoding.row_ids[0], encoding.column_ids[0]) == (0, 0, 0)
    marked = {
        (row - 1, column - 1) for (row, column), label in zip(cells, encoding.label_ids[1:], strict=True) if label
    }
    assert marked == {cell for cell in (example.answer.coordinates if example.answer else ()) if cell[0] < rows}
    assert encoding.cell_features.shape == (1 + rows * width, len(FEATURES))
    assert np.isfinite(encoding.cell_features).all()
    assert encoding.cell_features.min() >= 0


def test_a_passage_points_to_its_row(found):
    """Ohio stands in the passage of one name: elsewhere in its row is where the answer is."""
    assert found["sentence_own"][1, 0] > 0.1
    assert found["sentence_row_best"][1, 1] == max(found["sentence_own"][1, 0], found["sentence_own"][1, 2])
    assert found["sentence_row_best"][1, 1] > found["sentence_row_best"][0, 1]
    assert found["sentence_rank_own"].max() == 1
    assert found["document_row_largest"].tolist()[0] == [0, 0, 0]
    assert found["document_column_best"][0, 0] == found["document_own"][1, 0]


def test_scores_are_cosines_of_cells_and_sentences(found):
    passages = ATHLETES.passages
    documents = [" ".join([cell.text, *(passages[link] for link in cell.links)]) for _, _, cell in ATHLETES.cells()]
    expected = SentenceIndex(documents).scores(QUESTIONED.question)
    np.testing.assert_allclose(found["document_own"].ravel(), expected, rtol=1e-5)


def test_words_numbers_and_places(found):
    assert found["overlap_own"].tolist() == [[0, 0, 0], [0, 0, 1]]
    assert found["header"].tolist() == [[0, 1, 0]] * 2
    assert found["year"].tolist() == found["digits"].tolist() == [[0, 0, 1]] * 2
    assert found["linked"].tolist() == found["first"].tolist() == [[1, 0, 0]] * 2
    assert found["related"].tolist() == [[0, 0, 0], [0, 0, 1]]
    assert found["rank"].tolist() == [[0, 0, 0.5], [0, 0, 1]]
    assert {word for word in QUESTION if found[f"asks_{word}"].all()} == {"what"}
    assert not found["month"].any()


def test_what_stands_in_a_row_together_finds_it(found):
    """Of four words the second row has "in", "ohio" and "2000", the first "the"; "event" is only in the header."""
    assert found["row_coverage"].tolist() == [[0.25] * 3, [0.75] * 3]
    assert found["row_coverage_rank"].tolist() == [[0.5] * 3, [1] * 3]
    assert found["coverage_own"][1].tolist() == [0.5, 0, 0.25]
    assert found["rest_coverage"][1].tolist() == [0.25, 0.75, 0.5]


def test_words_are_covered_by_words_with_the_same_first_letters():
    table = replace(ATHLETES, passages={"bob": "A founder."})
    features = LexicalTable(table).features("founded")[1:]
    assert features[:, FEATURES.index("coverage_own")].tolist() == [0, 0, 0, 1, 0, 0]


def test_a_word_of_every_row_counts_nothing():
    table = Table("t", (Cell("a"),), ((Cell("red car"),), (Cell("red bus"),)))
    features = LexicalTable(table).features("red car")[1:]
    assert features[:, FEATURES.index("coverage_own")].tolist() == [1, 0]


def test_what_is_asked_for_finds_the_column(found):
    assert found["asked_header"].tolist() == [[0, 0.5, 0]] * 2  # of "event" and "man"
    assert found["person"].tolist() == found["place"].tolist() == [[0, 0, 0], [1, 0, 0]]
    assert not found["group"].any()
    river = replace(ATHLETES, passages={"ann": "The Lee is a river. It is long.", "bob": "A stone bridge."})
    features = LexicalTable(river).features("which river is the longest")[1:]
    assert features[:, FEATURES.index("asked_lead")].tolist() == [1, 0, 0, 0, 0, 0]
    assert features[0, FEATURES.index("asks_highest")] == 1


def test_the_rows_of_the_lowest_and_highest_numbers_are_known(found):
    assert found["row_lowest"].tolist() == [[1, 1, 1], [0, 0, 0]]
    assert found["row_highest"].tolist() == [[0, 0, 0], [1, 1, 1]]


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 4), st.sampled_from([1, 2]))
def test_best_elsewhere_is_the_largest_of_the_others(seed, rows, columns, axis):
    scores = np.random.default_rng(seed).integers(0, 4, (2, rows, columns)).astype(float)
    got = best_elsewhere(scores, axis)
    for place in np.ndindex(scores.shape):
        line = np.delete(np.moveaxis(scores, axis, -1)[tuple(np.delete(place, axis))], place[axis])
        assert got[place] == (line.max() if len(line) else 0)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (Table("t", (), ()), "no columns"),
        (Table("t", (Cell("a"),), ()), "no rows"),
        (Table("t", (Cell("a"), Cell("b")), ((Cell("1"),),)), "different lengths"),
        (Table("t", (Cell("a"),) * 9, ((Cell("1"),) * 9,)), "too many columns: 9, at most 7"),
    ],
)
def test_a_table_that_cannot_be_encoded_says_why(serializer, table, reason):
    narrow = LexicalSerializer(serializer.tokenizer, max_tokens=8)
    failure, encoding = narrow.encode([TableExample("bad", "who", table), QUESTIONED])
    assert isinstance(failure, EncodingFailure)
    assert reason in failure.reason
    assert len(encoding) == 7


def test_options_are_in_the_fingerprint(serializer):
    assert LexicalSerializer(serializer.tokenizer, max_tokens=9).fingerprint != serializer.fingerprint
