"""Heuristic exact match: the reference's stems, scores, chosen columns and encodings."""

import json

import pytest
from golden import tapas
from hem_cases import GOLDEN, cases, example_of, most_tokens
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.fitting.truncation import TableStems, choose_columns, similarity, stem, stems
from mate_cli.tokenization.serializers.serializer import EncodingFailure
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import Vocabulary, load_tokenizer

CASES = cases("COLUMN")
VOCABULARY = Vocabulary(GOLDEN["vocab"])
FEATURES = {
    "input_ids": "input_ids",
    "column_ids": "column_ids",
    "row_ids": "row_ids",
    "column_ranks": "column_ranks",
    "inverse_column_ranks": "inv_column_ranks",
    "numeric_relations": "numeric_relations",
    "previous_labels": "prev_label_ids",
    "label_ids": "label_ids",
}


def serializer_of(length, **options):
    return TapasSerializer(VOCABULARY, sentences=0, max_tokens=length, truncation="hem", **options)


@pytest.mark.parametrize("case", GOLDEN["jaccard"], ids=lambda case: case["a"])
def test_similarity(case):
    assert similarity(stems(case["a"]), stems(case["b"])) == pytest.approx(case["score"])


def test_stems():
    strings = json.loads(tapas("g5_text.json").read_text())["strings"]
    known = [string for string in strings if isinstance(string.get("stemmed_tokens"), list)]
    assert len(known) > 40
    for string in known:
        assert stems(string["input"]) == frozenset(string["stemmed_tokens"])


def test_stems_are_those_of_nltk_not_of_the_first_paper():
    assert [stem(word) for word in ("norway", "tied", "dying", "runways")] == ["norway", "tie", "die", "runway"]


@pytest.mark.parametrize("name", CASES)
def test_scores_and_columns_equal_the_reference(name):
    expected, example = GOLDEN["hem"][name], example_of(name)
    scores = TableStems(example.table).column_scores(example)
    assert scores == pytest.approx(
        [c["score"] for c in sorted(expected["columns"], key=lambda c: c["index"])], abs=1e-6
    )
    (encoding,) = serializer_of(most_tokens(name), drop_rows_to_fit=True).encode([example])
    if isinstance(encoding, EncodingFailure):
        assert not expected["selected"]
        return
    found = sorted(set(encoding.column_ids.tolist()) - {0})
    chosen = expected["selected"] or range(len(scores))
    assert found == [column + 1 for column in chosen]


@pytest.mark.parametrize("name", [name for name in CASES if "example_s60" in GOLDEN["hem"][name]])
def test_conversion_after_selection_equals_the_reference(name):
    expected = GOLDEN["hem"][name]["example_s60"]
    (encoding,) = serializer_of(60, drop_rows_to_fit=False, lost_answers="fail").encode([example_of(name)])
    if "error" in expected:
        assert "answer cells are in dropped rows or columns" in encoding.reason
        return
    for ours, theirs in FEATURES.items():
        if theirs in expected:
            assert getattr(encoding, ours).tolist() == expected[theirs][: len(encoding)], ours


def test_columns_are_added_while_they_fit():
    assert choose_columns([0.5, 0.9, 0.5, 0.1], [6, 9, 5, 2], 17) == [1, 0, 3]
    assert choose_columns([0.5], [6], 5) == []


TABLE = Table(
    "t", tuple(map(Cell, ["city", "founded"])), ((Cell("Paris " * 9), Cell("250")), (Cell("Rome"), Cell("1")))
)
MINILM = load_tokenizer("minilm")


def encode(example, length, **options):
    (encoding,) = TapasSerializer(MINILM, sentences=0, max_tokens=length, **options).encode([example])
    return encoding


def test_what_was_cut_is_counted():
    example = TableExample("q", "when was it founded", TABLE, Answer((), ((0, 0), (1, 0))))
    assert encode(example, 64).cut.tolist() == [0, 0, 0, 0]
    assert encode(example, 15).cut.tolist() == [1, 0, 0, 0]
    assert encode(example, 14, truncation="hem").cut.tolist() == [0, 0, 1, 2]
    assert encode(example, 10).cut.tolist() == [1, 1, 0, 1]
    assert encode(example, 64, max_rows=1).cut.tolist() == [0, 1, 0, 1]
    whole = encode(example, 64)
    assert whole.uncut_tokens == len(whole)
    assert encode(example, 14, truncation="hem").uncut_tokens == encode(example, 10).uncut_tokens == len(whole)


@given(examples(), st.sampled_from([24, 60, 512]))
def test_a_table_that_fits_is_encoded_alike_and_of_another_one_columns_are_kept_whole(example, length):
    plain, chosen = encode(example, length), encode(example, length, truncation="hem")
    if isinstance(plain, EncodingFailure) or isinstance(chosen, EncodingFailure):
        return
    if not plain.cut.any():
        assert plain.input_ids.tolist() == chosen.input_ids.tolist()
        assert plain.column_ids.tolist() == chosen.column_ids.tolist()
    elif chosen.cut[2]:
        assert chosen.cut[:2].tolist() == [0, 0]
