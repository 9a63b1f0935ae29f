"""What holds for every table and every question."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples, texts

from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tables.text import EMPTY, format_text
from mate_cli.tokenization.layout import TOKEN_TYPES
from mate_cli.tokenization.serializers.serializer import EncodingFailure
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

VOCABULARY = load_tokenizer("minilm")
lengths = st.sampled_from([16, 40, 128, 512])
OPTIONS = [{}, {"sentences": 0}, {"whole_passages": True, "label": "span"}, {"title": True, "entity_titles": True}]
options = st.sampled_from(OPTIONS)


def encode_one(example, **kwargs):
    (encoding,) = TapasSerializer(VOCABULARY, **kwargs).encode([example])
    return encoding


def assert_equal(one, other):
    assert type(one) is type(other)
    for field in fields(one):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), field.name)


@given(examples(), lengths, options)
def test_layout(example, length, kwargs):
    encoding = encode_one(example, max_tokens=length, **kwargs)
    if isinstance(encoding, EncodingFailure):
        assert "does not fit" in encoding.reason
        return
    columns = len(example.table.header)
    rows = encoding.row_ids.max()
    assert len(encoding) <= length
    assert encoding.input_ids[0] == VOCABULARY.cls_id
    table = encoding.segment_ids == 1
    first = int(table.argmax())
    assert encoding.input_ids[first - 1] == VOCABULARY.sep_id
    assert not table[:first].any()
    assert table[first:].all()
    cells = encoding.row_ids[table] * columns + encoding.column_ids[table] - 1
    assert (np.diff(cells) >= 0).all()
    assert set(cells) == set(range((rows + 1) * columns))
    assert 1 <= rows <= len(example.table.rows)
    for name, size in TOKEN_TYPES.items():
        assert 0 <= getattr(encoding, name).min() <= getattr(encoding, name).max() < size
    begins = np.flatnonzero(np.diff(cells, prepend=-1))
    assert not VOCABULARY.is_continuation[encoding.input_ids[first:][begins]].any()


@given(examples(), lengths)
def test_labels_mark_answer_cells_and_nothing_else(example, length):
    encoding = encode_one(example, max_tokens=length)
    if isinstance(encoding, EncodingFailure):
        return
    answers = {(r + 1, c + 1) for r, c in example.answer.coordinates} if example.answer else set()
    places = zip(encoding.row_ids.tolist(), encoding.column_ids.tolist(), strict=True)
    assert encoding.label_ids.tolist() == [int(place in answers) for place in places]


@given(st.lists(examples(max_rows=4, max_columns=3), max_size=5), options)
def test_a_batch_equals_one_by_one(batch, kwargs):
    batch = [replace(example, example_id=str(n)) for n, example in enumerate([*batch, *batch])]
    serializer = TapasSerializer(VOCABULARY, max_tokens=64, **kwargs)
    for together, example in zip(serializer.encode(batch), batch, strict=True):
        assert together.example_id == example.example_id
        assert_equal(together, encode_one(example, max_tokens=64, **kwargs))


def test_a_full_cache_forgets_nothing_that_is_needed():
    serializer = TapasSerializer(VOCABULARY)
    serializer._cache.capacity = 0
    batch = [TableExample(str(n), f"why {n}", table_of(2, 2, f"cell {n}")) for n in range(200)]
    encodings = serializer.encode(batch)
    for example, encoding in zip(batch[::50], encodings[::50], strict=True):
        assert_equal(encoding, encode_one(example))


@given(examples())
def test_a_rank_and_its_inverse_sum_up_alike_in_a_column(example):
    encoding = encode_one(example)
    if isinstance(encoding, EncodingFailure):
        return
    ranked = encoding.column_ranks > 0
    assert np.array_equal(ranked, encoding.inverse_column_ranks > 0)
    assert not ranked[encoding.row_ids == 0].any()
    for column in set(encoding.column_ids[ranked]):
        here = ranked & (encoding.column_ids == column)
        assert len(set(encoding.column_ranks[here] + encoding.inverse_column_ranks[here])) == 1


@given(st.lists(texts, min_size=1, max_size=4))
def test_parts_split_like_the_joined_text(parts):
    text = " ".join(parts)
    (whole,) = VOCABULARY.pieces([text])
    assert np.array_equal(np.concatenate(VOCABULARY.pieces(parts)), whole)
    serializer = TapasSerializer(VOCABULARY)
    serializer._cache.add(parts)
    expected = whole if len(whole) and format_text(text) != EMPTY else [VOCABULARY.empty_id]
    assert serializer._cache[tuple(parts)].tolist() == list(expected)


@given(examples(max_rows=2, max_columns=2), st.data())
def test_the_text_of_a_span_splits_into_words_that_hold_its_pieces(example, data):
    serializer = TapasSerializer(VOCABULARY, whole_passages=True, label="span")
    (encoding,) = serializer.encode([example])
    inside = np.flatnonzero((encoding.row_ids > 0) & (encoding.input_ids != VOCABULARY.empty_id))
    if not len(inside):
        return
    start = int(data.draw(st.sampled_from(inside.tolist())))
    same = (encoding.row_ids == encoding.row_ids[start]) & (encoding.column_ids == encoding.column_ids[start])
    end = min(start + data.draw(st.integers(0, 3)), int(np.flatnonzero(same)[-1]))
    (again,) = VOCABULARY.pieces([serializer.span_text(example, start, end)])
    wanted = encoding.input_ids[start : end + 1].tolist()
    assert any(again[n : n + len(wanted)].tolist() == wanted for n in range(len(again)))


def table_of(rows, columns, text="7"):
    return Table("t", (Cell("h"),) * columns, ((Cell(text),) * columns,) * rows)


def test_rows_beyond_255_are_dropped_or_reported():
    example = TableExample("q", "x", table_of(400, 1))
    assert encode_one(example).row_ids.max() == 255
    assert encode_one(example, drop_rows_to_fit=False) == EncodingFailure("q", "too many rows: 400, at most 255")


def test_ranks_stay_inside_their_embedding_table():
    rows = tuple((Cell(str(n)),) for n in range(400))
    encoding = encode_one(TableExample("q", "x", Table("t", (Cell("h"),), rows)), max_tokens=2000)
    assert (encoding.column_ranks.max(), encoding.inverse_column_ranks.max()) == (255, 255)
    assert encoding.column_ranks[encoding.row_ids == 9].tolist() == [9]


def test_columns_beyond_255_are_reported():
    failure = encode_one(TableExample("q", "x", table_of(2, 300)), max_tokens=2000)
    assert failure == EncodingFailure("q", "too many columns: 300, at most 255")


@pytest.mark.parametrize("table", [Table("t", (), ()), Table("t", (Cell("h"),), ()), Table("t", (), ((), ()))])
def test_a_table_without_cells_is_reported(table):
    assert "the table has no" in encode_one(TableExample("q", "x", table, Answer(("x",), ((0, 0),)))).reason


def test_a_ragged_row_is_reported():
    table = Table("t", (Cell("h"), Cell("i")), ((Cell("1"), Cell("2")), (Cell("3"),)))
    assert encode_one(TableExample("q", "5", table)) == EncodingFailure("q", "row 1 has 1 cells, the header 2")


def test_a_long_question_leaves_room_for_the_table():
    encoding = encode_one(TableExample("q", "why " * 900, table_of(3, 2)), max_tokens=64)
    assert len(encoding) == 64
    assert (encoding.segment_ids == 1).sum() == 4
    assert encoding.input_ids[encoding.segment_ids == 0][-1] == VOCABULARY.sep_id


def test_a_long_cell_is_cut_between_words():
    encoding = encode_one(TableExample("q", "x", table_of(1, 2, "supercalifragilistic " * 200)), max_tokens=60)
    last = [encoding.input_ids[encoding.column_ids == column][-1] for column in (1, 2)]
    assert last[0] == last[1] == VOCABULARY.pieces(["supercalifragilistic"])[0][-1]


def test_invalid_unicode_is_left_out():
    encoding = encode_one(TableExample("q", "a\ud83d b", table_of(1, 1, "c\udc00")))
    assert VOCABULARY.unknown_id not in encoding.input_ids


def test_an_answer_outside_the_table_is_no_label():
    example = TableExample("q", "x", table_of(2, 2), Answer(("7",), ((5, 0), (0, 1))))
    assert encode_one(example).label_ids.sum() == 1
    assert isinstance(encode_one(example, lost_answers="fail"), EncodingFailure)


def test_a_span_that_was_cut_is_no_label():
    example = TableExample("q", "x", table_of(1, 1, "a b c d e f g h"), Answer(("g h",)))
    assert encode_one(example, label="span").label_ids.sum() == 2
    assert encode_one(example, label="span", cell_trim_length=7).label_ids.sum() == 0


def test_the_first_occurrence_of_the_answer_is_labelled():
    table = Table("t", (Cell("red"),), ((Cell("x"),), (Cell("Red red"),), (Cell("red"),)))
    encoding = encode_one(TableExample("q", "red", table, Answer(("RED",))), label="span")
    (place,) = np.flatnonzero(encoding.label_ids)
    assert (encoding.row_ids[place], encoding.row_ids[place - 1]) == (2, 1)


def test_fingerprint_follows_every_option():
    one = TapasSerializer(VOCABULARY)
    assert one.fingerprint == TapasSerializer(load_tokenizer("minilm")).fingerprint
    assert one.fingerprint != TapasSerializer(VOCABULARY, title=True).fingerprint
    assert one.fingerprint != TapasSerializer(load_tokenizer("sample")).fingerprint
