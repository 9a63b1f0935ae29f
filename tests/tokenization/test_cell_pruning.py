"""Heuristic exact match on cells: the reference's scores and order, and what an encoding keeps of a table."""

from dataclasses import replace
from heapq import heapify, heappop

import numpy as np
import pytest
from hem_cases import GOLDEN, cases, example_of, most_tokens
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tables.text import format_text
from mate_cli.tokenization.fitting.truncation import TableStems, tokens_to_keep
from mate_cli.tokenization.serializers.serializer import EncodingFailure
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import Vocabulary, load_tokenizer

VOCABULARY = Vocabulary(GOLDEN["vocab"])
MINILM = load_tokenizer("minilm")


def words(table):
    """How many words each cell has, by row, the header first."""
    return np.array([[len(format_text(cell.text).split()) for cell in row] for row in (table.header, *table.rows)])


def coordinates(kept):
    """(row, column, token) of what is kept of each cell."""
    return [[row, column, token] for (row, column), count in np.ndenumerate(kept) for token in range(count)]


@pytest.mark.parametrize("name", cases("CELL"))
def test_scores_and_tokens_equal_the_reference(name):
    """With its two slips: words are counted as tokens, and rows of the answer before without the header."""
    expected, example = GOLDEN["hem"][name], example_of(name)
    one_too_high = tuple((row - 1, column) for row, column in example.previous_cells)
    scores = TableStems(example.table).cell_scores(replace(example, previous_cells=one_too_high))
    budget = most_tokens(name) - len(VOCABULARY.pieces([example.question])[0]) - 2
    kept = tokens_to_keep(scores, words(example.table), budget)
    assert coordinates(kept) == sorted(expected["selected"])
    means = (scores * kept).sum(0) / np.maximum(1, kept.sum(0))
    assert means == pytest.approx([column["score"] for column in expected["columns"]], abs=1e-6)
    assert [bool(count) for count in kept.any(0)] == [column["selected"] for column in expected["columns"]]


def test_the_cases_hold_answers_before_and_budgets_that_cut():
    some = [GOLDEN["hem"][name]["selected"] for name in cases("CELL") if most_tokens(name) == 24]
    assert len(cases("CELL")) == 40
    assert {len(tokens) for tokens in some} <= set(range(1, 24))
    assert any(example_of(name).previous_cells for name in cases("CELL"))


def test_cells_of_the_answer_before_come_first():
    example = replace(example_of("CELL/max24/prev0/t2/q1"), previous_cells=((3, 2), (9, 0)))
    scores = TableStems(example.table).cell_scores(example)
    assert np.unravel_index(scores.argmax(), scores.shape) == (4, 2)


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_tokens_leave_the_queue_as_in_the_reference(height, width, data):
    draw = lambda kind: np.array(data.draw(st.lists(kind, min_size=height * width, max_size=height * width)))  # noqa: E731
    scores = draw(st.sampled_from([0.0, 0.25, 1.5])).reshape(height, width)
    lengths, budget = draw(st.integers(1, 5)).reshape(height, width), data.draw(st.integers(-2, 40))
    queue = [
        (-scores[row, column], column, row, token)
        for (row, column), length in np.ndenumerate(lengths)
        for token in range(length)
    ]
    heapify(queue)
    taken = [heappop(queue) for _ in range(max(0, min(budget, len(queue))))]
    kept = tokens_to_keep(scores, lengths, budget)
    assert coordinates(kept) == sorted([row, column, token] for _, column, row, token in taken)


CITIES = [["Paris", "250 BC", "Gaul"], ["Rome", "753 BC", "Latium"], ["Oslo", "1040", "Viken"]]
TABLE = Table("t", tuple(map(Cell, ["city", "founded", "region"])), tuple(tuple(map(Cell, cells)) for cells in CITIES))


def encode(example, length, **options):
    (encoding,) = TapasSerializer(MINILM, sentences=0, max_tokens=length, **options).encode([example])
    return encoding


def kept_cells(encoding):
    in_table = encoding.column_ids > 0
    return sorted({*zip(encoding.row_ids[in_table].tolist(), encoding.column_ids[in_table].tolist(), strict=True)})


def test_what_fits_the_question_stays_with_its_row_and_column():
    example = TableExample("q", "when was rome founded", TABLE, Answer((), ((1, 1),)))
    encoding = encode(example, 13, truncation="hem_cells")
    assert kept_cells(encoding) == [(0, 1), (0, 2), (0, 3), (2, 1), (2, 2)]
    assert len(encoding) == 13
    assert encoding.cut.tolist() == [1, 2, 0, 0]


def test_an_answer_whose_cell_is_dropped_is_counted_or_refused():
    example = TableExample("q", "when was rome founded", TABLE, Answer((), ((2, 1), (1, 1))))
    assert encode(example, 13, truncation="hem_cells").cut.tolist()[3] == 1
    refused = encode(example, 13, truncation="hem_cells", lost_answers="fail")
    assert isinstance(refused, EncodingFailure)
    assert "1 answer cells are in dropped rows or columns" in refused.reason


def test_where_no_cell_of_the_body_would_stay_the_table_is_shortened_like_any():
    header = ["founded", "was", "when", "rome"]
    table = Table("t", tuple(map(Cell, header)), (tuple(map(Cell, ["1040", "Oslo", "Paris", "Viken"])),))
    example = TableExample("q", "when was rome founded", table, Answer(()))
    assert isinstance(encode(example, 10, truncation="hem_cells"), EncodingFailure), "neither fits"
    assert encode(example, 10).reason == encode(example, 10, truncation="hem_cells").reason
    assert kept_cells(encode(example, 11, truncation="hem_cells")) == [(0, 1), (0, 2), (0, 3), (0, 4), (1, 1)]


@given(examples(), st.sampled_from([24, 60, 512]))
def test_a_table_that_fits_is_encoded_alike_and_of_another_one_the_budget_is_spent(example, length):
    plain, pruned = encode(example, length), encode(example, length, truncation="hem_cells")
    if isinstance(plain, EncodingFailure) or isinstance(pruned, EncodingFailure):
        return
    if not plain.cut.any():
        assert plain.input_ids.tolist() == pruned.input_ids.tolist()
        assert pruned.cut.tolist() == [0, 0, 0, 0]
    else:
        assert len(pruned) == length or pruned.input_ids.tolist() == plain.input_ids.tolist()
