"""Lexical features beside words: each token carries those of its cell."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.lexical import LexicalTable
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer("sample")


@given(examples(), st.integers(24, 80))
def test_every_token_carries_the_features_of_its_cell(tokenizer, example, max_tokens):
    plain, rich = (
        TapasSerializer(tokenizer, max_tokens=max_tokens, lexical_features=wanted).encode([example])[0]
        for wanted in (False, True)
    )
    if not hasattr(rich, "input_ids"):
        assert rich == plain
        return
    width = len(example.table.header)
    features = LexicalTable(example.table).features(example.question, header=True)
    place = np.where(rich.column_ids == 0, 0, rich.row_ids * width + rich.column_ids)
    np.testing.assert_array_equal(rich.cell_features[rich.cells], features[place])
    assert plain.cell_features is None
    for name in ("input_ids", "row_ids", "column_ids", "label_ids"):
        np.testing.assert_array_equal(getattr(rich, name), getattr(plain, name))


@pytest.mark.parametrize("options", [{"sentences": 0}, {"sentences": 0, "whole_passages": True}, {"sentences": 1}])
def test_passages_that_are_not_read_do_not_count(tokenizer, options):
    row = (Cell("Ann", ("ann",)), Cell("1996"))
    table = Table("t", (Cell("Name"), Cell("Year")), (row, row[::-1]), passages={"ann": "She paints the sea."})
    silent = replace(table, passages={})
    questions = [TableExample("q", "who paints the sea", one) for one in (table, silent)]
    found, without = TapasSerializer(tokenizer, lexical_features=True, **options).encode(questions)
    reads = options != {"sentences": 0}
    assert np.array_equal(found.cell_features, without.cell_features) != reads
