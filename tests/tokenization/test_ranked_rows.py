"""Tables cut to the rows that a run ranks best."""

from dataclasses import replace

import numpy as np
import pytest

from mate_cli.errors import ConfigError
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

ROWS = tuple((Cell(f"city {row}"), Cell(f"name {row}", (f"/{row}",))) for row in range(6))
TABLE = Table(
    "t", (Cell("city"), Cell("name")), ROWS, passages={f"/{row}": f"the river runs {row} ." for row in range(6)}
)
ASKED = [TableExample(name, "which river runs ?", TABLE, Answer(("x",), ((4, 1),))) for name in ("known", "other")]


class Ranker:
    """Ranks as it is told, and notes what it is asked."""

    def __init__(self, rows, digest="one"):
        self.rows, self.digest, self.asked = rows, digest, []

    def __call__(self, examples):
        self.asked += [example.example_id for example in examples]
        return {example.example_id: self.rows for example in examples if example.example_id == "known"}


def serializer(ranker=None, best_rows=2, ranked_by="run"):
    given = {"best_rows": best_rows, "ranked_by": ranked_by, "ranker": ranker} if ranker else {}
    return TapasSerializer(load_tokenizer("sample"), max_tokens=128, sentences=2, **given)


def test_the_best_rows_are_read_under_their_own_numbers():
    cut, whole = serializer(Ranker((4, 1, 0))).encode(ASKED)
    assert set(np.unique(cut.row_ids)) == {0, 2, 5}
    assert set(np.unique(cut.row_ids[cut.label_ids == 1])) == {5}
    assert set(np.unique(whole.row_ids)) == set(range(7)), "nothing was ranked of the other table"
    (usual, _) = serializer().encode(ASKED)
    assert np.array_equal(usual.input_ids, whole.input_ids)


def test_sentences_are_chosen_of_their_passages():
    own = serializer(Ranker((4, 1, 0)))
    assert set(own.find_additions(ASKED[0])) <= {"/1", "/4"}
    assert len(own.read_of(ASKED[0]).rows) == 2
    assert own.read_of(ASKED[1]) is TABLE


def test_every_question_is_ranked_once_and_all_of_them_together():
    ranker = Ranker((4, 1, 0))
    own = serializer(ranker)
    own.encode(ASKED)
    own.encode(ASKED)
    own.find_additions(ASKED[0])
    assert ranker.asked == ["known", "other"]
    own.encode([replace(ASKED[0], question="which city ?")])
    assert ranker.asked == ["known", "other", "known"]


def test_other_rankings_are_other_encodings():
    first = serializer(Ranker(())).fingerprint
    assert first == serializer(Ranker((1,)), ranked_by="moved").fingerprint
    assert first not in (serializer(Ranker((), "two")).fingerprint, serializer(Ranker(()), best_rows=3).fingerprint)


def test_a_number_and_a_run_come_together():
    with pytest.raises(ConfigError, match="must be set together"):
        TapasSerializer(load_tokenizer("sample"), best_rows=2)
