"""Tables cut to the rows that a run ranks best."""

import json

import numpy as np
import pytest

from mate_cli.errors import ConfigError, DataError
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

ROWS = tuple((Cell(f"city {row}"), Cell(f"name {row}", (f"/{row}",))) for row in range(6))
TABLE = Table(
    "t", (Cell("city"), Cell("name")), ROWS, passages={f"/{row}": f"the river runs {row} ." for row in range(6)}
)
ASKED = [TableExample(name, "which river runs ?", TABLE, Answer(("x",), ((4, 1),))) for name in ("known", "other")]


@pytest.fixture
def run(tmp_path):
    return ranked(tmp_path, [[4, 1, 0.5], [4, 0, 0.2], [1, 1, 0.1], [0, 0, 0.1], [9, 0, 0.0]])


def ranked(folder, cells):
    (folder / "predictions").mkdir(exist_ok=True)
    (folder / "predictions" / "dev.json").write_text(json.dumps([{"question_id": "known", "pred": "", "cells": cells}]))
    return str(folder)


def serializer(**options):
    return TapasSerializer(load_tokenizer("sample"), max_tokens=128, sentences=2, **options)


def test_the_best_rows_are_read_under_their_own_numbers(run):
    with pytest.warns(UserWarning, match="not among these predictions all rows are read"):
        cut, whole = serializer(best_rows=2, ranked_by=run).encode(ASKED)
    assert set(np.unique(cut.row_ids)) == {0, 2, 5}
    assert set(np.unique(cut.row_ids[cut.label_ids == 1])) == {5}
    assert set(np.unique(whole.row_ids)) == set(range(7)), "nothing is known of the other question"
    (usual, _) = serializer().encode(ASKED)
    assert np.array_equal(usual.input_ids, whole.input_ids)


def test_sentences_are_chosen_of_their_passages(run):
    own = serializer(best_rows=2, ranked_by=run)
    assert set(own.appended(ASKED[0])) <= {"/1", "/4"}
    assert len(own.read_of(ASKED[0]).rows) == 2
    with pytest.warns(UserWarning, match="all rows are read"):
        assert own.read_of(ASKED[1]) is TABLE


def test_other_rankings_are_other_encodings(run, tmp_path):
    first = serializer(best_rows=2, ranked_by=run).fingerprint
    assert (
        first
        == serializer(best_rows=2, ranked_by=run).fingerprint
        != serializer(best_rows=3, ranked_by=run).fingerprint
    )
    ranked(tmp_path, [[0, 0, 1.0]])
    assert serializer(best_rows=2, ranked_by=run).fingerprint != first


def test_what_cannot_be_ranked_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="a number and a run"):
        serializer(best_rows=2)
    with pytest.raises(DataError, match="no predictions"):
        serializer(best_rows=2, ranked_by=str(tmp_path / "nowhere")).encode(ASKED)
    ranked(tmp_path, 3)
    with pytest.raises(DataError, match="cannot be read"):
        serializer(best_rows=2, ranked_by=str(tmp_path)).encode(ASKED)
