"""SAT's own input: counts of values, the choice of rows, and a layout without separators."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.layout import SUMMARY_ROW
from mate_cli.tokenization.serializers.sat import SatFacts, SatSerializer, count_values, rank_lines
from mate_cli.tokenization.serializers.serializer import EncodingFailure
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

VOCABULARY = load_tokenizer("minilm")
ROWS = st.sampled_from([3, 5, None])


def table_of(*lines, **more):
    header, *rows = (tuple(Cell(text) for text in line.split("|")) for line in lines)
    return Table("t", header, tuple(rows), **more)


MEDALS = table_of(
    *("year|city|nation", "1988|Seoul|Spain", "1992|Barcelona|Spain", "1992|Albertville|France", "1996|Atlanta|USA"),
    title="Olympic hosts",
)


def encode_one(example, **options):
    (encoding,) = SatSerializer(VOCABULARY, **{"max_tokens": 4096, **options}).encode([example])
    return encoding


def text(encoding, chosen=slice(None)):
    return " ".join(VOCABULARY.tokens[piece] for piece in encoding.input_ids[chosen])


def kept_lines(encoding):
    """The kept lines of the table and whether there are counts."""
    rows = dict.fromkeys(encoding.row_ids[encoding.segment_ids == 1].tolist())
    return [row for row in rows if row != SUMMARY_ROW], SUMMARY_ROW in rows


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["a", "b", "c"], ""),
        (["h", "x", "y", "x"], "count : x 2"),
        (["h", "y", "x", "y", "x", "z", "z", "z", "w"], "count : z 3, y 2, x 2"),
        (["x", "y", "x"], "count : x 2"),
        (["", "a", ""], "count :  2"),
        (["a"], ""),
        (["A", "a"], ""),
    ],
)
def test_values_are_counted_most_frequent_first_and_equals_in_their_order(values, expected):
    assert count_values(values) == expected


def test_a_header_counts_as_a_value_and_unique_columns_have_no_counts():
    facts = SatFacts(table_of("city|nation|x", "city|Spain|1", "b|Spain|2", "c|France|3"), 255)
    assert facts.counts == ["count : city 2", "count : Spain 2", ""]


def test_the_layout():
    encoding = encode_one(TableExample("q", "Which nation in 1992?", MEDALS), rows=None)
    assert text(encoding) == (
        "[CLS] which nation in 1992 ? [SEP] olympic hosts # year city nation 1988 seoul spain 1992 barcelona spain "
        "1992 albert ##ville france 1996 atlanta usa count : 1992 2 count : spain 2"
    )
    assert encoding.segment_ids.tolist() == [0] * 10 + [1] * (len(encoding) - 10)
    assert text(encoding, encoding.column_ids == 1) == "year 1988 1992 1992 1996 count : 1992 2"
    assert text(encoding, encoding.row_ids == 3) == "1992 albert ##ville france"
    for name in ("previous_labels", "column_ranks", "inverse_column_ranks", "numeric_relations"):
        assert not getattr(encoding, name).any()


def test_rows_that_share_words_with_the_question_are_kept_in_their_order():
    question = "Which nation in 1992 and 1996?"
    assert kept_lines(encode_one(TableExample("q", question, MEDALS), rows=5)) == ([0, 2, 3, 4], True)
    assert kept_lines(encode_one(TableExample("q", question, MEDALS), rows=3)) == ([0, 2], True)
    assert kept_lines(encode_one(TableExample("q", "atlanta usa 1996 the", MEDALS), rows=3)) == ([0, 4], True)


def test_header_and_counts_can_be_outdone():
    question = "1992 barcelona spain 1992 albertville france"
    assert kept_lines(encode_one(TableExample("q", question, MEDALS), rows=3)) == ([2, 3], True)
    plain = table_of("a|b", "1 2 3 4|5", "2 1 3 4|6", "3 1 2 4|7")
    assert kept_lines(encode_one(TableExample("q", "1 2 3 4", plain), rows=3)) == ([1, 2, 3], False)


def test_lines_are_ranked_as_the_authors_do():
    """Pieces 1 to 9; lines 0 (header) to 4 (counts); equals by the question's first piece that they have."""
    pieces, lines = np.array([7, 5, 9, 4, 5, 8, 4, 1]), np.array([0, 1, 1, 2, 2, 2, 3, 4])

    def ranked(*question):
        return rank_lines(np.array(question, int), pieces, lines, 5).argsort().tolist()

    assert ranked(4, 5, 6) == [2, 4, 0, 3, 1]
    assert ranked(4, 9) == [2, 4, 0, 3, 1]
    assert ranked(9, 4) == [1, 4, 0, 2, 3]
    assert ranked(5, 9, 9, 9) == [1, 4, 0, 2, 3], "a repeated piece counts each time"
    assert ranked(7, 4, 4) == [2, 0, 4, 3, 1]
    assert ranked() == [1, 4, 0, 2, 3]


def test_three_pieces_do_not_go_before_header_and_counts():
    question, pieces, lines = np.arange(1, 5), [9, 1, 2, 3, 1, 2, 3, 9], [0, 1, 1, 1, 2, 2, 2, 3]
    assert rank_lines(question[:3], np.array(pieces), np.array(lines), 4).argsort().tolist() == [1, 3, 0, 2]
    more = rank_lines(question, np.array([*pieces, 4, 4]), np.array([*lines, 1, 2]), 4)
    assert more.argsort().tolist() == [1, 2, 3, 0], "four do"


@given(examples(), ROWS, st.sampled_from([16, 40, 128]))
def test_what_holds_at_any_length(example, rows, length):
    encoding = encode_one(example, rows=rows, max_tokens=length)
    if isinstance(encoding, EncodingFailure):
        assert "does not fit" in encoding.reason
        return
    assert len(encoding) <= length
    table = encoding.segment_ids == 1
    assert (np.diff(encoding.segment_ids) >= 0).all()
    assert (np.diff(encoding.row_ids) >= 0).all()
    assert not encoding.row_ids[~table].any()
    body = table & (encoding.row_ids > 0) & (encoding.row_ids < SUMMARY_ROW)
    assert body.any()
    cells = Counter(zip(encoding.row_ids[body].tolist(), encoding.column_ids[body].tolist(), strict=True))
    width = len(example.table.header)
    assert len(cells) == width * len({row for row, _ in cells}), "a kept row has all its cells"
    answers = {(r + 1, c + 1) for r, c in example.answer.coordinates} if example.answer else set()
    places = zip(encoding.row_ids.tolist(), encoding.column_ids.tolist(), strict=True)
    assert encoding.label_ids.tolist() == [int(place in answers) for place in places]


@given(st.lists(examples(max_rows=4, max_columns=3), max_size=5))
def test_a_batch_equals_one_by_one(batch):
    batch = [replace(example, example_id=str(n)) for n, example in enumerate([*batch, *batch])]
    for together, example in zip(SatSerializer(VOCABULARY).encode(batch), batch, strict=True):
        alone = encode_one(example, max_tokens=512)
        assert type(together) is type(alone)
        assert np.array_equal(together.input_ids, alone.input_ids)
        assert np.array_equal(together.row_ids, alone.row_ids)


def test_sentences_of_passages_count_for_their_row():
    rows = tuple((Cell(name, (name,)), Cell("x")) for name in ("ann", "bob", "eve"))
    passages = {"ann": "She paints the sea.", "bob": "He was born in Ohio.", "eve": "She sings."}
    table = Table("t", (Cell("name"), Cell("event")), rows, passages=passages)
    example = TableExample("q", "who is from ohio", table, Answer(("bob",), ((1, 0),)))
    with_them, without = (encode_one(example, rows=3, sentences=k) for k in (1, 0))
    assert kept_lines(with_them) == ([0, 2], True)
    assert text(with_them, with_them.label_ids == 1) == "bob ( he was born in ohio . )"
    assert kept_lines(without) == ([0, 1], True)
    assert not without.label_ids.any(), "the answer's row was dropped"


def test_counts_stand_in_the_columns_that_they_are_of():
    encoding = encode_one(TableExample("q", "b", table_of("name|town|year", "a|Oslo|1", "b|Oslo|2", "c|Oslo|2")))
    counts = encoding.row_ids == SUMMARY_ROW
    said = {column: text(encoding, counts & (encoding.column_ids == column)) for column in (1, 2, 3)}
    assert said == {1: "", 2: "count : oslo 3", 3: "count : 2 2"}


def test_long_tables_end_at_255_rows_but_all_their_values_count():
    rows = [f"a{n}" for n in range(254)] + ["last", "b", "b"]
    example = TableExample("q", "b", table_of("h", *rows), Answer(("b",), ((255, 0), (256, 0))))
    encoding = encode_one(example, rows=None)
    assert max(kept_lines(encoding)[0]) == 255
    assert text(encoding, encoding.row_ids == SUMMARY_ROW) == "count : b 2"
    assert not encoding.label_ids.any()


def test_a_long_question_leaves_room_for_the_best_row_and_one_more_line():
    encoding = encode_one(TableExample("q", "why " * 900 + "usa", MEDALS), max_tokens=64)
    assert len(encoding) == 64
    assert text(encoding, encoding.segment_ids == 0).endswith("why #")
    assert len(kept_lines(encoding)[0]) >= 1


def test_tables_that_cannot_be_encoded_say_why():
    example = TableExample("q", "b", table_of("|".join("abcdefghijkl"), "|".join("123456789xyz")))
    assert "12 of 16 tokens are left, the two best lines need 24" in encode_one(example, max_tokens=16).reason
    assert encode_one(TableExample("q", "x", Table("t", (Cell("h"),), ()))).reason == "the table has no rows"
    ragged = Table("t", (Cell("h"), Cell("i")), ((Cell("1"), Cell("2")), (Cell("3"),)))
    assert encode_one(TableExample("q", "5", ragged)).reason == "row 1 has 1 cells, the header 2"


def test_lexical_features_are_those_of_the_kept_cells():
    example = TableExample("q", "Which nation in 1992?", MEDALS)
    encoding = encode_one(example, rows=4, lexical_features=True)
    (whole,) = TapasSerializer(VOCABULARY, sentences=0, lexical_features=True).encode([example])
    known = {
        (row, column): features
        for row, column, features in zip(whole.row_ids, whole.column_ids, whole.cell_features[whole.cells], strict=True)
    }
    question = whole.cell_features[0]
    for row, column, features in zip(
        encoding.row_ids, encoding.column_ids, encoding.cell_features[encoding.cells], strict=True
    ):
        assert np.array_equal(features, known.get((row, column), question))
    assert kept_lines(encoding) == ([0, 2, 3], True)


def test_options_are_in_the_fingerprint():
    prints = {SatSerializer(VOCABULARY, rows=rows).fingerprint for rows in (3, 5, None)}
    assert len(prints) == 3
