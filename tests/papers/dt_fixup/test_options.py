"""An input per option: what stands where, what is cut, what is refused."""

import numpy as np
import pytest

from mate_cli.papers.dt_fixup.options import OptionSerializer
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.serializer import EncodingFailure
from mate_cli.tokenization.vocabulary import Vocabulary

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "all", "cats", "sleep", "who", "does", "tom", "dogs", "rain"]
CLS, SEP = 2, 3


def example(context="all cats sleep", options=("tom", "dogs rain"), label=1):
    table = Table("t", (Cell("context"),), ((Cell(context),),))
    return TableExample("q", "who sleep", table, Answer((options[label],), label=label), options=options)


def encode(given, **options):
    (found,) = OptionSerializer(Vocabulary(WORDS), **options).encode([given])
    return found


def ids(text):
    return [WORDS.index(word) for word in text.split()]


def test_every_option_is_an_input_of_its_own():
    found = encode(example())
    first = [CLS, *ids("all cats sleep"), SEP, *ids("who sleep tom"), SEP]
    second = [CLS, *ids("all cats sleep"), SEP, *ids("who sleep dogs rain"), SEP]
    assert found.input_ids.tolist() == first + second
    assert found.row_ids.tolist() == [1] * len(first) + [2] * len(second)
    assert found.segment_ids.tolist() == [0] * 5 + [1] * 4 + [0] * 5 + [1] * 5
    assert found.label_ids.tolist() == [0] * len(first) + [1] * len(second)
    assert not found.cut.any()


def test_the_context_is_what_is_cut():
    found = encode(example(context="all cats sleep " * 9), option_tokens=11)
    assert found.cut.tolist() == [1, 0, 0, 0]
    lengths = np.bincount(found.row_ids)[1:].tolist()
    assert lengths == [11, 11]
    assert found.input_ids[:11].tolist() == [CLS, *ids("all cats sleep all cats"), SEP, *ids("who sleep tom"), SEP]


def test_all_options_share_what_there_is():
    found = encode(example(context="all cats sleep " * 9), max_tokens=20)
    assert np.bincount(found.row_ids)[1:].tolist() == [10, 10]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (TableExample("q", "who", Table("t", (Cell("context"),), ((Cell("all"),),))), "no options"),
        (example(options=("tom", "dogs " * 20)), "has more than 12 tokens"),
    ],
)
def test_what_cannot_be_read_is_a_failure(given, why):
    found = encode(given, option_tokens=12)
    assert isinstance(found, EncodingFailure)
    assert why in found.reason
