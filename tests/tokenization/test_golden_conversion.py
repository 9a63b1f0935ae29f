"""Every conversion of the reference, variant by variant."""

import numpy as np
import pytest
from golden import numbers

from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.serializer import EncodingFailure
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import Vocabulary

GOLDEN = numbers("tapas/g7_conversion_and_pruning")
VOCABULARY = Vocabulary(GOLDEN["vocab"])
NAMES = {
    "input_ids": "input_ids",
    "segment_ids": "segment_ids",
    "column_ids": "column_ids",
    "row_ids": "row_ids",
    "previous_labels": "prev_label_ids",
    "column_ranks": "column_ranks",
    "inverse_column_ranks": "inv_column_ranks",
    "numeric_relations": "numeric_relations",
    "label_ids": "label_ids",
}
REASONS = {
    "Sequence too long": "does not fit",
    "Too many columns": "too many columns",
    "Too many rows": "too many rows",
    "Couldn't find all answers": "answer cells are in dropped rows",
}

HEADER_ONLY = {f"{variant}/t1/{question}" for variant in ("s40_drop", "s48_trim2_drop") for question in ("q0", "q1")}
"""The reference drops every row of these and then misses the answer; to us a table without rows does not fit."""


def serializer_of(variant):
    """The options that a variant's name states: s<tokens>[_trim<n>][_drop][_titles][_maxrow<n>][_maxcol<n>]."""
    length, *flags = variant.split("_")
    options = {"max_tokens": int(length[1:]), "drop_rows_to_fit": "drop" in flags, "title": "titles" in flags}
    for flag in flags:
        if flag.startswith("trim"):
            options["cell_trim_length"] = int(flag[4:])
        if flag.startswith("max"):
            options[f"max_{'rows' if flag.startswith('maxrow') else 'columns'}"] = int(flag[6:]) - 1
    return TapasSerializer(VOCABULARY, sentences=0, lost_answers="fail", **options)


def example_of(variant, name, index):
    raw = GOLDEN["tables"][name]
    header = ["" if "strip" in variant else text for text in raw["columns"]]
    rows = tuple(tuple(Cell(text) for text in row) for row in raw["rows"])
    table = Table(name, tuple(map(Cell, header)), rows, title=raw["title"], section_title=raw["heading"])
    question, coordinates = GOLDEN["questions"][name][index]
    before = GOLDEN["questions"][name][index - 1][1] if index else ()
    answer = Answer((), tuple(map(tuple, coordinates)))
    return TableExample("q", question, table, answer, previous_cells=tuple(map(tuple, before)))


@pytest.mark.parametrize("case", GOLDEN["convert"])
def test_conversion_equals_the_reference(case):
    variant, name, index = case.split("/")
    expected = GOLDEN["convert"][case]
    (encoding,) = serializer_of(variant).encode([example_of(variant, name, int(index[1:]))])
    if "error" in expected:
        assert isinstance(encoding, EncodingFailure)
        assert ("does not fit" if case in HEADER_ONLY else REASONS[expected["error"]]) in encoding.reason
        return
    for ours, theirs in NAMES.items():
        values = np.zeros(len(expected["input_ids"]), dtype=int)
        values[: len(encoding)] = getattr(encoding, ours)
        assert values.tolist() == expected[theirs], ours
    if "input_mask" in expected:
        assert len(encoding) == sum(expected["input_mask"])
    if "numeric_values" in expected:
        numbers = [None if np.isnan(value) else value for value in encoding.numeric_values.tolist()]
        assert numbers == expected["numeric_values"][: len(encoding)]
        assert set(expected["numeric_values"][len(encoding) :]) <= {None}


@pytest.mark.parametrize("text", GOLDEN["tokenize"])
def test_word_pieces_equal_the_reference(text):
    serializer = TapasSerializer(VOCABULARY, sentences=0)
    table = Table("t", (Cell("h"),), ((Cell(text),),))
    (encoding,) = serializer.encode([TableExample("q", "x", table)])
    assert [VOCABULARY.tokens[i] for i in encoding.input_ids[encoding.row_ids == 1]] == GOLDEN["tokenize"][text]
